"""dead-letters: what a share group wrote to its dead-letter queue (docs/checks.md, "Dead letters").

A leader stores that it is about to archive a record, writes the letter, and stores that the record is
archived; then the group passes it. A write that fails is tried again after some errors and given up after
others, and the record is archived all the same (SharePartition.initiateDLQAndArchive). So a letter
may be missing, or stand twice, where something was disturbed. It is always of a record that was archived.
KIP-1191.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.allowed import Answer, Ground, truncated, unless_truncated
from checkers.checks.share_groups import doubt_unlisted, passed
from checkers.engine.check import AnomalyClass, Check, Tally, WholeRun
from checkers.engine.findings import FINAL, RU, Finding, PartitionResult, Variant, at
from checkers.engine.partition_view import KernelView
from checkers.engine.share_groups import Delivery, Letter, Life, RunShareGroups, Said, lost_letters
from checkers.windows import OF_SHARES
from core.dead_letters import HEADERS_ONLY
from core.op import Acknowledgement, Outcome
from history.reader import History, value_text
from history.tables import OPEN

NAME: Final = "dead-letters"
LOST: Final = "dead-letter-lost"
ACCEPTED: Final = "dead-letter-of-accepted"
UNEARNED: Final = "dead-letter-unearned"
TWICE: Final = "dead-letter-twice"
DIFFERS: Final = "dead-letter-differs"
PHANTOM: Final = "dead-letter-of-nothing"
SHOWN: Final = 4
"""Letters that a sentence names."""

Key = tuple[int, int, int]
"""Partition, group, offset."""


class Calmness(Variant):
    """Whether something disturbed the brokers since the record was sent."""

    CALM = "calm"
    DISTURBED = "disturbed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFinding(Finding):
    """A finding about the letters of one record."""

    letters: Sequence[Letter] = ()

    def place(self, history: History) -> str:
        """The record, by its place."""
        return f"the record at offset {self.key[2]} of {history.tp(self.tp)}"

    def queue(self, history: History) -> str:
        """What the queue has of the record."""
        shown = self.letters[:SHOWN]
        many = f"{len(self.letters)} letters" if len(self.letters) > 1 else "a letter"
        where = ", ".join(f"partition {one.partition} offset {one.offset}" for one in shown)
        times = ", ".join(f"{one.times}" for one in shown)
        return (
            f"the dead-letter queue of share group {history.group(self.key[1])} has {many} of it ({where};"
            f" delivery count {times})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LostLetter(LetterFinding):
    """A record that was archived, and has no letter. start: where the group stands. most: how often the
    record was delivered. rejected: some member may have rejected it."""

    start: int
    most: int
    rejected: bool

    def sentence(self, history: History) -> str:
        """Where the group stands, and how the record ended."""
        how = "A member rejected it" if self.rejected else f"Its delivery count came to {self.most}"
        return (
            f"Share group {history.group(self.key[1])} is done with {history.tp(self.tp)} below offset"
            f" {self.start}. No member has accepted {self.place(history)}. {how}, and the dead-letter queue"
            " has no letter of it."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OfAccepted(LetterFinding):
    """A record that was accepted, by `said`, and has a letter. deliveries: all that are on record; rejected:
    what may have rejected it, each with the delivery that it is about; limit: how often it may be delivered,
    lock_ns: how long it is held."""

    said: Said
    deliveries: Sequence[Delivery]
    rejected: Sequence[tuple[Said, Delivery]]
    limit: int
    lock_ns: int

    @property
    def accepted(self) -> Delivery:
        """The delivery that was accepted."""
        held = Life(deliveries=[*self.deliveries]).held(self.said)
        assert held is not None, "`said` is about a delivery"
        return held

    def sentence(self, history: History) -> str:
        """Who accepted it, and the letter."""
        return (
            f"{history.client(self.said.process)} had accepted {self.place(history)} (op {self.said.op}), and"
            f" had the answer {at(history, self.said.done_ns)}; yet {self.queue(history)}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unearned(LetterFinding):
    """A record that no member rejected, that had not come to the limit `limit`, and has a letter."""

    limit: int

    def sentence(self, history: History) -> str:
        """The letter, and that nothing explains it."""
        return (
            f"No member has rejected {self.place(history)}, and it was delivered less often than the limit,"
            f" {self.limit}; yet {self.queue(history)}."
        )


class RepeatedLetter(LetterFinding):
    """A record with several letters."""

    def sentence(self, history: History) -> str:
        """Where they are."""
        return f"Of {self.place(history)}: {self.queue(history)}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Differs(LetterFinding):
    """A letter whose copy is not the record. value: of the record."""

    value: int

    def sentence(self, history: History) -> str:
        """Both values."""
        other = next(one.value for one in self.letters if one.value not in (self.value, HEADERS_ONLY))
        copied = f"record {value_text(other)}" if other >= 0 else "no record of that partition"
        return (
            f"A letter of {self.place(history)}, which is record {value_text(self.value)}, has a copy of"
            f" {copied}: {self.queue(history)}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OfNothing(LetterFinding):
    """A letter of an offset at which there is no record. limit: how often one may be delivered."""

    limit: int

    def sentence(self, history: History) -> str:
        """The offset, and the letter."""
        return (
            f"The final reads show no record at offset {self.key[2]} of {history.tp(self.tp)}, where a"
            f" transaction's marker may stand; yet {self.queue(history)}."
        )


def _kernel(p: KernelView, result: PartitionResult) -> None:
    groups = p.known.share
    if groups is None or groups.letters is None or len(groups.groups) != 1:
        return
    ((group, lives),) = groups.lives(p.tp)
    letters = groups.letters.get(p.tp, {})
    for offset, some in sorted(letters.items()):
        _written(p, (p.tp, group, offset), lives.get(offset, Life()), some, groups, result)
    if group not in p.known.cut_groups:
        _lost(p, group, lives, letters, groups, result)


def _written(
    p: KernelView,
    key: Key,
    life: Life,
    letters: Sequence[Letter],
    groups: RunShareGroups,
    result: PartitionResult,
) -> None:
    """What the letters of one record show."""
    excuse = p.known.windows.ever(p.tp, *OF_SHARES)
    rows = np.flatnonzero((p.reads["phase"] == FINAL) & (p.reads["offset"] == key[2]))
    if not len(rows):
        if _whole(p, key[2]):
            result.add(PHANTOM, [OfNothing(key=key, letters=letters, limit=groups.most)], excuse)
        return
    got, writer = (p.got(int(rows[0])),), int(p.writer[rows[0]])
    value = got[0].value
    sent_ns = int(p.sends["invoke_ns"][writer]) if writer >= 0 else 0
    if any(one.value not in (value, HEADERS_ONLY) for one in letters):
        result.add(DIFFERS, [Differs(key=key, records=got, letters=letters, value=value)], excuse)
    if len(letters) > 1:
        result.add(
            TWICE, [RepeatedLetter(key=key, records=got, letters=letters)], excuse, _calmness(groups, sent_ns)
        )
    if (said := _accepted(life, groups)) is not None:
        found = OfAccepted(
            key=key,
            process=said.process,
            records=got,
            letters=letters,
            said=said,
            deliveries=tuple(life.deliveries),
            rejected=tuple(_rejections(life)),
            limit=groups.most,
            lock_ns=groups.lock_ns,
        )
        result.add(ACCEPTED, [found], excuse)
    elif key[1] not in p.known.cut_groups and not _may_be(Acknowledgement.REJECT, life):
        short = any(one.times < groups.most for one in letters)
        seldom = groups.given_at_most(key[1], life, sent_ns) < groups.most
        if short or (seldom and groups.calm(sent_ns, OPEN)):
            result.add(UNEARNED, [Unearned(key=key, records=got, letters=letters, limit=groups.most)], excuse)


def _whole(p: KernelView, offset: int) -> bool:
    """The final reads at read_uncommitted show what record there ever was at this offset."""
    bound = p.bounds[RU]
    if bound is None or not bound.complete or p.known.removed or not p.given_from_all or p.gone:
        return False
    return p.compacted is None and bound.start <= offset < bound.read_to


def _calmness(groups: RunShareGroups, sent_ns: int) -> Calmness:
    return Calmness.CALM if groups.calm(sent_ns, OPEN) else Calmness.DISTURBED


def _accepted(life: Life, groups: RunShareGroups) -> Said | None:
    """Who certainly accepted the record: its lock lasted, with its session. (Later an answer says only that
    the group is done with the record. Who renews a lock keeps the record over polls, which may begin a new
    session: then others may have been given it. So they may where a leader begins a new epoch.)"""
    for said in life.said:
        if said.kind is Acknowledgement.ACCEPT and said.outcome is Outcome.OK:
            held = life.held(said)
            if held is None or said.done_ns > held.since_ns + groups.lock_ns:
                continue
            renewed = any(one.kind is Acknowledgement.RENEW for one in life.said_of(held))
            others = (one for one in life.deliveries if one is not held)
            if not renewed and not any(
                one.done_ns >= held.since_ns and one.since_ns <= said.done_ns for one in others
            ):
                return said
    return None


def _rejections(life: Life) -> Iterator[tuple[Said, Delivery]]:
    """What may have rejected a record, and the delivery that each is about."""
    for said in life.said:
        held = life.held(said)
        if said.kind is Acknowledgement.REJECT and said.outcome is not Outcome.FAIL and held is not None:
            yield said, held


def _may_be(kind: Acknowledgement, life: Life) -> bool:
    """Some member may have ended the record so."""
    return any(one.kind is kind and one.outcome is not Outcome.FAIL for one in life.said)


def _lost(
    p: KernelView,
    group: int,
    lives: Mapping[int, Life],
    letters: Mapping[int, Sequence[Letter]],
    groups: RunShareGroups,
    result: PartitionResult,
) -> None:
    """Records below the start offset that were archived, and have no letter. What nothing can have ended is
    a finding of share-skip."""
    start = groups.starts.get(p.tp, 0)
    for offset, row in passed(p, start):
        life = lives.get(offset, Life())
        if offset in letters or _may_be(Acknowledgement.ACCEPT, life):
            continue
        sent_ns = int(p.sends["invoke_ns"][p.writer[row]])
        rejected = _may_be(Acknowledgement.REJECT, life)
        if not rejected and groups.given_at_most(group, life, sent_ns) < groups.most:
            continue
        most = max((one.times for one in life.deliveries), default=0)
        found = LostLetter(
            key=(p.tp, group, offset), records=(p.got(row),), start=start, most=most, rejected=rejected
        )
        result.add(LOST, [found], variant=_calmness(groups, sent_ns))


def _join(run: WholeRun, tally: Tally) -> None:
    groups = run.known.share
    if why := lost_letters(run.events):
        tally.doubt(NAME, 1, why)
    elif groups is not None and groups.letters is not None:
        astray = sum(map(len, groups.letters.get(-1, {}).values()))
        tally.doubt(NAME, astray, "dead letters of partitions that the run does not have: {number}")
        doubt_unlisted(NAME, run, tally)


def written_once(ground: Ground, variant: str) -> Answer:
    """A letter is missing, or stands several times; variant: whether something was disturbed."""
    if variant == Calmness.DISTURBED:
        return (
            True,
            "a leader that gives a dead letter up archives its record all the same, and one that has no"
            " answer, or is replaced, may write it again (KIP-1191)",
        )
    return truncated(ground, "a share group writes one dead letter of each record that it archives")


CHECK = Check(
    claim="The dead-letter queue of a share group has a letter of each record that the group gave up, and of"
    " no other.",
    anomalies={
        LOST: AnomalyClass(
            title="Dead letter missing",
            meaning="A share group has archived a record that was rejected, or delivered as often as it may"
            " be, and its dead-letter queue has no letter of it.",
            absence=True,
            literature="lost message",
            rule=written_once,
        ),
        ACCEPTED: AnomalyClass(
            title="Dead letter of an accepted record",
            meaning="The dead-letter queue of a share group has a letter of a record that a member had"
            " accepted.",
            literature="contradicting outcomes",
            rule=unless_truncated("a record that a member accepted has ended, and is not archived"),
        ),
        UNEARNED: AnomalyClass(
            title="Dead letter without a reason",
            meaning="The dead-letter queue of a share group has a letter of a record that no member rejected,"
            " and that was not delivered as often as it may be.",
            absence=True,
            rule=unless_truncated("only a record that was rejected, or has come to the limit, is archived"),
        ),
        TWICE: AnomalyClass(
            title="Several dead letters of one record",
            meaning="The dead-letter queue of a share group has several letters of one record.",
            literature="duplicate",
            rule=written_once,
        ),
        DIFFERS: AnomalyClass(
            title="Dead letter with another record's copy",
            meaning="What a dead letter has as a copy of its record is another one.",
            rule=unless_truncated("a dead letter copies the record that its headers name"),
        ),
        PHANTOM: AnomalyClass(
            title="Dead letter of no record",
            meaning="The dead-letter queue of a share group has a letter of an offset at which there is no"
            " record.",
            absence=True,
            rule=unless_truncated("only records are delivered, and archived"),
        ),
    },
    kernel=_kernel,
    join=_join,
    subject="dead letters",
)
