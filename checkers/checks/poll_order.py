"""poll-order: what one process was returned, in order, without gaps (docs/checks.md, "Order of polls")."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from checkers.allowed import Answer, Ground, truncated
from checkers.engine.check import AnomalyClass, Check, Early
from checkers.engine.findings import (
    FINAL,
    NEVER,
    OK,
    RC,
    RU,
    Finding,
    PartitionResult,
    Shown,
    Variant,
    reader,
)
from checkers.engine.partition_view import KernelView
from checkers.windows import SLACK_NS
from core.op import AssignmentKind
from history.columns import Array
from history.reader import History

BACK = "nonmonotonic-poll"
BACK_INSIDE = "int-nonmonotonic-poll"
SKIP = "poll-skip"
SKIP_INSIDE = "int-poll-skip"
UNEXPLAINED = "no rebalance, assignment, rewind or reset on record explains it"


class Reader(Variant):
    """Who moved: a member of a group, whose position rebalances move, or another consumer."""

    ALONE = ""
    MEMBER = "member"


READERS: Final[Mapping[int, Variant]] = {0: Reader.ALONE, 1: Reader.MEMBER}


class WentBack(Finding):
    """A step back: its records are the read before and the read after."""

    def sentence(self, history: History) -> str:
        """From where to where."""
        q, r = self.records
        went = "the same record again" if r.offset == q.offset else "an earlier one"
        return (
            f"{_who(self, history)} was given {went} of {history.tp(self.tp)}: offset {q.offset}, then"
            f" {r.offset}; {UNEXPLAINED}."
        )


class Skipped(Finding):
    """A step over records: the read before, up to two reads of what lies between, the read after."""

    @property
    def left_out(self) -> range:
        """The offsets that were passed over."""
        return range(self.records[0].offset + 1, self.records[-1].offset)

    def sentence(self, history: History) -> str:
        """From where to where, and what was left out."""
        q, *others, r = self.records
        between = ", ".join(f"{s.name} at {s.offset}" for s in others)
        left = f" (among them {between})" if between else ""
        return (
            f"{_who(self, history)} was given offset {q.offset} of {history.tp(self.tp)}, then"
            f" {r.offset}, and never the records between{left}; {UNEXPLAINED}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BeganLate(Skipped):
    """The first read after an assignment at the beginning of the log was a later record: up to two reads of
    what lies before, the read. start: where it had to begin."""

    start: int

    @property
    def left_out(self) -> range:
        """The offsets that were passed over."""
        return range(self.start, self.records[-1].offset)

    def sentence(self, history: History) -> str:
        """Where it began, and what was left out."""
        *others, r = self.records
        before = ", ".join(f"{s.name} at {s.offset}" for s in others)
        left = f" (among them {before})" if before else ""
        return (
            f"{reader(history, r.op)} assigned {history.tp(self.tp)} at the beginning of the log, and"
            f" in op {r.op} it was given offset {r.offset} first, and never the records before{left}."
        )


def _who(finding: Finding, history: History) -> str:
    q, r = finding.records[0], finding.records[-1]
    when = f"within op {r.op}" if q.op == r.op else f"in op {r.op}, after op {q.op},"
    return f"{reader(history, r.op)} {when}"


@dataclass(frozen=True, slots=True)
class _Steps:
    """Pairs of reads (rows): from `q` to `r`; `inside` one op or between two."""

    q: Array
    r: Array
    inside: Array


def _kernel(p: KernelView, result: PartitionResult) -> None:
    _report_beginnings(p, result)
    if len(p.reads["op"]) < 2:
        return
    position = p.positions
    steps = _suspects(p, p.read_slot if p.known.on_record.positions else p.slots(position))
    back, skip = _wrong(p, steps, position)
    hits = np.flatnonzero(back | skip)
    explained, reset = _explained(p, steps, hits)
    found = hits[~explained & (~reset | _passed(p, steps.r[hits]))]
    if not p.known.on_record.positions:
        found = found[~_goes_on(p, steps, found, position)]
    found = found[~_may_have_been_given(p, steps, found, back)]
    inside = steps.inside[found]
    for name, mine in (
        (BACK_INSIDE, found[inside & back[found]]),
        (SKIP_INSIDE, found[inside & ~back[found]]),
        (BACK, found[~inside & back[found]]),
        (SKIP, found[~inside & ~back[found]]),
    ):
        codes = _member(p, steps, mine)
        excuses = _excuses_of(p, steps, mine, skips=name in (SKIP, SKIP_INSIDE))
        result.report(name, mine, partial(_finding, p, steps, name), codes, READERS, excuses=excuses)


def _wrong(p: KernelView, steps: _Steps, position: Array) -> tuple[Array, Array]:
    """For each of these steps: it goes back; it passes over something."""
    a, b = position[steps.q], position[steps.r]
    back = b <= a
    skip = np.zeros(len(a), bool)
    low, high = p.slots(np.minimum(a, b)), p.slots(np.maximum(a, b))
    level = p.reads["isolation"][steps.r]
    for isolation in (RU, RC):
        mine = np.flatnonzero((level == isolation) & ~back)
        if len(mine):
            order = p.order(isolation)
            skip[mine] = order[high[mine] - 1] > order[low[mine]]
    return back, skip


def _goes_on(p: KernelView, steps: _Steps, found: Array, position: Array) -> Array:
    """For each of these steps, where moves are not on record: the process reads on behind an op between the
    two reads, whose outcome is not OK: its client may have kept what it read all the same."""
    on = np.zeros(len(found), bool)
    op, q, r = p.reads["op"], steps.q[found], steps.r[found]
    first = np.maximum.accumulate(np.where(np.append(True, op[1:] != op[:-1]), np.arange(len(op)), 0))
    last = r - 1  # of the op before, then of the one before that
    open_ = np.flatnonzero(~steps.inside[found] & (last > q))
    while len(open_):
        other = _Steps(q=last[open_], r=r[open_], inside=np.zeros(len(open_), bool))
        back, skip = _wrong(p, other, position)
        on[open_] = ~(back | skip) | _explained(p, other, np.arange(len(open_)))[0]
        last[open_] = first[last[open_]] - 1
        open_ = open_[~on[open_] & (last[open_] > q[open_])]
    return on


def _may_have_been_given(p: KernelView, steps: _Steps, found: Array, back: Array) -> Array:
    """For each of these steps: what it passes over, a poll in doubt between the two reads may have had."""
    ends = (p.reads["op"][rows[found]] for rows in (steps.q, steps.r))
    return ~back[found] & p.known.polls_in_doubt.between(p.reads["process"][steps.r[found]], *ends)


def _report_beginnings(p: KernelView, result: PartitionResult) -> None:
    """Reads that passed over something from the start of the log on, and had to begin there."""
    first, since = _beginnings(p)
    if not len(first.r):
        return
    every = np.arange(len(first.r))
    passed = _passed(p, first.r)
    codes, excuses = _member(p, first, every), _excuses(p, since, first.r, skips=True)
    for name, inside in ((SKIP_INSIDE, True), (SKIP, False)):
        mine = np.flatnonzero(passed & (first.inside == inside))
        result.report(name, mine, partial(_began_late, p, first), codes[mine], READERS, excuses=excuses[mine])


def _beginnings(p: KernelView) -> tuple[_Steps, Array]:
    """Reads that have to begin at the beginning of the log, as steps from the read before (-1 = none);
    and since when each process had its partition so."""
    nothing = np.zeros(0, np.int64)
    none = _Steps(nothing, nothing, np.zeros(0, bool)), nothing
    changes, reads, known = p.assignments, p.reads, p.known.on_record.positions
    if changes is None or not known or not (p.begins_known and len(reads["op"])):
        return none
    begun = np.flatnonzero(changes["kind"] == AssignmentKind.BEGINNING)
    if not len(begun):
        return none
    begun = begun[np.argsort(changes["ns"][begun], kind="stable")]
    keys, earliest = np.unique(_numbered(changes)[begun], return_index=True)
    process, op, number, undone = reads["process"], reads["op"], reads["assignment"], _undone(p)
    first = (process[1:] != process[:-1]) | (number[1:] > number[:-1]) | undone[:-1]
    r = np.flatnonzero(np.append(True, first) & (reads["phase"] != FINAL))
    here = _numbered({name: reads[name][r] for name in ("process", "assignment")})
    at = np.searchsorted(keys, here)
    there = np.append(keys, -1)[at] == here
    r, at = r[there], at[there]
    last = np.append(-1, np.maximum.accumulate(np.where(undone, -1, np.arange(len(op)))))
    inside = (r > 0) & (op[r] == op[r - 1]) & (process[r] == process[r - 1])
    q = np.where(inside, r - 1, last[r])
    q = np.where((q >= 0) & (process[q] == process[r]), q, -1)
    begins = (q < 0) | (number[q] < number[r])
    since = changes["ns"][begun[earliest[at[begins]]]]
    return _Steps(q[begins], r[begins], inside[begins]), since


def _numbered(rows: Mapping[str, Array]) -> Array:
    """Process and number of its assignment as one number."""
    return np.asarray(rows["process"].astype(np.int64) << 32 | rows["assignment"].astype(np.int64))


def _began_late(p: KernelView, first: _Steps, at: int) -> Finding:
    r, inside = int(first.r[at]), bool(first.inside[at])
    after = p.got(r)
    start = int(p.given_from(p.reads["complete_ns"][r : r + 1])[0])
    before = np.flatnonzero((p.reads["offset"] >= start) & (p.reads["offset"] < after.offset))
    return BeganLate(
        key=(p.tp, after.op, *((int(p.reads["pos"][r]),) if inside else ())),
        process=after.process,
        ops=(after.op,),
        records=(*_lowest(p, before), after),
        at_ns=after.done_ns,
        start=start,
    )


def _passed(p: KernelView, rows: Array) -> Array:
    """For each of these reads: something had to be seen before it from the start of the log on."""
    offset, level, ns = (p.reads[name][rows] for name in ("offset", "isolation", "complete_ns"))
    passed = np.zeros(len(rows), bool)
    for isolation in (RU, RC) if len(rows) else ():
        expected = p.slots.offsets(np.flatnonzero(p.expected(isolation)))
        mine = level == isolation
        first = np.append(expected, NEVER)[np.searchsorted(expected, p.given_from(ns[mine]))]
        passed[mine] = first < offset[mine]
    return passed


def _excuses_of(p: KernelView, steps: _Steps, hits: Array, *, skips: bool) -> Array:
    """`_excuses` of these steps."""
    return _excuses(p, p.reads["complete_ns"][steps.q[hits]], steps.r[hits], skips=skips)


def _excuses(p: KernelView, since: Array, r: Array, *, skips: bool) -> Array:
    """Codes of what may have changed the log between these moments and these reads, or later, so that what
    lies there now was not there."""
    if not p.windows:
        return np.zeros(len(r), np.int8)
    until = p.reads["complete_ns"][r]
    if skips:
        until = np.where(p.stayed(r), until, NEVER)
    return p.windows.excuses(since - SLACK_NS, until, weak=np.zeros(len(r), bool))


def _suspects(p: KernelView, slot: Array) -> _Steps:
    """Steps from one read of a process to its next one, without most of those that show nothing: onwards,
    over nothing that a consumer has to see. slot: of each read, where it stands."""
    process, op, level = (p.reads[name] for name in ("process", "op", "isolation"))
    ru, rc = (p.order(each) << 1 | p.expected(each) for each in (RU, RC))
    count = np.where(level == RC, rc[slot], ru[slot])  # twice what is to be seen up to here, + 1 = it is
    upto = count >> 1
    suspect = (slot[1:] <= slot[:-1]) | (upto[1:] - (count[1:] & 1) > upto[:-1])
    suspect |= level[1:] != level[:-1]
    undone = _undone(p)
    any_undone = bool(undone.any())
    if any_undone:
        suspect |= undone[:-1]
    r = np.flatnonzero(suspect & (process[1:] == process[:-1])) + 1
    q, inside = r - 1, op[r] == op[r - 1]
    if any_undone:  # the next op continues after the last read that stands
        last = np.maximum.accumulate(np.where(undone, -1, np.arange(len(op))))
        q = np.where(inside, q, last[q])
        kept = (q >= 0) & (process[q] == process[r])
        q, r, inside = q[kept], r[kept], inside[kept]
    return _Steps(q=q, r=r, inside=inside)


def _undone(p: KernelView) -> Array:
    """Reads whose op did not happen, so that the process went back to before them."""
    bad: Array = p.reads["op_outcome"] != OK
    if not p.known.on_record.positions or not bad.any():
        return bad
    changes = p.assignments
    if changes is None:
        return np.zeros(len(bad), bool)
    rewinds = changes["op"][changes["kind"] == AssignmentKind.REWIND]
    return np.asarray(bad & np.isin(p.reads["op"], rewinds))  # an op belongs to one process


def _explained(p: KernelView, steps: _Steps, hits: Array) -> tuple[Array, Array]:
    """For each of these steps: an event on record moved the position between the two reads; or a reset alone
    did, which leads to the beginning of the log."""
    explained, reset = np.zeros(len(hits), bool), np.zeros(len(hits), bool)
    changes, reads = p.assignments, p.reads
    if changes is None:
        return explained, reset
    moved = reads["assignment"][steps.q[hits]] < reads["assignment"][steps.r[hits]]
    by_op = steps.inside[hits] & (not p.known.on_record.positions)
    for at in np.flatnonzero(moved | by_op).tolist():  # no more than there are events
        q, r = int(steps.q[hits[at]]), int(steps.r[hits[at]])
        number = changes["assignment"]
        between = (number > reads["assignment"][q]) & (number <= reads["assignment"][r])
        if by_op[at]:
            between = between | (changes["op"] == reads["op"][r])
        between &= changes["process"] == reads["process"][r]
        kinds = set(changes["kind"][between].tolist()) - {AssignmentKind.REWIND}
        to_start = p.known.on_record.resets and p.begins_known
        reset[at] = to_start and kinds == {AssignmentKind.RESET}
        explained[at] = bool(kinds) and not reset[at]
    return explained, reset


def _member(p: KernelView, steps: _Steps, hits: Array) -> Array:
    """Of each of these steps: 1 where the process is a member of a group. Within an op only where it was one
    from the beginning: what a group changes in an op that joins it is on record with that op."""
    known = p.known
    at = known.positions(p.reads["process"][steps.r[hits]])
    member = (known.group[at] >= 0) | (known.joined[at] & ~steps.inside[hits])
    return np.asarray(member, np.int8)


def _finding(p: KernelView, steps: _Steps, name: str, at: int) -> Finding:
    skips, inside = name in (SKIP, SKIP_INSIDE), name in (BACK_INSIDE, SKIP_INSIDE)
    q, r = int(steps.q[at]), int(steps.r[at])
    before, after = p.got(q), p.got(r)
    pos = (int(p.reads["pos"][r]),) if inside else ()
    kind = Skipped if skips else WentBack
    return kind(
        key=(p.tp, after.op, *pos),
        process=after.process,
        ops=tuple(dict.fromkeys((before.op, after.op))),
        records=(before, *(_between(p, q, r) if skips else ()), after),
        at_ns=after.done_ns,
    )


def _between(p: KernelView, q: int, r: int) -> list[Shown]:
    """At most two reads, by any process, of what lies between two reads."""
    low, high = sorted((int(p.reads["offset"][q]), int(p.reads["offset"][r])))
    offsets = p.reads["offset"]
    return _lowest(p, np.flatnonzero((offsets > low) & (offsets < high)))


def _lowest(p: KernelView, rows: Array) -> list[Shown]:
    """At most two of these reads, of the lowest offsets."""
    first = rows[np.unique(p.reads["offset"][rows], return_index=True)[1]]
    return [p.got(row) for row in first[:2].tolist()]


def moved(ground: Ground, variant: str) -> Answer:
    """A step of a consumer between two ops."""
    if ground.subscribe:
        return True, "consumers subscribe: a rebalance may have moved the position"
    return stepped(ground, variant)


def stepped(ground: Ground, variant: str) -> Answer:
    """A step of a consumer that nothing on record explains."""
    if variant == Reader.MEMBER and not ground.rebalances:
        return (
            True,
            "a member of a group, whose rebalances are not on record: one may have moved the position",
        )
    why = "no rebalance, new assignment, rewind or reset on record explains this step"
    return truncated(ground, why)


CHECK = Check(
    claim="A consumer reads on from where it was: nothing twice, nothing left out.",
    anomalies={
        BACK: AnomalyClass(
            title="Consumer went back",
            absence=True,
            meaning="Between two polls a consumer's position went back or stood still, without a reason.",
            early=Early(("tp", "op")),
            rule=moved,
        ),
        BACK_INSIDE: AnomalyClass(
            title="Consumer went back within one operation",
            meaning="Within one operation a consumer was given records out of order or twice.",
            early=Early(("tp", "op", "pos")),
            rule=stepped,
        ),
        SKIP: AnomalyClass(
            title="Consumer skipped records",
            absence=True,
            meaning="Between two polls a consumer's position passed over records that it had to see,"
            " without a reason.",
            half=True,
            rule=moved,
        ),
        SKIP_INSIDE: AnomalyClass(
            title="Consumer skipped records within one operation",
            absence=True,
            meaning="Within one operation a consumer was not given records between those that it was given.",
            half=True,
            rule=stepped,
        ),
    },
    kernel=_kernel,
    subject="polls",
)
