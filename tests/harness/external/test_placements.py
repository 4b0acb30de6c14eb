"""Replicas of internal topics are where they were, after whatever moved them."""

from collections.abc import Sequence

import pytest

from core.cluster import Address
from core.internal_topics import SHARE_STATE_TOPIC
from core.op import TopicPartition
from core.runtime import run_blocking
from harness.brokers.addresses import LOOPBACK
from harness.brokers.admin import elections, reassignments
from harness.brokers.admin.connection import Brokers
from harness.external import placements
from harness.external.placements import decoded, encoded, put_back
from harness.modelled.real.cluster import ModelCluster
from tests.waiting import until

TP, OTHER = TopicPartition(SHARE_STATE_TOPIC, 0), TopicPartition("__remote_log_metadata", 3)


def test_of_one_partition_the_first_placement_counts() -> None:
    lines = [encoded({TP: (1, 2, 3)}), encoded({}), encoded({TP: (1, 2), OTHER: (3, 1)})]
    assert decoded(lines) == {TP: (1, 2, 3), OTHER: (3, 1)}
    assert decoded([]) == {}


def placed(model: ModelCluster) -> tuple[int, ...]:
    return elections.replicas(model.admin).get(TP, ())


def move(model: ModelCluster, nodes: Sequence[int]) -> None:
    reassignments.reassign(model.admin, {TP: nodes}, 15)
    until(lambda: placed(model) == tuple(nodes), "the replicas have moved")


@pytest.fixture
def whole(model: ModelCluster) -> ModelCluster:
    """The topic has three replicas, in order."""
    if not placed(model):
        run_blocking(model.create_topic(TP.topic, 1, 3, {}))
    move(model, (1, 2, 3))
    return model


@pytest.mark.slow
@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("before", "now", "after"),
    [
        ((1, 2, 3), (1, 2), (1, 2, 3)),
        ((1, 2), (1, 2, 3), (1, 2)),
        ((1, 3), (2, 3), (1, 3)),
        ((1, 2, 3), (3, 2, 1), (3, 2, 1)),  # another order is no other place
        ((1, 2, 3), (1, 2, 3), (1, 2, 3)),
    ],
)
def test_replicas_that_moved_are_put_back(
    before: tuple[int, ...], now: tuple[int, ...], after: tuple[int, ...], whole: ModelCluster
) -> None:
    move(whole, now)
    assert put_back(whole.admin, {TP: before, TopicPartition("gone", 0): (1, 2)}) == []
    assert placed(whole) == after


@pytest.mark.slow
@pytest.mark.sampled(5)
def test_what_cannot_be_put_back_is_named(whole: ModelCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placements, "BACK_S", 0.5)
    (said,) = put_back(whole.admin, {TP: (1, 2, 9)})
    assert said.startswith(f"{TP} had replicas on nodes [1, 2, 9], and may have others: ")
    move(whole, (1, 2, 3))


def test_what_no_broker_says_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placements, "TAKEN_S", 0.5)
    silent = Brokers({1: Address(LOOPBACK, 1)})
    assert put_back(silent, {}) == []
    assert put_back(silent, {TP: (1, 2)}) == [
        f"{TP} had replicas on nodes [1, 2], and may have others: no broker answers"
    ]
