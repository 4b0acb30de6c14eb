"""What a run had of brokers' logs, and what that leaves undecided: the section `logs` of its verdict."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

from checkers.catalogue import ALL_CHECKS
from checkers.engine.check import Reads, Tally
from core.producer_state import EXPIRATION
from history.events import EvidenceMissing
from history.evidence import Evidence
from history.evidence_tables import END
from history.reader import History
from history.verdict import COMPARED, CheckResult, Logs, LogTake

DAY_MS: Final = 86_400_000
FORGETFUL: Final[Mapping[str, str]] = {
    EXPIRATION: "brokers forget producers after {} ms",
    "log.cleaner.delete.retention.ms": "compaction takes tombstones away after {} ms, and a broker that was"
    " down for longer never has them",
}
"""Settings of brokers with a default of a day (`Check.forgets`): why they may explain findings."""


def section(evidence: Evidence, history: History, tally: Tally) -> Logs:
    """The section."""
    if lacks := evidence.lacks:
        return Logs(why=f"evidence is missing: {lacks}", lacks=lacks)
    told = [event.why for event in history.events if isinstance(event, EvidenceMissing)]
    takes = _takes(evidence, history)
    if not takes:
        return Logs(why=told[0] if told else "the run kept no evidence of its brokers' logs")
    names = [name for name, check in ALL_CHECKS.items() if check.reads is not Reads.HISTORY]
    return Logs(
        takes=takes,
        exercised=round(sum(tally.asked[name] > 0 for name in names) / max(1, len(names)), 4),
        missing=told,
        seconds=round(sum(tally.seconds.get(name, 0.0) for name in names), 3),
    )


def _takes(evidence: Evidence, history: History) -> list[LogTake]:
    rows = defaultdict(list)
    for row in evidence.table("takes").to_pylist():
        rows[row["take"]].append(row)
    return [
        LogTake(
            take=take,
            why=END if any(row["why"] == END for row in some) else some[0]["why"],
            nodes=sorted({row["node"] for row in some}),
            at_s=round(history.seconds(min(row["at_ns"] for row in some)), 3),
        )
        for take, some in sorted(rows.items())
    ]


def excuse_forgotten(tally: Tally, settings: Mapping[str, str], run_ms: int) -> None:
    """Put doubts in the place of findings in logs that the settings of the brokers may explain. run_ms: how
    long the run took."""
    excuses = {
        name: FORGETFUL[check.forgets].format(after)
        for name, check in ALL_CHECKS.items()
        if check.forgets
        and (after := settings.get(check.forgets, str(DAY_MS))).isdecimal()
        and int(after) < run_ms
    }
    explained = [one for one in tally.in_logs if one.check in excuses]
    tally.findings = [one for one in tally.findings if one.check not in excuses]
    tally.counts = Counter({kind: many for kind, many in tally.counts.items() if kind.check not in excuses})
    for one in explained:
        tally.leave_open(one.check, one.log, f"{one.text}; {excuses[one.check]}")


def undecided(logs: Logs, checks: Mapping[str, CheckResult]) -> list[str]:
    """What keeps the verdict from being valid, in words. A doubt of a single check of evidence does not: they
    overlap, and logs do not say everything; a ring that decided nothing does, and evidence that is not
    whole."""
    reasons = [f"brokers' logs: evidence is missing: {logs.lacks}"] if logs.lacks else []
    rings: dict[int, list[CheckResult]] = defaultdict(list)
    for check in checks.values():
        if check.ring >= 0:
            rings[check.ring].append(check)
    for ring, some in sorted(rings.items()):
        doubts = [why for check in some for why in check.doubts]
        if doubts and not any(check.rows for check in some):
            reasons.append(
                f"brokers' logs: no rule that compares {COMPARED.get(ring, 'logs')} applied: {doubts[0]}"
            )
    return reasons
