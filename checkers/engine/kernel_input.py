"""What kernels know beside the rows of their partition, made from the small tables.

Not here: the rows themselves (`checkers.engine.partition_view`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from checkers.allowed import begins_late
from checkers.engine.cut_journals import NOBODY, absent, broke_off, cut
from checkers.engine.findings import CAP, FAIL, FINAL, INFO, NEVER, OK, RC, RU
from checkers.engine.polls_in_doubt import NONE, PollsInDoubt, polls_in_doubt
from checkers.engine.share_groups import RunShareGroups, share_groups
from checkers.engine.tenure import Tenure, tenure
from checkers.log_settings import NOT_COMPACTED, tombstones_kept_ns
from checkers.registration import Hindrances, hindrances
from checkers.run_windows import Deletion, deletions, run_windows
from checkers.windows import OF_GROUPS, RunWindows
from core.config import RunConfig
from core.internal_topics import GROUP_TOPIC
from core.offset_fencing import offsets_fenced
from core.op import AssignmentKind, CommitKind, End
from core.payload import named
from core.presets import NamedSettings
from core.producer_state import forgotten_after_ns
from core.retention import removes
from core.systems import ImportedSection
from core.watermark import still_s
from history.columns import Array, Columns, by_tp, columns, grouped, numbers, positions
from history.events import BoundsListed, Event, RecordsDeleted, Recovered
from history.reader import Bound, bounds
from history.tables import NO_PRODUCER, OPEN
from history.values import OpsOnRecord

SENDS: Final = (
    "tp", "op", "process", "pos", "value", "offset", "place", "outcome", "op_outcome", "txn", "op_sends",
    "invoke_ns", "ack_ns", "src_tp", "src_offset",
)  # fmt: skip
READS: Final = (
    "tp", "op", "process", "pos", "isolation", "op_outcome", "phase", "assignment", "leader_epoch",
    "offset", "value", "complete_ns",
)  # fmt: skip
"""Columns that the kernels use."""

ENDS: Final = 16
"""Ops whose end is known together: they are numbered as they completed, so their ends are near."""
OPS: Final = (
    "op", "process", "outcome", "txn", "n_sends", "n_reads", "invoke_ns", "complete_ns",
)  # fmt: skip


class OnRecord(NamedTuple):
    """What a history holds beside ops and their records. Inquest's own recordings hold all of it,
    portable histories nothing; an imported one says what it holds (`core.systems.ImportedSection`).

    final_reads: it ended with final reads of every partition, or was to. Without them its acknowledged
    offsets are evidence of what the log holds.
    from_start: consumers began at the start of each partition, none sought past records, and every poll is
    on record, so that no poll returned what none shows. Without it, a record below a read one may have been
    read elsewhere.
    positions: how positions of consumers moved, in the order in which it happened, rewinds after
    aborted ops included.
    commits: what groups committed.
    recovery: times of one clock, phases, faults, whether the cluster came back, and what a copy was made of.
    resets: a client that resets its position goes to the beginning of the log (`auto.offset.reset`).
    exhausted: by convention, no later poll would return what no poll returned (portable histories).
    """

    final_reads: bool
    from_start: bool
    positions: bool
    commits: bool
    recovery: bool
    resets: bool
    exhausted: bool

    @property
    def foreign(self) -> bool:
        """Another program recorded it, and it was imported."""
        return not (self.recovery or self.exhausted)


RECORDED: Final = OnRecord(
    final_reads=True,
    from_start=True,
    positions=True,
    commits=True,
    recovery=True,
    resets=True,
    exhausted=False,
)
IMPORTED: Final = OnRecord(
    final_reads=False,
    from_start=False,
    positions=False,
    commits=False,
    recovery=False,
    resets=False,
    exhausted=False,
)
PORTABLE: Final = IMPORTED._replace(from_start=True, exhausted=True)


def on_record(config: NamedSettings) -> OnRecord:
    """What the history of a run folder holds, by its config."""
    imported = config.get("imported")
    if not isinstance(imported, dict):
        return RECORDED._replace(resets=not begins_late(config.get("client_settings") or {}))
    return IMPORTED._replace(**dict.fromkeys(imported.get("on_record", ()), True))


@dataclass(frozen=True, kw_only=True)
class KernelInput:
    """What a kernel knows beside the rows of its partition.

    on_record: what else the history holds.
    processes, acks, idempotent, retries, in_flight, group, started (ns), isolation, joined: one entry a
    process, sorted by process number. joined: a group gave it partitions, or took some away.
    windows: when records may have been taken off which log. hindrances: what kept brokers from registering.
    removed: retention may have removed records.
    tombstones_ns: how long compaction keeps tombstones, NOT_COMPACTED = nothing is compacted.
    forgotten_ns: how long after its last record in a partition a producer may be forgotten there.
    deleted: what faults may have deleted, of the partitions that had it.
    dense: no process has a transactional id, so that each offset of a log is one of a record.
    transactions: when the first process with a transactional id started, 0 = there is none.
    tenure: who held which transactional id when; None where no id had two holders.
    commits: rows of `commits` of each partition with a group, `done` = when each is complete.
    copying: groups that copy, where it is on record what a copy was made of. transactional: those with
    offsets that a transaction committed, or was to.
    offsets_fenced: brokers keep members at read_committed from offsets whose markers are on their way.
    unseen: groups of an application: what its members read is not on record.
    ordered: those whose copies stand in a log, record for record: in which order, says something.
    ended: those whose instances all ended in order: they had nothing more to do. omits: of an input record
    they may make nothing. input, output: the topics that they read and that their copies stand in; "" = none.
    removed_ns: until when output of an application was made that may have been removed, and copies with it;
    -1 = none was.
    named: values of records that output of an application was made of, and that its input lacks; sorted.
    damaged: offsets where final reads returned what is not a record of the partition (`foreign`).
    apart_ns: by how much the clocks of two processes may be apart (imports).
    polls_in_doubt: of a history that others recorded; else what polls returned is on record when they return.
    unclosed: of each group that has some, the processes whose automatic commits may have passed records that
    they never returned.
    vertex, relay: flags by op (docs/checks.md, "Cycles").
    proven: open transactions that a read of one of their records proves committed, sorted.
    ends: of each `ENDS` neighbouring ops the latest `complete_ns` up to them; none without transactions.
    cut, cut_groups, cut_ops: processes whose last lines may be missing, and those that have no row though
    they had a journal; the groups that have, or may have, such a process, and the ops that one of them left
    open; numbers, all sorted. broke_off: so did the recording, and a process may have no row at all.
    unheard: sends may be missing, of a process that is cut or has no row.
    settled_ns: a record that was acknowledged by then with acks 0 or 1 lay below the high watermark when the
    ends of the logs were listed, were it in the log.
    share: what share groups did; None = nothing.
    ops: what rows of sealed files have to repeat of their ops; None: they were asked before.
    cap: findings kept of one class and variant.
    """

    on_record: OnRecord
    processes: Array
    acks: Array
    idempotent: Array
    retries: Array
    in_flight: Array
    vertex: Array
    relay: Array
    bounds: Mapping[int, Mapping[int, Bound]]
    assignments: Mapping[int, Columns]
    group: Array
    started: Array
    isolation: Array
    joined: Array
    cut: Array
    cut_groups: frozenset[int]
    cut_ops: Array
    broke_off: bool
    unheard: bool
    tenure: Tenure | None
    commits: Mapping[int, Columns]
    copying: frozenset[int]
    transactional: frozenset[int]
    offsets_fenced: bool
    unseen: frozenset[int]
    ordered: frozenset[int]
    ended: frozenset[int]
    omits: bool
    input: str
    output: str
    removed_ns: int
    named: Array
    damaged: Mapping[int, Array]
    apart_ns: int
    polls_in_doubt: PollsInDoubt
    unclosed: Mapping[int, "Unclosed"]
    ends: Array
    windows: RunWindows
    hindrances: Hindrances
    removed: bool
    tombstones_ns: int
    forgotten_ns: int
    deleted: Mapping[int, Sequence[Deletion]]
    dense: bool
    transactions: int
    settled_ns: int
    cap: int
    proven: Array = field(default_factory=lambda: np.zeros(0, np.int32))
    share: RunShareGroups | None = None
    ops: OpsOnRecord | None = None

    def positions(self, processes: Array) -> Array:
        """Where these processes stand among all."""
        return positions(processes, self.processes)

    @cached_property
    def weak(self) -> Array:
        """Flags, one a process: its records are acknowledged by one replica, or by none."""
        return np.asarray((self.acks == 0) | (self.acks == 1))

    def begun(self, group: int) -> int:
        """When the first process of a group started, 0 = it has none. No earlier loss concerns it."""
        return _earliest(self.started[self.group == group])

    def hides(self, tp: int) -> bool:
        """Whether a last stable offset below the high watermark hides records of a partition, or may."""
        listed = self.bounds.get(tp, {})
        ends = [listed[level].end if level in listed else -1 for level in (RU, RC)]
        return ends[1] < ends[0] if min(ends) >= 0 else not self.dense

    def logs_of(self, group: int, *, records: bool = False) -> tuple[str, ...]:
        """The internal topics that may have lost what a finding misses of the offsets of a group. records: it
        rests on which records there are for the group, too, as the ends of transactions say."""
        decided = group in self.transactional or group in self.unseen or (records and not self.dense)
        return OF_GROUPS if decided else (GROUP_TOPIC,)

    def ended_by(self, ops: Array) -> Array:
        """When these ops, which are transactions, had completed at the latest: not long after they had."""
        return np.asarray(self.ends[ops // ENDS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclosed:
    """Processes of one group whose clients committed automatically and were not closed, one entry each.

    open_ns: invocation of the op that never completed (NEVER: none); what it was assigned then is not
    on record. gone_ns: when the next process of its slot began, where its worker died (else NEVER).
    """

    process: Array
    open_ns: Array
    gone_ns: Array


def _earliest(started: Array) -> int:
    return int(started.min()) if len(started) else 0


def kernel_input(
    tables: Mapping[str, pa.Table],
    *,
    record: OnRecord,
    config: RunConfig | None = None,
    events: Sequence[Event] = (),
    windows: RunWindows | None = None,
    cap: int = CAP,
    f: Sequence[str] = (),
) -> KernelInput:
    """The input of all partitions of a history.

    config: None = that of a run with all defaults. windows: None = those that the events show. f: names of
    kinds of ops.
    """
    config = config or RunConfig(seed=0)
    named = {row["tp"]: (row["topic"], row["partition"]) for row in tables["tps"].to_pylist()}
    if windows is None:
        windows = run_windows(named, events, config)
    process = columns(tables["processes"])
    order = np.argsort(process["process"])
    process = {name: column[order] for name, column in process.items()}
    ops = columns(tables["ops"], OPS)
    vertex, relay = vertices(ops)
    member = process["group"] >= 0
    lines_missing = cut(process, events) if record.recovery else NOBODY
    without_rows = absent(process, events) if record.recovery else NOBODY
    left = ops["op"][(ops["complete_ns"] == OPEN) & np.isin(ops["process"], lines_missing)]
    sends, reads = process["acks"] != NO_PRODUCER, process["isolation"] >= 0
    broken = record.recovery and broke_off(events)
    silenced = sends & np.isin(process["process"], lines_missing)
    return KernelInput(
        on_record=record,
        processes=process["process"],
        acks=process["acks"],
        idempotent=process["idempotent"],
        retries=process["retries"],
        in_flight=process["in_flight"],
        group=process["group"],
        started=process["start_ns"],
        isolation=process["isolation"],
        joined=_joined(process["process"], tables["assignments"]),
        cut=np.union1d(lines_missing, without_rows),
        broke_off=broken,
        unheard=broken or bool(silenced.any()) or len(without_rows) > 0,
        cut_groups=_cut_groups(process, tables["commits"], lines_missing, without_rows),
        cut_ops=left,
        vertex=vertex,
        relay=relay,
        bounds=bounds(tables["bounds"]) if record.final_reads else {},
        assignments=dict(by_tp(tables["assignments"])),
        tenure=tenure(process, ops) if record.recovery else None,
        commits=_commits(tables["commits"], ops) if record.commits else {},
        copying=frozenset(process["group"][member & sends & reads].tolist() if record.recovery else ()),
        transactional=frozenset(_groups_of_transactions(tables["commits"])),
        offsets_fenced=offsets_fenced(config),
        unseen=frozenset(process["group"][member].tolist() if config.app else ()),
        ordered=frozenset(process["group"][member].tolist() if config.app and config.app.ordered else ()),
        ended=_ended(process, ops, tables["commits"]) if config.app else frozenset(),
        omits=config.app is not None and config.app.may_omit,
        input=config.prefix + config.app.input if config.app else "",
        output=config.prefix + config.app.output if config.app and config.app.output else "",
        removed_ns=_removed_ns(tables["bounds"], named, config, events),
        named=_named(tables["foreign"]) if record.final_reads else np.zeros(0, np.int64),
        damaged=_damaged(tables["foreign"], tables["ops"]) if record.final_reads else {},
        apart_ns=config.section(ImportedSection).apart_ns if config.has(ImportedSection) else 0,
        polls_in_doubt=(NONE if record.recovery else polls_in_doubt(tables["ops"], tables["processes"], f)),
        unclosed=unclosed(process, ops) if record.commits else {},
        ends=ends(ops) if record.recovery else np.zeros(0, np.int64),
        windows=windows,
        hindrances=hindrances(events, config),
        removed=not record.recovery or removes(config),
        tombstones_ns=tombstones_kept_ns(config, events) if record.recovery else NOT_COMPACTED,
        forgotten_ns=forgotten_after_ns(config),
        deleted=deletions(named, events),
        dense=not (process["txn_id"] >= 0).any(),
        transactions=_earliest(process["start_ns"][process["txn_id"] >= 0]),
        settled_ns=_settled_ns(events, config) if record.recovery else NEVER,
        share=share_groups(tables, named, process, config, events),
        cap=cap,
    )


def _removed_ns(
    listed: pa.Table, named: Mapping[int, tuple[str, int]], config: RunConfig, events: Sequence[Event]
) -> int:
    """See `KernelInput`. What retention removed may be as young as the run."""
    if config.app is None or not config.app.output:
        return -1
    output = config.prefix + config.app.output
    starts = (row for row in listed.to_pylist() if named[row["tp"]][0] == output and row["start"] > 0)
    if removes(config) and any(starts):
        return NEVER
    asked = [event for event in events if isinstance(event, RecordsDeleted)]
    of_output = (e.ns for e in asked for name in e.offsets if name.rpartition("-")[0] == output)
    return max(of_output, default=-1)


def _named(foreign: pa.Table) -> Array:
    found = {named(payload) for payload in foreign["payload"].to_pylist()} if foreign.num_rows else set()
    return np.array(sorted(found - {-1}), np.int64)


def _damaged(foreign: pa.Table, ops: pa.Table) -> Mapping[int, Array]:
    if not foreign.num_rows:
        return {}
    rows, of = columns(foreign, ("tp", "op", "offset")), columns(ops, ("op", "phase"))
    final = np.isin(rows["op"], of["op"][of["phase"] == FINAL])
    return {tp: rows["offset"][final & (rows["tp"] == tp)] for tp in np.unique(rows["tp"]).tolist()}


def _settled_ns(events: Sequence[Event], config: RunConfig) -> int:
    """See `KernelInput`. NEVER: nothing says when the ends were listed. -1: no record, since the cluster did
    not recover, and its high watermarks may wait for replicas that are not in sync."""
    if any(not event.recovered for event in events if isinstance(event, Recovered)):
        return -1
    listed = [event.ns for event in events if isinstance(event, BoundsListed)]
    return max(-1, listed[-1] - round(still_s(config) * 1e9)) if listed else NEVER


def _groups_of_transactions(commits: pa.Table) -> list[int]:
    groups: list[int] = np.unique(
        numbers(commits, "group")[numbers(commits, "kind") == CommitKind.TXN]
    ).tolist()
    return groups


def _cut_groups(
    process: Columns, commits: pa.Table, lines_missing: Array, without_rows: Array
) -> frozenset[int]:
    """Groups whose rows are not all on record. A process without rows may be of each group on record, also of
    one that only a producer outside of it names, with the offsets that it commits for it."""
    groups = process["group"][np.isin(process["process"], lines_missing)]
    if len(without_rows):
        groups = np.union1d(process["group"], numbers(commits, "group"))
    return frozenset(groups[groups >= 0].tolist())


def _ended(process: Columns, ops: Columns, commits: pa.Table) -> frozenset[int]:
    """Groups whose slots each have an instance that ended in order: a closed process that has ops, all OK,
    and no records nor commits, which stand under another one."""
    ok, other = (
        ops["outcome"] == OK,
        np.union1d(ops["process"][ops["n_sends"] > 0], numbers(commits, "process")),
    )
    whole = np.setdiff1d(ops["process"][ok], np.union1d(ops["process"][~ok], other))
    in_order = (process["end"] == End.CLOSED) & np.isin(process["process"], whole)
    members = process["group"] >= 0
    slots = {*zip(process["group"][members].tolist(), process["slot"][members].tolist(), strict=True)}
    left = slots - {
        *zip(process["group"][in_order].tolist(), process["slot"][in_order].tolist(), strict=True)
    }
    return frozenset(group for group, _ in slots) - {group for group, _ in left}


def _joined(processes: Array, assignments: pa.Table) -> Array:
    """Of each process, whether it was a member of a group at some time, by what groups gave and took."""
    kinds = numbers(assignments, "kind")
    by_group = np.isin(kinds, (AssignmentKind.ASSIGNED, AssignmentKind.REVOKED, AssignmentKind.LOST))
    return np.isin(processes, numbers(assignments, "process")[by_group])


def vertices(ops: Columns) -> tuple[Array, Array]:
    """Flags by op: vertex of the dependency graph, relay (docs/checks.md, "Cycles")."""
    size = int(ops["op"].max(initial=-1)) + 1
    vertex, relay = np.zeros(size, bool), np.zeros(size, bool)
    txn, sends, reads = ops["txn"] == 1, ops["n_sends"], ops["n_reads"]
    alive = ops["outcome"] != FAIL
    vertex[ops["op"]] = alive & (txn | (sends == 0) | ((sends == 1) & (reads == 0)))
    relay[ops["op"]] = vertex[ops["op"]] & (sends > 0) & (reads > 0)
    return vertex, relay


def ends(ops: Columns) -> Array:
    """See `KernelInput`."""
    if not (ops["txn"] == 1).any():
        return np.zeros(0, np.int64)
    found = np.full(-(-(int(ops["op"].max()) + 1) // ENDS), -1)
    np.maximum.at(found, ops["op"] // ENDS, ops["complete_ns"])
    return np.asarray(np.maximum.accumulate(found))


def _commits(table: pa.Table, ops: Columns) -> dict[int, Columns]:
    """Rows of each partition that belong to a group, with `done`."""
    rows = columns(table)
    rows["done"] = done_ns(rows, ops)
    mine = rows["group"] >= 0
    rows = {name: column[mine] for name, column in rows.items()}
    return dict(grouped(rows["tp"], rows))


def done_ns(commits: Columns, ops: Columns) -> Array:
    """When each row of `commits` is complete: never, where it is indefinite."""
    size = int(max(ops["op"].max(initial=-1), commits["op"].max(initial=-1))) + 2
    op_done = np.full(size, OPEN)
    op_done[ops["op"]] = ops["complete_ns"]
    own = np.where(commits["outcome"] == INFO, OPEN, commits["complete_ns"])
    return np.where(commits["kind"] == CommitKind.TXN, op_done[commits["op"]], own)


def unclosed(process: Columns, ops: Columns) -> dict[int, Unclosed]:
    """Whose automatic commits may have passed too much (docs/checks.md, "group-skip"), by group."""
    member = (process["group"] >= 0) & (process["auto_commit"] == 1)
    rows = np.flatnonzero(member & (process["end"] != End.CLOSED))
    if not len(rows):
        return {}
    open_ns = np.full(len(rows), NEVER)
    left = np.flatnonzero((ops["complete_ns"] == OPEN) & np.isin(ops["process"], process["process"][rows]))
    owner = np.searchsorted(process["process"][rows], ops["process"][left])
    np.minimum.at(open_ns, owner, ops["invoke_ns"][left])
    gone_ns = np.full(len(rows), NEVER)
    for n, row in enumerate(rows.tolist()):
        if process["end"][row] == End.CRASHED:
            begun = process["start_ns"][process["slot"] == process["slot"][row]]
            gone_ns[n] = begun[begun > process["start_ns"][row]].min(initial=NEVER)
    found = {}
    for group in np.unique(process["group"][rows]).tolist():
        mine = process["group"][rows] == group
        own = process["process"][rows][mine]
        found[group] = Unclosed(process=own, open_ns=open_ns[mine], gone_ns=gone_ns[mine])
    return found
