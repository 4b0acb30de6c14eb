"""Who does what, agreed from several nodes' own words.

A node that is cut off keeps serving its clients from stale metadata, so one node's word is worth
nothing: a leader counts when two nodes name it, and the later leader epoch wins.

Not here: asking them (`admin`, `kafka`).
"""

from collections import defaultdict
from collections.abc import Mapping

from harness.cluster import Roles
from harness.cluster.admin import PartitionView, Quorum, View
from harness.op import TopicPartition


def agree(
    ns: int, nodes: tuple[int, ...], views: Mapping[int, View], quorums: Mapping[int, Quorum]
) -> Roles:
    """The roles that the answers show.

    views, quorums: by node, of the nodes that answered. In a cluster of one node its own word counts.
    """
    needed = min(2, len(nodes))
    leaders: dict[TopicPartition, int] = {}
    epochs: dict[TopicPartition, int] = {}
    isr: dict[TopicPartition, tuple[int, ...]] = {}
    for tp in sorted({tp for view in views.values() for tp in view.partitions}):
        told = {node: view.partitions[tp] for node, view in views.items() if tp in view.partitions}
        leaders[tp], epochs[tp] = _leader(told, needed)
        witness = told.get(leaders[tp]) or max(told.values(), key=lambda one: one.leader_epoch)
        isr[tp] = witness.isr
    return Roles(
        ns=ns,
        leaders=leaders,
        leader_epochs=epochs,
        isr=isr,
        controller=_controller(quorums),
        answering=tuple(sorted(views)),
        agreed=set(views) == set(nodes) and _same_leaders(views),
    )


def _leader(told: Mapping[int, PartitionView], needed: int) -> tuple[int, int]:
    votes: dict[int, list[int]] = defaultdict(list)
    for one in told.values():
        votes[one.leader].append(one.leader_epoch)
    backed = [(max(epochs), leader) for leader, epochs in votes.items() if len(epochs) >= needed]
    if not backed:
        return -1, -1
    epoch, leader = max(backed)
    return leader, epoch


def _controller(quorums: Mapping[int, Quorum]) -> int:
    """The latest epoch's leader: a deposed one names itself until it notices."""
    known = [(one.epoch, one.leader) for one in quorums.values() if one.leader >= 0]
    return max(known)[1] if known else -1


def _same_leaders(views: Mapping[int, View]) -> bool:
    maps = [{tp: one.leader for tp, one in view.partitions.items()} for view in views.values()]
    return all(one == maps[0] for one in maps)
