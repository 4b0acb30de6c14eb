"""Sends and reads without transactions.

Producers send ops of 1 to `batch_max` records, pipelined, to random partitions of one topic, and wait
for all acknowledgements of an op before the next; `home_producers` more send to one partition each. Acks
and idempotence come from the configuration. Of every three consumers two assign partitions by hand (all of
them, and now and then a random part) and one subscribes in a group, committing its offsets after every few
polls.

Finds: lost, duplicated and reordered records, offsets that change their record, consumers that skip
or go back, committed offsets that go back.
"""

from collections.abc import Iterator
from functools import partial

from core.client_settings import SessionSpec
from core.config import RunConfig
from core.generator import Planned, Slot
from core.op import Assign, CommitOffsets, Op, Poll, Subscribe
from workloads.specs import assigning, consumer, fillers, filling, one_topic

SETTINGS = ("home_producers",)
TOPIC = "queue"
GROUP = "queue-group"
REASSIGN = 1 / 256
"""Share of polls of an assigning consumer before which it takes other partitions."""

topics = partial(one_topic, TOPIC)


def plans(config: RunConfig) -> tuple[SessionSpec, ...]:
    """Producers first, then consumers; every third consumer subscribes."""
    producers = fillers(config)
    consumers = [
        consumer(config, len(producers) + number, group=GROUP if number % 3 == 2 else None)
        for number in range(config.consumers)
    ]
    return (*producers, *consumers)


def ops(config: RunConfig, spec: SessionSpec, slot: Slot) -> Iterator[Planned]:
    """The schedule of one process."""
    if spec.acks is not None:
        return filling(config, spec, slot, slot.tps)
    return _subscribing(slot) if spec.group else _assigning(slot)


def _assigning(slot: Slot) -> Iterator[Planned]:
    yield assigning(slot)
    whole = True
    while True:
        yield Planned(0.0, Op(f="poll", mops=(Poll(),)))
        if slot.rng.random() < REASSIGN:
            count = slot.rng.randint(1, len(slot.tps)) if whole else len(slot.tps)
            whole = count == len(slot.tps)
            tps = tuple(sorted(slot.rng.sample(slot.tps, count)))
            yield Planned(0.0, Op(f="assign", mops=(Assign(tps),)))


def _subscribing(slot: Slot) -> Iterator[Planned]:
    topics = tuple(sorted({tp.topic for tp in slot.tps}))
    yield Planned(0.0, Op(f="subscribe", mops=(Subscribe(topics),)))
    while True:
        for _ in range(slot.rng.randint(1, 8)):
            yield Planned(0.0, Op(f="poll", mops=(Poll(),)))
        yield Planned(0.0, Op(f="commit", mops=(CommitOffsets(),)))
