"""A topic is deleted while no broker coordinates a group: its committed offset counts in the next topic."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from core.op import Isolation, TopicPartition
from core.runtime import run_blocking
from harness.brokers.admin.connection import AdminError
from harness.processes.waiting import NotYet, until
from harness.reproduce.cluster import PAUSE_S, STEP_S, NotReached
from harness.reproduce.group_offsets import commit, committed
from harness.reproduce.library_producer import PlainProducer
from harness.reproduce.stage import FiveBrokers

NONE: Final = -1
"""The offset of a group that has none in a partition."""
READ: Final = 2
"""Records of the deleted topic that the group read, as its committed offset says."""
OLD: Final = ("old 0", "old 1", "old 2")
NEW: Final = ("new 0", "new 1", "new 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformedDeletion:
    """One performed schedule. offset: that the group had committed in the deleted topic. found: its committed
    offset in the next topic of that name. passed: acknowledged records of that one that the group was not
    given, though it had never read there."""

    group: str
    offset: int
    found: int
    passed: Sequence[str]


def survives(stage: FiveBrokers, name: str, good: bool) -> PerformedDeletion:
    """A group's coordinator is killed, the topic is deleted before another broker coordinates the group, and
    made again. On the good side the topic is deleted first."""
    offsets, nodes, (group, *_) = stage.groups(name)
    a, b, c = sorted(nodes, key=lambda node: node == stage.d)  # D tells of leaders
    home = [node for node in stage.cluster.brokers if node != a][:3]
    stage.reorder(offsets, (a, b, c))
    run_blocking(stage.cluster.elect_preferred([offsets]))
    stage.leads(a, offsets)
    (tp,) = stage.create(name, [home])
    _write(stage, tp, OLD)
    until(STEP_S, PAUSE_S, lambda: _commit(stage, a, group, tp))
    end = stage.stable(offsets)
    if not good:
        stage.kill(a)
    run_blocking(stage.cluster.delete_topics([name], STEP_S))
    if good:
        stage.stable_beyond(offsets, end, f"no tombstone is committed in {offsets}")
        stage.kill(a)
    elif (leader := stage.leader(offsets, stage.d)) != a:
        raise NotReached(f"broker {leader} coordinates {group} already when the topic is deleted")
    stage.say(f"the topic is deleted; broker {a}, which coordinates {group}, is killed")
    stage.leads(b, offsets)
    stage.create(name, [home])
    _write(stage, tp, NEW)
    found = until(STEP_S, PAUSE_S, lambda: _loaded(stage, b, group, tp))
    given = stage.read([tp], Isolation.READ_UNCOMMITTED, group).values()
    stage.say(f"broker {b} coordinates {group} now, and has offset {found}; the group is given {[*given]}")
    passed = [value for value in NEW if value not in given]
    return PerformedDeletion(group=group, offset=READ, found=found, passed=passed)


def _write(stage: FiveBrokers, tp: TopicPartition, values: Sequence[str]) -> None:
    """Raises: ClusterError, where a record is not acknowledged."""
    producer = PlainProducer(stage, {"enable.idempotence": True})
    for value in values:
        producer.write(tp, value)


def _commit(stage: FiveBrokers, node: int, group: str, tp: TopicPartition) -> None:
    if (code := commit(stage.cluster.admin, node, group, tp, READ)) != ErrorCode.none:
        raise NotYet(f"OffsetCommit({READ}) at broker {node}: {code.name.upper()}")


def _loaded(stage: FiveBrokers, node: int, group: str, tp: TopicPartition) -> int:
    """The committed offset, from a coordinator that has loaded. Raises: NotYet."""
    try:
        return committed(stage.cluster.admin, node, group, tp)
    except AdminError as error:
        raise NotYet(str(error)) from error
