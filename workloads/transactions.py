"""Atomic writes over several partitions and topics, some with reads in the same transaction.

Every producer has a transactional id that its slot keeps through all its processes. An op is one
transaction: 1 to `batch_max` records on 1 to `transaction_partitions` partitions of `transaction_topics`
topics; in every other slot the client also polls between its sends. `home_producers` more write to one
partition each, without polls. `abort_share` of the transactions are aborted on purpose. Consumers assign all
partitions by hand and read at `isolation`; where there are at least two, the last one reads at
read_uncommitted, which is legal to show aborted records and serves as evidence of what the log holds.

Finds: everything `queue` finds, and records of aborted transactions at read_committed, transactions
that are visible only in part, circular information flow, stuck last stable offsets.
"""

from collections.abc import Iterator
from dataclasses import replace

from core.client_settings import SessionSpec
from core.config import RunConfig
from core.generator import Pace, Planned, Slot, first_contact
from core.op import Isolation, Mop, Op, Poll, TopicPartition
from workloads.specs import assigning, consumer, count_of, reach, reading, transactional

SETTINGS = ("home_producers", "transaction_partitions", "transaction_topics")
TOPIC = "transactions"


def topics(config: RunConfig) -> dict[str, int]:
    """As many as are asked for, with as many partitions each."""
    more = [f"{TOPIC}-{number}" for number in range(2, config.transaction_topics + 1)]
    return dict.fromkeys((TOPIC, *more), config.partitions)


def plans(config: RunConfig) -> tuple[SessionSpec, ...]:
    """Producers first (odd ones read too), then consumers."""
    producers = [
        replace(
            transactional(config, slot, f"inquest-{slot}"),
            isolation=config.isolation if slot % 2 and slot < config.producers else Isolation.NONE,
        )
        for slot in range(count_of(config))
    ]
    consumers = [
        replace(
            consumer(config, len(producers) + number),
            isolation=Isolation.READ_UNCOMMITTED
            if number and number == config.consumers - 1
            else config.isolation,
        )
        for number in range(config.consumers)
    ]
    return (*producers, *consumers)


def ops(config: RunConfig, spec: SessionSpec, slot: Slot) -> Iterator[Planned]:
    """The schedule of one process."""
    if spec.transactional_id is None:
        yield from reading(slot)
        return
    if spec.isolation is not Isolation.NONE:
        yield assigning(slot)
    tps = reach(config, slot.slot, slot.tps)
    yield first_contact(tps, slot.values, txn=True)
    pace = Pace(slot.rng, config.rate / count_of(config))
    while True:
        mops = _mops(config, slot, tps, reads=spec.isolation is not Isolation.NONE)
        abort = slot.rng.random() < config.abort_share
        yield Planned(pace.wait_s(), Op(f="txn", mops=mops, txn=True, abort=abort))


def _mops(config: RunConfig, slot: Slot, tps: tuple[TopicPartition, ...], *, reads: bool) -> tuple[Mop, ...]:
    rng = slot.rng
    some = rng.sample(tps, rng.randint(1, min(config.transaction_partitions, len(tps))))
    mops: list[Mop] = [slot.values.send(rng.choice(some)) for _ in range(rng.randint(1, config.batch_max))]
    if reads:
        for _ in range(rng.randint(0, 2)):
            mops.insert(rng.randint(0, len(mops)), Poll(max_records=100, wait_ms=20))
    return tuple(mops)
