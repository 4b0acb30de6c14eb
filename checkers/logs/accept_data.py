"""Ring 1, logs of producers: each batch is one that the model's leader would have appended.

The log of the surviving replica goes through `model.accepting.data_partition` in the order of its offsets.
All partitions but the metadata log can have producers: into `__consumer_offsets` the group coordinator
writes for them, without sequences. Then the files that brokers computed from their logs are compared with
the model's state at the same offset, each node's with its own log.
"""

from typing import Final

from checkers.engine.findings import Found, PartitionResult
from checkers.logs.elections import METADATA
from checkers.logs.producer_files import (
    ABORTED_INDEX,
    PRODUCER_SNAPSHOT,
    compare_aborted,
    compare_snapshots,
    snapshots,
)
from checkers.logs.producer_walk import KnownProducers, Walk, deleted_below, forgotten, walk
from checkers.logs.replicas import COMPARED, ReplicaLog, last_take, newest, of_one_topic, replicas
from checkers.logs.rule import Rule, checks_of, refused
from core.internal_topics import TRANSACTION_TOPIC
from core.op import TopicPartition
from core.producer_state import EXPIRATION
from history.evidence import Evidence
from model.accepting.data_partition import (
    COORDINATOR_EPOCH,
    EPOCH_BEGINS,
    MARKER_EPOCH,
    NO_REPEAT,
    PLAIN_IN_TRANSACTION,
    PRODUCER_EPOCH,
    SEQUENCE,
    UNKNOWN_BEGINS,
)

FORGETS: Final = EXPIRATION
"""After this time a log no longer remembers its producers from their first batch on."""

RULES: Final = {
    SEQUENCE: Rule(
        "A batch of an idempotent producer begins with the sequence after its last one under this epoch; "
        "2147483647 is followed by 0.",
        "KIP-98, ProducerAppendInfo.checkSequence",
        forgets=FORGETS,
        rests_on=(TRANSACTION_TOPIC,),
    ),
    NO_REPEAT: Rule(
        "No batch stands in the log twice while the log remembers it: five batches of each producer.",
        "KIP-98, KAFKA-5494, ProducerStateEntry.findDuplicateBatch",
        forgets=FORGETS,
        rests_on=(TRANSACTION_TOPIC,),
    ),
    EPOCH_BEGINS: Rule(
        "The first batch under a new producer epoch begins with sequence 0.",
        "KIP-360, ProducerAppendInfo.checkSequence",
        forgets=FORGETS,
        rests_on=(TRANSACTION_TOPIC,),
    ),
    UNKNOWN_BEGINS: Rule(
        "A producer that the log does not know begins with sequence 0 where its transaction has version 2.",
        "KAFKA-18202 (4.1)",
        forgets=FORGETS,
        rests_on=(TRANSACTION_TOPIC,),
    ),
    PRODUCER_EPOCH: Rule(
        "No batch has an older producer epoch than one of its producer before it.",
        "KIP-98, ProducerAppendInfo.checkProducerEpoch",
        forgets=FORGETS,
        rests_on=(TRANSACTION_TOPIC,),
    ),
    PLAIN_IN_TRANSACTION: Rule(
        "While its transaction is open in a partition, a producer writes only transactional batches there.",
        "KIP-98, ProducerAppendInfo.appendDataBatch",
        rests_on=(TRANSACTION_TOPIC,),
    ),
    MARKER_EPOCH: Rule(
        "A marker has no older producer epoch than the log knows; one of transaction version 2 has a newer "
        "one than the transaction that it ends.",
        "KIP-98, KIP-1228, KAFKA-19446, ProducerAppendInfo.checkProducerEpoch",
        forgets=FORGETS,
        rests_on=(TRANSACTION_TOPIC,),
    ),
    COORDINATOR_EPOCH: Rule(
        "A marker has no older coordinator epoch than its producer's marker before it.",
        "KIP-98, ProducerAppendInfo.checkCoordinatorEpoch",
        forgets=FORGETS,
        rests_on=(TRANSACTION_TOPIC,),
    ),
    PRODUCER_SNAPSHOT: Rule(
        "A producer snapshot is the state of producers that the log before its offset makes.",
        "KIP-98, ProducerStateManager.writeSnapshot",
        forgets=FORGETS,
    ),
    ABORTED_INDEX: Rule(
        "The aborted index has each aborted transaction of the log, with its first and last offset and the "
        "last stable offset at its end, and no other. Where none was open there, that offset may be higher: "
        "a follower takes a later transaction for an open one (known bug aborted-index-skips).",
        "KIP-98, TransactionIndex, ProducerStateManager.lastStableOffset",
    ),
}


