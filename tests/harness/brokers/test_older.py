"""Brokers of before Kafka 2.4: they are asked in the newest version of a request that they have."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from kio.schema.create_partitions.v0.response import CreatePartitionsResponse
from kio.schema.create_topics.v5.response import CreateTopicsResponse
from kio.schema.metadata.v9.response import MetadataResponse, MetadataResponsePartition

from core.cluster import Address
from core.op import TopicPartition
from harness.brokers.admin import broker_views, protocol
from harness.brokers.admin.connection import AdminError, Brokers
from harness.protocol.encoding import response_frame
from harness.protocol.frames import Splitter, request_header
from harness.protocol.payloads import in_version, response_type

NEWEST = {3: 2, 18: 0, 19: 1}
"""Of 0.10.2, by API key: Metadata, ApiVersions, CreateTopics."""
PARTITION = {"partition_index": 0, "leader_id": 2, "replica_nodes": [1, 2], "isr_nodes": [2]}
ANSWERS: dict[int, dict[str, Any]] = {
    3: {
        "brokers": [{"node_id": 2, "host": "h", "port": 1}],
        "cluster_id": "A",
        "controller_id": 2,
        "topics": [{"name": "t", "partitions": [PARTITION]}],
    },
    18: {"api_keys": [{"api_key": key, "max_version": newest} for key, newest in NEWEST.items()]},
    19: {"topics": [{"name": "t", "error_code": 36, "error_message": "there is one"}]},
}


@contextmanager
def old_broker() -> Iterator[tuple[Address, list[tuple[int, int]]]]:
    """Its address, and what it was asked: API keys and versions."""
    asked: list[tuple[int, int]] = []

    def serve(connection: socket.socket) -> None:
        splitter = Splitter()
        while got := connection.recv(1 << 16):
            for frame in splitter.feed(got):
                its = request_header(frame)
                asked.append((its.api_key, its.version))
                kind = response_type(its.api_key, its.version)
                if kind is None or its.version > NEWEST[its.api_key]:
                    return  # as old brokers do
                connection.sendall(response_frame(kind, ANSWERS[its.api_key], its.correlation_id))

    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        serve(connection)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield Address("127.0.0.1", server.getsockname()[1]), asked
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_an_old_broker_is_asked_once_what_it_has_and_then_in_these_versions() -> None:
    with old_broker() as (address, asked):
        brokers = Brokers({2: address}, cluster="A", older=True)
        for _ in range(2):
            with brokers.connect(2, 10) as connection:
                found = protocol.view(connection)
    assert asked == [(18, 0), (3, 2), (3, 2), (3, 2), (3, 2)]
    assert found.brokers == {2}
    one = found.partitions[TopicPartition("t", 0)]
    assert isinstance(one, MetadataResponsePartition)  # in the version that it is used in
    assert (one.leader_id, one.isr_nodes, one.leader_epoch, one.offline_replicas) == (2, (2,), -1, ())


def test_what_old_brokers_lack_is_named() -> None:
    with old_broker() as (address, asked), Brokers({2: address}, older=True).connect(2, 10) as connection:
        answer = connection.call(CreateTopicsResponse, topics=[])
        assert [(one.name, int(one.error_code), one.error_message) for one in answer.topics] == [
            ("t", 36, "there is one")
        ]
        with pytest.raises(AdminError, match="CreatePartitionsResponse: this version of Kafka has no such"):
            connection.call(CreatePartitionsResponse, topics=[])
    assert asked == [(18, 0), (19, 1)]


def test_others_are_asked_as_ever() -> None:
    with (
        old_broker() as (address, asked),
        Brokers({2: address}).connect(2, 10) as connection,
        pytest.raises(AdminError, match="closed"),
    ):
        connection.cluster()
    assert asked == [(3, 9)]


def test_what_is_of_a_version_already_stays_as_it_is() -> None:
    answer = MetadataResponse(throttle_time=0, brokers=(), topics=())  # type: ignore[arg-type]
    assert in_version(MetadataResponse, answer) is answer


def test_without_epochs_the_leader_is_the_one_that_most_name() -> None:
    def view(leader: int) -> protocol.View:
        one = MetadataResponsePartition(error_code=0, partition_index=0, leader_id=leader)  # type: ignore[arg-type]
        return protocol.View(brokers=frozenset(range(1, 6)), partitions={TopicPartition("t", 0): one})

    named = {1: view(5), 2: view(5), 3: view(4), 4: view(4), 5: view(4)}
    roles = broker_views.agree(0, (1, 2, 3, 4, 5), named, {})
    assert roles.leaders == {TopicPartition("t", 0): 4}
