"""Replicas moved on request: AlterPartitionReassignments (KIP-455).

Requests go to any broker, which forwards them to the controller. Synchronous; safe from any thread.
"""

from collections.abc import Mapping, Sequence

from kio.schema.alter_partition_reassignments.v0 import request as schema
from kio.schema.alter_partition_reassignments.v0.response import AlterPartitionReassignmentsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId

from core.op import TopicPartition
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import BrokerConnection, Brokers, check
from harness.brokers.admin.protocol import by_topic

Wanted = Mapping[TopicPartition, Sequence[int] | None]
"""The replicas of each partition, the preferred leader first; None cancels what has not ended."""


def reassign(brokers: Brokers, wanted: Wanted, within_s: float) -> None:
    """Returns when the controller has taken it; the data follow. Raises: ClusterError: refused, or late."""

    def ask(connection: BrokerConnection) -> None:
        for tp, (code, message) in _asked(connection, wanted).items():
            check(str(tp), code, message)

    broker_views.anywhere(brokers, ask, within_s)


def cancel(brokers: Brokers, tps: Sequence[TopicPartition], within_s: float) -> tuple[TopicPartition, ...]:
    """Cancel those that have not ended; which partitions had one. Raises: ClusterError: refused, or late."""
    cancelled: set[TopicPartition] = set()

    def ask(connection: BrokerConnection) -> None:
        for tp, (code, message) in _asked(connection, dict.fromkeys(tps)).items():
            if code != ErrorCode.no_reassignment_in_progress:
                check(str(tp), code, message)
                cancelled.add(tp)

    broker_views.anywhere(brokers, ask, within_s)
    return tuple(tp for tp in tps if tp in cancelled)


def _asked(
    connection: BrokerConnection, wanted: Wanted
) -> dict[TopicPartition, tuple[ErrorCode, str | None]]:
    """What the controller says of each partition. Raises: AdminError."""
    request = schema.AlterPartitionReassignmentsRequest(
        timeout=broker_views.TIMEOUT,
        topics=tuple(
            schema.ReassignableTopic(
                name=topic,
                partitions=tuple(
                    schema.ReassignablePartition(
                        partition_index=number, replicas=_nodes(wanted[TopicPartition(topic, number)])
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in by_topic(wanted).items()
        ),
    )
    answer = connection.call(request, AlterPartitionReassignmentsResponse)
    check("AlterPartitionReassignments", answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, one.partition_index): (one.error_code, one.error_message)
        for topic in answer.responses
        for one in topic.partitions
    }


def _nodes(replicas: Sequence[int] | None) -> tuple[BrokerId, ...] | None:
    return None if replicas is None else tuple(BrokerId(node) for node in replicas)