def kernel(evidence: Evidence, tp: TopicPartition, result: PartitionResult) -> None:
    """What the logs of a partition say, of any topic but the metadata log's. Also read: the finalized
    features, and the versions of transactions in `__transaction_state`."""
    logs = [] if tp == METADATA else [log for log in replicas(evidence, tp) if log.count]
    judged = newest(last_take(logs))
    if judged is None:
        return
    cluster = evidence.once(KnownProducers.of)
    files = snapshots(evidence, tp)
    shared = [log for log in logs if _begins(judged, log)]
    offsets = {at for log in shared for at in files.get((log.take, log.node), {})}
    any_version = cluster.era is None
    of_topic = of_one_topic(tp, logs, result.ground.windows.remade_ns)
    deleted, of_any = (deleted_below(evidence, tp, some) for some in (of_topic, logs))
    whole = walk(evidence, tp, judged, cluster, offsets, deleted)
    _tell(result, tp, judged, cluster, whole)
    for log in logs:
        mine = files.get((log.take, log.node), {})
        deletion = deleted if log in of_topic else of_any
        same = log in shared and deletion == deleted
        found = whole if same else walk(evidence, tp, log, cluster, {*mine}, deletion)
        compare_snapshots(result, tp, log, found, mine, any_version=any_version)
        compare_aborted(result, tp, log, found, evidence, any_version=any_version)


CHECKS: Final = checks_of(RULES, ring=1, log_kernel=kernel)


def _begins(judged: ReplicaLog, log: ReplicaLog) -> bool:
    """Whether the judged log begins with all that this one has."""
    return log.count <= judged.count and all(
        (judged.whole[name][: log.count] == log.whole[name]).all() for name in COMPARED
    )


def _tell(
    result: Found, tp: TopicPartition, judged: ReplicaLog, cluster: KnownProducers, found: Walk
) -> None:
    """Take over what the model says of the judged log."""
    result.asked.update(found.accepted.asked)
    if cluster.era is None and found.accepted.asked[MARKER_EPOCH]:
        why = "the evidence has no metadata log that says the version of the cluster"
        for rule in (MARKER_EPOCH, UNKNOWN_BEGINS):
            result.leave_open(rule, tp, why)
    if found.accepted.gaps and found.accepted.numbered:
        for rule in (SEQUENCE, NO_REPEAT):
            result.leave_open(rule, tp, _gaps(found))
    for refusal in found.refusals:
        finding = refused(refusal, tp, judged.take, judged.node, cluster.ids.get(refusal.producer_id, ""))
        if refusal.offset < found.left:
            result.leave_open(refusal.rule, tp, f"{finding.text}; {forgotten(found)}")
        else:
            result.refuse(finding)


def _gaps(found: Walk) -> str:
    """Before which offsets nothing is known, and why, in words."""
    missing = [gap for gap in found.accepted.gaps if gap != found.left]
    if not missing:
        return forgotten(found)
    why = f"batches are missing, damaged or deleted before offset {missing[0]}"
    if len(missing) > 1:
        why += f" and at {len(missing) - 1} places more"
    return f"{why}; {forgotten(found)}" if len(missing) < len(found.accepted.gaps) else why
