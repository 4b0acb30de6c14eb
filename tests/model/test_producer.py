"""A modelled producer by itself: what it sends while answers are missing."""

from typing import Any

import pytest

from model.client.client_metadata import BACKOFF_MS
from model.client.producer import Delivered, Producer, ProducerSettings
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.coordinator_messages import InitProducerId, ProducerIdResponse
from model.protocol.messages import Metadata, Partition, Produce, ProduceResponse
from model.replication.node import Ask
from tests.model.one_client import P0, P1, OneClient, metadata

NONE = KafkaError.NONE


class World(OneClient):
    """A producer whose brokers are the test."""

    def __init__(self, **settings: Any) -> None:
        self.producer = Producer(ProducerSettings(**settings), [1, 2])
        super().__init__(self.producer)
        self.tokens = 0
        self.told: list[Delivered] = []
        self.lead(1, 0)
        if self.producer.settings.idempotent:
            self.answer(InitProducerId, ProducerIdResponse(NONE, 7, 0))

    def lead(self, node: int, epoch: int) -> None:
        """The metadata that the producer is told: this broker leads both partitions."""
        self.producer.cluster.wanted = True
        self.answer(Metadata, metadata([1, 2], node, epoch))

    def wait(self, milliseconds: int) -> None:
        super().wait(milliseconds)
        self.told += self.producer.delivered
        self.producer.delivered = []

    def send(self, tp: Partition, *records: str) -> None:
        for record in records:  # a batch each
            self.producer.send(tp, [(record, self.tokens)], self.now)
            self.tokens += 1

    @property
    def flying(self) -> list[tuple[int, str]]:
        """Batches without an answer: at which broker, and their only record."""
        return [(ask.node, str(batch(ask).records[0])) for ask in self.of(Produce)]


def batch(ask: Ask) -> RecordBatch:
    assert isinstance(ask.request, Produce)
    (found,) = ask.request.batches.values()
    return found


def done(tp: Partition, offset: int, error: KafkaError = NONE) -> ProduceResponse:
    return ProduceResponse({tp: (error, offset)})


def test_a_batch_in_flight_is_given_up_when_its_time_is_over() -> None:
    world = World(delivery_ms=1000)
    world.send(P0, "m0")
    (late,) = world.of(Produce)
    world.wait(999)
    assert world.told == []
    world.wait(1)
    assert world.told == [Delivered(0, "_MSG_TIMED_OUT", -1)]
    world.send(P0, "m1")
    _, new = world.of(Produce)
    assert (batch(new).producer_epoch, batch(new).sequence) == (1, 0)
    world.answer(late, done(P0, 0))
    assert len(world.told) == 1, "it was told of m0 already"
    world.answer(new, done(P0, 1))
    assert world.told[1:] == [Delivered(1, "", 1)]


@pytest.mark.parametrize("idempotent", [True, False])
def test_one_request_in_flight_is_one_of_a_partition_whoever_leads_it(idempotent: bool) -> None:
    world = World(in_flight=1, idempotent=idempotent)
    world.send(P0, "m0", "m1")
    assert world.flying == [(1, "m0")]
    world.lead(2, 1)
    assert world.flying == [(1, "m0")], "m1 would overtake it"
    world.send(P1, "n0")
    assert world.flying == [(1, "m0"), (2, "n0")]
    world.answer(world.of(Produce)[1], done(P1, 0))
    world.answer(world.of(Produce)[0], None)
    world.wait(BACKOFF_MS)
    assert world.flying == [(2, "m0")], "it is sent again, to the new leader"
    world.answer(world.of(Produce)[0], done(P0, 0))
    assert world.flying == [(2, "m1")]


def test_with_more_in_flight_the_next_batch_goes_to_the_new_leader_at_once() -> None:
    world = World(in_flight=2)
    world.send(P0, "m0")
    world.lead(2, 1)
    world.send(P0, "m1")
    assert world.flying == [(1, "m0"), (2, "m1")]


def test_with_one_request_in_flight_nothing_follows_a_batch_that_was_given_up_there() -> None:
    world = World(in_flight=1, idempotent=False, delivery_ms=1000)
    world.send(P0, "m0")
    world.lead(2, 1)
    world.wait(1000)
    assert world.told == [Delivered(0, "_MSG_TIMED_OUT", -1)]
    world.send(P0, "m1")
    assert world.flying == [(1, "m0")]
    world.answer(world.of(Produce)[0], None)
    assert world.flying == [(2, "m1")]
