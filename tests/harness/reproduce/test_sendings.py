"""What producers of librdkafka say of a refusal, and whether a loss of power lost what it has to."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Producer

from core.errors import ClusterError
from core.op import TopicPartition
from harness.reproduce import sendings
from harness.reproduce.cluster import NotReached
from harness.reproduce.library_producer import LibraryProducer, PlainProducer
from harness.reproduce.stage import FiveBrokers

P0 = TopicPartition("t", 0)


def untransacted(kind: type[Any]) -> Any:
    """A producer of this kind that takes no record: its transactions were never begun."""
    made = object.__new__(kind)
    made.sent, made._say = [], lambda _: None
    made._producer = Producer({"bootstrap.servers": "127.0.0.1:1", "transactional.id": "x"})
    return made


def test_a_record_that_the_client_refuses_is_a_failure_of_this_run_only() -> None:
    with pytest.raises(ClusterError, match="produce: _STATE"):
        cast(LibraryProducer, untransacted(LibraryProducer)).write(P0, "one")
    with pytest.raises(ClusterError, match="produce: _STATE"):
        cast(PlainProducer, untransacted(PlainProducer)).send(P0, "one")


def losing_power(monkeypatch: pytest.MonkeyPatch, kept: dict[int, str]) -> FiveBrokers:
    """Brokers of which D has these records on its disk after the loss."""

    class Sends:
        def __init__(self, *_: object) -> None:
            self.sent: list[tuple[TopicPartition, str]] = []
            self.acknowledged: set[tuple[TopicPartition, str]] = set()

        def write(self, tp: TopicPartition, value: str) -> None:
            self.sent.append((tp, value))
            self.acknowledged.add((tp, value))

    async def done(_: object) -> int:
        return 5

    monkeypatch.setattr(sendings, "PlainProducer", Sends)
    cluster = SimpleNamespace(shut_down=done, lose_power=done, revive=done)
    stage = SimpleNamespace(
        a=1, c=3, d=4, e=5, cluster=cluster, create=lambda *_: [P0], say=lambda _: None,
        values_on_disk=lambda node, tp: kept if (node, tp) == (4, P0) else {},
        leads=lambda *_: None, awake=lambda _: None, heal=lambda: None,
    )  # fmt: skip
    return cast(FiveBrokers, stage)


@pytest.mark.parametrize("good", [False, True])
@pytest.mark.parametrize("kept", [{}, {0: "zero"}, {0: "zero", 1: "one"}])
def test_a_leader_that_keeps_its_records_through_a_loss_of_power_proves_nothing(
    kept: dict[int, str], good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = losing_power(monkeypatch, kept)
    if kept:
        with pytest.raises(NotReached, match="zero"):
            sendings.last_replica(stage, "t", good)
        return
    assert [value for _, value in sendings.last_replica(stage, "t", good).sent] == ["zero", "one", "two"]
