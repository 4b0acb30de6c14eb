"""Consume, transform, produce: records are copied from one topic to another, exactly once.

Producers fill the input topic as in `queue`. Copiers (as many as `consumers`, at least two) share one
group: each op polls the records that are there, produces a copy of each to the partition of the same
number of the output topic, and adds the offsets after them to the same transaction (`commit`
"transaction"); after an abort it goes back, but for `commit` "without-rewind". With "beside" or
"automatic-beside" the copies alone are in a transaction: the copier commits offsets by hand before it ends
that, or its client commits what it was given, now and then; after an abort it reads on, for its offsets are
committed, or will be. With "after" or "before" there is no transaction: the copier commits offsets after the
copies were acknowledged (at least once), or before it makes them (at most once); with "automatic" its client
commits what it was given (neither).
Copiers leave the group and come back now and then, so that partitions change hands.

Finds: everything `transactions` finds; input records with two copies in committed output
(eos-duplicate), or with none although the group committed an offset behind them (eos-loss). Brokers
before 2.5 do not fence the offsets of transactions by the group's generation (KIP-447): there two copies
are allowed.
"""

from collections.abc import Iterator
from dataclasses import replace

from core.client_settings import SessionSpec
from core.config import AUTOMATIC, RunConfig
from core.generator import Planned, Slot, first_contact
from core.op import CommitOffsets, Copy, Mop, Op, Poll, SendOffsets, Subscribe
from workloads.specs import fillers, filling, producer, transactional

SETTINGS = ("commit", "home_producers")
INPUT = "copier-in"
OUTPUT = "copier-out"
GROUP = "copiers"
COPIERS_MIN = 2
IN_TRANSACTION = ("transaction", "without-rewind")
"""Ways to commit offsets with the copies."""
BESIDE = ("beside", "automatic-beside")
"""Ways to commit offsets beside the transaction of the copies."""
POLL = Poll(max_records=100, wait_ms=200)
LIFE = (100, 600)
"""Ops after which a copier leaves and comes back as a new process, drawn uniformly."""


def topics(config: RunConfig) -> dict[str, int]:
    """Input and output, with as many partitions each."""
    return {INPUT: config.partitions, OUTPUT: config.partitions}


def plans(config: RunConfig) -> tuple[SessionSpec, ...]:
    """Producers first, then copiers."""
    producers = fillers(config)
    slots = range(len(producers), len(producers) + max(config.consumers, COPIERS_MIN))
    return (*producers, *(_copier(config, slot) for slot in slots))


def _copier(config: RunConfig, slot: int) -> SessionSpec:
    if config.commit in (*IN_TRANSACTION, *BESIDE):
        spec = transactional(config, slot, f"copier-{slot}")
    else:
        spec = producer(config, slot)
    return replace(spec, isolation=config.isolation, group=GROUP, auto_commit=config.commit in AUTOMATIC)


def ops(config: RunConfig, spec: SessionSpec, slot: Slot) -> Iterator[Planned]:
    """The schedule of one process."""
    return _copying(config, spec, slot) if spec.group else filling(config, spec, slot, slot.of(INPUT))


def _copying(config: RunConfig, spec: SessionSpec, slot: Slot) -> Iterator[Planned]:
    in_transaction = spec.transactional_id is not None
    if spec.idempotent:
        yield first_contact(slot.of(OUTPUT), slot.values, txn=in_transaction)
    yield Planned(0.0, Op(f="subscribe", mops=(Subscribe((INPUT,)),)))
    for _ in range(slot.rng.randint(*LIFE)):
        copy = Copy(OUTPUT, slot.values.reserve(POLL.max_records), POLL.max_records)
        mops: dict[str, tuple[Mop, ...]] = {
            **dict.fromkeys(IN_TRANSACTION, (POLL, copy, SendOffsets())),
            **dict.fromkeys(("after", "beside"), (POLL, copy, CommitOffsets())),
            "before": (POLL, CommitOffsets(), copy),
            **dict.fromkeys(AUTOMATIC, (POLL, copy)),
        }
        abort = in_transaction and slot.rng.random() < config.abort_share
        yield Planned(0.0, Op(f="copy", mops=mops[config.commit], txn=in_transaction, abort=abort))
