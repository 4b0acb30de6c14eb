"""Further partitions for topics: CreatePartitions (KIP-195).

Requests go to any broker, which forwards them to the controller. Synchronous; safe from any thread.
"""

from collections.abc import Mapping

from kio.schema.create_partitions.v0 import request as schema
from kio.schema.create_partitions.v0.response import CreatePartitionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import BrokerConnection, Brokers, check


def add(brokers: Brokers, counts: Mapping[str, int], within_s: float) -> None:
    """Give each topic this number of partitions in all; returns when the controller has made them.

    A topic that has them already counts as served: a broker repeats a request whose answer is lost, and the
    first answer that arrives is then of the second one. Raises: ClusterError: refused, or late.
    """
    request = schema.CreatePartitionsRequest(
        topics=tuple(
            schema.CreatePartitionsTopic(name=TopicName(topic), count=i32(count), assignments=None)
            for topic, count in counts.items()
        ),
        timeout=broker_views.TIMEOUT,
        validate_only=False,
    )

    def ask(connection: BrokerConnection) -> None:
        for one in connection.call(request, CreatePartitionsResponse).results:
            if one.error_code != ErrorCode.invalid_partitions:
                check(f"topic {one.name}", one.error_code, one.error_message)

    broker_views.anywhere(brokers, ask, within_s)
