"""The naive judge's words about what was deleted on purpose (docs/checks.md, section 1, "Bounds").

See `tests.adversary.facts`.
"""

from typing import NamedTuple

from history.events import FaultFailed, FaultStarted, RecordsDeleted
from tests.adversary.rows import Recorded

EVER = 2**63 - 1
ALL = 2**62 - 1
"""Behind all records."""


class Deletion(NamedTuple):
    """Records below `offset` that were sent by `ns` may be gone; consumers may pass them since `begun`."""

    begun: int
    ns: int
    offset: int


def deletions(recorded: Recorded) -> dict[int, list[Deletion]]:
    """Of each partition, what was asked for. (The harness records none of portable histories.)"""
    found: dict[int, list[Deletion]] = {row["tp"]: [] for row in recorded.tables["tps"]}
    if recorded.portable:
        return found
    faults = [e for e in recorded.events if isinstance(e, FaultStarted | FaultFailed)]
    begun: dict[int, int] = {}
    for e in faults:
        begun.setdefault(e.fault, max(e.begin_ns, 0))
    remade = [
        e.begin_ns for e in faults if isinstance(e, FaultStarted) and e.name.startswith("recreate-topics:")
    ]
    deleters = {e.fault for e in faults if e.name.startswith("recreate-topics:") and not _found_none(e)}
    deleting = sorted(begun[fault] for fault in deleters)
    for row in recorded.tables["tps"]:
        topic, _, older = row["topic"].partition("~")
        by_then = deleting[int(older) - 1 :][:1] if older else []
        for event in recorded.events:
            if not isinstance(event, RecordsDeleted) or f"{topic}-{row['partition']}" not in event.offsets:
                continue
            if older or all(event.ns >= ns for ns in remade):
                offset = event.offsets[f"{topic}-{row['partition']}"]
                found[row["tp"]].append(Deletion(begun.get(event.fault, 0), event.ns, offset))
        if older:
            found[row["tp"]].append(Deletion(by_then[0] if by_then else 0, EVER, ALL))
    return found


def _found_none(e: FaultStarted | FaultFailed) -> bool:
    """It found nothing to hit, so it deleted nothing."""
    return isinstance(e, FaultFailed) and e.why.startswith("NoTarget")


def deleted_topics(recorded: Recorded) -> set[int]:
    """Partitions of topics that were deleted."""
    return {row["tp"] for row in recorded.tables["tps"] if "~" in row["topic"]}
