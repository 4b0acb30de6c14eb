"""Ring 3, records: what leaders of one epoch had, the leaders of later epochs have.

The metadata log says which broker led in which epoch, and which elections were clean. An unclean election,
or a loss of power, may lose records (KIP-966).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.engine.check import Tally, WholeRun
from checkers.engine.cut_journals import absent
from checkers.engine.findings import NOT_KNOWN, Found, Missed
from checkers.logs.clocks import apart_ms, nodes_apart_ms, own_clocks
from checkers.logs.elections import METADATA, Elections, elections, survivor
from checkers.logs.replicas import COMPRESSED, ReplicaLog, compare, finding, replicas
from checkers.logs.rule import Rule, checks_of
from checkers.run_windows import deletions
from core.config import recorded_config
from core.internal_topics import GROUP_TOPIC, internal
from core.op import Outcome, TopicPartition
from core.retention import removes
from history.columns import Array
from history.events import JournalsListed
from history.evidence import Evidence
from history.reader import History
from history.unit_files import read_columns

EPOCHS_GIVEN: Final = "epochs-given"
COMMITTED_KEPT: Final = "committed-kept"
ACKNOWLEDGED: Final = "acknowledged-held"
IN_SYNC: Final = "acknowledged-in-sync"
CONSUMED: Final = "consumed-kept"
NAMESAKES: Final = "several topics had this name, one after the other"

RULES: Final = {
    EPOCHS_GIVEN: Rule(
        "Each leader epoch in a partition's log was given to a leader by the metadata log, or by that of"
        " ZooKeeper.",
        "KIP-101, KIP-500; PartitionRegistration.merge, PartitionStateMachine",
    ),
    COMMITTED_KEPT: Rule(
        "What lay below a replica's high watermark when its broker died is in the leader's log at the end,"
        " where all elections since were clean.",
        "KIP-101, KIP-966",
        "lost-write",
    ),
    ACKNOWLEDGED: Rule(
        "Where a client's record was acknowledged (acks=all), the leader's log at the end holds a batch of"
        " the producer that sent it.",
        "KIP-101, KIP-966; producer setting acks",
        "lost-write",
    ),
    IN_SYNC: Rule(
        "A record that was acknowledged with acks=all stands in the log under a leader epoch in which its"
        " leader had, by then, as many replicas in sync as the topic's min.insync.replicas asks for (the"
        " lowest value that it had).",
        "Partition.appendRecordsToLeader; topic setting min.insync.replicas",
    ),
    CONSUMED: Rule(
        "What a group has read, by the offsets that it committed, is in the leader's log at the end: the"
        " log reaches that offset; the record before it has no later leader epoch than the member saw, and"
        " was not made after the commit.",
        "KIP-101, KIP-207, KIP-320; FetchIsolation.HIGH_WATERMARK",
        "lost-write",
    ),
}


def join(run: WholeRun, result: Tally) -> None:
    """Apply the rules to all partitions but the metadata log, whose leaders no metadata log chooses."""
    evidence, history = run.evidence, run.history
    acknowledged = acknowledged_sends(history) if history is not None else {}
    kept = _kept(history) if history is not None else frozenset()
    gone = deletions({tp: tp for tp in evidence.partitions()}, history.events if history is not None else ())
    read, times = _read(evidence), _Times(apart_ms(history), nodes_apart_ms(history), own_clocks(history))
    begun_ms = _begun_ms(history) if history is not None else {}
    unread = evidence.once(_compressed_offsets)
    for tp in evidence.partitions():
        if tp == METADATA:
            continue
        logs = replicas(evidence, tp)
        deleted = max((one.offset for one in gone.get(tp, ())), default=0)
        lineage = _Lineage(tp, logs, elections(evidence, tp), tp.topic in kept, deleted, times, result)
        lineage.epochs_given()
        if unread and not internal(tp.topic):
            result.leave_open(CONSUMED, tp, f"in {GROUP_TOPIC} {COMPRESSED} so that commits may be missing")
        main = survivor(logs, lineage.elections)
        if main is None or not main.ordered:
            continue
        for log in logs:
            if log.died:
                lineage.committed_kept(main, log)
        if (sent := acknowledged.get(tp)) is not None:
            lineage.acknowledged(main, sent)
        if (positions := read.get(tp)) is not None:
            lineage.consumed(main, positions, begun_ms)


CHECKS: Final = checks_of(RULES, ring=3, join=join)


@dataclass(frozen=True, slots=True)
class _Times:
    """How far two times may be apart: clients_ms: that clients gave; nodes_ms: that a node gave, and another
    or a client. own: why the latter cannot be compared, "" = they can."""

    clients_ms: int
    nodes_ms: float
    own: str


@dataclass(frozen=True, slots=True)
class _Lineage:
    tp: TopicPartition
    logs: list[ReplicaLog]
    elections: Elections
    kept: bool
    """Nothing removes records from the log's beginning, but those below `deleted`."""
    deleted: int
    times: _Times
    result: Found

    def start(self, main: ReplicaLog) -> int:
        """Below, records may have been removed, or compacted."""
        return max(main.compacted, min(main.start, self.deleted) if self.kept else main.start)

    def epochs_given(self) -> None:
        """Leader epochs of batches against those that the metadata log gave."""
        given = self.elections.epochs()
        if self.elections.unknown:
            self.result.leave_open(EPOCHS_GIVEN, self.tp, self.elections.unknown)
            return
        if self.elections.topics > 1:
            self.result.leave_open(EPOCHS_GIVEN, self.tp, NAMESAKES)
            return
        for log in self.logs:
            epochs, first = np.unique(log.whole["leader_epoch"], return_index=True)
            some = epochs >= 0  # formats 0 and 1 have none
            self.result.asked[EPOCHS_GIVEN] += int(some.sum())
            for epoch, at in zip(epochs[some].tolist(), first[some].tolist(), strict=True):
                if epoch not in given:
                    text = (
                        f"{log.where()} has {log.batch(at)}; the metadata log gives that epoch to no leader"
                    )
                    self._refuse(EPOCHS_GIVEN, int(log.whole["base"][at]), [log], text)

    def committed_kept(self, main: ReplicaLog, log: ReplicaLog) -> None:
        """What a node that died knew to be committed."""
        high = log.high_watermark
        if high < 0 or not log.count or not log.ordered or log.broken >= 0:
            return  # the audit speaks of damage
        self.result.asked[COMMITTED_KEPT] += int(np.searchsorted(log.whole["base"], high))
        found = compare(main, log)
        if found.right >= log.count:
            return
        offset = int(log.whole["base"][found.right])
        if offset >= high or offset < (min(main.start, self.deleted) if self.kept else main.start):
            return
        text = f"{found.differ()}; node {log.node} knew offsets below {high} to be committed"
        epoch, made = (int(log.whole[name][found.right]) for name in ("leader_epoch", "base_timestamp"))
        doubt = self.elections.of_namesake(log, "replication")
        missed = Missed(max([log.last_epoch, *log.epochs]))  # the leader of its last epoch had what it has
        self._lost(COMMITTED_KEPT, offset, [main, log], text, epoch, made, missed=missed, doubt=doubt)

    def acknowledged(self, main: ReplicaLog, sent: dict[str, Array]) -> None:
        """Where clients have it that their records are."""
        base, last = main.whole["base"], main.whole["last"]
        offset = sent["offset"]
        kept = offset >= self.start(main)
        self.result.asked[ACKNOWLEDGED] += int(kept.sum())
        at = np.searchsorted(base, offset, "right") - 1
        here = np.maximum(at, 0)
        if main.count:
            held = (at >= 0) & (offset <= last[here]) & ~main.whole["control"][here]
            timely = main.whole["base_timestamp"][here] <= sent["ack_ms"] + self.times.clients_ms
            timely &= main.whole["max_timestamp"][here] >= sent["invoke_ms"] - self.times.clients_ms
            timely |= main.whole["max_timestamp"][here] < 0  # messages of format 0 have no time
            by_broker = held & ~timely & main.whole["log_append_time"][here]
            held &= timely
        else:
            held = by_broker = np.zeros(len(offset), np.bool_)
        for row in np.flatnonzero(kept & ~held).tolist():
            place = int(here[row])
            inside = main.count and at[row] >= 0 and offset[row] <= last[place]
            what = main.batch(place) if inside else f"no record there; its log ends at {main.end}"
            text = (
                f"process {sent['process'][row]} sent a record that was acknowledged at offset"
                f" {offset[row]}; {main.where()} has {what}"
            )
            if inside and not main.whole["control"][place]:
                times = main.whole["base_timestamp"][place], main.whole["max_timestamp"][place]
                text += f", of {times[0]} to {times[1]} ms; the client sent its record from"
                text += f" {sent['invoke_ms'][row]} to {sent['ack_ms'][row]} ms"
            made_ns, made_ms = int(sent["invoke_ns"][row]), int(sent["invoke_ms"][row])
            doubt = self.times.own if by_broker[row] else ""
            missed, lost = Missed(acked_ns=int(sent["ack_ns"][row])), int(offset[row])
            self._lost(ACKNOWLEDGED, lost, [main], text, -1, made_ms, made_ns, missed=missed, doubt=doubt)
        self._in_sync(main, sent, here, kept & held)

    def _in_sync(self, main: ReplicaLog, sent: dict[str, Array], here: Array, held: Array) -> None:
        """Acknowledged records that a log holds, by the in-sync sets of their epochs. here: their batches."""
        elected = self.elections
        enough = elected.in_sync_since()
        if not enough or not held.any():
            return
        epochs = main.whole["leader_epoch"][here]
        known = held & np.isin(epochs, np.array([*enough], np.int64))
        self.result.asked[IN_SYNC] += int(known.sum())
        since = np.full(len(epochs), -inf)
        for epoch, since_ms in enough.items():
            since[epochs == epoch] = since_ms
        wrong = known & (np.isinf(since) & (since > 0) | (since > sent["ack_ms"] + self.times.nodes_ms))
        for row in np.flatnonzero(wrong).tolist():
            text = (
                f"process {sent['process'][row]} sent a record that was acknowledged at"
                f" {sent['ack_ms'][row]} ms, and {main.where()} has {main.batch(int(here[row]))}; in leader"
                f" epoch {epochs[row]} there had not been {elected.least} replicas in sync by then"
            )
            made_ns, made_ms = int(sent["invoke_ns"][row]), int(sent["invoke_ms"][row])
            self._lost(IN_SYNC, int(sent["offset"][row]), [main], text, -1, made_ms, made_ns)

    def consumed(self, main: ReplicaLog, positions: pa.Table, begun_ms: Mapping[str, float]) -> None:
        """Where groups have read to. begun_ms: when the first member of a group began."""
        if self.elections.topics > 1:
            self.result.leave_open(CONSUMED, self.tp, NAMESAKES)
            return
        base, last = main.whole["base"], main.whole["last"]
        columns = {name: positions[name].to_numpy() for name in ("committed", "epoch", "ms")}
        offset = columns["committed"] - 1
        kept = offset >= self.start(main)
        self.result.asked[CONSUMED] += int(kept.sum())
        at = np.searchsorted(base, offset, "right") - 1
        here = np.maximum(at, 0)
        wrong = kept & (offset >= main.end)
        by_time = np.zeros(len(offset), np.bool_)
        if main.count:
            inside = (at >= 0) & (offset <= last[here])
            epochs, made = main.whole["leader_epoch"][here], main.whole["base_timestamp"][here]
            later = (columns["epoch"] >= 0) & (epochs > columns["epoch"])
            late = (columns["ms"] >= 0) & (made > columns["ms"] + self.times.clients_ms)
            late &= ~main.whole["control"][here]
            by_time = late & ~later & ~wrong
            wrong |= kept & inside & (later | late)
        for row in np.flatnonzero(wrong).tolist():
            told = positions.slice(row, 1).to_pylist()[0]
            epoch = told["epoch"]
            text = f"group {told['group']} must have read the record at offset {offset[row]}"
            text += f" of leader epoch {epoch}" if epoch >= 0 else ""
            text += f", for it committed offset {told['committed']} at {told['ms']} ms; {main.where()} has "
            if offset[row] < main.end:
                text += f"{main.batch(int(here[row]))}, made at {main.whole['base_timestamp'][here[row]]} ms"
            else:
                text += f"no record there, its log ends at {main.end}"
            # what was gone before a group began it cannot have read
            begun = begun_ms.get(told["group"], -inf)
            doubt = self.times.own if by_time[row] else ""
            missed = Missed(epoch, read_ms=told["ms"])
            self._lost(CONSUMED, int(offset[row]), [main], text, epoch, begun, missed=missed, doubt=doubt)

    def _lost(
        self,
        rule: str,
        offset: int,
        logs: Sequence[ReplicaLog],
        text: str,
        after_epoch: int,
        made_ms: float = -inf,
        made_ns: int = 0,
        *,
        missed: Missed = NOT_KNOWN,
        doubt: str = "",
    ) -> None:
        """A finding, unless the partition may have lost it, or the first of the logs may lack it. made_ms: no
        log had lost it before, by the clock of clients. made_ns: when it was made, as time of the run. doubt:
        why it may be none, "" = it is one. missed: what is known of it."""
        since_ms = made_ms - self.times.nodes_ms
        excuse = doubt or self.elections.may_lose(after_epoch=after_epoch, since_ms=since_ms)
        if excuse := excuse or self.elections.lacks(logs[0]):
            self.result.leave_open(rule, self.tp, f"{text}; {excuse}")
        else:
            found = finding(rule, self.tp, offset, logs, text)
            self.result.refuse(replace(found, since_ns=made_ns, missed=missed))

    def _refuse(self, rule: str, offset: int, logs: Iterable[ReplicaLog], text: str) -> None:
        self.result.refuse(finding(rule, self.tp, offset, logs, text))


