"""Files that brokers compute from a log of producers, against the model: snapshots and the aborted index.

Where the evidence does not say which version wrote them (brokers on ZooKeeper), the rules accept what old
versions did. Before 1.0 (KAFKA-5494) a snapshot has a producer's marker for its last batch; in 1.1 it has the
time of its last batch (-1 = there is none), though a marker came later. Before 2.8 (KAFKA-10702) an abort
marker of a producer with no open transaction is in the index, as a transaction that begins and ends there.
"""

import numpy as np
import pyarrow.compute as pc

from checkers.engine.findings import Found, LogFinding
from checkers.logs.producer_walk import Snapshot, Walk, forgotten
from checkers.logs.replicas import ReplicaLog
from core.op import TopicPartition
from history.evidence import Evidence
from history.evidence_tables import NO_PRODUCER
from model.log.unified_log import AbortedTxn, ProducerSnapshotEntry

ABORTED_INDEX = "aborted-index"
PRODUCER_SNAPSHOT = "producer-snapshot"
NO_OFFSET = -1
"""Kafka's number for none, also of a time."""


def snapshots(evidence: Evidence, tp: TopicPartition) -> dict[tuple[int, int], dict[int, Snapshot]]:
    """Snapshots by take and node, and by their offset."""
    found: dict[tuple[int, int], dict[int, Snapshot]] = {}
    for row in evidence.of("producers", tp).to_pylist():
        entry = ProducerSnapshotEntry(*(row[name] for name in ProducerSnapshotEntry._fields))
        of_node = found.setdefault((row["take"], row["node"]), {})
        snapshot = of_node.setdefault(row["snapshot"], {})
        if row["producer_id"] != NO_PRODUCER:
            snapshot[row["producer_id"]] = entry
    return found


def compare_snapshots(
    result: Found,
    tp: TopicPartition,
    log: ReplicaLog,
    walk: Walk,
    found: dict[int, Snapshot],
    *,
    any_version: bool,
) -> None:
    """A node's snapshots and the states that its log makes. any_version: the evidence names none."""
    for at, snapshot in sorted(found.items()):
        made = walk.states.get(at)
        gaps = {gap for gap in walk.accepted.gaps if gap <= at}
        if made is None or at < walk.left or gaps:
            what = "is after the end of its log" if made is None else "has gaps in the log before it"
            what = f"is not decided: {forgotten(walk)}" if at < walk.left or gaps == {walk.left} else what
            why = f"the snapshot at {at} of {log.where()} {what}"
            result.leave_open(PRODUCER_SNAPSHOT, tp, why)
            continue
        result.asked[PRODUCER_SNAPSHOT] += len({*made, *snapshot}) or 1
        for producer in sorted({*made, *snapshot}):
            ours, said = made.get(producer), snapshot.get(producer)
            if ours != said and not (any_version and _as_before(log, producer, ours, said)):
                sentence = (
                    f"at offset {at} of {tp}: the snapshot of {log.where()} says of producer {producer}: "
                    f"{_words(said)}; its log says: {_words(ours)}"
                )
                result.refuse(_finding(PRODUCER_SNAPSHOT, tp, log, at, sentence, producer))


def _as_before(
    log: ReplicaLog, producer: int, ours: ProducerSnapshotEntry | None, said: ProducerSnapshotEntry | None
) -> bool:
    """Whether a snapshot differs as those of an old version do (see the module)."""
    if ours is None or said is None:
        return False
    at = int(np.searchsorted(log.whole["last"], said.last_offset))
    names = ("last", "producer_id", "control", "max_timestamp")
    there = tuple(log.whole[name][at] for name in names) if at < log.count else ()
    if said._replace(timestamp=ours.timestamp) == ours:
        if said.last_offset == NO_OFFSET:
            return said.timestamp == NO_OFFSET
        return there == (said.last_offset, producer, False, said.timestamp)
    if said._replace(last_offset=ours.last_offset, offset_delta=ours.offset_delta) == ours:
        return said.offset_delta == 0 and there[:3] == (said.last_offset, producer, True)
    return False


def _words(entry: ProducerSnapshotEntry | None) -> str:
    if entry is None:
        return "nothing"
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in entry._asdict().items())


def compare_aborted(
    result: Found, tp: TopicPartition, log: ReplicaLog, walk: Walk, evidence: Evidence, *, any_version: bool
) -> None:
    """A node's aborted index and the transactions that its log aborts. any_version: as above."""
    rows = evidence.of("aborted", tp)
    rows = rows.filter(pc.and_(pc.equal(rows["take"], log.take), pc.equal(rows["node"], log.node)))
    made = {(one.producer_id, one.last): one for one in walk.accepted.log.aborted if one.last < log.end}
    newest = -1
    for row in rows.to_pylist():
        producer, first, last, stable = (
            row[name] for name in ("producer_id", "first", "last", "last_stable")
        )
        one = made.pop((producer, last), None)
        newest = max(newest, last)
        if min(first, stable) < max((gap for gap in walk.accepted.gaps if gap <= last), default=0):
            continue  # of what was open before a gap the log says nothing
        if one is None and any_version and first == last:
            continue
        if one is not None and _agrees(one, first, stable):
            result.asked[ABORTED_INDEX] += 1
        else:
            sentence = (
                f"at offset {last} of {tp}: the aborted index of {log.where()} has a transaction of producer "
                f"{producer} from {first}, last stable offset {stable}; its log has {_aborted_words(one)}"
            )
            _refuse(result, walk, _finding(ABORTED_INDEX, tp, log, last, sentence, producer))
    for one in made.values():
        if log.died and one.last > newest:
            continue  # a broker appends to the log first, and this one died before it wrote the entry
        sentence = (
            f"at offset {one.last} of {tp}: the log has {_aborted_words(one)} of producer {one.producer_id}, "
            f"which the aborted index of {log.where()} has not"
        )
        _refuse(result, walk, _finding(ABORTED_INDEX, tp, log, one.last, sentence, one.producer_id))


def _refuse(result: Found, walk: Walk, finding: LogFinding) -> None:
    if finding.offset < walk.left:
        result.leave_open(finding.check, finding.log, f"{finding.text}; {forgotten(walk)}")
    else:
        result.asked[finding.check] += 1
        result.refuse(finding)


def _agrees(one: AbortedTxn, first: int, last_stable: int) -> bool:
    """Whether an entry is what the log makes, or Kafka's own error: a follower that appends several batches
    at once has seen transactions that begin after the marker, and notes where the first one begins. That
    harms fetches from this node alone: there the known bug `aborted-index-skips` looks for it."""
    none_open = one.last_stable == one.last + 1
    stable = last_stable >= one.last_stable if none_open else last_stable == one.last_stable
    return first == one.first and stable


def _aborted_words(one: AbortedTxn | None) -> str:
    if one is None:
        return "no such one"
    return f"an aborted transaction from {one.first}, last stable offset {one.last_stable}"


def _finding(
    rule: str, tp: TopicPartition, log: ReplicaLog, offset: int, sentence: str, producer: int
) -> LogFinding:
    return LogFinding(
        check=rule,
        log=tp,
        offset=offset,
        take=log.take,
        nodes=(log.node,),
        text=sentence,
        producer_id=producer,
    )
