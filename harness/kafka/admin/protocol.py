"""Requests to one chosen broker: what it says of the cluster, offsets, topics.

Versions of requests are the lowest with the fields needed; every broker from 3.3 to 4.x has them.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from kio.schema.create_topics.v5 import request as create_topics
from kio.schema.create_topics.v5.response import CreateTopicsResponse
from kio.schema.describe_quorum.v0 import request as describe_quorum
from kio.schema.describe_quorum.v0.response import DescribeQuorumResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v5 import request as list_offsets
from kio.schema.list_offsets.v5.response import ListOffsetsResponse
from kio.schema.metadata.v9 import request as metadata_request
from kio.schema.metadata.v9.response import MetadataResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from core.op import Isolation, TopicPartition
from harness.kafka.admin.connection import BrokerConnection, check

METADATA_TOPIC = "__cluster_metadata"
TOPIC_RESOURCE = 2
EARLIEST = -2
LATEST = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """What one node says of one partition; leader -1 = none. replicas: the preferred leader first."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one node says of the cluster: live brokers, all partitions."""

    brokers: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumView:
    """What one node says of the metadata quorum; leader -1 = none."""

    leader: int
    epoch: int


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
        TopicPartition(str(topic.name), int(one.partition_index)): PartitionMetadata(
            leader=int(one.leader_id),
            leader_epoch=int(one.leader_epoch),
            isr=tuple(sorted(int(node) for node in one.isr_nodes)),
            replicas=tuple(int(node) for node in one.replica_nodes),
        )
        for topic in answer.topics
        for one in topic.partitions
    }
    return View(brokers=frozenset(int(broker.node_id) for broker in answer.brokers), partitions=partitions)


def quorum(connection: BrokerConnection) -> QuorumView:
    """The metadata quorum's state; the node asks its leader for it. Raises: AdminError."""
    topic = describe_quorum.TopicData(
        topic_name=TopicName(METADATA_TOPIC),
        partitions=(describe_quorum.PartitionData(partition_index=i32(0)),),
    )
    request = describe_quorum.DescribeQuorumRequest(topics=(topic,))
    answer = connection.call(request, DescribeQuorumResponse)
    check("DescribeQuorum", answer.error_code)
    partition = answer.topics[0].partitions[0]
    check("DescribeQuorum", partition.error_code)
    return QuorumView(leader=int(partition.leader_id), epoch=int(partition.leader_epoch))


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
            name=TopicName(topic),
            partitions=tuple(
                list_offsets.ListOffsetsPartition(
                    partition_index=i32(tp.partition),
                    current_leader_epoch=i32(epoch),
                    timestamp=i64(timestamp),
                )
                for tp, epoch in partitions.items()
                if tp.topic == topic
            ),
        )
        for topic in sorted({tp.topic for tp in partitions})
    )
    request = list_offsets.ListOffsetsRequest(
        replica_id=BrokerId(-1), isolation_level=i8(int(isolation)), topics=topics
    )
    answer = connection.call(request, ListOffsetsResponse)
    return {
        TopicPartition(str(topic.name), int(one.partition_index)): int(one.offset)
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code == ErrorCode.none and one.offset >= 0
    }


def create_topic(
    connection: BrokerConnection,
    topic: str,
    partitions: int,
    replication: int,
    settings: Mapping[str, str],
    timeout_s: float,
) -> None:
    """Create a topic; the broker forwards it to the controller.

    Raises: AdminError, with Kafka's code where it was refused.
    """
    configs = tuple(
        create_topics.CreatableTopicConfig(name=name, value=value) for name, value in settings.items()
    )
    request = create_topics.CreateTopicsRequest(
        topics=(
            create_topics.CreatableTopic(
                name=TopicName(topic),
                num_partitions=i32(partitions),
                replication_factor=i16(replication),
                assignments=(),
                configs=configs,
            ),
        ),
        timeout=i32Timedelta.parse(datetime.timedelta(seconds=timeout_s)),
    )
    answer = connection.call(request, CreateTopicsResponse)
    result = answer.topics[0]
    check(f"topic {topic}", result.error_code, result.error_message)
