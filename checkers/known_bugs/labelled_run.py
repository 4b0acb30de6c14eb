"""A run whose findings get labels: what signatures ask of it again and again, looked up once.

Its transactions, in the order of each transactional id; the requests that came late; what coordinators wrote
down, and which of them loaded what was not committed; the batches of its partitions.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import takewhile
from math import inf
from typing import Final, NamedTuple

import numpy as np

from checkers.checks.exactly_once import NeverCopied
from checkers.checks.group_delivery import NeverGiven
from checkers.checks.group_offsets import PhantomCommit
from checkers.checks.integrity import ForeignRecord
from checkers.checks.poll_order import Skipped
from checkers.engine.findings import FAIL, INFO, NEVER, OK, Finding
from checkers.known_bugs.broker_versions import BrokerVersions, broker_versions
from checkers.known_bugs.cancelled_markers import LateMarker, late_markers
from checkers.known_bugs.late_requests import ENDING, MARKING, LateRequest, late_requests
from checkers.logs.accept_share import Key as SharePartitionKey
from checkers.logs.coordinator_log import CoordinatorLog, CoordinatorRecord, coordinator_log
from checkers.logs.elections import Elections, elections, survivor
from checkers.logs.replicas import ReplicaLog, replicas
from checkers.logs.transactions import Transaction, transaction_logs
from core.internal_topics import TRANSACTION_TOPIC
from core.op import TopicPartition
from history.broker_logs import CoordinatorElected, UnreadMemberLine, unread_member_lines
from history.columns import Array, columns, numbers
from history.evidence import Evidence
from history.reader import History, OpRecord, ReadRow, SendRow
from history.replica_lines import LearntLine, learnt_lines, replica_lines
from history.tables import TableRow
from history.unit_files import EVERYWHERE

Input = NeverCopied | NeverGiven | PhantomCommit
MARKERS_COMPARED: Final = (4, 2)
"""Since then a marker of transaction protocol 2 has to be newer than the transaction that it ends."""
SLACK_MS: Final = 1
"""Times of the run in ms since 1970 are rounded down."""


class LostState(NamedTuple):
    """A coordinator that loaded the end of a log, and its successor that did not have it. first: the first
    one that had loaded it; others between them kept it."""

    old: CoordinatorElected
    new: CoordinatorElected
    first: CoordinatorElected

    @property
    def records(self) -> int:
        """How many it loaded that the successor did not have."""
        return self.old.start - self.new.start


def _has_more(new: CoordinatorElected, old: CoordinatorElected) -> bool:
    """A coordinator loaded what a later one lacks, and what was not committed."""
    return new.start < old.start and old.high_watermark <= new.start


@dataclass(frozen=True)
class LabelledRun:
    """The history and the evidence of a run. Raises: HistoryError, where a file cannot be read."""

    history: History
    evidence: Evidence
    skips: Sequence[Skipped] = ()
    """Findings about what was passed over: all are looked up at once."""
    inputs: Sequence[Input] = ()
    """Likewise, about records that a group was never given, or never copied, and the one right below an
    offset that it committed."""
    strangers: Sequence[ForeignRecord] = ()
    """Likewise, about output that is said to be a copy of a record."""

    @cached_property
    def versions(self) -> BrokerVersions:
        """The versions of its brokers."""
        return broker_versions(self.history.config, self.history.events)

    def ns_of(self, ms: int) -> int:
        """The time in ns of what the brokers' clock says."""
        return (ms - self.history.wall_ms(0)) * 1_000_000

    @property
    def own_program(self) -> bool:
        """The clients are a program of the user's, and their bugs its own."""
        return bool(self.history.config.get("clients", "") == "command")

    # ---- records

    @cached_property
    def _between(self) -> Mapping[int, list[SendRow]]:
        """Partition -> sends of records that skips passed over, by place."""
        places: dict[int, set[int]] = defaultdict(set)
        for finding in self.skips:
            places[finding.tp].update(finding.left_out)
        found: dict[int, list[SendRow]] = defaultdict(list)
        for row in self.history.sends({tp: {"place": some} for tp, some in places.items() if some}):
            if row.place in places[row.tp]:
                found[row.tp].append(row)
        return {tp: sorted(rows, key=lambda row: row.place) for tp, rows in found.items()}

    @cached_property
    def _sent_to(self) -> Mapping[tuple[int, int], list[SendRow]]:
        """Partition and offset of each of `inputs` -> what was sent there."""
        places: dict[int, set[int]] = defaultdict(set)
        for finding in self.inputs:
            places[finding.tp].add(_input_place(finding))
        found: dict[tuple[int, int], list[SendRow]] = defaultdict(list)
        for row in self.history.sends({tp: {"place": some} for tp, some in places.items()}):
            found[row.tp, row.place].append(row)
        return found

    def sent_to(self, finding: Input) -> list[SendRow]:
        """What was sent to the place of one of `inputs`."""
        return self._sent_to.get((finding.tp, _input_place(finding)), [])

    @cached_property
    def _copied(self) -> Mapping[int, SendRow]:
        """Value of each record that `strangers` are copies of -> its send."""
        values = {finding.source for finding in self.strangers}
        found = self.history.sends({EVERYWHERE: {"value": values}}) if values else []
        return {row.value: row for row in found}

    def copied(self, finding: ForeignRecord) -> SendRow | None:
        """The send of the record that one of `strangers` is a copy of."""
        return self._copied.get(finding.source)

    @cached_property
    def _reads_of(self) -> dict[tuple[int, int], Sequence[ReadRow]]:
        """Process and partition -> `reads_of`, as far as it was asked."""
        return {}

    def reads_of(self, process: int, tp: int) -> Sequence[ReadRow]:
        """What a process read of a partition, in order."""
        if (process, tp) not in self._reads_of:
            found = self.history.reads({tp: {"process": (process,)}})
            self._reads_of[process, tp] = sorted(found, key=lambda read: (read.op, read.pos))
        return self._reads_of[process, tp]

    def assigned_ns(self, read: ReadRow) -> float:
        """When its reader was given the partition, or another position in it, before a read; -infinity = not
        on record."""
        rows = columns(self.history.tables["assignments"], ("process", "tp", "assignment", "ns"))
        mine = (rows["process"] == read.process) & (rows["tp"] == read.tp)
        found = rows["ns"][mine & (rows["assignment"] == read.assignment)]
        return int(found.min()) if len(found) else -inf

    def between(self, finding: Skipped) -> list[SendRow]:
        """What was sent to the places that one of `skips` passed over."""
        rows, places = self._between.get(finding.tp, []), finding.left_out
        low, high = (bisect_left(rows, at, key=lambda row: row.place) for at in (places.start, places.stop))
        return rows[low:high]

    # ---- transactions

    @cached_property
    def _transactions(self) -> Mapping[str, tuple[list[int], list[int]]]:
        """Transactional id -> when its transactions were invoked, in order, and their ops, without those that
        began nowhere."""
        ops = self.history.tables["ops"]
        process, txn, invoked = (numbers(ops, name) for name in ("process", "txn", "invoke_ns"))
        names = {number: one.transactional_id for number, one in self.history.processes.items()}
        rows = np.setdiff1d(np.flatnonzero(txn == 1), [*self._unheard()])
        rows = rows[np.argsort(invoked[rows], kind="stable")]
        found: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for row, number, ns in zip(
            rows.tolist(), process[rows].tolist(), invoked[rows].tolist(), strict=True
        ):
            if name := names.get(number, ""):
                found[name][0].append(ns)
                found[name][1].append(row)
        return dict(found)

    def _unheard(self) -> set[int]:
        """Transactions that began nowhere: all their sends failed, in no doubt, and as far as is known their
        process had no producer id. Such a process reached no coordinator, and what was open stays open."""
        ops = self.history.tables["ops"]
        process, txn, outcome = (numbers(ops, name) for name in ("process", "txn", "outcome"))
        known = numbers(self.history.tables["producers"], "process")
        failed = np.flatnonzero((txn == 1) & (outcome == FAIL) & ~np.isin(process, known))
        sends = self.history.sends({EVERYWHERE: {"op": failed.tolist()}}) if len(failed) else []
        return {row.op for row in sends} - {row.op for row in sends if row.outcome != FAIL}

    def transactional_id(self, process: int) -> str:
        """Of a process, "" = it has none, or is not on record."""
        known = self.history.processes.get(process)
        return known.transactional_id if known else ""

    def later(self, op: OpRecord) -> Iterator[OpRecord]:
        """Transactions of its transactional id that were invoked after a transaction, in order."""
        invoked, ops = self._transactions.get(self.transactional_id(op.process), ([], []))
        return (self.history.op(ops[at]) for at in range(bisect_right(invoked, op.invoke_ns), len(ops)))

    def next_ns(self, op: OpRecord) -> int:
        """When the next transaction of its transactional id was invoked; NEVER = there is none."""
        return next((one.invoke_ns for one in self.later(op)), NEVER)

    def before(self, op: OpRecord) -> OpRecord | None:
        """The transaction before an op of the same process."""
        invoked, ops = self._transactions.get(self.transactional_id(op.process), ([], []))
        earlier = (self.history.op(ops[at]) for at in reversed(range(bisect_left(invoked, op.invoke_ns))))
        return next((one for one in earlier if one.process == op.process), None)

    def at(self, transactional_id: str, ns: int) -> OpRecord | None:
        """The transaction of this id that was invoked last by a time."""
        invoked, ops = self._transactions.get(transactional_id, ([], []))
        last = bisect_right(invoked, ns) - 1
        return self.history.op(ops[last]) if last >= 0 else None

    def at_ms(self, transactional_id: str, ms: int) -> OpRecord | None:
        """Likewise, by the clock of the brokers."""
        return self.at(transactional_id, self.ns_of(ms + SLACK_MS))

    # ---- late requests

    @cached_property
    def late_ends(self) -> Mapping[str, Sequence[LateRequest]]:
        """Late EndTxn by transactional id."""
        found = defaultdict(list)
        for one in late_requests(self.history, ENDING):
            for name in one.named:
                found[name].append(one)
        return found

    @cached_property
    def _late_markers(self) -> Sequence[LateRequest]:
        return list(late_requests(self.history, MARKING))

    @property
    def any_late_markers(self) -> bool:
        """Whether markers of any producer came late, or may have."""
        return bool(self._late_markers or self.history.broker_logs.cancelled)

    def late_markers(self, transactional_id: str) -> list[LateRequest]:
        """Late requests with markers of the producers of this id: those that its clients had, or that
        coordinators wrote down."""
        if not self._late_markers:
            return []
        its = (n for n, one in self.history.processes.items() if one.transactional_id == transactional_id)
        known = {(one.producer_id, one.producer_epoch) for n in its for one in self.history.identities(n)}
        known |= {(one.producer_id, one.producer_epoch) for one in self.records_of(transactional_id)}
        own = {f"producer {producer_id}/{epoch}" for producer_id, epoch in known}
        return [one for one in self._late_markers if own & one.named]

    def given_up(self, transactional_id: str) -> Sequence[LateMarker]:
        """Markers of this id that came by a request that a coordinator had given up."""
        cancelled = self.history.broker_logs.cancelled
        if transactional_id not in self._given_up:
            found = late_markers(self.evidence, cancelled, transactional_id) if cancelled else []
            self._given_up[transactional_id] = found
        return self._given_up[transactional_id]

    @cached_property
    def _given_up(self) -> dict[str, list[LateMarker]]:
        return {}

    def asked(self, late: LateRequest, transactional_id: str) -> set[bool]:
        """What a late request of this id may have asked for, True = a commit: what the transaction asked for
        that was under way when a rule took it."""
        op = self.at(transactional_id, late.caught_ns)
        return endings(op) if op else set()

    # ---- coordinators

    @cached_property
    def coordinator_log(self) -> CoordinatorLog:
        """What coordinators had written down at the end."""
        return self.evidence.once(coordinator_log)

    @cached_property
    def _records(self) -> Mapping[str, list[CoordinatorRecord]]:
        found = defaultdict(list)
        for record in self.coordinator_log.records:
            found[record.transactional_id].append(record)
        return found

    def records_of(self, transactional_id: str) -> Sequence[CoordinatorRecord]:
        """The records of an id, in order."""
        return self._records.get(transactional_id, ())

    def records_within(self, op: OpRecord) -> list[CoordinatorRecord] | None:
        """What its coordinator wrote down of a transaction, up to the beginning of the next one; None = that
        partition of the log is not known as a whole."""
        if op.op not in self._within:
            self._within[op.op] = self._found_within(op)
        return self._within[op.op]

    @cached_property
    def _within(self) -> dict[int, list[CoordinatorRecord] | None]:
        return {}

    def _found_within(self, op: OpRecord) -> list[CoordinatorRecord] | None:
        records = self.records_of(self.transactional_id(op.process))
        if not records or records[0].partition not in self.coordinator_log.whole:
            return None
        begin_ms, until_ms = self.window_ms(op)
        return [one for one in records if begin_ms <= one.ms <= until_ms]

    @cached_property
    def _begun(self) -> Mapping[str, list[Transaction]]:
        """Transactional id -> its transactions, as coordinators wrote them down, in order."""
        found = defaultdict(list)
        for some in self.evidence.once(transaction_logs).of.values():
            for one in some:
                found[one.transactional_id].append(one)
        return {name: sorted(some, key=lambda one: one.began_ms) for name, some in found.items()}

    def begun(self, op: OpRecord) -> Sequence[Transaction]:
        """What coordinators wrote down of a transaction: several where it was ended too early, none where
        their log does not tell."""
        every = self._begun.get(self.transactional_id(op.process), [])
        begin_ms, until_ms = self.window_ms(op)
        low = bisect_left(every, begin_ms, key=lambda one: one.began_ms)
        return every[low : bisect_right(every, until_ms, key=lambda one: one.began_ms)]

    def same_producer(self, before: OpRecord, op: OpRecord) -> bool:
        """Two transactions of an id have one producer id and epoch, as far as coordinators' log tells."""
        first, second = ({(one.producer_id, one.epoch) for one in self.begun(of)} for of in (before, op))
        return not first or not second or not first.isdisjoint(second)

    def takes_older(self, version: int, ns: int) -> bool:
        """A leader may take a late marker at a time: one that has the epoch of a transaction ends it, unless
        brokers and client know better (KIP-1228). version: transaction protocol of the marker's client."""
        return version < 2 or not self.versions.known or self.versions.some_before(MARKERS_COMPARED, ns)

    def window_ms(self, op: OpRecord) -> tuple[int, int]:
        """From the beginning of a transaction to that of the next one of its id, by the brokers' clock."""
        until = self.next_ns(op)
        return self.history.wall_ms(op.invoke_ns), NEVER if until == NEVER else self.history.wall_ms(until)

    @cached_property
    def _went_back(self) -> Mapping[int, list[LostState]]:
        """Partition of the log -> coordinators that loaded what their successor, in sync or eligible, did not
        have, and what was not committed."""
        elected: dict[int, dict[int, CoordinatorElected]] = defaultdict(dict)
        for one in self.history.broker_logs.elected:
            elected[one.partition][one.epoch] = one
        found: dict[int, list[LostState]] = defaultdict(list)
        for partition, every in elected.items():
            line = [every[epoch] for epoch in sorted(every)]
            for at, new in enumerate(line):
                before = [*takewhile(partial(_has_more, new), reversed(line[:at]))]
                if before and self._in_turn(before[0], new):
                    found[partition].append(LostState(before[0], new, before[-1]))
        return found

    def lost_states(self, partition: int) -> Sequence[LostState]:
        """Coordinators of this partition of the log that loaded, and lost, what was not committed."""
        return self._went_back.get(partition, [])

    def _in_turn(self, old: CoordinatorElected, new: CoordinatorElected) -> bool:
        """A coordinator's successor was in sync when that one was elected, or was elected cleanly, as the
        metadata log says: it was in sync later, or eligible (KIP-966)."""
        if new.node in old.isr:
            return True
        lineage = self.lineage(TopicPartition(TRANSACTION_TOPIC, new.partition))
        return any((one.epoch, one.leader, one.clean) == (new.epoch, new.node, True) for one in lineage.found)

    def went_back(self, partition: int, op: OpRecord) -> list[LostState]:
        """Coordinators of this partition of the log that loaded, and lost, what was not committed: each led
        before the transaction had ended, and its successor after it began. It has ended when its client has
        seen it committed, or the next one of the id begins."""
        until_ns = op.complete_ns if op.outcome == OK else self.next_ns(op)
        wall_ns = self.history.wall_ns
        return [
            one
            for one in self.lost_states(partition)
            if wall_ns(one.old.wall) <= until_ns and op.invoke_ns <= wall_ns(one.new.wall)
        ]

    def acted_since_ns(self, gone: Iterable[LostState]) -> float:
        """Since when coordinators may have acted upon what they had loaded, and lost later."""
        since_ns = min((self.history.wall_ns(one.first.wall) for one in gone), default=inf)
        return since_ns - SLACK_MS * 1_000_000

    def first_ack_ns(self, op: OpRecord, partition: str) -> int:
        """When an op first knew that a record of its was in a partition, NEVER = it did not, or no client
        writes there."""
        if (op.op, partition) not in self._first_acks:
            tp = self.history.tp_numbers.get(partition, -1)
            rows = self.history.sends({tp: {"op": (op.op,)}}) if tp >= 0 else ()
            known = (row.ack_ns for row in rows if row.outcome == OK and row.ack_ns >= 0)
            self._first_acks[op.op, partition] = min(known, default=NEVER)
        return self._first_acks[op.op, partition]

    @cached_property
    def _first_acks(self) -> dict[tuple[int, str], int]:
        return {}

    # ---- partitions

    @cached_property
    def learnt(self) -> Mapping[tuple[int, str], Sequence[LearntLine]]:
        """What leaders learnt of their partitions, as their logs have it."""
        return learnt_lines(self.history.run)

    @cached_property
    def _lineages(self) -> dict[TopicPartition, Elections]:
        return {}

    def lineage(self, tp: TopicPartition) -> Elections:
        """The leaders of a partition, as the metadata log has them."""
        if tp not in self._lineages:
            self._lineages[tp] = elections(self.evidence, tp)
        return self._lineages[tp]

    @cached_property
    def _starts(self) -> dict[TopicPartition, dict[int, int]]:
        return {}

    def starts(self, tp: TopicPartition) -> Mapping[int, int]:
        """Leader epoch of a partition -> the end of its leader's log as it began, as far as brokers' logs say
        so. A leader that begins its epoch again has what it wrote in it: the first end counts."""
        if tp not in self._starts:
            lines = [one for one in replica_lines(self.history.run, str(tp)) if one.leads]
            lines.sort(key=lambda one: one.end, reverse=True)
            self._starts[tp] = {one.epoch: one.end for one in lines}
        return self._starts[tp]

    @cached_property
    def _logs(self) -> dict[TopicPartition, list[ReplicaLog]]:
        return {}

    def logs(self, tp: TopicPartition) -> Sequence[ReplicaLog]:
        """All logs of a partition, by take and node."""
        if tp not in self._logs:
            self._logs[tp] = replicas(self.evidence, tp)
        return self._logs[tp]

    @cached_property
    def _survivors(self) -> dict[TopicPartition, ReplicaLog | None]:
        return {}

    def survivor(self, tp: TopicPartition) -> ReplicaLog | None:
        """The log of a partition that a clean leader has at the end; None = no node had it."""
        if tp not in self._survivors:
            self._survivors[tp] = survivor(self.logs(tp), self.lineage(tp))
        return self._survivors[tp]

    @cached_property
    def unread_members(self) -> Sequence[UnreadMemberLine]:
        """What brokers of 4.1 say of members of share groups whose ids they cannot read."""
        return unread_member_lines(self.history.run)

    def partition(self, tp: int) -> TopicPartition:
        """A partition of clients by name."""
        topic, _, partition = self.history.tp(tp).rpartition("-")
        return TopicPartition(topic, int(partition))

    def share_partition(self, key: SharePartitionKey) -> tuple[str, TopicPartition]:
        """Group and partition of a key of `__share_group_state`, which has the topic's id, by names."""
        group, topic, number = key
        return group, TopicPartition(self.evidence.topics.get(topic, ""), number)

    def shared(self, finding: Finding) -> tuple[str, TopicPartition]:
        """Those of a finding about a share group, whose key begins with the partition and the group."""
        tp, group = finding.key[:2]
        return self.history.group(group), self.partition(tp)

    def batch(self, tp: TopicPartition, offset: int) -> TableRow | None:
        """The batch at an offset; None = no node had it at the end."""
        log = self.survivor(tp)
        return None if log is None else batch_at(log, offset)


def batch_at(log: ReplicaLog, offset: int) -> TableRow | None:
    """The batch of a log at an offset; None = it has none there."""
    if not log.ordered:
        return None
    columns: dict[str, Array] = log.whole
    at = int(np.searchsorted(columns["base"], offset, "right")) - 1
    if at < 0 or columns["last"][at] < offset:
        return None
    return {name: column[at] for name, column in columns.items()}


def endings(op: OpRecord) -> set[bool]:
    """How a transaction's client may have asked to end it, True = commit."""
    if op.outcome == OK:
        return {True}
    if op.outcome == INFO:
        return {True, False}
    # where a commit failed, it asked for the abort then
    failed = op.outcome == FAIL and op.error and not op.deliberate
    return {True, False} if failed else {False}


def _input_place(finding: Input) -> int:
    """The offset of the record that a group passed over, or had read before it committed."""
    return finding.place if isinstance(finding, PhantomCommit) else finding.key[-1]
