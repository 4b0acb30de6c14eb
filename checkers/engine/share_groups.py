"""What a kernel knows of share groups in its partition, made from the small tables and events
(docs/checks.md, "Share groups").

Not here: the claims (`checkers.checks.share_groups`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Final, NamedTuple

import pyarrow as pa

from checkers.windows import FOREVER, SLACK_NS, Span, Windows
from core.config import RunConfig
from core.op import GONE_MARK, Acknowledgement, Outcome
from history.columns import Columns, by_tp
from history.events import (
    DeadLettersListed,
    Event,
    FaultHealed,
    FaultStarted,
    NodeEnded,
    RolesSeen,
    ShareOffsetsListed,
)
from history.tables import OPEN, TableRow
from workloads.registry import WORKLOADS

LOCK: Final = "share.record.lock.duration.ms"
LIMIT: Final = "group.share.delivery.count.limit"
LOCK_MS, MOST_DELIVERIES = 30_000, 5
"""Kafka's defaults."""


class Delivery(NamedTuple):
    """A row of `deliveries`: acquired between `since_ns` and `done_ns`. times: its delivery count."""

    op: int
    process: int
    value: int
    times: int
    since_ns: int
    done_ns: int


class Said(NamedTuple):
    """A row of `acknowledgements`. done_ns: OPEN = it has no answer."""

    op: int
    process: int
    kind: Acknowledgement
    outcome: Outcome
    invoke_ns: int
    done_ns: int

    @property
    def ends(self) -> bool:
        """It is to end the record: accepted or rejected."""
        return self.kind in (Acknowledgement.ACCEPT, Acknowledgement.REJECT)

    @property
    def renewed(self) -> bool:
        """It began the lock again."""
        return self.kind is Acknowledgement.RENEW and self.outcome is Outcome.OK

    @property
    def stored(self) -> bool:
        """It was answered when something was stored: a renewal stores nothing."""
        return self.kind is not Acknowledgement.RENEW and self.outcome is Outcome.OK


class Letter(NamedTuple):
    """A record of a dead-letter queue, at `offset` of its `partition`. times: how often the record that it is
    of was delivered, as it says. value: of that record, or as in `core.dead_letters`. ms: when a broker made
    the letter."""

    times: int
    value: int
    partition: int
    offset: int
    ms: int


class Replaced(NamedTuple):
    """A leader of a partition that was replaced may not have heard of it. again: it may lead again from then
    on, and then it can store."""

    begin: int
    end: int
    again: int


@dataclass(slots=True)
class Life:
    """What happened to one record in one share group, each in the order of its end."""

    deliveries: list[Delivery] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)

    def said_of(self, one: Delivery) -> Iterator[Said]:
        """The acknowledgements that are about a delivery."""
        return (said for said in self.said if said.process == one.process and self.held(said) is one)

    def locked_ns(self, one: Delivery, until: int) -> int:
        """When the lock of a delivery began, at the earliest, as far as answers until then are known."""
        renewed = (said for said in self.said_of(one) if said.renewed and said.done_ns <= until)
        return max([one.since_ns, *(said.invoke_ns for said in renewed)])

    def may_have_ended(self, one: Delivery, until: int) -> bool:
        """What its process said may have given a delivery up until then. A leader asks only who holds the
        record: where a process was given it again, and still keeps it, what it says of the earlier delivery
        may end the later one, which it has not taken yet."""
        return any(
            said.invoke_ns <= until and (said.done_ns >= one.since_ns or said.outcome is Outcome.INFO)
            for said in self.said
            if said.process == one.process and said.kind is not Acknowledgement.RENEW
        )

    def held(self, said: Said) -> Delivery | None:
        """The delivery that an acknowledgement is about."""
        mine = [one for one in self.deliveries if one.process == said.process]
        return next((one for one in reversed(mine) if one.done_ns <= said.invoke_ns), None)


