"""Records with keys in a compacted topic: of each key Kafka keeps the newest record, or nothing.

Producers in even slots send ops of 1 to `batch_max` records without transactions, those in odd slots the
same as transactions; `abort_share` of these are aborted on purpose. Every record has one of 128 keys of its
partition, most of them one of a few; every fifth deletes its key (a tombstone). Consumers assign all
partitions by hand and read at `isolation`; where there are at least two, the last one reads at
read_uncommitted. The preset of the same name has the settings of topics and brokers that make the cleaner
remove much within a run.

Finds: everything `transactions` finds; keys that have lost their newest committed record (lost-write), or
that were deleted and have an older record again (resurrected-key).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from core.client_settings import SessionSpec
from core.config import RunConfig
from core.generator import Pace, Planned, Slot, first_contact
from core.keys import KEYS
from core.op import Isolation, Mop, Op
from workloads.specs import consumer, one_topic, producer, reading, transactional

TOPIC = "compacted"
PRESET = "compacted"
TOMBSTONES = 0.2
"""Share of the records that delete their key."""
FEW = 8
"""Keys that most records have: they are superseded within seconds."""
MOST = 0.7

topics = partial(one_topic, TOPIC)


def plans(config: RunConfig) -> tuple[SessionSpec, ...]:
    """Producers first, every second one transactional, then consumers."""
    producers = [
        transactional(config, slot, f"inquest-{slot}") if slot % 2 else producer(config, slot)
        for slot in range(config.producers)
    ]
    consumers = [consumer(config, len(producers) + number) for number in range(config.consumers)]
    if len(consumers) > 1:
        consumers[-1] = replace(consumers[-1], isolation=Isolation.READ_UNCOMMITTED)
    return (*producers, *consumers)


def ops(config: RunConfig, spec: SessionSpec, slot: Slot) -> Iterator[Planned]:
    """The schedule of one process."""
    if spec.acks is None:
        yield from reading(slot)
        return
    txn = spec.transactional_id is not None
    if spec.idempotent:
        yield first_contact(slot.tps, slot.values, txn=txn)
    pace = Pace(slot.rng, config.rate / config.producers)
    while True:
        mops = tuple(_record(slot) for _ in range(slot.rng.randint(1, config.batch_max)))
        abort = txn and slot.rng.random() < config.abort_share
        yield Planned(pace.wait_s(), Op(f="txn" if txn else "send", mops=mops, txn=txn, abort=abort))


def _record(slot: Slot) -> Mop:
    rng = slot.rng
    key = rng.randrange(FEW if rng.random() < MOST else KEYS)
    return slot.values.keyed(rng.choice(slot.tps), key, tombstone=rng.random() < TOMBSTONES)
