"""Questions to one chosen broker: what it says of the cluster, offsets.

Versions of requests are the lowest with the fields needed; every broker from 2.4 to 4.x has them.
Earlier ones are asked with the newest that they have: before 2.1 they neither tell nor take a leader epoch,
before 0.11 the end that they give at either isolation is the high watermark.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kio.schema.describe_quorum.v0.response import DescribeQuorumResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v5.response import ListOffsetsResponse
from kio.schema.metadata.v9.response import MetadataResponse, MetadataResponsePartition

from core.op import Isolation, TopicPartition
from harness.brokers.admin.connection import BrokerConnection, check
from harness.protocol.topics import in_topics

METADATA_TOPIC = "__cluster_metadata"
EARLIEST = -2
LATEST = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one node says of the cluster: live brokers, all partitions (leader -1 = none)."""

    brokers: frozenset[int]
    partitions: Mapping[TopicPartition, MetadataResponsePartition]


def view(connection: BrokerConnection) -> View:
    """All brokers and partitions, by this node's metadata. Raises: AdminError."""
    answer = connection.call(MetadataResponse, topics=None, allow_auto_topic_creation=False)
    partitions = {
        TopicPartition(str(topic.name), one.partition_index): one
        for topic in answer.topics
        for one in topic.partitions
    }
    return View(brokers=frozenset(broker.node_id for broker in answer.brokers), partitions=partitions)


class ControllerView(NamedTuple):
    """Which node is controller, as one broker says: -1 = none. Of two answers the newer epoch counts."""

    epoch: int
    node: int


def quorum(connection: BrokerConnection, response: type[Any] = DescribeQuorumResponse) -> Any:
    """What a broker says of the metadata quorum (KRaft); the broker asks the quorum's leader for it.
    response: DescribeQuorumResponse of any version. Raises: AdminError."""
    topic = {"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}
    answer = connection.call(response, topics=[topic])
    check("DescribeQuorum", answer.error_code)
    partition = answer.topics[0].partitions[0]
    check("DescribeQuorum", partition.error_code)
    return partition


def quorum_leader(connection: BrokerConnection) -> ControllerView:
    """The leader of the metadata quorum. Raises: AdminError."""
    known = quorum(connection)
    return ControllerView(known.leader_epoch, known.leader_id)


def active_controller(connection: BrokerConnection) -> ControllerView:
    """The controller that this broker knows, on ZooKeeper; it does not name an epoch.

    Raises: AdminError.
    """
    return ControllerView(0, int(connection.cluster().controller_id))


def offsets(
    connection: BrokerConnection,
    partitions: Mapping[TopicPartition, int],
    isolation: Isolation,
    timestamp: int,
) -> dict[TopicPartition, int]:
    """EARLIEST or LATEST offset of partitions that this broker leads; refused ones are left out.

    partitions: the leader epoch that each is asked for: a broker of another epoch refuses.
    Raises: AdminError.
    """
    topics = in_topics(
        (tp, {"partition_index": tp.partition, "current_leader_epoch": epoch, "timestamp": timestamp})
        for tp, epoch in partitions.items()
    )
    answer = connection.call(
        ListOffsetsResponse, replica_id=-1, isolation_level=int(isolation), topics=topics
    )
    return {
        TopicPartition(topic.name, one.partition_index): one.offset
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code == ErrorCode.none and one.offset >= 0
    }
