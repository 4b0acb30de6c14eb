"""The naive judge's words about compacted topics (docs/checks.md, section 1, "Compacted")."""

from collections.abc import Sequence

from history.events import ClockJumped, Event
from tests.adversary.rows import Recorded, Row

KEEPS_TOMBSTONES = "delete.retention.ms"


def key(row: Row) -> int:
    """The key of the record that was sent, or read."""
    return int(row["value"]) % 128


def tombstone(row: Row) -> bool:
    return int(row["value"]) // 128 % 2 == 1


def kept_ns(recorded: Recorded) -> int:
    """How long tombstones stay; -1 = the topics are not compacted."""
    config = recorded.config
    if recorded.portable or "compact" not in config.topic_settings.get("cleanup.policy", ""):
        return -1
    brokers = config.broker_settings.get(f"log.cleaner.{KEEPS_TOMBSTONES}", "86400000")
    return kept_after_jumps(int(config.topic_settings.get(KEEPS_TOMBSTONES, brokers)), recorded.events)


def kept_after_jumps(kept_ms: int, events: Sequence[Event]) -> int:
    """The time in ns, by a clock that is not set: brokers go by the wall's clock."""
    forward = [e.wall_s for e in events if isinstance(e, ClockJumped) and e.wall_s > 0]
    return max(0, kept_ms * 10**6 - round(sum(forward) * 10**9))


def stood(row: Row) -> bool:
    """It is known to have been in the log."""
    return bool(row["place"] >= 0)


def may_stand_above(other: Row, send: Row) -> bool:
    """By their places; where one is not known, by time."""
    if other["place"] >= 0 and send["place"] >= 0:
        return bool(other["place"] > send["place"])
    return not 0 <= other["ack_ns"] < send["invoke_ns"]
