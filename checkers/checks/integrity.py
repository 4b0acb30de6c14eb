"""integrity: records that were not sent like this, or not here (docs/checks.md, "Isolation and
integrity").

What an application made of a record that its committed input lacks names that record. Whether it was there
once, and what may have taken it, the kernel says where it was sent to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter
from typing import Final

import numpy as np

from checkers.allowed import never, unless_truncated
from checkers.engine.check import AnomalyClass, Check, Early, Tally, WholeRun
from checkers.engine.findings import FAIL, NEVER, Finding, PartitionResult, at, reader
from checkers.engine.kernel_input import KernelInput
from checkers.engine.partition_view import KernelView
from checkers.windows import NO_EXCUSE
from core.internal_topics import TRANSACTION_TOPIC
from core.payload import named
from history.columns import Array
from history.reader import History
from history.tables import FOREIGN_REASONS

NAME = "integrity"
PHANTOM = "phantom-read"
CORRUPT = "corrupt-record"
MISDIRECTED = "misdirected-record"
UNCOMMITTED = "uncommitted"

FOREIGN: Final = {
    "unreadable": (CORRUPT, "a payload that cannot be read"),
    "corrupt": (CORRUPT, "a payload whose checksum is wrong"),
    "misdirected": (MISDIRECTED, "a record that was sent to another topic or partition"),
    "other-run": (PHANTOM, "a record of another run"),
    UNCOMMITTED: (PHANTOM, "a copy of a record that the committed input does not have"),
}
"""Reason of a row of `foreign` -> anomaly class, and what the consumer got."""


class Fate(Enum):
    """What is known of a record that output names. SENT: it was sent, and never committed, or lost, or stands
    in the input. REMOVED: it was committed, and removed by right. OPEN: it may have been."""

    SENT = 0
    REMOVED = 1
    OPEN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedInput:
    """A send whose record output names. excuse: code of what may have taken it from the input."""

    value: int
    fate: Fate
    excuse: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStrangers:
    """What one partition says. unsure: records without a send that a journal may lack. inputs: sends that
    output elsewhere names."""

    unsure: int
    inputs: Sequence[NamedInput]


class PhantomRead(Finding):
    """A record that no process sent to this partition."""

    def sentence(self, history: History) -> str:
        """Who read it."""
        (r,) = self.records
        return (
            f"{reader(history, r.op)} got {r.text(history)} at offset {r.offset}"
            f" {at(history, self.at_ns)}; no client sent that record to this partition."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRecord(Finding):
    """A payload at `offset` that is not a record of this partition. reason: a key of `FOREIGN`. source: the
    value of the record that it is a copy of, -1 = it names none."""

    reason: str
    offset: int
    source: int = -1

    def sentence(self, history: History) -> str:
        """Who got what."""
        return (
            f"{reader(history, self.ops[0])} got {FOREIGN[self.reason][1]} at offset"
            f" {self.offset} of {history.tp(self.tp)}."
        )


def _kernel(p: KernelView, result: PartitionResult) -> None:
    rows = p.odd[p.writer[p.odd] < 0]
    unsure = unheard(p.known, p.reads["value"][rows])
    inputs = [*_inputs(p)] if len(p.known.named) else []
    if unsure.any() or inputs:
        number = len(np.unique(p.reads["value"][rows[unsure]]))
        result.parts[NAME] = PartitionStrangers(unsure=number, inputs=inputs)
    rows = rows[~unsure]
    if not len(rows):
        return
    pairs = np.stack((p.reads["offset"][rows], p.reads["value"][rows]), axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)

    def phantom(row: int) -> Finding:
        r = p.got(row)
        return PhantomRead(key=(p.tp, r.offset, r.value), records=(r,), at_ns=r.done_ns)

    result.report(PHANTOM, rows[first], phantom)


def unheard(known: KernelInput, values: Array) -> Array:
    """Of values that no process on record sent, flags: the line that says that one did may be gone."""
    process = values >> 32  # `core.op.process_of`
    unsure = np.isin(process, known.cut)
    return unsure | ~np.isin(process, known.processes) if known.broke_off else unsure


def _inputs(p: KernelView) -> Iterator[NamedInput]:
    """The sends of this partition that output of an application names."""
    sends = p.sends
    rows = np.flatnonzero(np.isin(sends["value"], p.known.named))
    hidden = rows[~p.returned[rows]]
    missing, left = p.fates(hidden)
    removed = np.setdiff1d(hidden, np.union1d(missing, left))
    undecided = left[~p.shown_rc[left]]
    by_right = removed[p.committed[removed]]
    open_ = np.setdiff1d(np.union1d(removed, undecided), by_right)
    open_ = open_[~p.failed[open_]]
    since = sends["invoke_ns"][rows]
    excuses = p.excuses_with(since, np.full(len(rows), NEVER), TRANSACTION_TOPIC)
    lost = np.isin(rows, hidden) & (sends["outcome"][rows] != FAIL)
    fates = np.isin(rows, by_right) * Fate.REMOVED.value + np.isin(rows, open_) * Fate.OPEN.value
    codes = np.where(lost, excuses, NO_EXCUSE)
    for row, fate, code in zip(rows.tolist(), fates.tolist(), codes.tolist(), strict=True):
        yield NamedInput(value=int(sends["value"][row]), fate=Fate(fate), excuse=code)


def _join(run: WholeRun, tally: Tally) -> None:
    parts = tally.parts_of(NAME, PartitionStrangers)
    sent: dict[int, list[NamedInput]] = {}
    for one in (one for _, part in parts for one in part.inputs):
        sent.setdefault(one.value, []).append(one)
    found: dict[tuple[str, int, int], tuple[ForeignRecord, int]] = {}
    doubtful = set()
    for row in sorted(run.tables["foreign"].to_pylist(), key=itemgetter("reason")):
        tp, offset, reason = row["tp"], row["offset"], FOREIGN_REASONS[row["reason"]]
        name, excuse, source = FOREIGN[reason][0], NO_EXCUSE, -1
        if reason == UNCOMMITTED:
            source = named(row["payload"])
            fate, excuse = _fate(run.known, source, sent)
            doubtful |= {tp} if fate is Fate.OPEN else set()
            if fate is not Fate.SENT:
                continue
        value = (-1,) if name == PHANTOM else ()
        finding = ForeignRecord(
            key=(tp, offset, *value), ops=(row["op"],), reason=reason, offset=offset, source=source
        )
        found.setdefault((name, tp, offset), (finding, excuse))
    for (name, _, _), (foreign, excuse) in found.items():
        tally.add(name, [foreign], excuse)
    why = (
        "{number} records of {where} were read, and no journal says that they were sent; but the newest lines"
        " of journals may be gone"
    )
    unsure = [(tp, part.unsure) for tp, part in parts if part.unsure]
    tally.doubt(NAME, sum(number for _, number in unsure), why, tps=sorted({tp for tp, _ in unsure}))
    why = "output in {where} was made of input that is gone, and may have been committed"
    tally.doubt(NAME, len(doubtful), why, tps=sorted(doubtful))


def _fate(known: KernelInput, value: int, sent: Mapping[int, Sequence[NamedInput]]) -> tuple[Fate, int]:
    """Of the record that output names, -1 = it names none; and what may have taken it."""
    every = sent.get(value, ())
    if not every and value >= 0 and bool(unheard(known, np.array([value]))[0]):
        return Fate.OPEN, NO_EXCUSE
    for fate in (Fate.REMOVED, Fate.OPEN):
        if any(one.fate is fate for one in every):
            return fate, NO_EXCUSE
    return Fate.SENT, min((one.excuse for one in every if one.excuse != NO_EXCUSE), default=NO_EXCUSE)


CHECK = Check(
    claim="Consumers get what was sent to the partition, unchanged, and nothing else.",
    anomalies={
        PHANTOM: AnomalyClass(
            title="Record that no client sent",
            absence=True,
            meaning="A consumer was given a record that no producer of this run sent to this partition.",
            early=Early(("tp", "offset", "value")),
            rule=unless_truncated("a log holds what was sent to it, nothing else"),
        ),
        CORRUPT: AnomalyClass(
            title="Record damaged",
            meaning="A record came back with a payload that fails its checksum or cannot be read.",
            early=Early(("tp", "offset")),
            rule=never("payloads come back unchanged"),
        ),
        MISDIRECTED: AnomalyClass(
            title="Record in the wrong partition",
            meaning="A record was stored in, or served from, another topic or partition than it was sent to.",
            early=Early(("tp", "offset")),
            rule=never("a record stays where it was sent"),
        ),
    },
    kernel=_kernel,
    join=_join,
    content=True,
    subject="reads",
)
