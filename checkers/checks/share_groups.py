"""share-groups: what a share group delivered, to whom and how often (docs/checks.md, "Share groups").

A leader holds the locks and the delivery counts of a share partition in memory; the group's coordinator keeps
how records ended. So a lock and a count may go with a leader, or with a connection: those claims are made
only where nothing disturbed them. An accepted or rejected record stays so, unless a leader that was replaced
and has not heard of it gives it out from its memory. KIP-932.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from checkers.allowed import never, unless_truncated
from checkers.engine.check import AnomalyClass, Check, Tally, WholeRun
from checkers.engine.findings import FAIL, FINAL, RC, Finding, PartitionResult, Shown, What, at
from checkers.engine.partition_view import KernelView
from checkers.engine.share_groups import Delivery, Life, RunShareGroups, Said
from checkers.windows import OF_SHARES
from core.first_few import first_few
from core.internal_topics import TRANSACTION_TOPIC
from core.op import Acknowledgement, Outcome
from history.reader import History
from history.tables import OPEN

NAME: Final = "share-groups"
REDELIVERY: Final = "share-redelivery"
TWO_HOLDERS: Final = "share-two-holders"
SKIP: Final = "share-skip"
ABORTED: Final = "share-aborted-read"
COUNT: Final = "share-count"
LIMIT: Final = "share-over-limit"
SHOWN: Final = 4
"""Further deliveries that a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redelivery(Finding):
    """A record that was delivered after it had ended, by `said`. further: what else is so of this record."""

    said: Said
    further: Sequence["Redelivery"] = ()

    def sentence(self, history: History) -> str:
        """Who ended it, and who got it again."""
        verb = "accepted" if self.said.kind is Acknowledgement.ACCEPT else "rejected"
        (d,) = self.records
        return (
            f"{history.client(self.said.process)} had {verb} {d.text(history)} (op {self.said.op}), and had"
            f" the answer {at(history, self.said.done_ns)}; yet share group {history.group(self.key[1])}"
            f" delivered it again at offset {d.offset}, to {history.client(d.process)} (op {d.op})."
            f"{_likewise(self.further)}"
        )


