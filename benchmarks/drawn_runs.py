"""How many simulated runs it takes until a planted bug shows, by the way in which runs are drawn.

    python -m benchmarks.drawn_runs run FILE --way alone [--runs 40] [--first 0] [--half design|held]
                                             [--together 1] [--seconds 120]
    python -m benchmarks.drawn_runs table FILE …       of `run`; the others are compared with the first

`run` continues where FILE ends, for some seconds of wall time: start it again until it says that all is done.
Runs are drawn without planted bugs (`benchmarks.ways_to_draw`; `alone` is the way of `model explore`), so
no bug has a say in what is drawn. Each run is then repeated with each planted bug that no earlier one
showed, without hunting grounds: with the settings that were drawn. A bug shows where one of its classes is
found which the sound run does not have. Where the sound run never came to code that asks for the bug, the run
with it is the same, and is not made.

--together N: N bugs are planted at once, and those that what is found may come from in smaller groups, then
each alone. That takes a fifth of the time, and is not exact: one bug may hide another one.
--half: bugs by a hash of their names. What was chosen by looking at the one half is measured on the other.

Bugs that only eras beside the newest can have are left out. CPU seconds are those of the sound runs, judged.
A bug that no run showed counts as shown by the run after the last; where half of them did not show, there is
no median.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest import mock

from benchmarks.run_features import features, keeping_messages
from benchmarks.ways_to_draw import WAYS, Draws
from core.config import RunConfig
from harness.explore.profile import hunted
from harness.explore.trial import checked, forbidden, settings
from harness.modelled.shared.settings import settings_of_run
from harness.modelled.virtual import cluster
from harness.modelled.virtual.run import seldom_collecting, simulate
from model.mutants.registry import MUTANTS
from model.replication.replica import BELOW_MINIMUM
from model.settings import Settings

HALVES: Final = ("design", "held")
FEW: Final = 5
"""Bugs that the first file shows in fewer runs cannot tell a difference."""


class Asked(frozenset[str]):
    """Planted bugs; it notes which of them the model asks for."""

    asked: set[str]

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)


@contextlib.contextmanager
def planted(*names: str) -> Iterator[set[str]]:
    """These bugs are planted in simulated clusters; the names that the model asked for."""
    bugs = Asked(names)
    bugs.asked = set(BELOW_MINIMUM)  # asked for by other means

    def with_bugs(config: RunConfig, era: str, mutant: str) -> Settings:
        return dataclasses.replace(settings_of_run(config, era, mutant), bugs=bugs)

    with mock.patch.object(cluster, "settings_of_run", with_bugs):
        yield bugs.asked


def bugs(half: str) -> list[str]:
    """Planted bugs that a run of the newest era can show; "" = of both halves."""
    known = [name for name in hunted() if "era" not in getattr(MUTANTS[name].hunt, "settings", {})]
    return [name for name in known if half in ("", half_of(name))]


def half_of(name: str) -> str:
    """The half of a planted bug."""
    return HALVES[int(hashlib.sha1(name.encode()).hexdigest(), 16) % 2]


@dataclass(slots=True)
class Made:
    """A run that was drawn, and what it shows. asked: planted bugs that the model asked for. shown: bug ->
    class, of those that no earlier run shows. failed: what a run without any shows, and must not."""

    number: int
    config: dict[str, Any]
    cpu_s: float
    features: list[str]
    anomalies: list[str]
    asked: list[str]
    failed: str = ""
    shown: dict[str, str] = field(default_factory=dict)


def sound(number: int, config: RunConfig) -> Made:
    """Make the run without a planted bug."""
    begun = time.process_time()
    with planted() as asked, keeping_messages(), seldom_collecting():
        try:
            done = simulate(config, invariants=False)
        except AssertionError as error:
            return Made(number, settings(config), 0.0, [], [], [], failed=repr(error))
        reached, found = features(done), forbidden(done, checked(done))
    taken = time.process_time() - begun
    names = sorted(asked & set(MUTANTS))
    failed = "; ".join([*found, *done.unfinished])
    return Made(number, settings(config), taken, sorted(reached), sorted(found), names, failed)


def shown(config: RunConfig, made: Made, names: Sequence[str]) -> dict[str, str]:
    """Which of these bugs the run shows: planted together, and then those that it may come from."""
    if not names:
        return {}
    with planted(*names), seldom_collecting():
        try:
            done = simulate(config, invariants=False)
        except AssertionError:
            found = set[str]() if len(names) == 1 else {a for n in names for a in MUTANTS[n].anomalies}
        else:
            found = set(forbidden(done, checked(done))) - set(made.anomalies)
    classes = {n: next((a for a in MUTANTS[n].anomalies if a in found), "") for n in names}
    suspected = [name for name in names if classes[name]]
    if len(names) == 1:
        return {name: classes[name] for name in suspected}
    half = len(suspected) // 2 if len(suspected) > FEW else 1
    parts = [suspected[at : at + half] for at in range(0, len(suspected), half)]
    return {name: anomaly for part in parts for name, anomaly in shown(config, made, part).items()}


def run(path: Path, *, draws: Draws, runs: int, names: Sequence[str], together: int, until: float) -> bool:
    """Continue a file; whether all its runs are done."""
    left = set(names)
    before = [Made(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
    for number in range(runs):
        config = draws.draw()
        if number < len(before):
            made = before[number]
        elif time.monotonic() > until:
            return False
        else:
            made = sound(number, config)
            tried = [name for name in names if name in left and name in made.asked]
            for at in range(0, len(tried), together):
                made.shown |= shown(config, made, tried[at : at + together])
            with path.open("a") as file:
                file.write(json.dumps(dataclasses.asdict(made)) + "\n")
        assert made.config == settings(config), f"{path} has other draws"
        left -= set(made.shown)
        draws.learn(config, made.features)
    return True


@dataclass(frozen=True, slots=True)
class Finds:
    """By bug: runs, and CPU seconds, to the first that shows it; `runs` + 1 where none did."""

    runs: int
    first: dict[str, int]
    cpu_s: dict[str, float]
    failed: list[str]

    @classmethod
    def of(cls, path: Path) -> "Finds":
        """Of a file of `run`."""
        every = [Made(**json.loads(line)) for line in path.read_text().splitlines()]
        first: dict[str, int] = {}
        cpu_s: dict[str, float] = {}
        total = 0.0
        for made in every:
            total += made.cpu_s
            for name in made.shown:
                first[name], cpu_s[name] = made.number + 1, total
        failed = [f"run {made.number}: {made.failed}" for made in every if made.failed]
        return cls(len(every), first, cpu_s, failed)

    def median(self, names: Sequence[str]) -> str:
        """Runs, CPU seconds, and how many were found at all."""
        runs = statistics.median(self.first.get(name, self.runs + 1) for name in names)
        cpu = statistics.median(self.cpu_s.get(name, float("inf")) for name in names)
        found = sum(name in self.first for name in names)
        return f"{runs:5g} runs {cpu:6.1f} CPU s, {found} of {len(names)} found"


def table(paths: Sequence[Path]) -> Iterator[str]:
    """Lines: of each half and both, all bugs, and those for which the first file needs some runs."""
    finds = {path: Finds.of(path) for path in paths}
    for half in (*HALVES, ""):
        names = bugs(half)
        late = [name for name in names if finds[paths[0]].first.get(name, FEW) >= FEW]
        for told, some in (("all", names), (f"from {FEW} runs on", late)):
            for path, one in finds.items():
                yield f"{half or 'both':7} {told:15} {path.name:24} {one.median(some)}"
    for path, one in finds.items():
        yield from (f"{path.name}: not clean: {why}" for why in one.failed)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    it = commands.add_parser("run")
    it.add_argument("file", type=Path)
    it.add_argument("--way", choices=WAYS, required=True)
    it.add_argument("--runs", type=int, default=40)
    it.add_argument("--first", type=int, default=0)
    it.add_argument("--half", choices=HALVES, default="")
    it.add_argument("--together", type=int, default=1)
    it.add_argument("--seconds", type=float, default=120)
    commands.add_parser("table").add_argument("files", type=Path, nargs="+")
    given = parser.parse_args()
    if given.command == "table":
        print(*table(given.files), sep="\n")
        return
    done = run(
        given.file,
        draws=Draws(given.way, given.first),
        runs=given.runs,
        names=bugs(given.half),
        together=given.together,
        until=time.monotonic() + given.seconds,
    )
    print("all done" if done else "more to do")


if __name__ == "__main__":
    main()
