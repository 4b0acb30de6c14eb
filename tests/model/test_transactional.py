"""A modelled transactional producer by itself: when it ends a transaction, and when it is over."""

from typing import Any

import pytest

from model.client.client_metadata import BACKOFF_MS
from model.client.producer import ProducerSettings
from model.client.transactional_producer import TransactionalProducer
from model.errors import KafkaError
from model.protocol.coordinator_messages import (
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    EndTxn,
    FindCoordinatorResponse,
    InitProducerId,
    ProducerIdResponse,
)
from model.protocol.messages import Metadata, Partition, Produce, ProduceResponse
from tests.model.one_client import P0, P1, OneClient, metadata

NONE = KafkaError.NONE
LOST = None


class World(OneClient):
    """A producer whose brokers are the test."""

    def __init__(self, **settings: Any) -> None:
        chosen = ProducerSettings(transactional_id="t", **settings)
        self.producer = TransactionalProducer(chosen, [1])
        super().__init__(self.producer)
        self.told: dict[str, str] = {}
        self.records: list[str] = []
        goal = self.producer.init()
        self.answer(Metadata, metadata([1]))
        self.asked = [ask for ask in self.asked if not ask.channel.startswith("find ")]
        self.producer.answered("find id t", FindCoordinatorResponse(NONE, 1), self.now)
        self.answer(InitProducerId, ProducerIdResponse(NONE, 7, 0))
        assert goal.done

    def wait(self, milliseconds: int) -> None:
        super().wait(milliseconds)
        for token, error, _ in self.producer.delivered:
            self.told[self.records[token]] = error or "ok"
        self.producer.delivered = []

    def requests(self, kind: type) -> list[Any]:
        """Requests of a kind that have no answer."""
        return [ask.request for ask in self.of(kind)]

    def begin(self, *partitions: Partition) -> None:
        """A transaction begins; a record is sent to each partition: m0, m1 and so on."""
        self.producer.begin()
        for tp in partitions:
            name = f"m{len(self.records)}"
            self.producer.send(tp, [(name, len(self.records))], self.now)
            self.records.append(name)
        if self.producer.settings.transaction_version < 2:
            self.answer(AddPartitionsToTxn, AddPartitionsToTxnResponse(NONE))
        self.wait(0)


def wrote(tp: Partition, offset: int = 0, error: KafkaError = NONE) -> ProduceResponse:
    return ProduceResponse({tp: (error, offset)})


def test_an_abort_gives_up_what_was_never_sent() -> None:
    world = World(in_flight=1)
    world.begin(P0, P0)
    world.producer.finish(commit=False)
    world.wait(0)
    assert world.told == {"m1": "_PURGE"}
    world.answer(Produce, wrote(P0))
    assert world.told == {"m1": "_PURGE", "m0": "ok"}
    assert world.requests(Produce) == []


@pytest.mark.parametrize("version", [1, 2])
def test_an_abort_ends_the_transaction_when_nothing_is_in_flight(version: int) -> None:
    world = World(transaction_version=version)
    world.begin(P0, P1)
    goal = world.producer.finish(commit=False)
    assert world.requests(EndTxn) == []
    world.answer(Produce, wrote(P0))
    assert world.requests(EndTxn) == []
    world.answer(Produce, LOST)
    world.wait(BACKOFF_MS)
    assert world.requests(EndTxn) == []
    (again,) = world.requests(Produce)
    assert list(again.batches) == [P1], "it is sent again as without an abort"
    world.answer(Produce, wrote(P1))
    assert world.requests(EndTxn) == [EndTxn("t", 7, 0, commit=False)]
    assert (goal.done, world.told) == (False, {"m0": "ok", "m1": "ok"})
    world.answer(EndTxn, ProducerIdResponse(NONE))
    assert (goal.done, goal.error) == (True, "")
    assert world.requests(InitProducerId) == [], "nothing is in doubt"


def test_an_abort_waits_until_records_are_over_time_and_takes_a_new_epoch() -> None:
    world = World(delivery_ms=1000)
    world.begin(P0)
    goal = world.producer.finish(commit=False)
    world.wait(999)
    assert world.requests(EndTxn) == []
    world.wait(1)
    assert world.told == {"m0": "_MSG_TIMED_OUT"}
    world.answer(EndTxn, ProducerIdResponse(NONE))
    assert (goal.done, goal.error) == (False, "")
    assert world.requests(InitProducerId) == [InitProducerId("t", 10_000, 7, 0)]
    world.answer(InitProducerId, ProducerIdResponse(NONE, 7, 1))
    assert (goal.done, goal.error) == (True, "")
    world.answer(Produce, wrote(P0))
    world.begin(P0)
    (request,) = world.requests(Produce)
    batch = request.batches[P0]
    assert (batch.producer_epoch, batch.sequence) == (1, 0)


def test_a_refusal_while_an_abort_waits_lets_it_go_on() -> None:
    world = World()
    world.begin(P0)
    goal = world.producer.finish(commit=False)
    world.answer(Produce, wrote(P0, -1, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER))
    assert world.told == {"m0": "OUT_OF_ORDER_SEQUENCE_NUMBER"}
    world.answer(EndTxn, ProducerIdResponse(NONE))
    world.answer(InitProducerId, ProducerIdResponse(NONE, 7, 1))
    assert (goal.done, goal.error) == (True, "")


def test_a_fenced_producer_sends_nothing_again() -> None:
    world = World()
    world.begin(P0, P1)
    goal = world.producer.finish(commit=False)
    world.answer(Produce, wrote(P0, -1, KafkaError.INVALID_PRODUCER_EPOCH))
    assert (goal.done, goal.error) == (True, "INVALID_PRODUCER_EPOCH")
    world.answer(Produce, LOST)
    world.wait(1000)
    assert (world.requests(Produce), world.requests(EndTxn)) == ([], [])
    assert set(world.told.values()) == {"INVALID_PRODUCER_EPOCH"}


def test_a_batch_without_a_transaction_fails_the_transaction() -> None:
    world = World()
    world.begin(P0)
    world.answer(Produce, wrote(P0, -1, KafkaError.INVALID_TXN_STATE))
    assert world.told == {"m0": "INVALID_TXN_STATE"}
    goal = world.producer.finish(commit=True)
    world.wait(0)
    assert (goal.error, goal.abort, world.producer.fatal) == ("INVALID_TXN_STATE", True, "")
    goal = world.producer.finish(commit=False)
    world.answer(EndTxn, ProducerIdResponse(NONE))
    world.answer(InitProducerId, ProducerIdResponse(NONE, 7, 1))
    assert (goal.done, goal.error) == (True, "")


@pytest.mark.parametrize("kind", [AddPartitionsToTxn, EndTxn])
def test_a_coordinator_without_a_transaction_ends_the_producer(kind: type) -> None:
    world = World()
    if kind is AddPartitionsToTxn:
        world.producer.begin()
        world.producer.send(P0, [("m0", 0)], world.now)
        world.records.append("m0")
    else:
        world.begin(P0)
        world.answer(Produce, wrote(P0))
    goal = world.producer.finish(commit=True)
    world.answer(kind, ProducerIdResponse(KafkaError.INVALID_TXN_STATE))
    assert (goal.error, goal.abort) == ("INVALID_TXN_STATE", False)
    assert world.producer.fatal == "INVALID_TXN_STATE"
