"""How many tampered logs the rules find.

    python -m tests.checkers.logs.tamper RUN… [--places 40] [--kind NAME]

Each kind of `tampering` changes one place of the evidence of a run that the rules accept. It is found if
rules refuse something that they did not refuse before; at its place, if that is in the tampered partition,
at the tampered offset or at one that it decides (the next batch, the marker of the transaction). Exit code
1: a kind is missed.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from checkers.engine.findings import Found, LogFinding, LogGround
from checkers.engine.log_tasks import LogTask, LogWork
from checkers.engine.pipeline import check_evidence, kernels_over_logs, kinds_of
from checkers.logs.registry import LOG_CHECKS
from core.op import TopicPartition
from history.evidence import Evidence
from history.evidence_tables import PER_NODE, PER_PARTITION
from tests.checkers.logs.tampering import KINDS, Place, Tampered

JOINS = {name: check for name, check in LOG_CHECKS.items() if check.join is not None}


@dataclass(slots=True)
class Judge:
    """Judges evidence of one run, and knows what the rules refuse in it as it is."""

    tables: dict[str, pa.Table]
    local: dict[TopicPartition, set[LogFinding]] = field(default_factory=dict)
    whole: set[LogFinding] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.whole = set(_over_all(Evidence(self.tables)))

    def new(self, found: Tampered, place: Place) -> list[LogFinding]:
        """What rules refuse that they did not refuse before. Rules over all partitions are asked only where
        those of the partition say nothing at the place."""
        if place.tp not in self.local:
            self.local[place.tp] = set(_in_partition(Evidence(self.tables), place.tp))
        new = [one for one in _in_partition(found.whole, place.tp) if one not in self.local[place.tp]]
        if not any(map(place.is_of, new)):
            new += [one for one in _over_all(found.whole) if one not in self.whole]
        return new


def _in_partition(evidence: Evidence, tp: TopicPartition) -> list[LogFinding]:
    work = LogWork(LogGround(kinds_of(LOG_CHECKS)), kernels_over_logs(LOG_CHECKS))
    (result,) = LogTask(source=evidence, job="", partitions=(tp,)).run(work)
    return _findings(result)


def _over_all(evidence: Evidence) -> list[LogFinding]:
    return _findings(check_evidence(evidence, JOINS))


def _findings(result: Found) -> list[LogFinding]:
    if result.crashed:
        raise SystemExit(f"crashed: {result.crashed}")
    return result.in_logs


@dataclass(slots=True)
class Score:
    """Of one kind. rules: that found it at its place. missed: places."""

    tried: int = 0
    found: int = 0
    at_place: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)


def measure(name: str, runs: Mapping[str, Judge], places: int) -> Score:
    """Tamper with places of all runs in turn; of those runs that have one."""
    score, names = Score(), list(runs)
    for number in range(places):
        for shift in range(len(names)):
            run = names[(number + shift) % len(names)]
            found = Tampered(dict(runs[run].tables))
            place = KINDS[name](found, random.Random(f"{name} {number}"))
            if place is not None:
                _score(score, run, place, runs[run].new(found, place))
                break
    return score


def _score(score: Score, run: str, place: Place, new: Sequence[LogFinding]) -> None:
    there = [one for one in new if place.is_of(one)]
    score.tried += 1
    score.found += bool(new)
    score.at_place += bool(there)
    score.rules.update({one.check for one in there})
    if not there:
        where = f"{place.tp} {place.offsets[:1]}..{place.offsets[-1:]}"
        score.missed.append(f"{run} {where}: {[(one.check, str(one.log), one.offset) for one in new[:2]]}")


def loaded(folders: Sequence[Path]) -> dict[str, dict[str, pa.Table]]:
    """The tables of runs by name."""
    names = (*PER_PARTITION, *PER_NODE)
    runs = {}
    for folder in folders:
        evidence = Evidence.load(folder / "evidence")
        runs[folder.name] = {name: evidence.table(name) for name in names}
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--places", type=int, default=40)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    options = parser.parse_args()
    runs, missed = {name: Judge(tables) for name, tables in loaded(options.runs).items()}, False
    for name in options.kind or KINDS:
        score = measure(name, runs, options.places)
        missed |= score.at_place < score.tried
        rules = ", ".join(f"{rule} {many}" for rule, many in score.rules.most_common(3))
        print(
            f"{name:42} {score.at_place:3} at place, {score.found:3} found of {score.tried:3}  {rules}",
            flush=True,
        )
        for why in score.missed[:4]:
            print(f"    missed: {why}", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
