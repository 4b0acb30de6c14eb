"""Further partitions for topics: CreatePartitions (KIP-195).

Requests go to any broker, which forwards them to the controller. Synchronous; safe from any thread.
"""

from collections.abc import Mapping

from kio.schema.create_partitions.v0.response import CreatePartitionsResponse
from kio.schema.errors import ErrorCode

from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import BrokerConnection, Brokers, check


def add(brokers: Brokers, counts: Mapping[str, int], within_s: float) -> None:
    """Give each topic this number of partitions in all; returns when the controller has made them.

    A topic that has them already counts as served: a broker repeats a request whose answer is lost, and the
    first answer that arrives is then of the second one. Raises: ClusterError: refused, or late.
    """
    topics = [{"name": topic, "count": count, "assignments": None} for topic, count in counts.items()]

    def ask(connection: BrokerConnection) -> None:
        answer = connection.call(CreatePartitionsResponse, topics=topics, timeout=broker_views.TIMEOUT)
        for one in answer.results:
            if one.error_code != ErrorCode.invalid_partitions:
                check(f"topic {one.name}", one.error_code, one.error_message)

    broker_views.anywhere(brokers, ask, within_s)
