"""Questions to one chosen broker: what it says of the cluster, offsets.

Versions of requests are the lowest with the fields needed; every broker from 2.4 to 4.x has them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kio.schema.describe_quorum.v0 import request as describe_quorum
from kio.schema.describe_quorum.v0.response import DescribeQuorumResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v5 import request as list_offsets
from kio.schema.list_offsets.v5.response import ListOffsetsResponse
from kio.schema.metadata.v9 import request as metadata_request
from kio.schema.metadata.v9.response import MetadataResponse, MetadataResponsePartition
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from core.op import Isolation, TopicPartition
from harness.brokers.admin.connection import CLUSTER, BrokerConnection, check

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
    request = metadata_request.MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    answer = connection.call(request, MetadataResponse)
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


def quorum_leader(connection: BrokerConnection) -> ControllerView:
    """The leader of the metadata quorum (KRaft); the node asks that leader for it. Raises: AdminError."""
    topic = describe_quorum.TopicData(
        topic_name=TopicName(METADATA_TOPIC),
        partitions=(describe_quorum.PartitionData(partition_index=i32(0)),),
    )
    answer = connection.call(describe_quorum.DescribeQuorumRequest(topics=(topic,)), DescribeQuorumResponse)
    check("DescribeQuorum", answer.error_code)
    partition = answer.topics[0].partitions[0]
    check("DescribeQuorum", partition.error_code)
    return ControllerView(partition.leader_epoch, partition.leader_id)


def active_controller(connection: BrokerConnection) -> ControllerView:
    """The controller that this broker knows, on ZooKeeper; it does not name an epoch.

    Raises: AdminError.
    """
    return ControllerView(0, int(connection.call(CLUSTER, MetadataResponse).controller_id))


def by_topic(tps: Iterable[TopicPartition]) -> dict[TopicName, tuple[i32, ...]]:
    """Partition numbers by topic, each once, as requests want them."""
    found: dict[TopicName, dict[i32, None]] = {}
    for tp in tps:
        found.setdefault(TopicName(tp.topic), {})[i32(tp.partition)] = None
    return {topic: tuple(numbers) for topic, numbers in found.items()}


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
    topics = tuple(
        list_offsets.ListOffsetsTopic(
            name=topic,
            partitions=tuple(
                list_offsets.ListOffsetsPartition(
                    partition_index=number,
                    current_leader_epoch=i32(partitions[TopicPartition(topic, number)]),
                    timestamp=i64(timestamp),
                )
                for number in numbers
            ),
        )
        for topic, numbers in by_topic(partitions).items()
    )
    request = list_offsets.ListOffsetsRequest(
        replica_id=BrokerId(-1), isolation_level=i8(int(isolation)), topics=topics
    )
    answer = connection.call(request, ListOffsetsResponse)
    return {
        TopicPartition(topic.name, one.partition_index): one.offset
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code == ErrorCode.none and one.offset >= 0
    }