def _likewise(further: Sequence[Finding]) -> str:
    """The ops that show what else was found of a record."""
    ops = [f"op {one.records[-1].op}" for one in further]
    return f" Likewise later: {first_few(ops, SHOWN)}." if ops else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoHolders(Finding):
    """A record that was given out while a member held it. since_ns: the lock of that one began later."""

    since_ns: int
    lock_ns: int

    def sentence(self, history: History) -> str:
        """Who held it, and who got it."""
        first, second = self.records
        same = "the same member again" if second.process == first.process else ""
        return (
            f"{history.client(first.process)} held {first.text(history)} at offset {first.offset}"
            f" (op {first.op}) for {self.lock_ns / 1e9:g} s, since {history.seconds(self.since_ns):.3f} s at"
            f" the earliest; share group {history.group(self.key[1])} gave it to"
            f" {same or f'{history.client(second.process)} as well'} (op {second.op}), before"
            f" {history.seconds(second.done_ns):.3f} s."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip(Finding):
    """A record below `start` that nothing ended. most: how often it was delivered."""

    start: int
    most: int

    def sentence(self, history: History) -> str:
        """Where the group stands, and what is known of the record."""
        tp, group, offset = self.key
        seen = f"its delivery count came to {self.most}" if self.most else "no member was ever given it"
        return (
            f"Share group {history.group(group)} is done with {history.tp(tp)} below offset {self.start}."
            f" No member has accepted or rejected the record at offset {offset}, and {seen}."
        )


class AbortedDelivery(Finding):
    """A record of an aborted transaction that a group at read_committed delivered."""

    def sentence(self, history: History) -> str:
        """Whose it was, who got it."""
        (s,), (d,) = self.only(What.SEND), self.only(What.READ)
        return (
            f"{s.text(history)} is of the transaction op {s.op} of {history.client(s.process)}, which"
            f" was aborted; yet share group {history.group(self.key[1])}, at read_committed, delivered it at"
            f" offset {d.offset} to {history.client(d.process)} (op {d.op})."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CountFell(Finding):
    """A delivery whose count is not above that of an earlier one. before, after: the counts. further: what
    else is so of this record."""

    before: int
    after: int
    further: Sequence["CountFell"] = ()

    def sentence(self, history: History) -> str:
        """Both deliveries."""
        first, second = self.records
        return (
            f"Share group {history.group(self.key[1])} delivered {first.text(history)} with delivery count"
            f" {self.before} (op {first.op}), and later with count {self.after} (op {second.op}); its leader"
            f" had not changed.{_likewise(self.further)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverLimit(Finding):
    """A delivery whose count is above the limit."""

    count: int
    most: int

    def sentence(self, history: History) -> str:
        """The delivery and the limit."""
        (d,) = self.records
        return (
            f"Share group {history.group(self.key[1])} delivered {d.text(history)} to"
            f" {history.client(d.process)} (op {d.op}) with delivery count {self.count}; the limit is"
            f" {self.most}."
        )


def _kernel(p: KernelView, result: PartitionResult) -> None:
    groups = p.known.share
    if groups is None:
        return
    for group, lives in groups.lives(p.tp):
        answered = _answered(lives)
        for offset, life in sorted(lives.items()):
            key = p.tp, group, offset
            _ended(p, key, life, groups, result)
            if group not in p.known.cut_groups:
                result.add(TWO_HOLDERS, [*_two_holders(key, life, groups, answered)][:1])
            falls = [*_fallen(key, life, groups)]
            result.add(COUNT, [replace(one, further=falls[1:]) for one in falls[:1]])
            result.add(LIMIT, [*_over(key, life, groups)][:1])
        _aborted(p, group, lives, result)
        if group not in p.known.cut_groups:
            _skipped(p, group, lives, groups, result)


def _shown(tp: int, offset: int, one: Delivery) -> Shown:
    return Shown(one.op, What.READ, tp, one.value, offset, one.process, one.done_ns)


Key = tuple[int, int, int]
"""Partition, group, offset."""


def _ended(p: KernelView, key: Key, life: Life, groups: RunShareGroups, result: PartitionResult) -> None:
    """Delivered after the end of the record. An answer that came before the lock can have ended is about the
    process's own delivery; a later one says no more than that the leader knew of an end. A leader that was
    replaced, and has not heard of it, may not know the end."""
    ended = []
    for said in life.said:
        held = life.held(said) if said.ends and said.outcome is Outcome.OK else None
        if held is not None and said.done_ns <= held.since_ns + groups.lock_ns:
            ended.append(said)
    owed = {said: [*_owed(key, life, said, groups)] for said in ended}
    first = next((said for said in ended if owed[said]), None)
    if first is None:
        return
    found = _again(key, first, owed[first][0])
    last = ((one, [said for said in ended if one in owed[said]][-1:]) for one in life.deliveries)
    every = [_again(key, said, one) for one, some in last for said in some]
    since, until = np.full(1, first.invoke_ns), np.full(1, found.at_ns)
    excuse = int(p.excuses_with(since, until, *OF_SHARES)[0])
    result.add(REDELIVERY, [replace(found, further=[one for one in every if one != found])], excuse)


def _owed(key: Key, life: Life, said: Said, groups: RunShareGroups) -> Iterator[Delivery]:
    """The deliveries of a record after it had ended, but for those of a leader that may not know it."""
    later = (one for one in life.deliveries if one.since_ns > said.done_ns)
    return (one for one in later if not groups.may_be_of_replaced(key[0], life, one, said.done_ns))


def _again(key: Key, said: Said, one: Delivery) -> Redelivery:
    shown = (_shown(key[0], key[2], one),)
    return Redelivery(key=key, process=said.process, records=shown, at_ns=one.done_ns, said=said)


def _pairs(life: Life) -> Iterator[tuple[Delivery, Delivery]]:
    """Neighbouring deliveries; the second one was certainly acquired after the first."""
    return ((a, b) for a, b in pairwise(life.deliveries) if a.done_ns < b.since_ns)


def _answered(lives: dict[int, Life]) -> dict[int, int]:
    """Op of a poll -> when a leader last answered what was said of a record of it. Until then the session
    lasted: a client without one sends no acknowledgement, and begins a new one with a poll."""
    found: dict[int, int] = {}
    for life in lives.values():
        for said in life.said:
            held = life.held(said)
            if held is not None and said.outcome is not Outcome.INFO:
                found[held.op] = max(said.done_ns, found.get(held.op, -1))
    return found


def _two_holders(key: Key, life: Life, groups: RunShareGroups, answered: dict[int, int]) -> Iterator[Finding]:
    for first, second in _pairs(life):
        until = second.done_ns
        same = first.process == second.process
        # what the same member renews meanwhile may be the later delivery already
        locked_ns = life.locked_ns(first, second.since_ns - 1 if same else until)
        if until >= locked_ns + groups.lock_ns or answered.get(first.op, -1) < until:
            continue
        if life.may_have_ended(first, until) or not groups.calm(first.since_ns, until):
            continue
        yield TwoHolders(
            key=key,
            process=first.process,
            records=(_shown(key[0], key[2], first), _shown(key[0], key[2], second)),
            at_ns=until,
            since_ns=locked_ns,
            lock_ns=groups.lock_ns,
        )


def _fallen(key: Key, life: Life, groups: RunShareGroups) -> Iterator[CountFell]:
    for first, second in _pairs(life):
        if second.times <= first.times and groups.calm(first.since_ns, second.done_ns):
            yield CountFell(
                key=key,
                process=second.process,
                records=(_shown(key[0], key[2], first), _shown(key[0], key[2], second)),
                at_ns=second.done_ns,
                before=first.times,
                after=second.times,
            )


def _over(key: Key, life: Life, groups: RunShareGroups) -> Iterator[Finding]:
    for one in life.deliveries:
        if one.times > groups.most:
            yield OverLimit(
                key=key,
                process=one.process,
                records=(_shown(key[0], key[2], one),),
                at_ns=one.done_ns,
                count=one.times,
                most=groups.most,
            )


def _aborted(p: KernelView, group: int, lives: dict[int, Life], result: PartitionResult) -> None:
    """Records of transactions that were aborted, at read_committed."""
    rows = np.flatnonzero((p.sends["txn"] == 1) & (p.sends["op_outcome"] == FAIL))
    of_value = {int(p.sends["value"][row]): int(row) for row in rows}
    for offset, life in sorted(lives.items()):
        one = next((each for each in life.deliveries if each.value in of_value), None)
        if one is None or p.known.isolation[p.known.positions(np.array([one.process]))[0]] != RC:
            continue
        row = of_value[one.value]
        sent, since = p.placed(row), p.first_sent[row : row + 1]
        excuse = p.excuses_with(since, np.full(1, one.done_ns), TRANSACTION_TOPIC)
        found = AbortedDelivery(
            key=(p.tp, group, offset),
            process=sent.process,
            records=(sent, _shown(p.tp, offset, one)),
            at_ns=one.done_ns,
        )
        result.add(ABORTED, [found], int(excuse[0]))


def _skipped(
    p: KernelView, group: int, lives: dict[int, Life], groups: RunShareGroups, result: PartitionResult
) -> None:
    """Records below the start offset that nothing can have ended.

    A delivery that no journal shows raises the count of a record: each process that ended may have had one,
    and a disturbance any number.
    """
    start = groups.starts.get(p.tp, 0)
    for offset, row in passed(p, start):
        life = lives.get(offset, Life())
        if any(said.ends and said.outcome is not Outcome.FAIL for said in life.said):
            continue
        sent_ns = int(p.sends["invoke_ns"][p.writer[row]])
        if groups.given_at_most(group, life, sent_ns) >= groups.most or not groups.calm(sent_ns, OPEN):
            continue
        records = tuple(_shown(p.tp, offset, one) for one in life.deliveries[-1:]) or (p.got(row),)
        most = max((one.times for one in life.deliveries), default=0)
        found = Skip(key=(p.tp, group, offset), records=records, start=start, most=most)
        result.add(SKIP, [found], p.known.windows.ever(p.tp, *OF_SHARES))


def _join(run: WholeRun, tally: Tally) -> None:
    doubt_unlisted(NAME, run, tally)


def doubt_unlisted(check: str, run: WholeRun, tally: Tally) -> None:
    """Partitions where it is not on record what the group has passed."""
    if (groups := run.known.share) is not None:
        why = "up to where the share group is done with {where} is not known"
        tally.doubt(check, len(groups.unlisted), why, tps=groups.unlisted)


def passed(p: KernelView, start: int) -> Iterator[tuple[int, int]]:
    """Offsets below the start offset of a group at which there are records of the run, with a read of each;
    none where records may have been removed."""
    final = np.flatnonzero((p.reads["phase"] == FINAL) & (p.reads["isolation"] == RC))
    final = final[(p.reads["offset"][final] < start) & (p.writer[final] >= 0)]
    if p.known.removed or not p.given_from_all:
        return
    order = final[np.argsort(p.reads["offset"][final], kind="stable")]
    offsets, first = np.unique(p.reads["offset"][order], return_index=True)
    yield from zip(offsets.tolist(), order[first].tolist(), strict=True)


_LASTING: Final = (
    "what a member has accepted or rejected a share group never delivers again, but for a leader that was"
    " replaced and has not heard of it"
)

CHECK = Check(
    claim="A share group delivers each record to one member at a time, until one accepts or rejects it or it"
    " was delivered as often as it may be.",
    anomalies={
        REDELIVERY: AnomalyClass(
            title="Accepted record delivered again",
            meaning="A share group delivered a record after a member had accepted or rejected it, and had the"
            " answer; a leader that was replaced, and had perhaps not heard of it, did not deliver it.",
            literature="lost acknowledgement",
            rule=unless_truncated(_LASTING),
        ),
        TWO_HOLDERS: AnomalyClass(
            title="Record given out while a member held it",
            meaning="A share group gave a record to a member while the lock of an earlier delivery had not"
            " ended.",
            absence=True,
            literature="violation of mutual exclusion",
            rule=never("a record that a member has acquired is given to no other until its lock ends"),
        ),
        SKIP: AnomalyClass(
            title="Share group passed a record over",
            meaning="A share group's start offset lies behind a record that no member accepted or rejected,"
            " and that was not delivered as often as it may be.",
            absence=True,
            literature="lost message",
            rule=unless_truncated("a share group passes only records that have ended"),
        ),
        ABORTED: AnomalyClass(
            title="Aborted record in a share group",
            meaning="A share group at read_committed delivered a record of an aborted transaction.",
            literature="aborted read (G1a)",
            rule=unless_truncated("share.isolation.level=read_committed hides aborted records"),
        ),
        COUNT: AnomalyClass(
            title="Delivery count did not rise",
            meaning="A share group delivered a record again with a delivery count that was not higher, though"
            " its leader stayed the same.",
            rule=never("each delivery of a record raises its delivery count, while its leader stays"),
        ),
        LIMIT: AnomalyClass(
            title="Delivered too often",
            meaning="A record was delivered more often than group.share.delivery.count.limit.",
            rule=never("a record that was delivered as often as it may be is archived"),
        ),
    },
    kernel=_kernel,
    join=_join,
    subject="shares",
)