def _begun_ms(history: History) -> dict[str, float]:
    """When the first process of each group began, by the clock of the nodes; nothing where a process may be
    missing."""
    listed = any(isinstance(event, JournalsListed) and event.processes for event in history.events)
    if not listed or len(absent({"process": np.array([*history.processes])}, history.events)):
        return {}
    found: dict[str, float] = {}
    for one in history.processes.values():
        if one.group >= 0:
            name, ms = history.group(one.group), history.wall_ms(one.start_ns)
            found[name] = min(ms, found.get(name, inf))
    return found


def _kept(history: History) -> frozenset[str]:
    """Topics of the run from whose logs nothing removes records."""
    if removes(recorded_config(history.run.config)):
        return frozenset()
    return frozenset(row["topic"] for row in history.tables["tps"].to_pylist())


def _read(evidence: Evidence) -> dict[TopicPartition, pa.Table]:
    """Of each partition: the offsets that groups committed, by all logs of their coordinators, each once:
    `group`, `committed`, `epoch` (-1 = unknown), `ms` (-1 = unknown), the time of the commit."""
    rows = evidence.table("offset_log")
    rows = rows.filter(pc.greater(rows["committed"], 0))
    keys = ["committed_topic", "committed_partition", "group", "committed"]
    rows = pa.table(
        {name: rows[name] for name in keys}
        | {
            "epoch": pc.fill_null(rows["committed_leader_epoch"], -1),
            "ms": pc.fill_null(rows["commit_ms"], -1),
        }
    )
    found = rows.group_by([*keys, "epoch"]).aggregate([("ms", "min")]).rename_columns([*keys, "epoch", "ms"])
    places = found.select(keys[:2]).group_by(keys[:2]).aggregate([]).to_pylist()
    by_tp = {}
    for place in places:
        topic, partition = place["committed_topic"], place["committed_partition"]
        mine = pc.and_(
            pc.equal(found["committed_topic"], topic), pc.equal(found["committed_partition"], partition)
        )
        by_tp[TopicPartition(topic, partition)] = found.filter(mine).sort_by("committed")
    return by_tp


