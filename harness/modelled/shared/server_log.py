"""The server log of a modelled node in Kafka's words: the lines that checks read (`history.broker_logs`)."""

from collections.abc import Iterable

from harness.modelled.shared.base_time import BASE_NS
from model.protocol.messages import Partition
from model.replication.node import (
    LeaderStarts,
    LogLine,
    MarkersCancelled,
    MarkersLeftOut,
    MarkersSentAfterLoading,
)


def text(line: LogLine) -> str:
    """A line without its time. Fields that no check reads and the model does not have are left out."""
    match line:
        case MarkersLeftOut():
            return (
                f"[Transaction Marker Channel Manager {line.node}]: Couldn't find leader endpoint for"
                f" partitions Set({_names(line.partitions)}) while trying to send transaction markers for"
                f" {line.transactional_id}, these partitions are likely deleted already and hence can be"
                " skipped"
            )
        case LeaderStarts():
            state = line.state
            return (
                f"[Broker id={line.node}] Leader {_names([line.partition])} with topic id None starts at"
                f" leader epoch {state.leader_epoch} from offset {line.end} with partition epoch"
                f" {state.partition_epoch}, high watermark {line.high_watermark}, ISR {_list(state.isr)},"
                f" adding replicas {_list(state.adding)} and removing replicas {_list(state.removing)} ."
            )
        case MarkersSentAfterLoading():
            return _sent(line)
        case MarkersCancelled():
            age = line.ms - line.made
            return (
                f"[TransactionCoordinator id={line.node}] Cancelled in-flight WRITE_TXN_MARKERS request with"
                f" correlation id 0 due to node {line.to} being disconnected (elapsed time since creation:"
                f" {age}ms, elapsed time since send: {age}ms, throttle time: 0ms, request timeout:"
                f" {line.timeout}ms)"
            )


def _sent(line: MarkersSentAfterLoading) -> str:
    result, state = ("COMMIT", "PREPARE_COMMIT") if line.commit else ("ABORT", "PREPARE_ABORT")
    tid, updated = line.transactional_id, BASE_NS // 1_000_000 + line.updated
    return (
        f"[Transaction State Manager {line.node}]: Sending txn markers for"
        f" TransactionalIdCoordinatorEpochAndTransitMetadata({tid},{line.coordinator_epoch},{result},"
        f"TransactionMetadata(transactionalId={tid}, producerId={line.producer_id},"
        f" producerEpoch={line.producer_epoch}, state={state},"
        f" topicPartitions=[{_names(line.partitions)}], txnLastUpdateTimestamp={updated}))"
        f" after loading partition {line.number}"
    )


def _names(partitions: Iterable[Partition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in partitions)


def _list(nodes: Iterable[int]) -> str:
    return f"[{', '.join(map(str, nodes))}]"
