"""Idempotent bursts to partitions that were created a moment ago.

Every producer creates a topic every two seconds or so, and as soon as Kafka says that it exists sends a
burst of records to its partitions, pipelined, each record a batch of its own (`linger.ms` 0,
`batch.num.messages` 1 unless `client_settings` say otherwise; `max.in.flight` stays at 5 unless they do).

Finds, on Kafka 2.5 to 4.4 and without any fault: acknowledged records that are not in the log
(KAFKA-15591: a broker that does not know a producer yet accepts its second batch although the first was
refused; the client then takes the first for acknowledged). With one request in flight there is nothing
to find.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from core.client_settings import SessionSpec, overlay
from core.config import RunConfig
from core.generator import Planned, Slot, first_contact
from core.op import CreateTopic, Op, TopicPartition
from workloads.specs import one_topic, producer

TOPIC = "fresh-topic"
EVERY_S = (1.0, 3.0)
"""Time between two topics of one producer, drawn uniformly."""
BURST = 20
"""Records to each partition of a new topic."""
ONE_BY_ONE = {"producer.linger.ms": "0", "producer.batch.num.messages": "1"}

topics = partial(one_topic, TOPIC)
"""One topic that is there from the beginning; the others are created by the producers."""


def plans(config: RunConfig) -> tuple[SessionSpec, ...]:
    """Producers only: the final reads see everything."""
    return tuple(
        replace(producer(config, slot), settings=overlay(ONE_BY_ONE, config.client_settings))
        for slot in range(config.producers)
    )


def ops(config: RunConfig, spec: SessionSpec, slot: Slot) -> Iterator[Planned]:
    """The schedule of one process."""
    if spec.idempotent:
        yield first_contact(slot.tps, slot.values, txn=False)
    number = 0
    while True:
        number += 1
        topic = f"{TOPIC}-{slot.process}-{number}"
        tps = [TopicPartition(topic, p) for p in range(config.partitions)]
        create = Op(f="create", mops=(CreateTopic(topic, config.partitions),))
        yield Planned(slot.rng.uniform(*EVERY_S), create, first=True)
        mops = tuple(slot.values.send(tp) for _ in range(BURST) for tp in tps)
        yield Planned(0.0, Op(f="burst", mops=mops))
