"""What workloads share: session settings of a producer, a transactional producer, a consumer; and what plain
producers and plain readers do.
"""

from collections.abc import Iterator
from dataclasses import replace

from core.client_settings import SessionSpec
from core.config import RunConfig
from core.generator import Pace, Planned, Slot, batches, first_contact, polls
from core.op import Assign, Op, TopicPartition


def producer(config: RunConfig, slot: int) -> SessionSpec:
    """A producer without transactions, with the acks and idempotence of the config."""
    return SessionSpec(
        slot=slot,
        process=-1,
        acks=config.acks,
        idempotent=config.idempotent,
        deadline_s=config.verb_deadline_s,
        settings=config.client_settings,
    )


def count_of(config: RunConfig) -> int:
    """How many slots fill the topic of a workload: the first `producers` of them send to all partitions,
    each of the others to one."""
    return config.producers + config.home_producers


def reach(config: RunConfig, slot: int, tps: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
    """The partitions that a producer sends to: all, or its home.

    A producer that sends to all waits for the broken part within a few ops, and acknowledges nothing until it
    is back. One with a home continues while the leader of that partition serves.
    """
    home = slot - config.producers
    return tps if home < 0 else (tps[home % len(tps)],)


def fillers(config: RunConfig) -> tuple[SessionSpec, ...]:
    """The producers without transactions that fill the topic of a workload; `filling` is what they do."""
    return tuple(producer(config, slot) for slot in range(count_of(config)))


def transactional(config: RunConfig, slot: int, transactional_id: str) -> SessionSpec:
    """A transactional producer: always idempotent, with acks=all."""
    return replace(
        producer(config, slot),
        acks=-1,
        idempotent=True,
        transactional_id=transactional_id,
        transaction_timeout_s=config.transaction_timeout_s,
    )


def consumer(
    config: RunConfig, slot: int, *, group: str | None = None, auto_commit: bool = False
) -> SessionSpec:
    """A consumer at the isolation level of the config."""
    return SessionSpec(
        slot=slot,
        process=-1,
        isolation=config.isolation,
        group=group,
        auto_commit=auto_commit,
        deadline_s=config.verb_deadline_s,
        settings=config.client_settings,
    )


def filling(
    config: RunConfig, spec: SessionSpec, slot: Slot, tps: tuple[TopicPartition, ...]
) -> Iterator[Planned]:
    """What a plain producer does: ops of 1 to `batch_max` records, at its share of the rate."""
    mine = reach(config, slot.slot, tps)
    if spec.idempotent:
        yield first_contact(mine, slot.values, txn=False)
    yield from batches(slot, mine, Pace(slot.rng, config.rate / count_of(config)), config.batch_max)


def reading(slot: Slot) -> Iterator[Planned]:
    """What a plain reader does: it assigns all partitions by hand, and polls."""
    yield assigning(slot)
    yield from polls()


def assigning(slot: Slot) -> Planned:
    """All partitions are assigned by hand."""
    return Planned(0.0, Op(f="assign", mops=(Assign(slot.tps),)))


def one_topic(name: str, config: RunConfig) -> dict[str, int]:
    """`topics` of a workload with this topic."""
    return {name: config.partitions}
