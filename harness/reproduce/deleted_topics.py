"""A topic is deleted while no broker coordinates a group: its committed offset counts in the next topic."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from core.op import Isolation, TopicPartition
from core.runtime import run_blocking
from harness.brokers.admin import deletions, elections
from harness.brokers.admin.connection import AdminError
from harness.processes.waiting import NotYet, not_yet, until
from harness.reproduce.cluster import PAUSE_S, STEP_S, NotReached
from harness.reproduce.group_offsets import commit, committed, fill
from harness.reproduce.library_producer import PlainProducer
from harness.reproduce.stage import Deaths, FiveBrokers

NONE: Final = -1
"""The offset of a group that has none in a partition."""
READ: Final = 2
"""Records of the deleted topic that the group read, as its committed offset says."""
BESIDE: Final = 100
COMMITS: Final = 120
"""COMMITS of each of BESIDE partitions: a broker loads them for about 0.1 s. A few records are loaded before
the deletion comes."""
OLD: Final = ("old 0", "old 1", "old 2")
NEW: Final = ("new 0", "new 1", "new 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformedDeletion:
    """One performed schedule. offset: that the group had committed in the deleted topic. found: its committed
    offset in the next topic of that name. passed: acknowledged records of that one that the group was not
    given, though it had never read there. while_loading: the coordinator had to be loading when it heard of
    the deletion."""

    group: str
    offset: int
    found: int
    passed: Sequence[str]
    while_loading: bool = False


def survives(stage: FiveBrokers, name: str, good: bool) -> PerformedDeletion:
    """The topic is deleted just when the group's coordinator A is gone and B does not coordinate yet; a new
    topic gets its name. On the good side the topic is deleted first."""
    offsets, nodes, (group, other, _) = stage.groups(name)
    a, b, c = sorted(nodes, key=lambda node: node == stage.d)  # D tells of leaders
    home = [node for node in stage.cluster.brokers if node not in (a, b)]
    stage.reorder(offsets, (a, b, c))
    run_blocking(stage.cluster.elect_preferred([offsets]))
    stage.leads(a, offsets)
    (tp,) = stage.create(name, [home])
    _write(stage, tp, OLD)
    until(STEP_S, PAUSE_S, lambda: _commit(stage, a, group, tp))
    if good:
        end = stage.stable(offsets)
        run_blocking(stage.cluster.delete_topics([name], STEP_S))
        stage.stable_beyond(offsets, end, f"no tombstone is committed in {offsets}")
    if stage.deaths is Deaths.ELECTION:
        beside = stage.create(f"{name}-beside", [home] * BESIDE)
        fill(stage.cluster.admin, a, other, beside, COMMITS)
        stage.reorder(offsets, (b, a, c))
        if good:
            run_blocking(stage.cluster.elect_preferred([offsets]))
        else:
            _delete_while_loading(stage, offsets, b, name, home)
        stage.say(f"broker {b} is elected to coordinate {group}, and the topic is deleted")
    else:
        stage.kill(a)
        if not good:
            _delete_unheard(stage, offsets, a, name)
        stage.say(f"broker {a}, which coordinates {group}, is killed, and the topic is deleted")
    stage.leads(b, offsets)
    stage.create(name, [home])
    _write(stage, tp, NEW)
    found = until(STEP_S, PAUSE_S, lambda: _loaded(stage, b, group, tp))
    given = stage.read([tp], Isolation.READ_UNCOMMITTED, group).values()
    stage.say(f"broker {b} coordinates {group} now, and has offset {found}; the group is given {[*given]}")
    passed = [value for value in NEW if value not in given]
    while_loading = stage.deaths is Deaths.ELECTION and not good
    return PerformedDeletion(
        group=group, offset=READ, found=found, passed=passed, while_loading=while_loading
    )


def _delete_unheard(stage: FiveBrokers, offsets: TopicPartition, dead: int, topic: str) -> None:
    """Delete the topic before another broker leads the group's partition. Raises: NotReached."""
    run_blocking(stage.cluster.delete_topics([topic], STEP_S))
    if (leader := stage.leader(offsets, stage.d)) != dead:
        raise NotReached(f"broker {leader} leads {offsets} already when the topic is deleted")


def _delete_while_loading(
    stage: FiveBrokers, offsets: TopicPartition, node: int, topic: str, others: Sequence[int]
) -> None:
    """The preferred leader is elected, and stands still for less than a second: it hears of its election and
    of the deletion at once, and is loading when it has to remove offsets.

    A new topic ends the fetch of metadata that it has under way: the next one has both.
    """
    run_blocking(stage.cluster.pause([node]))
    try:
        stage.create(f"{topic}-next", [others])
        with stage.cluster.admin.connect(stage.d, STEP_S) as connection:
            elections.elect(connection, [offsets])
            deletions.ask_for_topics(connection, [topic])
    finally:
        run_blocking(stage.cluster.resume([node]))
    run_blocking(stage.cluster.delete_topics([topic], STEP_S))


def _write(stage: FiveBrokers, tp: TopicPartition, values: Sequence[str]) -> None:
    """Raises: ClusterError, where a record is not acknowledged."""
    producer = PlainProducer(stage, {"enable.idempotence": True})
    for value in values:
        producer.write(tp, value)


def _commit(stage: FiveBrokers, node: int, group: str, tp: TopicPartition) -> None:
    if (code := commit(stage.cluster.admin, node, group, tp, READ)) != ErrorCode.none:
        raise NotYet(f"OffsetCommit({READ}) at broker {node}: {code.name.upper()}")


@not_yet(AdminError)
def _loaded(stage: FiveBrokers, node: int, group: str, tp: TopicPartition) -> int:
    """The committed offset, from a coordinator that has loaded. Raises: NotYet."""
    return committed(stage.cluster.admin, node, group, tp)