@dataclass(frozen=True, kw_only=True)
class RunShareGroups:
    """The share groups of a run.

    groups: those that gave a record to a member, or were answered by one. deliveries, acknowledgements: rows
    of each partition. starts: by partition the offset below which its only share group is done, where that is
    on record. unlisted: partitions where the group has stored an end, and that is not. disturbed:
    when a lock may have been lost, or a count begun again. replaced: by partition, when a leader that was
    replaced may not have heard of it, in order. ended: process -> when it ended, of members of the group of
    that number. lock_ns, most: how long a member may hold a record, and how often one is delivered at most.
    letters: by partition and offset, what the dead-letter queue of the only share group has of the record
    there; None = it has none, or what it holds is not on record.
    """

    groups: Sequence[int]
    deliveries: Mapping[int, Columns]
    acknowledgements: Mapping[int, Columns]
    starts: Mapping[int, int]
    unlisted: Sequence[int]
    disturbed: Windows
    replaced: Mapping[int, Sequence[Replaced]]
    ended: Mapping[int, tuple[int, int]]
    lock_ns: int
    most: int
    letters: Mapping[int, Mapping[int, Sequence[Letter]]] | None = None

    def lives(self, tp: int) -> Iterator[tuple[int, dict[int, Life]]]:
        """Group -> offset -> what happened to the record there. One that gave nothing there is among them."""
        found: dict[int, dict[int, Life]] = {group: {} for group in self.groups}
        for row in _rows(self.deliveries.get(tp, {})):
            life = found.setdefault(row["group"], {}).setdefault(row["offset"], Life())
            what = row["op"], row["process"], row["value"], row["delivery_count"]
            life.deliveries.append(Delivery(*what, row["since_ns"], row["complete_ns"]))
        for row in _rows(self.acknowledgements.get(tp, {})):
            life = found.setdefault(row["group"], {}).setdefault(row["offset"], Life())
            kind, outcome = Acknowledgement(row["kind"]), Outcome(row["outcome"])
            times = row["invoke_ns"], row["complete_ns"]
            life.said.append(Said(row["op"], row["process"], kind, outcome, *times))
        for lives in found.values():
            for life in lives.values():
                life.deliveries.sort(key=lambda one: (one.done_ns, one.op))
                life.said.sort(key=lambda one: (one.done_ns, one.op))
        yield from sorted(found.items())

    def given_at_most(self, group: int, life: Life, sent_ns: int) -> int:
        """How often the record may have been delivered by what is on record, while nothing was disturbed:
        each member that ended since it was sent may have been given it unseen."""
        unseen = sum(of == group and end > sent_ns for of, end in self.ended.values())
        return max((one.times for one in life.deliveries), default=0) + unseen

    def calm(self, since: int, until: int) -> bool:
        """Nothing can have taken a lock or a count away in between."""
        return not any(begin <= until and since <= end for begin, end in self.disturbed)

    def may_be_of_replaced(self, tp: int, life: Life, one: Delivery, since: int) -> bool:
        """A leader that was replaced before `since` may have made a delivery, unaware. It answers none but
        a renewal with OK: the share coordinator has fenced it."""
        stored = min((said.done_ns for said in life.said_of(one) if said.stored), default=OPEN)
        return any(
            span.begin <= since and one.since_ns <= span.end and stored >= span.again
            for span in self.replaced.get(tp, ())
        )


def _rows(of: Columns) -> Iterator[TableRow]:
    names = [*of]
    for values in zip(*(of[name].tolist() for name in names), strict=True) if names else ():
        yield dict(zip(names, values, strict=True))


def share_groups(
    tables: Mapping[str, pa.Table],
    named: Mapping[int, tuple[str, int]],
    process: Columns,
    config: RunConfig,
    events: Sequence[Event],
) -> RunShareGroups | None:
    """Those of a run; None = no member of one was given anything. named: topic and partition of each `tp`."""
    if not tables["deliveries"].num_rows:
        return None
    workload = WORKLOADS.get(config.workload)
    settings = workload.share_groups(config).values() if workload else ()
    locks = [int(its[LOCK]) for its in settings if LOCK in its]
    looks = sorted((e for e in events if isinstance(e, RolesSeen)), key=lambda e: e.ns)
    replaced = {tp: _replaced(f"{topic}-{number}", looks) for tp, (topic, number) in named.items()}
    ends = zip(*(process[name].tolist() for name in ("process", "group", "end_ns")), strict=True)
    given = [tables[name]["group"].unique().to_pylist() for name in ("deliveries", "acknowledgements")]
    acknowledgements = dict(by_tp(tables["acknowledgements"]))
    starts = _starts(named, events)
    return RunShareGroups(
        groups=sorted({*chain(*given)}),
        deliveries=dict(by_tp(tables["deliveries"])),
        acknowledgements=acknowledgements,
        starts=starts,
        unlisted=[*_unlisted(named, events, acknowledgements, starts)],
        disturbed=Windows.of([*_disturbed(events, looks), *(one[:2] for one in chain(*replaced.values()))]),
        replaced=replaced,
        ended={one: (group, end) for one, group, end in ends if group >= 0},
        lock_ns=1_000_000 * min(locks, default=LOCK_MS),
        most=int(config.broker_settings.get(LIMIT, MOST_DELIVERIES)),
        letters=_letters(named, events),
    )


