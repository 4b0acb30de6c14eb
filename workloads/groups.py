"""Consumer groups with rebalances, and three ways of committing offsets.

Producers fill one topic as in `queue`. Consumers (at least six) are members of three groups that differ
in when they commit: automatically by the client (`groups-auto`), by hand after a few polls
(`groups-after`), by hand in the same op as every poll (`groups-each`). Members leave and come back as new
processes now and then, so that partitions change hands.

Finds: records given to a group again although it had committed an offset behind them (group-duplicate);
records that no member was ever given although the group committed an offset behind them (group-skip);
committed offsets that go back; consumers that skip or go back.
"""

from collections.abc import Iterator
from functools import partial

from core.client_settings import SessionSpec
from core.config import RunConfig
from core.generator import Planned, Slot
from core.op import CommitOffsets, Op, Poll, Subscribe
from workloads.specs import consumer, fillers, filling, one_topic

SETTINGS = ("home_producers",)
TOPIC = "groups"
AUTO, AFTER, EACH = GROUPS = ("groups-auto", "groups-after", "groups-each")
MEMBERS_MIN = 2 * len(GROUPS)
LIFE = (50, 400)
"""Polls after which a member leaves and comes back as a new process, drawn uniformly."""

topics = partial(one_topic, TOPIC)


def plans(config: RunConfig) -> tuple[SessionSpec, ...]:
    """Producers first, then members, of each group in turn."""
    producers = fillers(config)
    members = []
    for number in range(max(config.consumers, MEMBERS_MIN)):
        group = GROUPS[number % len(GROUPS)]
        members.append(consumer(config, len(producers) + number, group=group, auto_commit=group == AUTO))
    return (*producers, *members)


def ops(config: RunConfig, spec: SessionSpec, slot: Slot) -> Iterator[Planned]:
    """The schedule of one process."""
    return _consuming(spec, slot) if spec.group else filling(config, spec, slot, slot.tps)


def _consuming(spec: SessionSpec, slot: Slot) -> Iterator[Planned]:
    yield Planned(0.0, Op(f="subscribe", mops=(Subscribe((TOPIC,)),)))
    left = slot.rng.randint(*LIFE)
    while left > 0:
        if spec.group == EACH:
            yield Planned(0.0, Op(f="poll-commit", mops=(Poll(), CommitOffsets())))
            left -= 1
            continue
        for _ in range(slot.rng.randint(1, 8)):
            yield Planned(0.0, Op(f="poll", mops=(Poll(),)))
            left -= 1
        if spec.group == AFTER:
            yield Planned(0.0, Op(f="commit", mops=(CommitOffsets(),)))
