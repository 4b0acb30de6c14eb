"""group-delivery: what a group was given again, or never, although it had committed an offset behind it
(docs/checks.md, "Exactly once, delivery to groups, fencing")."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from checkers.allowed import Answer, Ground, truncated, unless_truncated
from checkers.checks.committed_positions import (
    BEGINS_LATE,
    CommittedPosition,
    Spans,
    begun_late,
    never_read,
    passed_ns,
    positions,
    spans_of,
    to_see,
)
from checkers.checks.group_offsets import stored, written
from checkers.engine.check import AnomalyClass, Check, Tally, WholeRun
from checkers.engine.findings import (
    FINAL,
    NEVER,
    RC,
    Finding,
    PartitionResult,
    Shown,
    Variant,
    What,
    at,
    reader,
)
from checkers.engine.partition_view import KernelView
from checkers.engine.slots import among, distinct
from core.config import RunConfig
from core.internal_topics import GROUP_TOPIC
from core.op import AssignmentKind, CommitKind
from core.systems import ImportedSection
from history.columns import Array, Columns, columns, grouped
from history.reader import History

AGAIN = "group-duplicate"
DOUBLE = "double-assignment"
NEVER_GIVEN = "group-skip"

BLOCK: Final = 256
"""Reads that are compared with all commits at once."""


class Passed(Variant):
    """Who may have passed a record: AUTO = a client that committed automatically and was not closed. LATE =
    none: a member may have begun behind it, where its group had committed nothing."""

    MEMBER = ""
    AUTO = "auto"
    LATE = "late"


VARIANTS: Final = {0: Passed.MEMBER, 1: Passed.AUTO, 2: Passed.LATE}


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAgain(Finding):
    """A read below a committed offset: the commit, complete at `committed_ns`, and the read."""

    committed_ns: int

    def sentence(self, history: History) -> str:
        """Who was given what again."""
        commit, read = self.records
        return (
            f"Group {history.group(self.key[1])} had committed offset {commit.offset} of"
            f" {history.tp(self.tp)} {at(history, self.committed_ns)} (op {commit.op}); then"
            f" {reader(history, read.op)} was assigned the partition and given offset"
            f" {read.offset} (record {read.name}, op {read.op}) {at(history, self.at_ns)}."
        )


class NeverGiven(Finding):
    """A record below a committed offset that no member read; its process committed."""

    def sentence(self, history: History) -> str:
        """Which record, and who else read it, or sent it."""
        *_, shown, commit = self.records
        did = "read it" if shown.what is What.READ else "had sent it"
        return (
            f"{shown.text(history)}, at offset {shown.offset}, was never given to group"
            f" {history.group(self.key[1])}, which committed offset {commit.offset} there"
            f" {at(history, self.at_ns)} (op {commit.op} of {history.client(self.process)});"
            f" op {shown.op} {did}."
        )


class TwoOwners(Finding):
    """A partition that two members of a group were given in one generation; its process is the later one."""

    def sentence(self, history: History) -> str:
        """The partition, the group and its generation, and both members."""
        tp, group, generation = self.key
        return (
            f"Group {history.group(group)} gave {history.tp(tp)} to two members in its generation"
            f" {generation}, in ops {self.ops[0]} and {self.ops[1]}; the second one is"
            f" {history.client(self.process)}, {at(history, self.at_ns)}."
        )


def _kernel(p: KernelView, result: PartitionResult) -> None:
    commits = p.known.commits.get(p.tp)
    if commits is None or not len(commits["op"]):
        return
    spans = spans_of(p)
    part = result.parts[NAME] = PartitionDelivery(again=list(_again(p, commits, spans)))
    for rows, position in positions(p):
        if position.group in p.known.unseen:
            continue
        missed = never_read(p, position.group, to_see(p, position, rows), spans)
        maybe = _maybe_given(p, position.group, rows, missed)
        part.open += int(maybe.sum())
        missed = missed[~maybe]
        if len(missed):
            _skipped(p, result, position, rows, spans, missed)


class Again(NamedTuple):
    """What a process was given again under an assignment. order: op and position of the read."""

    whose: tuple[int, int]
    order: tuple[int, int]
    finding: GivenAgain


@dataclass(slots=True, kw_only=True)
class PartitionDelivery:
    """What a partition adds to the whole. open: records that a group passed, and that a poll which is not on
    record may have returned."""

    again: list[Again]
    open: int = 0


def _again(p: KernelView, commits: Columns, spans: Spans) -> Iterator[Again]:
    """Of each span that starts too low: the first read that a commit excludes."""
    if not len(spans.start):
        return
    given = _given_ns(p, spans)
    own = p.reads["phase"] != FINAL
    live = np.full(len(p.reads["op"]), NEVER)
    live[own] = p.reads["offset"][own]
    lowest = np.minimum.reduceat(live, spans.start)
    asked = (spans.group >= 0) & ~np.isin(spans.group, [*p.known.cut_groups])
    for span in np.flatnonzero(asked & (given >= 0)).tolist():
        mine = commits["group"] == spans.group[span]
        moment = given[span] - _apart(p, commits, int(spans.process[span]))
        before = mine & stored(commits) & (commits["done"] < moment)
        if spans.isolation[span] != RC or not p.known.offsets_fenced:
            before &= commits["kind"] != CommitKind.TXN
        before &= commits["offset"] > lowest[span]
        if before.any():
            maybe = np.flatnonzero(mine & written(commits))
            rows = np.arange(spans.start[span], spans.end[span])
            rows = rows[live[rows] < NEVER]
            pair = _first_of_any(p, commits, rows, np.flatnonzero(before), maybe)
            if pair is not None:
                order = int(p.reads["op"][pair[1]]), int(p.reads["pos"][pair[1]])
                whose = int(spans.process[span]), int(spans.assignment[span])
                yield Again(whose, order, _given_again(p, commits, *pair))


def _given_ns(p: KernelView, spans: Spans) -> Array:
    """For each span: when the coordinator assigned the partition for it, -1 = it did not."""
    given = np.full(len(spans.start), -1, np.int64)
    changes = p.assignments
    if changes is None:
        return given
    assigned = np.flatnonzero(changes["kind"] == AssignmentKind.ASSIGNED)
    key = changes["process"][assigned].astype(np.int64) << 32 | changes["assignment"][assigned]
    keys, first = np.unique(key, return_index=True)
    if len(keys):
        wanted = spans.process.astype(np.int64) << 32 | spans.assignment
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        found = keys[at] == wanted
        given[found] = changes["ns"][assigned[first[at[found]]]]
    return given


def _first_of_any(
    p: KernelView, commits: Columns, rows: Array, before: Array, maybe: Array
) -> tuple[int, int] | None:
    """`_first_again`, where commits of older generations that come late do not excuse: those of each
    generation have excuses of their own; so have those of each process, where clocks are apart."""
    sync = (commits["kind"][maybe] == CommitKind.SYNC) & (commits["generation"][maybe] >= 0)
    pairs = []
    for generation in distinct(commits["generation"][before]).tolist() if sync.any() else (-1,):
        refused = sync & (commits["generation"][maybe] < generation)
        mine = before[commits["generation"][before] == generation] if sync.any() else before
        each = grouped(commits["process"][mine], {"row": mine}) if p.known.apart_ns else ()
        split = [own["row"] for _, own in each] or [mine]
        pairs += [_first_again(p, commits, rows, own, maybe[~refused]) for own in split]
    return min((pair for pair in pairs if pair is not None), key=itemgetter(1), default=None)


def _apart(p: KernelView, commits: Columns, process: int) -> Array:
    """Of each commit: how far the clock of its process may be apart from that of this one."""
    return np.where(commits["process"] == process, 0, p.known.apart_ns)


def _first_again(
    p: KernelView, commits: Columns, rows: Array, before: Array, maybe: Array
) -> tuple[int, int] | None:
    """The first of these reads that one of the commits `before` excludes, and none of the `maybe` ones
    excuses. Where clocks are apart, the commits `before` are of one process."""
    begun = (commits["invoke_ns"] - _apart(p, commits, int(p.reads["process"][rows[0]])))[maybe]
    lag = _apart(p, commits, int(commits["process"][before[0]]))[maybe]
    done = np.minimum(commits["done"][maybe], NEVER - lag) + lag
    before = before[np.argsort(commits["invoke_ns"][before], kind="stable")]
    invoked, offset = commits["invoke_ns"][before], commits["offset"][before]
    highest = np.append(np.maximum.accumulate(offset[::-1])[::-1], -1)  # of those from here on
    rows = rows[p.reads["offset"][rows] < highest[0]]
    for block in np.split(rows, range(BLOCK, len(rows), BLOCK)):
        offsets, until = p.reads["offset"][block, None], p.reads["complete_ns"][block, None]
        excuses = (commits["offset"][maybe] <= offsets) & (begun < until)
        excused = np.where(excuses, done, -1).max(axis=1, initial=-1)
        left = np.searchsorted(invoked, excused, side="right")  # commits that it does not excuse
        hits = np.flatnonzero(highest[left] > p.reads["offset"][block])
        if len(hits):
            commit = int(before[left[hits[0]] + np.argmax(offset[left[hits[0]] :])])
            return commit, int(block[hits[0]])
    return None


def _given_again(p: KernelView, commits: Columns, commit: int, row: int) -> GivenAgain:
    op, group, offset = (int(commits[name][commit]) for name in ("op", "group", "offset"))
    read = p.got(row)
    return GivenAgain(
        key=(p.tp, group, read.op),
        process=read.process,
        records=(Shown(op, What.COMMIT, p.tp, -1, offset), read),
        at_ns=read.done_ns,
        committed_ns=int(commits["done"][commit]),
    )


def _maybe_given(p: KernelView, group: int, commits: Columns, missed: Array) -> Array:
    """Of each missed slot: whether a poll of a member that is not on record may have returned it."""
    if not p.known.on_record.from_start:
        return np.ones(len(missed), bool)
    polls = p.known.polls_in_doubt
    if not len(polls) or not len(missed):
        return np.zeros(len(missed), bool)
    passed = passed_ns(commits, p.slots.offsets(missed))
    return np.asarray(polls.until(np.full(len(missed), group), passed) >= _sent_ns(p, missed))


def _sent_ns(p: KernelView, slots: Array) -> Array:
    """When the first send began that was acknowledged at each of these slots, or read there; 0: none was."""
    first = np.full(p.slots.size, NEVER)
    acked, read = np.flatnonzero(p.acked), np.flatnonzero(p.writer >= 0)
    np.minimum.at(first, p.slots(p.sends["offset"][acked]), p.sends["invoke_ns"][acked])
    np.minimum.at(first, p.read_slot[read], p.of_writer(p.sends["invoke_ns"], -1, read))
    return np.where(first[slots] < NEVER, first[slots], 0)


def _skipped(
    p: KernelView,
    result: PartitionResult,
    position: CommittedPosition,
    commits: Columns,
    spans: Spans,
    missed: Array,
) -> None:
    """group-skip."""
    automatic = _automatic(p, position.group, commits, missed)
    late = p.slots.offsets(missed) < begun_late(p, position.group, commits, spans)
    codes = np.where(automatic, 1, np.where(late, 2, 0))
    make = partial(_never_given, p, position)
    logs = p.known.logs_of(position.group, records=True)
    excuse = p.known.windows.ever(p.tp, *logs, since=p.known.begun(position.group))
    result.report(NEVER_GIVEN, missed, make, codes, VARIANTS, excuses=excuse)


def _automatic(p: KernelView, group: int, commits: Columns, missed: Array) -> Array:
    """Of each missed slot: whether an automatic member that was not closed may have had it."""
    suspects = p.known.unclosed.get(group)
    found = np.zeros(len(missed), bool)
    if suspects is None:
        return found
    passed = passed_ns(commits, p.slots.offsets(missed))
    sent = np.full(len(missed), NEVER)
    reads = np.flatnonzero(among(p.read_slot, missed))
    at = np.searchsorted(missed, p.read_slot[reads])
    np.minimum.at(sent, at, p.of_writer(p.sends["invoke_ns"], -1, reads))
    for n, process in enumerate(suspects.process.tolist()):
        began = min(int(suspects.open_ns[n]), _first_change(p, process))
        found |= (began < passed) & (sent < suspects.gone_ns[n])
    return found


def _first_change(p: KernelView, process: int) -> int:
    """When it first was on record that the process reads this partition; NEVER: never."""
    if p.assignments is None:
        return NEVER
    own = p.assignments["ns"][p.assignments["process"] == process]
    return int(own.min(initial=NEVER))


def _never_given(p: KernelView, position: CommittedPosition, slot: int) -> Finding:
    offset = int(p.slots.offsets(slot))
    reads = np.flatnonzero(p.read_slot == slot)[:1]
    writers = p.writer[reads]
    if not len(reads):  # without final reads, an acknowledgement says what the log holds
        writers = np.flatnonzero(p.acked & p.committed & (p.sends["offset"] == offset))[:1]
    shown = [*map(p.sent, writers[writers >= 0].tolist()), *map(p.got, reads.tolist())]
    return NeverGiven(
        key=(p.tp, position.group, offset),
        process=position.process,
        records=(*shown, position.shown(p.tp)),
        at_ns=position.ns,
    )


def _excuse(run: WholeRun, again: Finding) -> int:
    group, known = again.key[1], run.known
    since = known.begun(group)
    return known.windows.ever(again.tp, *known.logs_of(group), since=since, until=again.at_ns)


def _join(run: WholeRun, tally: Tally) -> None:
    first: dict[int, dict[tuple[int, int], Again]] = {}
    parts = tally.parts_of(NAME, PartitionDelivery)
    for tp, part in parts:
        for again in part.again:
            mine = first.setdefault(tp, {})
            if again.whose not in mine or again.order < mine[again.whose].order:
                mine[again.whose] = again
    for found in first.values():
        findings = [found[whose].finding for whose in sorted(found)]
        excuses = np.array([_excuse(run, one) for one in findings])
        tally.report(AGAIN, np.arange(len(findings)), findings.__getitem__, excuses=excuses)
    if run.known.on_record.commits:
        for owned in _two_owners(run):
            begun = run.known.begun(owned.key[1])
            excuse = run.known.windows.ever(GROUP_TOPIC, since=begun)  # no data tell who owns
            tally.add(DOUBLE, [owned], excuse)
        doubt_silent(NAME, run, tally)
    tally.doubt(
        NAME,
        sum(part.open for _, part in parts),
        "{number} of the records below the offsets that groups committed may have been given to a member or"
        " not: the recording need not hold every poll",
    )


def _two_owners(run: WholeRun) -> list[Finding]:
    """Of each partition and generation of a group: the first two different members that were given it."""
    rows = columns(run.tables["assignments"])
    group = run.known.group[run.known.positions(rows["process"])]
    given = np.flatnonzero(
        (rows["kind"] == AssignmentKind.ASSIGNED) & (rows["generation"] >= 0) & (group >= 0)
    )
    order = given[np.lexsort((rows["ns"][given], rows["generation"][given], group[given], rows["tp"][given]))]
    of = np.stack((rows["tp"][order], group[order], rows["generation"][order]))
    new = np.append(True, (of[:, 1:] != of[:, :-1]).any(axis=0))[: len(order)]
    first = order[np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))]
    others = np.flatnonzero(rows["process"][order] != rows["process"][first])
    found: dict[tuple[int, ...], Finding] = {}
    for n in others.tolist():
        key = tuple(map(int, of[:, n]))
        one, other = int(first[n]), int(order[n])
        found.setdefault(
            key,
            TwoOwners(
                key=key,
                process=int(rows["process"][other]),
                ops=(int(rows["op"][one]), int(rows["op"][other])),
                at_ns=int(rows["ns"][other]),
            ),
        )
    return list(found.values())


def doubt_silent(check: str, run: WholeRun, tally: Tally, among: Collection[int] | None = None) -> None:
    """Groups that were given records, without a commit that is known to have succeeded: there is nothing
    to judge them by."""
    processes = columns(run.tables["processes"], ("process", "group"))
    ops = columns(run.tables["ops"], ("process", "phase", "n_reads"))
    reading = ops["process"][(ops["phase"] != FINAL) & (ops["n_reads"] > 0)]
    given = processes["group"][np.isin(processes["process"], reading)]
    commits = columns(run.tables["commits"], ("group", "op", "kind", "outcome"))
    in_txn = (commits["kind"] == CommitKind.TXN) & np.isin(commits["op"], run.known.proven)
    known = commits["group"][stored(commits) | in_txn]
    served = set(given[given >= 0].tolist()) | run.known.unseen
    for group in sorted(served - set(known.tolist())):
        if among is None or group in among:
            tally.doubt(check, 1, "no commit of group {group} is known to have succeeded", group=group)


def passed(ground: Ground, variant: str) -> Answer:
    """A record that a group passed and was never given."""
    if variant == Passed.AUTO:
        return (True, "a client that commits automatically died with records that it had not handed out")
    if variant == Passed.LATE and ground.begins_late:
        return True, BEGINS_LATE
    return truncated(ground, "a group commits only offsets behind what its members were given")


def _without_generations(config: RunConfig) -> str:
    """The claim of an import; "" = of all others it is that of `CHECK`."""
    if not config.has(ImportedSection):
        return ""
    return (
        f"{_DELIVERED} and after a rebalance none of them again. Whether each partition belonged to one"
        " member is not judged: no import has the generations of a group."
    )


NAME = "group-delivery"
_DELIVERED = "A group receives every record below its committed offset,"
CHECK = Check(
    claim=f"{_DELIVERED} after a rebalance none of them again, and each partition belongs to one member.",
    anomalies={
        AGAIN: AnomalyClass(
            title="Record given to a group again",
            absence=True,
            meaning="A member of a group started below an offset that the group had committed before the"
            " member was assigned the partition.",
            literature="redelivery below the committed offset",
            rule=unless_truncated("a member starts where its group has committed"),
        ),
        DOUBLE: AnomalyClass(
            title="Partition given to two members",
            meaning="In one generation of a group two of its members were given the same partition.",
            literature="split brain of a group",
            rule=unless_truncated("a generation gives each partition to one member"),
        ),
        NEVER_GIVEN: AnomalyClass(
            title="Record never given to a group",
            absence=True,
            meaning="A group committed an offset behind a record that no member of it was ever given.",
            literature="missed delivery; consumer gap",
            rule=passed,
        ),
    },
    kernel=_kernel,
    join=_join,
    content=True,
    needs="commits",
    subject="groups",
    lesser=_without_generations,
)
