"""What is certain of a producer's transactions where nodes have clocks of their own (`checkers.logs.clocks`).

Where each transaction has producer epochs of its own, these tell which is which. Where several share one,
only times do; what no order of these could explain is certain, and all else is a doubt.
"""

from collections.abc import Sequence

from checkers.logs.markers import Marker
from checkers.logs.transactions import Decision, Transaction
from core.op import TopicPartition


def told_apart(every: Sequence[Transaction]) -> bool:
    """Whether epochs tell a producer's transactions apart: no two share one of records, or one of markers."""
    records = {one.epoch for one in every}
    of_markers = [{each.epoch for each in one.decisions} for one in every]
    return len(records) == len(every) and len(set[int]().union(*of_markers)) == sum(map(len, of_markers))


def undecided(every: Sequence[Transaction], marker: Marker) -> bool:
    """No decision, of any time, is one for this marker."""
    wanted = marker.epoch, marker.commit
    return not any(
        (each.epoch, each.commit) == wanted and marker.tp in each.partitions
        for one in every
        for each in one.decisions
    )


def unnamed(every: Sequence[Transaction], epoch: int, tp: TopicPartition) -> bool:
    """No transaction of this epoch, of any time, names the partition, or may still do so."""
    return not any(one.epoch == epoch and (tp in one.named or not one.decisions) for one in every)


def unmarked(every: Sequence[Transaction], decision: Decision, tp: TopicPartition, markers: int) -> bool:
    """One of the transactions that ended as this one did has no marker in the partition: it has fewer
    markers (`markers`) of the epoch and the result than there are completed ones."""
    wanted = decision.epoch, decision.commit
    last = [one.decisions[-1] for one in every if one.decisions and one.completed >= 0]
    return markers < sum((one.epoch, one.commit) == wanted and tp in one.partitions for one in last)


def ended(every: Sequence[Transaction]) -> bool:
    """All were completed: whatever still has no marker behind it came after the end of its transaction."""
    return all(one.completed >= 0 for one in every)
