"""The metadata log (`__cluster_metadata`), record by record, against the model's controller.

Each node's log is judged, committed or not: a leader of the quorum has applied the log before it decides. A
record is what an active controller may decide in the state that the records before it make.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from checkers.engine.findings import Found, LogFinding, PartitionResult
from checkers.logs.classes import DIVERGENCE, UNCLEAN
from checkers.logs.elections import METADATA
from checkers.logs.metadata_rows import READ, Row, record, rows
from checkers.logs.replicas import ReplicaLog, replicas
from checkers.logs.rule import Rule, checks_of, refused
from core.op import TopicPartition
from history.evidence import Evidence
from history.evidence_tables import END
from model.accepting.metadata_log import MetadataLog
from model.accepting.metadata_records import LogImage

RULES: Final = {
    "metadata-logs-agree": Rule(
        "Metadata logs that have a record of the same offset and epoch in common are equal up to there.",
        "KIP-595; Raft, 5.3",
        DIVERGENCE,
    ),
    "metadata-in-order": Rule(
        "An offset of the metadata log has one record, and its epochs do not fall.", "KIP-595"
    ),
    "leader-epoch-rises": Rule(
        "The leader epoch of a partition rises with every change of its leader, and never falls.",
        "KIP-101; PartitionRegistration.merge",
    ),
    "partition-epoch-rises": Rule(
        "The partition epoch rises by one with every change of a partition.",
        "KIP-497; PartitionRegistration.merge",
    ),
    "in-sync-set": Rule(
        "In-sync replicas are replicas, the leader is in sync, and an eligible leader replica is not in "
        "sync.",
        "KIP-497, KIP-966",
    ),
    "eligible-are-replicas": Rule(
        "An eligible leader replica is a replica of its partition: one that was taken off gives up its log.",
        "KIP-966",
    ),
    "unclean-election": Rule(
        "Where unclean.leader.election.enable is false, a new leader was in sync, an eligible leader "
        "replica, or the last known leader.",
        "KIP-966; ReplicationControlManager",
        UNCLEAN,
    ),
    "change-has-cause": Rule(
        "A change of a partition is what the controller makes of its state for some cause: a broker that is "
        "fenced, comes back, leaves or loses a directory, a request of the leader, an election, a "
        "reassignment.",
        "PartitionChangeBuilder",
    ),
    "fenced-leads-nothing": Rule("A broker that is fenced leads no partition.", "KIP-631"),
    "unclean-not-eligible": Rule(
        "With eligible leader replicas, a broker that died and is registered again is neither in sync nor "
        "eligible in any partition.",
        "KIP-966; ReplicationControlManager.handleUncleanBrokerShutdown",
    ),
    "broker-epochs-rise": Rule(
        "A broker's epoch rises with each new process, and a change of its registration names the newest.",
        "KIP-631; ClusterControlManager",
    ),
    "producer-id-blocks": Rule("Blocks of producer ids do not overlap.", "KIP-730; ProducerIdControlManager"),
    "producer-ids-given": Rule(
        "Each producer id in a log is of a block that the controller gave away.", "KIP-730"
    ),
    "topics-known": Rule(
        "Ids and names of topics are unique, and a partition belongs to a topic that was created before it.",
        "KIP-516; ReplicationControlManager",
    ),
    "snapshot-is-image": Rule(
        "A snapshot holds what the records of the log before its offset make.", "KIP-630"
    ),
}


class _Log(NamedTuple):
    """The metadata log of a node in a take. where: both in words. snapshots: rows by the offset where one
    ends."""

    take: int
    node: int
    where: str
    rows: list[Row]
    snapshots: dict[int, list[Row]]

    def end(self) -> tuple[int, int]:
        """Epoch and offset of the last record."""
        return (self.rows[-1].leader_epoch, self.rows[-1].offset) if self.rows else (-1, -1)


def kernel(evidence: Evidence, tp: TopicPartition, result: PartitionResult) -> None:
    """The rules of this module, for `__cluster_metadata-0`; nothing for other partitions."""
    if tp != METADATA:
        return
    moments = evidence.once(Evidence.moments)
    logs = _logs(evidence.table("metadata"), moments)
    copies = {(copy.take, copy.node): copy for copy in replicas(evidence, tp)}
    cut = [(one.take, one.node) for one in logs if _cut(one, copies.get((one.take, one.node)), result)]
    starts = {
        (row["take"], row["node"]): int(row["start"]) for row in evidence.of("partitions", tp).to_pylist()
    }
    # By Raft, the log with the newest epoch, and among those the longest, has all that was ever committed.
    logs.sort(key=lambda one: (one.take, one.end()), reverse=True)
    judged: list[_Log] = []
    unclean = _unclean(evidence, logs)
    for one in logs:
        _in_order(one, result)
        since = max((_agree(one, other, result) for other in judged), default=-1)
        if since <= one.end()[1]:
            acceptor = MetadataLog(unclean=unclean, elects=result.ground.unclean)
            _accepted(one, since, starts.get((one.take, one.node), 0), acceptor, result)
            if not judged and (one.take, one.node) not in cut:
                _ids_given(evidence, logs, acceptor, result)
            judged.append(one)
    damaged = [row for row in evidence.table("damage").to_pylist() if METADATA.topic in row["file"]]
    for row in damaged:
        when = moments.get((row["take"], row["node"]), "")
        _doubt(result, f"{row['file']} of node {row['node']} {when}: {row['why']}")


CHECKS: Final = checks_of(RULES, ring=1, log_kernel=kernel)


def _logs(table: pa.Table, moments: Mapping[tuple[int, int], str]) -> list[_Log]:
    """The logs of all nodes and takes; those without a record are left out. moments: `Evidence.moments`."""
    where = zip(*(table[name].to_pylist() for name in ("take", "node", "snapshot")), strict=True)
    found: dict[tuple[int, int], _Log] = {}
    for (take, node, snapshot), row in zip(where, rows(table), strict=True):
        told = f"node {node} {moments.get((take, node), '')}".rstrip()
        mine = found.setdefault((take, node), _Log(take, node, told, [], {}))
        if snapshot < 0:
            mine.rows.append(row)
        else:
            mine.snapshots.setdefault(snapshot, []).append(row)
    for one in found.values():
        one.rows.sort(key=lambda row: row.offset)
    return list(found.values())


def _cut(one: _Log, copy: ReplicaLog | None, result: Found) -> bool:
    """Leave out what stands behind a damaged or missing batch, or a record that cannot be read: the state
    there is unknown. Returns whether there is such a place."""
    ends = [row.offset for row in one.rows if row.opaque is not None and row.name in READ]
    if copy is not None and copy.broken >= 0:
        ends.append(copy.broken)
    if ends:
        kept = [row for row in one.rows if row.offset < min(ends)]
        if len(kept) < len(one.rows):
            _doubt(result, f"{one.where}: from offset {min(ends)} on the log cannot be read as a whole")
        one.rows[:] = kept
    return bool(ends)


def _doubt(result: Found, why: str, *rules: str) -> None:
    """Of these rules, or of all."""
    for rule in rules or RULES:
        result.leave_open(rule, METADATA, why)


def _refuse(result: Found, rule: str, offset: int, where: Sequence[_Log], why: str) -> None:
    result.refuse(
        LogFinding(
            check=rule,
            log=METADATA,
            offset=offset,
            take=where[0].take,
            nodes=tuple(dict.fromkeys(one.node for one in where)),
            text=f"at offset {offset} of {METADATA}: {why}",
        )
    )


# ---- one log as a log, and beside others


def _in_order(one: _Log, result: Found) -> None:
    for before, row in zip(one.rows, one.rows[1:], strict=False):
        result.asked["metadata-in-order"] += 1
        if row.offset <= before.offset or row.leader_epoch < before.leader_epoch:
            why = (
                f"a record of epoch {row.leader_epoch} stands behind offset {before.offset}, which has epoch "
            )
            _refuse(result, "metadata-in-order", row.offset, [one], f"{why}{before.leader_epoch}")


def _agree(one: _Log, other: _Log, result: Found) -> int:
    """The first offset from which on the two have no record in common."""
    mine, theirs = ({row.offset: row for row in log.rows} for log in (one, other))
    common = [at for at, row in mine.items() if at in theirs and theirs[at].leader_epoch == row.leader_epoch]
    if not common:
        return 0
    begin, last = max(one.rows[0].offset, other.rows[0].offset), max(common)
    for at in sorted({*mine, *theirs}):
        if not begin <= at <= last:
            continue
        result.asked["metadata-logs-agree"] += 1
        if mine.get(at) != theirs.get(at):
            what = (
                f"node {log.node} has {_said(rows.get(at))}" for log, rows in ((one, mine), (other, theirs))
            )
            why = f"{', '.join(what)}, though both have the same record at {last}"
            _refuse(result, "metadata-logs-agree", at, [one, other], why)
    return last + 1


def _said(row: Row | None) -> str:
    return "nothing" if row is None else f"{row.name} {row.body or ''} of epoch {row.leader_epoch}"


# ---- beside other tables


def _unclean(evidence: Evidence, logs: Sequence[_Log]) -> frozenset[int]:
    """Offsets of registrations of brokers that had died. Between what a broker knew when it died and what it
    knew when it was looked at again, there has to be one registration of it: of several, none is taken."""
    clean = {(row["take"], row["node"]): row["clean_shutdown"] for row in evidence.table("nodes").to_pylist()}
    died = {(row["take"], row["node"]) for row in evidence.table("takes").to_pylist() if row["why"] != END}
    registered = {
        (row.broker, row.offset)
        for row in (logs[0].rows if logs else ())
        if row.name == "RegisterBrokerRecord"
    }
    found = set()
    for node in {one.node for one in logs}:
        mine = sorted((one.take, one.end()[1]) for one in logs if one.node == node)
        for (take, end), (_, later) in itertools.pairwise(mine):
            between = [at for broker, at in registered if broker == node and end < at <= later]
            if (take, node) in died and clean.get((take, node)) is False and len(between) == 1:
                found.add(between[0])
    return frozenset(found)


def _ids_given(evidence: Evidence, logs: Sequence[_Log], acceptor: MetadataLog, result: Found) -> None:
    """Producer ids of all batches, beside the blocks that the newest metadata log gave away."""
    last = max(row["take"] for row in evidence.table("takes").to_pylist())
    nodes = {row["node"] for row in evidence.table("takes").to_pylist() if row["take"] == last}
    if not acceptor.whole or not nodes <= {one.node for one in logs if one.take == last}:
        return
    end = max(acceptor.image.next_id, 0)
    columns = ["topic", "partition", "take", "node", "base", "producer_id"]
    batches = evidence.columns("batches", [*columns, "intact"])
    mine = batches.filter(pc.and_(batches["intact"], pc.greater_equal(batches["producer_id"], 0)))
    result.asked["producer-ids-given"] += mine.num_rows
    seen: set[TopicPartition] = set()
    for row in mine.filter(pc.greater_equal(mine["producer_id"], end)).select(columns).to_pylist():
        tp = TopicPartition(row["topic"], row["partition"])
        if tp in seen:
            continue
        seen.add(tp)
        why = f"producer id {row['producer_id']} in {tp.topic}-{tp.partition}; {METADATA.topic} gave away"
        result.refuse(
            LogFinding(
                check="producer-ids-given",
                log=tp,
                offset=row["base"],
                take=row["take"],
                nodes=(row["node"],),
                text=f"at offset {row['base']}: {why} those below {end}",
                producer_id=row["producer_id"],
            )
        )


# ---- the records of a log


def _accepted(one: _Log, since: int, start: int, acceptor: MetadataLog, result: Found) -> None:
    """Ask the acceptor about a log; what it refuses before `since` is a finding in another one."""
    names: dict[str, str] = {}
    images = {at: _image(rows, names) for at, rows in one.snapshots.items() if at > 0}
    acceptor.snapshots = images
    begin = 0
    if start > 0:
        begin = min((at for at in images if at >= start), default=-1)
        if begin >= 0:
            acceptor.image = images.pop(begin)
        else:
            acceptor.whole = False
            why = f"the log of {one.where} begins at offset {start}, and no snapshot"
            _doubt(result, f"{why} tells what was before")
    records = [(row.offset, record(row, names)) for row in one.rows if row.offset >= begin]
    for refusal in acceptor.accept(records):
        if refusal.offset >= since:
            result.refuse(refused(refusal, METADATA, one.take, one.node))
    result.asked += acceptor.asked
    for offset, rule, why in acceptor.unknown:
        if offset >= since:
            _doubt(result, f"at offset {offset}: {why}", rule)
    opaque = Counter(row.name for row in one.rows if row.opaque is not None)
    if opaque:
        _doubt(result, f"{opaque.total()} records that no definition reads: {', '.join(sorted(opaque))}")


def _image(rows: Iterable[Row], names: dict[str, str]) -> LogImage:
    """What a snapshot holds. `names` gets its topics, by id."""
    image = LogImage()
    for row in rows:
        image.apply(record(row, names))
    return image
