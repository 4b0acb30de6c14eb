"""A modelled client's view of the cluster: which leader it believes in."""

import pytest
from msgspec import structs

from model.client.client_metadata import ClientMetadata
from model.eras import ERAS
from model.protocol.messages import Metadata, MetadataResponse, PartitionState
from tests.model.one_broker import OneBroker

TP = ("t", 0)


def told(cluster: ClientMetadata, leader: int, epoch: int) -> None:
    state = PartitionState((1, 2), (leader,), leader, epoch)
    cluster.answered("metadata", MetadataResponse([1, 2], {TP: state}, 1), 0)


def test_metadata_of_an_older_epoch_are_not_taken() -> None:
    cluster = ClientMetadata([1, 2])
    told(cluster, 2, 5)
    told(cluster, 1, 4)
    assert cluster.leaders[TP] == (2, 5)


@pytest.mark.parametrize(("era", "believed"), [("0.10", 1), ("0.11", 1), ("2.0", 1), ("2.4", 2), ("4.2", 2)])
def test_before_kip_320_metadata_that_came_last_are_taken(era: str, believed: int) -> None:
    world = OneBroker(era=ERAS[era])
    tp = ("data", 0)
    before = world.ask(Metadata())
    state = world.broker.node.image.partitions[tp]
    assert state.leader == 1
    newer = structs.replace(state, leader=2, leader_epoch=state.leader_epoch + 1)
    world.broker.node.image.partitions[tp] = newer
    after = world.ask(Metadata())
    cluster = ClientMetadata([1, 2])
    cluster.answered("metadata", after, 0)
    assert cluster.leaders[tp][0] == 2
    cluster.answered("metadata", before, 1)  # of a broker that did not hear of it
    assert cluster.leaders[tp][0] == believed


def test_metadata_without_epochs_are_taken_whatever_was_known() -> None:
    cluster = ClientMetadata([1, 2])
    told(cluster, 2, 5)
    told(cluster, 1, -1)
    assert cluster.leaders[TP] == (1, -1)
    told(cluster, 2, 4)
    assert cluster.leaders[TP] == (2, 4)


def test_a_leader_of_an_older_epoch_than_somebody_read_is_not_believed() -> None:
    # A broker that stood still tells what it knew, and it is the leader there (KIP-320).
    cluster = ClientMetadata([1, 2])
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
    cluster = ClientMetadata([1, 2])
    told(cluster, 2, 5)
    cluster.wanted = False
    cluster.seen(TP, 5)
    assert (cluster.leaders[TP], cluster.wanted) == ((2, 5), False)
