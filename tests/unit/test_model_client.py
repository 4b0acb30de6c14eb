"""A modelled client's view of the cluster: which leader it believes in."""

from model.client import Cluster
from model.messages import MetadataAnswer, PartitionState

TP = ("t", 0)


def told(cluster: Cluster, leader: int, epoch: int) -> None:
    state = PartitionState((1, 2), (leader,), leader, epoch)
    cluster.answered("metadata", MetadataAnswer([1, 2], {TP: state}, 1), 0)


def test_metadata_of_an_older_epoch_are_not_taken() -> None:
    cluster = Cluster([1, 2])
    told(cluster, 2, 5)
    told(cluster, 1, 4)
    assert cluster.leaders[TP] == (2, 5)


def test_a_leader_of_an_older_epoch_than_somebody_read_is_not_believed() -> None:
    # A broker that stood still tells what it knew, and it is the leader there (KIP-320).
    cluster = Cluster([1, 2])
    told(cluster, 1, 0)
    cluster.wanted = False
    cluster.seen(TP, 1)
    assert cluster.leaders[TP] == (-1, 1)
    assert cluster.wanted
    told(cluster, 1, 0)
    assert cluster.leaders[TP] == (-1, 1)
    told(cluster, 2, 1)
    assert cluster.leaders[TP] == (2, 1)


def test_what_is_known_already_changes_nothing() -> None:
    cluster = Cluster([1, 2])
    told(cluster, 2, 5)
    cluster.wanted = False
    cluster.seen(TP, 5)
    assert (cluster.leaders[TP], cluster.wanted) == ((2, 5), False)