def _compressed_offsets(evidence: Evidence) -> bool:
    """Whether some log of the group coordinators has compressed batches."""
    batches = evidence.columns("batches", ["topic", "compression"])
    mine = pc.equal(batches["topic"], GROUP_TOPIC)
    return bool(pc.any(pc.and_(mine, pc.greater(batches["compression"], 0))).as_py())


_SENT: Final = ("tp", "process", "offset", "invoke_ns", "ack_ns", "outcome")


def acknowledged_sends(history: History) -> dict[TopicPartition, dict[str, Array]]:
    """Of each partition: records that were acknowledged with acks=all at an offset. Raises: HistoryError."""
    waited = np.array([one.process for one in history.processes.values() if one.acks == -1], np.int64)
    units = [read_columns(history.run, "sends", unit.name, _SENT) for unit in history.names.units]
    if not units:
        return {}
    columns = {name: np.concatenate([rows[name] for rows in units]).astype(np.int64) for name in _SENT}
    wanted = (columns["outcome"] == Outcome.OK) & np.isin(columns["process"], waited)
    origin = history.wall_ms(0)
    sent = {name: column[wanted] for name, column in columns.items()}
    sent["invoke_ms"] = sent["invoke_ns"] // 1_000_000 + origin
    sent["ack_ms"] = sent["ack_ns"] // 1_000_000 + origin + 1
    found = {}
    for row in history.tables["tps"].to_pylist():
        mine = sent["tp"] == row["tp"]
        tp = TopicPartition(row["topic"], row["partition"])
        found[tp] = {name: column[mine] for name, column in sent.items()}
    return found
