"""Consumers write what they read to a database: the two writes that no transaction of Kafka spans.

Producers fill one topic as in `queue`. Consumers (as many as `consumers`, at least two) share one group: each
op polls the records that are there, writes a row for each to the database of the run (SQLite) in one
transaction of the database, and then commits their offsets to Kafka. A consumer that dies between the two
leaves its rows to a successor that is given the same records again. `sink` says what keeps them from being
there twice: nothing (`plain`); a unique id (`unique-id`); the next offset of each partition, written with the
rows (`offset-in-transaction`); or the offset as the version of a key's row, which no older record replaces
(`optimistic-lock`). Consumers leave the group and come back now and then, so that partitions change hands.

In the history the database is a topic, `database`, with as many partitions; its rows are read at the end.

Finds: everything `queue` and `groups` find; input records with two rows (eos-duplicate), or with none
although the group committed an offset behind them (eos-loss).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from core.client_settings import SessionSpec
from core.config import RunConfig
from core.generator import Planned, Slot
from core.op import DATABASE, CommitOffsets, Copy, Op, Poll, Subscribe
from workloads.specs import fillers, filling, one_topic, producer

SETTINGS = ("sink", "home_producers")
TOPIC = "sink"
GROUP = "sinks"
MEMBERS_MIN = 2
POLL = Poll(max_records=100, wait_ms=200)
LIFE = (100, 600)
"""Ops after which a consumer leaves and comes back as a new process, drawn uniformly."""

topics = partial(one_topic, TOPIC)
"""One topic; the database is none of Kafka's."""


def plans(config: RunConfig) -> tuple[SessionSpec, ...]:
    """Producers first, then consumers, which produce rows."""
    producers = fillers(config)
    slots = range(len(producers), len(producers) + max(config.consumers, MEMBERS_MIN))
    members = (replace(producer(config, slot), isolation=config.isolation, group=GROUP) for slot in slots)
    return (*producers, *members)


def ops(config: RunConfig, spec: SessionSpec, slot: Slot) -> Iterator[Planned]:
    """The schedule of one process."""
    return _storing(slot) if spec.group else filling(config, spec, slot, slot.tps)


def _storing(slot: Slot) -> Iterator[Planned]:
    yield Planned(0.0, Op(f="subscribe", mops=(Subscribe((TOPIC,)),)))
    for _ in range(slot.rng.randint(*LIFE)):
        rows = Copy(DATABASE, slot.values.reserve(POLL.max_records), POLL.max_records)
        yield Planned(0.0, Op(f="store", mops=(POLL, rows, CommitOffsets())))
