"""Ring 1, `__transaction_state`: each record is one that a coordinator of the model would have written.

The log of the surviving replica goes through `model.accepting.transaction_log` in the order of its offsets.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow.compute as pc

from checkers.engine.findings import Found, PartitionResult
from checkers.logs.cluster_era import era_of
from checkers.logs.elections import partition_count
from checkers.logs.replicas import COMPRESSED, ReplicaLog, last_take, newest, replicas
from checkers.logs.rule import Rule, checks_of, refused
from core.internal_topics import TRANSACTION_TOPIC
from core.op import TopicPartition
from history.evidence import Evidence
from model.accepting.transaction_log import (
    EPOCH,
    FOLLOWING,
    OWNER,
    PARTITIONS,
    PLACE,
    PRODUCER_ID,
    STATE,
    TIMES,
    UNKNOWN_EPOCH,
    Kept,
    TransactionLog,
)
from model.coordinator.transaction_metadata import TransactionRecord, TransactionState, TransactionTombstone

RULES: Final = {
    STATE: Rule(
        "The state of a transactional id follows the one before it, or one that its coordinator may still "
        "have in memory because it did not hear that a later record was committed.",
        "KIP-98, KIP-890, TransactionState.validPreviousStates",
    ),
    PARTITIONS: Rule(
        "A transaction loses no partition before it ends, its prepare record has all of them, and an ended "
        "one has none.",
        "KIP-98, TransactionMetadata.completeTransitionTo",
    ),
    PRODUCER_ID: Rule(
        "A transactional id gets a new producer id only when the epochs of the last one are used up, and "
        "then with epoch 0.",
        "KIP-360, KIP-890, TransactionMetadata.prepareProducerIdRotation",
    ),
    EPOCH: Rule(
        "The producer epoch rises by one with InitProducerId, with a fence, and with each end of transaction "
        "version 2, and else not at all.",
        "KIP-98, KIP-890, KAFKA-19367, TransactionMetadata.validProducerEpoch",
    ),
    TIMES: Rule(
        "The time-out of a transaction and the time of its begin stay the same from its begin to its end.",
        "KIP-98, TransactionMetadata.completeTransitionTo",
    ),
    PLACE: Rule(
        "A transactional id is written to the partition that its hash names.",
        "KIP-98, TransactionStateManager.partitionFor",
    ),
    OWNER: Rule(
        "A producer id belongs to one transactional id.",
        "KIP-98, ProducerIdManager",
        rests_on=(TRANSACTION_TOPIC,),
    ),
}


def kernel(evidence: Evidence, tp: TopicPartition, result: PartitionResult) -> None:
    """What a partition of `__transaction_state` says."""
    logs = replicas(evidence, tp) if tp.topic == TRANSACTION_TOPIC else []
    judged = newest([log for log in last_take(logs) if log.count])
    if judged is None:
        return
    era = evidence.once(era_of)
    old = era is None  # perhaps brokers on ZooKeeper
    kept = Kept(ids_logged=era is not None and era.ids_logged, fenced_again=old, over_epochs=old)
    log = TransactionLog(kept, tp.partition, partition_count(evidence, tp.topic))
    log.owners.update(evidence.once(_owners))
    if not log.count:
        why = "the evidence does not have all partitions of the log, and does not say how many there are"
        result.leave_open(PLACE, tp, why)
    missing = sorted({*judged.whole["base"][judged.gaps].tolist(), *judged.unread})
    unread: set[str] = set()
    for read in _records(evidence, tp, judged):
        while missing and missing[0] <= read.offset:
            why = f"batches are missing, damaged or compressed before offset {missing.pop(0)}"
            _unknown(result, tp, why)
            log.forget()
        if read.record is None:
            unread.add(read.transactional_id)
            log.forget_one(read.transactional_id)
            continue
        for refusal in log.add(read.offset, read.leader_epoch, read.record):
            result.refuse(refused(refusal, tp, judged.take, judged.node, read.transactional_id))
    for at in judged.unread[-1:]:
        _unknown(result, tp, f"{COMPRESSED} before offset {at}")
    if unread:
        why = f"records of {', '.join(sorted(unread))} are in a format that no definition reads"
        _unknown(result, tp, why)
    result.asked.update(log.asked)


CHECKS: Final = checks_of(RULES, ring=1, log_kernel=kernel)


def _unknown(result: Found, tp: TopicPartition, why: str) -> None:
    """Of all rules about two records of an id."""
    for rule in FOLLOWING:
        result.leave_open(rule, tp, why)


def _owners(evidence: Evidence) -> dict[int, str]:
    """The transactional id that had a producer id first, in any partition."""
    names = ["producer_id", "transactional_id"]
    rows = evidence.columns("transaction_log", [*names, "timestamp"])
    known = rows.filter(pc.is_valid(rows["producer_id"])).group_by(names).aggregate([("timestamp", "min")])
    first = known.sort_by([("timestamp_min", "descending"), *((name, "ascending") for name in names)])
    return {row["producer_id"]: row["transactional_id"] for row in first.to_pylist()}


class _Read(NamedTuple):
    """A row. record: None = of a format that no definition reads."""

    offset: int
    leader_epoch: int
    transactional_id: str
    record: TransactionRecord | TransactionTombstone | None


def _records(evidence: Evidence, tp: TopicPartition, judged: ReplicaLog) -> Iterator[_Read]:
    rows = evidence.of("transaction_log", tp)
    mine = pc.and_(pc.equal(rows["take"], judged.take), pc.equal(rows["node"], judged.node))
    for row in rows.filter(mine).to_pylist():
        tid = row["transactional_id"]
        record: TransactionRecord | TransactionTombstone | None = None
        if row["state"] is not None:
            record = TransactionRecord(
                tid,
                row["producer_id"],
                row["timeout_ms"],
                row["producer_epoch"],
                UNKNOWN_EPOCH,
                state=TransactionState(row["state"]),
                partitions=tuple(sorted((one["topic"], one["partition"]) for one in row["partitions"] or ())),
                started=row["start_ms"],
                updated=row["last_update_ms"],
                previous_id=row["previous_producer_id"],
                next_id=row["next_producer_id"],
                version=row["client_transaction_version"],
            )
        elif row["opaque"] is None:
            record = TransactionTombstone(tid)
        yield _Read(row["offset"], row["leader_epoch"], tid, record)
