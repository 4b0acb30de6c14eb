"""Replicas moved on request: AlterPartitionReassignments (KIP-455).

Requests go to any broker, which forwards them to the controller. Synchronous; safe from any thread.
"""

from collections.abc import Mapping, Sequence

from kio.schema.alter_partition_reassignments.v0.response import AlterPartitionReassignmentsResponse
from kio.schema.errors import ErrorCode

from core.op import TopicPartition
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import BrokerConnection, Brokers, check
from harness.protocol.topics import in_topics

Wanted = Mapping[TopicPartition, Sequence[int] | None]
"""The replicas of each partition, the preferred leader first; None cancels what has not ended."""


def reassign(brokers: Brokers, wanted: Wanted, within_s: float) -> None:
    """Returns when the controller has taken it; the data follow. Raises: ClusterError: refused, or late."""

    def ask(connection: BrokerConnection) -> None:
        for tp, (code, message) in _asked(connection, wanted).items():
            check(str(tp), code, message)

    broker_views.anywhere(brokers, ask, within_s)


def cancel(brokers: Brokers, tps: Sequence[TopicPartition], within_s: float) -> tuple[TopicPartition, ...]:
    """Cancel those that have not ended; which partitions had one that could be cancelled: none can where only
    what it adds is in sync. Raises: ClusterError: refused, or late."""
    cancelled: set[TopicPartition] = set()

    def ask(connection: BrokerConnection) -> None:
        for tp, (code, message) in _asked(connection, dict.fromkeys(tps)).items():
            if code not in (ErrorCode.no_reassignment_in_progress, ErrorCode.invalid_replica_assignment):
                check(str(tp), code, message)
                cancelled.add(tp)

    broker_views.anywhere(brokers, ask, within_s)
    return tuple(tp for tp in tps if tp in cancelled)


def _asked(
    connection: BrokerConnection, wanted: Wanted
) -> dict[TopicPartition, tuple[ErrorCode, str | None]]:
    """What the controller says of each partition. Raises: AdminError."""
    topics = in_topics(
        (tp, {"partition_index": tp.partition, "replicas": replicas}) for tp, replicas in wanted.items()
    )
    answer = connection.call(AlterPartitionReassignmentsResponse, timeout=broker_views.TIMEOUT, topics=topics)
    check("AlterPartitionReassignments", answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, one.partition_index): (one.error_code, one.error_message)
        for topic in answer.responses
        for one in topic.partitions
    }
