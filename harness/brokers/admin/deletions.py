"""Records deleted on request: DeleteRecords (KIP-107), asked of leaders; and topics.

Synchronous; safe from any thread.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from kio.schema.delete_records.v1.response import DeleteRecordsResponse
from kio.schema.delete_topics.v3.response import DeleteTopicsResponse
from kio.schema.errors import ErrorCode

from core.op import TopicPartition
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import BrokerConnection, Brokers, check
from harness.brokers.admin.protocol import view
from harness.processes.waiting import NotYet, until
from harness.protocol.topics import in_topics

Offsets = dict[TopicPartition, int]


def delete(brokers: Brokers, offsets: Mapping[TopicPartition, int]) -> Offsets:
    """Where the logs begin then, of the partitions whose leaders have said so in time."""
    leaders = broker_views.roles(brokers).leaders
    led: dict[int, Offsets] = defaultdict(dict)
    for tp, offset in offsets.items():
        if (leader := leaders.get(tp, -1)) in brokers.addresses:
            led[leader][tp] = offset
    questions = {node: (node, partial(_delete, its)) for node, its in led.items()}
    answers = broker_views.ask(brokers, questions, within_s=broker_views.CALL_S)
    return {tp: start for answer in answers.values() for tp, start in answer.items()}


def delete_topics(brokers: Brokers, topics: Sequence[str], within_s: float) -> None:
    """Delete whole topics; returns when no broker that answers has them. Those that are not there count as
    deleted. Raises: ClusterError: refused, or late."""
    ends = time.monotonic() + within_s

    def gone() -> None:
        for node, known in broker_views.ask_all(brokers, view).items():
            if left := {tp.topic for tp in known.partitions} & {*topics}:
                raise NotYet(f"node {node} still has topic {min(left)}")

    broker_views.anywhere(brokers, lambda c: ask_for_topics(c, topics), within_s)
    until(ends - time.monotonic(), broker_views.POLL_S, gone)


def ask_for_topics(connection: BrokerConnection, topics: Sequence[str]) -> None:
    """Ask one broker to delete topics; does not wait for others. Raises: AdminError."""
    answer = connection.call(DeleteTopicsResponse, topic_names=topics, timeout=broker_views.TIMEOUT)
    for topic in answer.responses:
        if topic.error_code != ErrorCode.unknown_topic_or_partition:
            check(f"topic {topic.name}", topic.error_code)


def _delete(offsets: Offsets, connection: BrokerConnection) -> Offsets:
    """What this leader deleted, on all replicas of live brokers. Raises: AdminError."""
    topics = in_topics(
        (tp, {"partition_index": tp.partition, "offset": offset}) for tp, offset in offsets.items()
    )
    answer = connection.call(DeleteRecordsResponse, topics=topics, timeout=broker_views.TIMEOUT)
    return {
        TopicPartition(topic.name, one.partition_index): one.low_watermark
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code == ErrorCode.none
    }