def _starts(named: Mapping[int, tuple[str, int]], events: Sequence[Event]) -> dict[int, int]:
    rows = [row for event in events if isinstance(event, ShareOffsetsListed) for row in event.rows]
    if len({group for group, *_ in rows}) != 1:
        return {}
    offsets = {(topic, number): offset for _, topic, number, offset in rows}
    return {tp: offsets[name] for tp, name in named.items() if name in offsets}


def _unlisted(
    named: Mapping[int, tuple[str, int]],
    events: Sequence[Event],
    acknowledgements: Mapping[int, Columns],
    starts: Mapping[int, int],
) -> Iterator[int]:
    """Partitions that a listing lacks (its coordinator did not answer), though the group has stored something
    of them: before that, no coordinator has a start offset."""
    if not any(isinstance(event, ShareOffsetsListed) for event in events):
        return
    for tp, rows in sorted(acknowledgements.items()):
        stored = (rows["kind"] != Acknowledgement.RENEW) & (rows["outcome"] == Outcome.OK)
        if tp not in starts and stored.any() and GONE_MARK not in named[tp][0]:
            yield tp


def _letters(
    named: Mapping[int, tuple[str, int]], events: Sequence[Event]
) -> dict[int, dict[int, list[Letter]]] | None:
    """Those of the run's partitions; under -1 those of others."""
    listings = [event for event in events if isinstance(event, DeadLettersListed)]
    if not listings or lost_letters(events):
        return None
    tps = {name: tp for tp, name in named.items()}
    found: dict[int, dict[int, list[Letter]]] = {}
    for _, topic, number, offset, *letter in listings[0].rows:
        of_tp = found.setdefault(tps.get((topic, number), -1), {})
        of_tp.setdefault(offset, []).append(Letter(*letter))
    return found


def lost_letters(events: Sequence[Event]) -> str:
    """What keeps the dead letters of a run unknown, "" = nothing, or it has none."""
    listings = [event for event in events if isinstance(event, DeadLettersListed)]
    groups = {row[0] for event in listings for row in event.rows}
    groups |= {row[0] for event in events if isinstance(event, ShareOffsetsListed) for row in event.rows}
    if len(listings) > 1 or (listings and len(groups) > 1):
        return "several share groups have dead-letter queues"
    return next((event.why for event in listings if event.why), "")


def _disturbed(events: Sequence[Event], looks: Sequence[RolesSeen]) -> Iterator[Span]:
    """Faults on nodes, and leaders that moved: the lock of a record is in the memory of a leader, and ends
    with a connection."""
    healed = {event.fault: event.ns for event in events if isinstance(event, FaultHealed)}
    for event in events:
        match event:
            case FaultStarted() if event.nodes or not event.slots:
                yield event.begin_ns, healed.get(event.fault, FOREVER - SLACK_NS) + SLACK_NS
            case NodeEnded():
                yield event.ns - SLACK_NS, event.ns + SLACK_NS
    for before, after in pairwise(looks):
        if _unled(before):
            yield before.ns, after.ns + SLACK_NS
        elif any(after.leaders.get(tp, leader) != leader for tp, leader in before.leaders.items()):
            # an event says what has changed: until shortly before it the leader was the old one
            yield max(before.ns, after.ns - SLACK_NS), after.ns + SLACK_NS
    if looks and _unled(looks[-1]):
        yield looks[-1].ns, FOREVER


def _unled(look: RolesSeen) -> bool:
    """It names no leader of some partition."""
    return any(leader < 0 for leader in look.leaders.values())


def _replaced(name: str, looks: Sequence[RolesSeen]) -> list[Replaced]:
    """Of one partition: each lasts until all brokers that there are name the same leaders. Where the leader
    is the same and its epoch rose by more than one, another may have led in between."""
    looks = [look for look in looks if name in look.leaders]
    spans: list[Span] = []
    for number, (before, after) in enumerate(pairwise(looks), 1):
        missed = before.epochs.get(name, -1) >= 0 and after.epochs.get(name, -1) > before.epochs[name] + 1
        if before.leaders[name] >= 0 and (missed or before.leaders[name] != after.leaders[name]):
            heard = (look.ns for look in looks[number:] if look.agreed and look.leaders[name] >= 0)
            end = next(heard, FOREVER - SLACK_NS) + SLACK_NS
            spans.append((max(before.ns, after.ns - SLACK_NS), end))
    again = (*(begin for begin, _ in spans[1:]), OPEN)
    return [Replaced(*span, again=when) for span, when in zip(spans, again, strict=False)]
