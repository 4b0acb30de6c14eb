"""Calls to one chosen broker by Kafka's raw protocol (schemas by kio), synchronous.

A client library asks whichever broker it likes and retries; a fault harness has to know what *this*
node says now. One connection per exchange, one deadline for all of it, no retries.

Versions of requests are the lowest with the fields needed; every broker from 3.3 to 4.x has them.

Not here: what several nodes' answers mean together (`roles`); requests about leaders (`elections`) and
open transactions (`transactions`).
"""

import datetime
import io
import itertools
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from kio.schema.create_topics.v5 import request as create_topics
from kio.schema.create_topics.v5.response import CreateTopicsResponse
from kio.schema.describe_configs.v1 import request as describe_configs
from kio.schema.describe_configs.v1.response import DescribeConfigsResponse
from kio.schema.describe_quorum.v0 import request as describe_quorum
from kio.schema.describe_quorum.v0.response import DescribeQuorumResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v5 import request as list_offsets
from kio.schema.list_offsets.v5.response import ListOffsetsResponse
from kio.schema.metadata.v9 import request as metadata_request
from kio.schema.metadata.v9.response import MetadataResponse
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from harness.op import Isolation, TopicPartition

METADATA_TOPIC = "__cluster_metadata"
TOPIC_RESOURCE = 2
EARLIEST = -2
LATEST = -1
_ids = itertools.count(1)


class AdminError(Exception):
    """The broker did not answer in time, hung up, or refused. `code` is Kafka's error, if it sent one."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.none) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """What one node says of one partition; leader -1 = nobody. replicas: the preferred leader first."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one node says of the cluster: live brokers, all partitions."""

    brokers: frozenset[int]
    partitions: Mapping[TopicPartition, PartitionView]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """What one node says of the metadata quorum; leader -1 = nobody."""

    leader: int
    epoch: int
    high_watermark: int


class Connection:
    """A connection to one broker; `deadline_s` covers everything until it is closed."""

    def __init__(self, port: int, deadline_s: float, host: str = "127.0.0.1") -> None:
        """Raises: AdminError."""
        self._ends = time.monotonic() + deadline_s
        try:
            self._socket = socket.create_connection((host, port), timeout=deadline_s)
        except OSError as error:
            raise AdminError(f"{host}:{port}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    def call(self, request: Any, response: type[Any]) -> Any:
        """Send a request of kio's and read its response (of type `response`).

        Raises: AdminError; the connection is of no use afterwards.
        """
        try:
            self._send(request)
            size = struct.unpack(">i", self._read(4))[0]
            payload = self._read(size)
        except OSError as error:
            raise AdminError(f"{type(request).__name__}: {error}") from error
        try:
            _, after = entity_reader(response.__header_schema__)(payload, 0)
            return entity_reader(response)(payload, after)[0]
        except (SerialError, ValueError, IndexError) as error:
            raise AdminError(f"{type(request).__name__}: unreadable response: {error}") from error

    def _send(self, request: Any) -> None:
        header = request.__header_schema__(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=i32(next(_ids) & 0x7FFFFFFF),
            client_id="inquest",
        )
        body = io.BytesIO()
        entity_writer(type(header))(body, header)
        entity_writer(type(request))(body, request)
        self._wait()
        self._socket.sendall(struct.pack(">i", body.tell()) + body.getvalue())

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._wait()
            got = self._socket.recv(size - len(parts))
            if not got:
                raise ConnectionError("the broker closed the connection")
            parts += got
        return bytes(parts)

    def _wait(self) -> None:
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("deadline passed")
        self._socket.settimeout(left)


def view(connection: Connection) -> View:
    """All brokers and partitions as the node tells them. Raises: AdminError."""
    request = metadata_request.MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    answer: MetadataResponse = connection.call(request, MetadataResponse)
    partitions = {
        TopicPartition(str(topic.name), int(one.partition_index)): PartitionView(
            leader=int(one.leader_id),
            leader_epoch=int(one.leader_epoch),
            isr=tuple(sorted(int(node) for node in one.isr_nodes)),
            replicas=tuple(int(node) for node in one.replica_nodes),
        )
        for topic in answer.topics
        for one in topic.partitions
    }
    return View(
        brokers=frozenset(int(broker.node_id) for broker in answer.brokers), partitions=partitions
    )


def quorum(connection: Connection) -> Quorum:
    """The metadata quorum's state; the node asks its leader for it. Raises: AdminError."""
    topic = describe_quorum.TopicData(
        topic_name=TopicName(METADATA_TOPIC),
        partitions=(describe_quorum.PartitionData(partition_index=i32(0)),),
    )
    request = describe_quorum.DescribeQuorumRequest(topics=(topic,))
    answer: DescribeQuorumResponse = connection.call(request, DescribeQuorumResponse)
    check("DescribeQuorum", answer.error_code)
    partition = answer.topics[0].partitions[0]
    check("DescribeQuorum", partition.error_code)
    return Quorum(
        leader=int(partition.leader_id),
        epoch=int(partition.leader_epoch),
        high_watermark=int(partition.high_watermark),
    )


def offsets(
    connection: Connection,
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
    answer: ListOffsetsResponse = connection.call(request, ListOffsetsResponse)
    return {
        TopicPartition(str(topic.name), int(one.partition_index)): int(one.offset)
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code == ErrorCode.none and one.offset >= 0
    }


def create_topic(
    connection: Connection,
    topic: str,
    partitions: int,
    replication: int,
    settings: Mapping[str, str],
    timeout_s: float,
) -> None:
    """Create a topic; the broker forwards it to the controller.

    Raises: AdminError, with Kafka's code where it was refused.
    """
    configs: Iterable[create_topics.CreatableTopicConfig] = (
        create_topics.CreatableTopicConfig(name=name, value=value)
        for name, value in settings.items()
    )
    request = create_topics.CreateTopicsRequest(
        topics=(
            create_topics.CreatableTopic(
                name=TopicName(topic),
                num_partitions=i32(partitions),
                replication_factor=i16(replication),
                assignments=(),
                configs=tuple(configs),
            ),
        ),
        timeout=i32Timedelta.parse(datetime.timedelta(seconds=timeout_s)),
    )
    answer: CreateTopicsResponse = connection.call(request, CreateTopicsResponse)
    result = answer.topics[0]
    check(f"topic {topic}", result.error_code, result.error_message or "")


def topic_configs(connection: Connection, topic: str) -> dict[str, str]:
    """All settings of a topic as they are in force, defaults included. Raises: AdminError."""
    resource = describe_configs.DescribeConfigsResource(
        resource_type=i8(TOPIC_RESOURCE), resource_name=topic, configuration_keys=None
    )
    request = describe_configs.DescribeConfigsRequest(resources=(resource,))
    answer: DescribeConfigsResponse = connection.call(request, DescribeConfigsResponse)
    (result,) = answer.results
    check(f"topic {topic}", result.error_code, result.error_message or "")
    return {one.name: one.value or "" for one in result.configs}


def check(what: str, code: ErrorCode, message: str = "") -> None:
    """Raises: AdminError, where Kafka's code is one."""
    if code != ErrorCode.none:
        raise AdminError(f"{what}: {code.name.upper()} {message}".strip(), code)
