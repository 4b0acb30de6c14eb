"""Records deleted on request: DeleteRecords (KIP-107), asked of leaders.

Synchronous; safe from any thread.
"""

from collections import defaultdict
from collections.abc import Mapping
from functools import partial

from kio.schema.delete_records.v1.response import DeleteRecordsResponse
from kio.schema.errors import ErrorCode

from core.op import TopicPartition
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import BrokerConnection, Brokers
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
