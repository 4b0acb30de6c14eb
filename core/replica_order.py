"""The order of a partition's replicas, the preferred leader first: what nodes tell of it, what may be asked.

Not here: asking for another one (`elections`, `harness.modelled.virtual.admin`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from core.errors import ClusterError
from core.op import TopicPartition

Order = Mapping[TopicPartition, Sequence[int]]
DEADLINE_S: Final = 5.0
"""Seconds that one change may take before it fails."""


def as_most_tell(told: Iterable[Order]) -> dict[TopicPartition, tuple[int, ...]]:
    """Replicas of each partition as most nodes report them; empty if no node reports any."""
    votes: dict[TopicPartition, Counter[tuple[int, ...]]] = {}
    for view in told:
        for tp, replicas in view.items():
            votes.setdefault(tp, Counter())[tuple(replicas)] += 1
    return {tp: counted.most_common(1)[0][0] for tp, counted in sorted(votes.items())}


def check(wanted: Order, now: Order) -> None:
    """Raises: ClusterError: other replicas are wanted than there are."""
    for tp, replicas in wanted.items():
        there = now.get(tp, ())
        if sorted(replicas) != sorted(there):
            raise ClusterError(f"{tp}: {list(replicas)} is not a permutation of its replicas {list(there)}")


def holds(wanted: Order, now: Order) -> bool:
    """Whether that is the order now."""
    return all(tuple(replicas) == tuple(now.get(tp, ())) for tp, replicas in wanted.items())


def late() -> ClusterError:
    """A new order that most nodes did not tell in time."""
    return ClusterError(f"the order of replicas is not known after {DEADLINE_S:.0f} s")
