"""exactly-once: inputs that a group copied twice, or never, or without a commit (docs/checks.md, "Exactly
once").

The kernel finds what was copied twice, what a copying group had to copy from here, and what was copied
here, as runs of offsets; the join puts inputs and copies together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from checkers.allowed import Answer, Ground, truncated
from checkers.checks.committed_positions import (
    BEGINS_LATE,
    CommittedPosition,
    passed_late,
    positions,
    spans_of,
    to_see,
)
from checkers.checks.group_delivery import Passed, doubt_silent
from checkers.engine.check import AnomalyClass, Check, Early, Tally, WholeRun
from checkers.engine.evidence import FetchedRecords, InputRecords, Wanted
from checkers.engine.findings import (
    FAIL,
    NEVER,
    RC,
    Finding,
    PartitionResult,
    Runs,
    Shown,
    What,
    at,
    got,
    offsets_of,
    runs,
    sent,
)
from checkers.engine.partition_view import KernelView
from checkers.engine.slots import among, distinct
from core.config import AUTOMATIC
from core.offset_fencing import FENCED
from history.columns import Array, Columns
from history.reader import History

TWICE = "eos-duplicate"
LOST = "eos-loss"
UNCOMMITTED = "eos-uncommitted"

VARIANTS: Final = {0: Passed.MEMBER, 1: Passed.LATE}
"""Of inputs that were never copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Inputs of one partition `source` that a group copied here: committed copies; several of them; undecided
    ones. begun: of an application, when the first committed copy of each began."""

    group: int
    source: int
    committed: Runs
    several: Runs
    pending: Runs
    begun: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCopies:
    """What one partition says about copies. inputs: of each copying group, its committed position here, the
    offsets below it that it had to copy, and those of them that members may have begun behind.
    ahead: of each application, the offsets that are not below its position. late: the offsets of records that
    were sent after all output that may have been removed."""

    inputs: list[tuple[CommittedPosition, Runs, Runs]] = field(default_factory=list)
    ahead: list[tuple[CommittedPosition, Runs]] = field(default_factory=list)
    copied: list[Copied] = field(default_factory=list)
    late: list[Runs] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTwice(Finding):
    """Several committed copies of one input; `copies` of them."""

    copies: int

    def sentence(self, history: History) -> str:
        """Where the copies are."""
        _, group, source, offset = self.key
        copies = ", and ".join(
            f"as record {s.name} (op {s.op})"
            if s.offset < 0
            else f"as record {s.name} at offset {s.offset} (op {s.op})"
            for s in self.records
        )
        return (
            f"Group {history.group(group)} copied the record at offset {offset} of"
            f" {history.tp(source)} into committed output {self.copies} times, to"
            f" {history.tp(self.tp)}: {copies}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverCopied(Finding):
    """An input below the committed position of its group without a committed copy."""

    position: CommittedPosition

    @property
    def wanted(self) -> Wanted:
        """The input and its copies."""
        tp, _, offset = self.key
        return Wanted(inputs=((tp, offset),))

    def more(self, fetched: FetchedRecords) -> list[Shown]:
        """Who sent the input, who of the group read it, its copies, and the commit behind it."""
        tp, _, offset = self.key
        sends, reads, copies = fetched.inputs.get((tp, offset), InputRecords())
        copiers = {row.process for row in copies}
        shown = [sent(row) for row in sends[:1]]
        mine = [row for row in reads if row.process in copiers]
        shown += [got(row) for row in (mine or reads)[:4]]
        shown += [sent(row) for row in copies[:4]]
        return [*shown, self.position.shown(tp)]

    def sentence(self, history: History) -> str:
        """The commit, and the fate of the copies."""
        tp, group, offset = self.key
        reads = self.only(What.READ)
        copies = [s for s in self.only(What.SEND) if s.source == (tp, offset)]
        named = f"Record {reads[0].name}" if reads else "The record"
        told = [f"{s.name} of op {s.op} {_fate(history, s)}" for s in copies]
        attempts = f" ({'; '.join(told)})" if told else ""
        return (
            f"{named} at offset {offset} of {history.tp(tp)} was never copied: group"
            f" {history.group(group)} committed offset {self.position.offset} there"
            f" {at(history, self.at_ns)} (op {self.position.op} of {history.client(self.process)}),"
            f" and committed output holds no copy of it{attempts}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedApart(Finding):
    """Committed copies of one input in several partitions."""

    @property
    def wanted(self) -> Wanted:
        """The input and its copies."""
        _, _, source, offset = self.key
        return Wanted(inputs=((source, offset),))

    def more(self, fetched: FetchedRecords) -> list[Shown]:
        """Who sent the input, and its copies."""
        _, _, source, offset = self.key
        found = fetched.inputs.get((source, offset), InputRecords())
        return [sent(row) for row in (*found.sends[:1], *found.copies[:4])]

    def sentence(self, history: History) -> str:
        """Where the copies are."""
        _, group, source, offset = self.key
        copies = [s for s in self.only(What.SEND) if s.source == (source, offset)]
        places = ", ".join(f"offset {s.offset} of {history.tp(s.tp)}" for s in copies)
        return (
            f"Group {history.group(group)} copied the record at offset {offset} of {history.tp(source)} into"
            f" committed output of several partitions ({places or 'not shown'})."
        )


class NotCommitted(NeverCopied):
    """An input at or above the committed position of an application that has ended, with a committed copy."""

    def sentence(self, history: History) -> str:
        """The copy, and the position."""
        tp, group, offset = self.key
        copies = [s for s in self.only(What.SEND) if s.source == (tp, offset)]
        told = ", ".join(f"record {s.name} at offset {s.offset} of {history.tp(s.tp)}" for s in copies)
        return (
            f"Committed output has a copy of offset {offset} of {history.tp(tp)} ({told or 'not shown'}), and"
            f" group {history.group(group)} had committed offset {self.position.offset} there when its"
            f" application had ended in order: one that is started again gets that record again."
        )


def _fate(history: History, copy: Shown) -> str:
    op = history.op(copy.op)
    if copy.outcome == FAIL:
        return "was refused"
    if op.txn and op.outcome == FAIL:
        return "was aborted"
    return "was in doubt, and is not in the log"


def _kernel(p: KernelView, result: PartitionResult) -> None:
    part = PartitionCopies()
    if copying := [each for each in positions(p) if each[1].group in p.known.copying]:
        _inputs(p, copying, part)
    if part.inputs and p.known.removed_ns >= 0:
        part.late.append(sent_after(p, p.known.removed_ns))
    rows = np.flatnonzero(p.sends["src_offset"] >= 0)
    group = p.known.group[p.owner[rows]]
    rows, group = rows[group >= 0], group[group >= 0]
    pair = group.astype(np.int64) << 32 | p.sends["src_tp"][rows]
    for one in distinct(pair).tolist():  # groups and inputs, not rows: they are few
        part.copied.append(_copied(p, result, rows[pair == one], one >> 32, one & 0xFFFFFFFF))
    if part.inputs or part.copied:
        result.parts[NAME] = part


def _inputs(
    p: KernelView, copying: Sequence[tuple[Columns, CommittedPosition]], part: PartitionCopies
) -> None:
    """What groups that copy the partition have passed, and what lies ahead of them."""
    spans = spans_of(p)
    for commits, position in copying:
        wanted, late = to_see(p, position, commits), np.zeros(0, np.int64)
        if position.group not in p.known.unseen:
            late = passed_late(p, position.group, commits, spans, wanted)
        else:  # it cannot copy what Kafka does not show
            wanted = wanted[p.shown_committed[wanted]]
            shown = p.slots.offsets(np.flatnonzero(p.expected(RC) & p.shown_committed))
            part.ahead.append((position, runs(shown[shown >= position.offset])))
        part.inputs.append((position, runs(p.slots.offsets(wanted)), runs(late)))


def sent_after(p: KernelView, ns: int) -> Runs:
    """Offsets whose committed records were all sent after a moment."""
    rows = np.flatnonzero(p.committed & (p.sends["place"] >= 0))
    places, after = p.sends["place"][rows], p.sends["invoke_ns"][rows] > ns
    return runs(np.setdiff1d(places[after], places[~after]))


def _copied(p: KernelView, result: PartitionResult, rows: Array, group: int, source: int) -> Copied:
    inputs = p.sends["src_offset"]
    made = rows[p.committed[rows]]
    offsets, counts = np.unique(inputs[made], return_counts=True)

    def twice(offset: int) -> Finding:
        own = made[inputs[made] == offset]
        last, shown = p.sent(int(own[-1])), tuple(map(p.sent, own[:4].tolist()))
        key = (p.tp, group, source, offset)
        return CopiedTwice(key=key, process=last.process, records=shown, at_ns=last.done_ns, copies=len(own))

    hits = counts > 1
    begun = np.full(len(offsets), NEVER)
    np.minimum.at(begun, np.searchsorted(offsets, inputs[made]), p.sends["invoke_ns"][made])
    excuses = p.excuses_with(
        begun[hits], np.full(int(hits.sum()), NEVER), source, *p.known.logs_of(group, records=True)
    )
    result.report(TWICE, offsets[hits], twice, excuses=excuses)
    pending = rows[~p.committed[rows] & ~p.failed[rows]]
    pending = pending[~among(pending, p.fates(pending)[0])]
    open_inputs = distinct(inputs[pending])
    return Copied(
        group=group,
        source=source,
        committed=runs(offsets),
        several=runs(offsets[hits]),
        pending=runs(open_inputs),
        begun=begun if group in p.known.unseen else begun[:0],
    )


def _join(run: WholeRun, tally: Tally) -> None:
    parts = tally.parts_of(NAME, PartitionCopies)
    made: dict[tuple[int, int], list[Copied]] = {}
    places: dict[tuple[int, int], list[int]] = {}
    for tp, copied in ((tp, each) for tp, part in parts for each in part.copied):
        made.setdefault((copied.group, copied.source), []).append(copied)
        places.setdefault((copied.group, copied.source), []).append(tp)
    for (group, source), everywhere in made.items():
        if group in run.known.unseen:
            _apart(run, tally, group, source, places[group, source], everywhere)
    undecided, unread = 0, not_read(run)
    blind = outputs_not_read(run)
    for tp, part in parts:
        for position, inputs, begun_behind in part.inputs:
            copies = made.get((position.group, tp), ())
            lost = np.setdiff1d(offsets_of(inputs), _all(each.committed for each in copies))
            open_ = np.isin(lost, _all(each.pending for each in copies))
            if run.known.removed_ns >= 0 and position.group in run.known.unseen:
                open_ |= ~np.isin(lost, _all(part.late))
            open_ |= bool(blind)
            undecided += int(open_.sum())
            make = partial(_of_input, NeverCopied, tp, position)
            late = np.isin(lost[~open_], offsets_of(begun_behind)).astype(int)
            tally.report(LOST, lost[~open_], make, late, VARIANTS, excuses=_excuse(run, position))
    tally.doubt(
        NAME,
        undecided,
        "{number} of the inputs may have been copied or not: the final reads did not reach the copies, or"
        " these may have been removed",
    )
    nothing = not len(_all(each.committed for every in made.values() for each in every))
    tally.doubt(
        NAME,
        int(nothing and run.known.omits and bool(run.known.unseen)),
        "the output has nothing that the application made of its input: whether it writes there is not known",
    )
    _ahead(run, tally, parts, made)
    tally.doubt(
        NAME,
        len(unread),
        "the final reads at read_committed did not reach the end of {where}: what was made of what is behind"
        " that, or is there, is not known",
        tps=unread,
    )
    if run.known.copying and run.known.on_record.commits:
        doubt_silent(NAME, run, tally, run.known.copying)


def _apart(
    run: WholeRun, tally: Tally, group: int, source: int, tps: Sequence[int], copies: Sequence[Copied]
) -> None:
    """Inputs with copies in several partitions: each but the lowest has one too many. tps: of the copies."""
    offsets = [offsets_of(each.committed) for each in copies]
    every, begun = np.concatenate(offsets), np.concatenate([each.begun for each in copies])
    tp = np.repeat(np.array(tps), [len(one) for one in offsets])
    known = np.concatenate(
        [np.isin(one, offsets_of(each.several)) for one, each in zip(offsets, copies, strict=True)]
    )
    inputs, which = np.unique(every, return_inverse=True)
    first, lowest = np.full(len(inputs), NEVER), np.full(len(inputs), NEVER)
    np.minimum.at(first, which, begun)
    np.minimum.at(lowest, which, tp)
    again = np.flatnonzero((tp > lowest[which]) & ~known)
    if not len(again):
        return
    logs = (*tps, source, *run.known.logs_of(group, records=True))
    excuses = run.known.windows.excuses(logs, first[which[again]], np.full(len(again), NEVER))

    def apart(row: int) -> Finding:
        return CopiedApart(key=(int(tp[row]), group, source, int(every[row])))

    tally.report(TWICE, again, apart, excuses=excuses)


def not_read(run: WholeRun) -> list[int]:
    """Of an application: partitions of its input and output whose final read at read_committed did not reach
    the end of the log. What it keeps in other topics (the changelogs of Kafka Streams), no check knows."""
    if not run.known.unseen or not run.known.on_record.final_reads:
        return []
    topics = {row["tp"]: row["topic"] for row in run.tables["tps"].to_pylist()}
    read = {tp for tp, of in run.known.bounds.items() if RC in of and of[RC].complete}
    read -= {tp for tp in read if run.known.hides(tp)}
    asked = {run.known.input, run.known.output} - {""}
    return sorted(tp for tp, topic in topics.items() if topic in asked and tp not in read)


def outputs_not_read(run: WholeRun) -> list[int]:
    """Those of its output: copies may stand there."""
    topics = {row["tp"]: row["topic"] for row in run.tables["tps"].to_pylist()}
    return [tp for tp in not_read(run) if topics[tp] == run.known.output]


def _excuse(run: WholeRun, position: CommittedPosition) -> int:
    group, known = position.group, run.known
    return known.windows.anywhere(*known.logs_of(group, records=True), since=known.begun(group))


def _ahead(
    run: WholeRun,
    tally: Tally,
    parts: Sequence[tuple[int, PartitionCopies]],
    made: Mapping[tuple[int, int], Sequence[Copied]],
) -> None:
    """Inputs that applications have not committed, though they copied them. An application that left any
    input uncopied was still on its way: it might have committed all of them."""
    found = [(tp, position, offsets_of(ahead)) for tp, part in parts for position, ahead in part.ahead]
    copied = [_all(c.committed for c in made.get((position.group, tp), ())) for tp, position, _ in found]
    on_their_way = {
        position.group
        for (_, position, inputs), of_it in zip(found, copied, strict=True)
        if position.group not in run.known.ended or len(_left(inputs, of_it, omits=run.known.omits))
    }
    left = 0
    for (tp, position, inputs), of_it in zip(found, copied, strict=True):
        if position.group in on_their_way:
            left += len(inputs)
        else:
            make, excuse = partial(_of_input, NotCommitted, tp, position), _excuse(run, position)
            tally.report(UNCOMMITTED, np.intersect1d(inputs, of_it), make, excuses=excuse)
    tally.doubt(
        NAME,
        left,
        "{number} inputs lie behind the offsets that the application committed: it did not end in order, or"
        " left some of them without output",
    )


def _left(inputs: Array, copied: Array, *, omits: bool) -> Array:
    """Inputs that an application did not come to. It passed those below one that it copied; whether it omits
    some, or loses them, is another question."""
    rest = np.setdiff1d(inputs, copied)
    return rest[rest > copied.max(initial=-1)] if omits else rest


def _all(found: Iterable[Runs]) -> Array:
    parts = [offsets_of(each) for each in found]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _of_input(kind: type[NeverCopied], tp: int, position: CommittedPosition, offset: int) -> Finding:
    return kind(
        key=(tp, position.group, offset),
        process=position.process,
        ops=(position.op,),
        at_ns=position.ns,
        position=position,
    )


def copied_twice(ground: Ground, variant: str) -> Answer:
    """Two committed copies of one input."""
    if ground.sink == "plain":
        return True, "rows are committed to the database before offsets are to Kafka: at least once"
    if ground.sink == "optimistic-lock":
        return truncated(ground, "the database refuses a row for what its key has already")
    if ground.sink:
        return False, f"the database refuses a row for what it has already ({ground.sink})"
    if ground.commit == "after":
        return True, "offsets are committed separately after the copies: at least once"
    if ground.commit in AUTOMATIC:
        return (True, "what a client has not yet committed automatically is given again: at least once")
    if ground.commit in ("before", "beside"):
        return truncated(ground, "offsets that are committed first are not given again")
    if ground.unfenced:
        return True, f"before Kafka {FENCED} offsets in a transaction are not fenced by generation"
    if ground.unstable:
        return True, "a read_uncommitted member does not wait for offsets that are being committed"
    return truncated(ground, "a transaction that copies records also commits their offsets, once")


def copied_never(ground: Ground, variant: str) -> Answer:
    """An input that a group passed, without a committed copy."""
    if variant == Passed.LATE and ground.begins_late:
        return True, BEGINS_LATE
    if ground.filters:
        return True, "of an input record this application may make nothing"
    if ground.sink:
        return truncated(ground, "offsets are committed only once the rows are in the database")
    if ground.commit in AUTOMATIC:
        return True, "automatic commits pass what a member was given, copied or not"
    if ground.commit == "beside":
        return True, "offsets are committed beside the transaction of the copies: its abort leaves them"
    if ground.commit == "without-rewind":
        return (True, "after an abort a copier reads on, and commits an offset behind what it had read")
    if ground.commit == "before":
        return True, "offsets are committed separately before the copies are made: at most once"
    if ground.commit == "after":
        return truncated(ground, "offsets are committed only once the copies are there")
    return truncated(ground, "offsets are committed in the transaction that makes the copies")


def copied_uncommitted(ground: Ground, variant: str) -> Answer:
    """An application has ended, and has not committed the offset behind an input with a committed copy."""
    if ground.commit in ("after", *AUTOMATIC):
        return True, "offsets are committed after the copies are made: a successor makes them again"
    return truncated(
        ground, "an application that has ended has committed behind each input whose output it left"
    )


NAME = "exactly-once"
CHECK = Check(
    claim="Each input record below a group's committed offset has exactly one committed output record, and"
    " once an application has ended, no other one has any.",
    anomalies={
        TWICE: AnomalyClass(
            title="Input processed twice",
            meaning="A group copied one input record into committed output more than once.",
            literature="exactly-once violation; duplicate processing",
            early=Early(("tp", "group", "tp", "offset")),
            rule=copied_twice,
        ),
        LOST: AnomalyClass(
            title="Input never processed",
            absence=True,
            meaning="A group committed an offset behind an input record, and committed output holds no"
            " copy of it.",
            literature="exactly-once violation; lost input",
            rule=copied_never,
        ),
        UNCOMMITTED: AnomalyClass(
            title="Output without a commit",
            absence=True,
            meaning="An application ended in order, and left output, or an effect outside of Kafka, whose"
            " input record it had not committed.",
            literature="exactly-once violation; effect without commit",
            rule=copied_uncommitted,
        ),
    },
    kernel=_kernel,
    join=_join,
    content=True,
    needs="recovery",
    subject="copies",
)
