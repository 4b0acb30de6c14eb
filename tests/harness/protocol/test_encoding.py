"""Payloads from plain values: the bytes that kio writes, for every version of every API, newer ones too."""

import random
import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.schema.produce.v10.response import ProduceResponse

from harness.protocol.controllers import NAMES
from harness.protocol.encoding import request_frame, response_frame
from harness.protocol.frames import frame, request_header
from harness.protocol.newer import REQUESTS, RESPONSES
from harness.protocol.payloads import (
    API_KEYS,
    api_name,
    decode_request,
    decode_response,
    request_type,
    response_type,
)
from harness.protocol.schemas import plain
from harness.wire.responses import REFUSED, TELL_ADDRESSES, error_of
from harness.wire.subjects import _READERS, subjects
from history.evidence_tables import END_TXN, FETCH, PRODUCE, WRITE_TXN_MARKERS
from tests.harness.protocol.kio_frames import encode_request, encode_response
from tests.harness.protocol.random_payloads import payload

KINDS = [(key, version) for key, name in api_key_map.items() for version in schema_name_map[name]]
KINDS += [kind for kind in REQUESTS if kind not in KINDS]
KINDS += [(key, version) for key in NAMES for version in range(9) if request_type(key, version)]


def both(api_key: int, version: int) -> tuple[tuple[Any, Callable[[Any], bytes], Callable[[Any], Any]], ...]:
    """The schemas of request and response; what makes a frame of plain values, and what reads it."""
    asked, answered = request_type(api_key, version), response_type(api_key, version)
    assert asked is not None
    assert answered is not None
    return (
        (
            asked,
            lambda values: request_frame(asked, values, 7, "me"),
            lambda data: decode_request(data, asked),
        ),
        (
            answered,
            lambda values: response_frame(answered, values, 7),
            lambda data: decode_response(data, answered),
        ),
    )


@pytest.mark.sampled(8)
@pytest.mark.parametrize("part", range(4))
def test_the_bytes_are_those_of_kio(part: int) -> None:
    rng = random.Random(part)
    for api_key, version in KINDS[part::4]:
        for kind, made, read in both(api_key, version):
            value = payload(rng, kind)
            asks = kind is request_type(api_key, version)
            wanted = encode_request(value, 7, "me") if asks else encode_response(value, 7)
            assert made(plain(value)) == wanted, kind
            assert read(wanted) == value


@pytest.mark.parametrize("part", range(4))
def test_what_is_not_given_is_empty(part: int) -> None:
    for api_key, version in KINDS[part::4]:
        for kind, made, read in both(api_key, version):
            found = read(made({"nothing": "of this name"}))
            for field in fields(kind):
                value = getattr(found, field.name)
                assert (
                    value == field.default
                    or not value
                    or value == -1
                    or is_dataclass(value)
                    or (field.metadata["kafka_type"] == "datetime_i64" and value.timestamp() == 0)
                ), (kind, field.name, value)


def test_a_number_that_its_field_cannot_hold_is_an_error() -> None:
    with pytest.raises(struct.error):
        response_frame(ProduceResponse, {"responses": [{"partition_responses": [{"index": 1 << 31}]}]}, 1)


def test_what_is_newer_than_kio_has_the_bytes_of_kafkas_definitions() -> None:
    """ApiVersions: no other schema says how version 5 is written (`ApiVersionsRequest.json` of 4.4.0)."""
    values = {"client_software_name": "it", "client_software_version": "1", "cluster_id": "c", "node_id": 2}
    header = b"\0\x12\0\5\0\0\0\7\0\2me\0"
    wanted = header + b"\3it\x021" + b"\2c" + b"\0\0\0\2" + b"\0"
    kind = REQUESTS[18, 5]
    assert request_frame(kind, values, 7, "me") == struct.pack(">i", len(wanted)) + wanted
    nobody = values | {"cluster_id": None, "node_id": -1}
    wanted = header + b"\3it\x021" + b"\0" + b"\xff\xff\xff\xff" + b"\0"
    assert request_frame(kind, nobody, 7, "me") == struct.pack(">i", len(wanted)) + wanted
    assert REQUESTS.keys() == RESPONSES.keys()


def test_offsets_of_a_transaction_name_topics_by_id() -> None:
    """`TxnOffsetCommitRequest.json` and `TxnOffsetCommitResponse.json` of 4.4.0 (KIP-1319)."""
    part = {"partition_index": 3, "committed_offset": 7, "committed_leader_epoch": 2}
    values = {
        "transactional_id": "t",
        "group_id": "g",
        "producer_id": 2000,
        "producer_epoch": 1,
        "generation_id_or_member_epoch": 4,
        "member_id": "m",
        "topics": [{"topic_id": UUID(int=9), "partitions": [part]}],
    }
    header = b"\0\x1c\0\6\0\0\0\7\0\2me\0"
    topic_id = UUID(int=9).bytes
    wanted = header + b"\2t\2g" + struct.pack(">qhi", 2000, 1, 4) + b"\2m\0"
    wanted += b"\2" + topic_id + b"\2" + struct.pack(">iqi", 3, 7, 2) + b"\0\0" + b"\0\0"
    sent = request_frame(REQUESTS[28, 6], values, 7, "me")
    assert sent == struct.pack(">i", len(wanted)) + wanted
    assert str(subjects(sent, request_header(sent))) == "t, g"
    answered = {
        "topics": [{"topic_id": UUID(int=9), "partitions": [{"partition_index": 3, "error_code": 113}]}]
    }
    wanted = b"\0\0\0\7\0" + b"\0\0\0\0" + b"\2" + topic_id + b"\2" + struct.pack(">ih", 3, 113)
    wanted += b"\0\0\0"
    answer = response_frame(RESPONSES[28, 6], answered, 7)
    assert answer == struct.pack(">i", len(wanted)) + wanted
    assert error_of(answer, request_header(sent)) == 113


def test_what_controllers_say_has_the_bytes_of_kafkas_definitions() -> None:
    """`LeaderAndIsrRequest.json`, `StopReplicaRequest.json` and `UpdateMetadataRequest.json` of 3.9.0."""
    numbers = struct.pack(">iiii", 3, 5, 1, 6)  # of the partition, the controller epoch, leader, its epoch
    state = {"partition_index": 3, "controller_epoch": 5, "leader": 1, "leader_epoch": 6, "isr": [1, 2]}
    state |= {"partition_epoch": 9, "replicas": [2, 1], "name": "q"}
    said = {"controller_id": 2, "controller_epoch": 5, "broker_epoch": 77, "ungrouped": [state]}
    said |= {"topics": [{"name": "q", "topic_id": UUID(int=4), "partitions": [state], "numbers": [3]}]}
    old, in_sync = b"\0\2me", struct.pack(">iii", 2, 1, 2)
    before = struct.pack(">ii", 2, 5)
    wanted = old + before + struct.pack(">ih1s", 1, 1, b"q") + numbers + in_sync
    wanted += struct.pack(">iiii", 9, 2, 2, 1) + struct.pack(">i", 0)
    assert made(4, 0, said) == b"\0\4\0\0\0\0\0\7" + wanted
    new = old + b"\0" + struct.pack(">i?iqb", 2, False, 5, 77, -1)
    wanted = b"\2" + b"\2q" + UUID(int=4).bytes + b"\2" + numbers + b"\3" + in_sync[4:]
    wanted += struct.pack(">ib", 9, 3) + struct.pack(">ii", 2, 1) + b"\1\1\0\xff\0" + b"\0" + b"\1\0"
    assert made(4, 7, said) == b"\0\4\0\7\0\0\0\7" + new + wanted
    wanted = old + before + struct.pack(">q?", 77, False) + struct.pack(">ih1sii", 1, 1, b"q", 1, 3)
    assert made(5, 1, said) == b"\0\5\0\1\0\0\0\7" + wanted
    brokers = [{"broker_id": 1, "endpoints": [{"port": 9, "host": "h", "listener": "L"}]}]
    wanted = old + before + struct.pack(">ih1s", 1, 1, b"q") + numbers + in_sync
    wanted += struct.pack(">iiii", 9, 2, 2, 1)
    wanted += struct.pack(">ii", 1, 1) + struct.pack(">iih1sh1sh", 1, 9, 1, b"h", 1, b"L", -1) + b"\xff\xff"
    assert made(6, 3, said | {"brokers": brokers}) == b"\0\6\0\3\0\0\0\7" + wanted


def made(key: int, version: int, values: dict[str, Any]) -> bytes:
    """A request without its size."""
    kind = request_type(key, version)
    assert kind is not None
    return request_frame(kind, values, 7, "me")[4:]


NEWEST: Final = {
    "produce": 13, "fetch": 18, "list_offsets": 11, "metadata": 13, "offset_commit": 10, "join_group": 9,
    "find_coordinator": 6, "heartbeat": 4, "sync_group": 5, "init_producer_id": 6, "add_partitions_to_txn": 5,
    "add_offsets_to_txn": 4, "end_txn": 5, "write_txn_markers": 2, "txn_offset_commit": 6,
    "describe_cluster": 2, "consumer_group_heartbeat": 1, "share_fetch": 2, "share_acknowledge": 2,
    "api_versions": 5,
}  # fmt: skip
"""Last version of an API, by the `validVersions` of the message definitions of 4.4.0."""


def test_whatever_the_wire_reads_is_known_in_all_versions_of_the_newest_kafka() -> None:
    read = {*_READERS, *REFUSED, *TELL_ADDRESSES, PRODUCE, FETCH, END_TXN, WRITE_TXN_MARKERS}
    assert {api_name(key) for key in read} <= NEWEST.keys()
    for name, newest in NEWEST.items():
        of_api = (API_KEYS[name], newest)
        assert request_type(*of_api) is not None, of_api
        assert response_type(*of_api) is not None, of_api


@pytest.mark.parametrize("version", range(4, 18))
@pytest.mark.parametrize(("replica", "follower"), [(3, "broker 3"), (-1, "")])
def test_a_fetch_names_the_broker_that_sent_it(version: int, replica: int, follower: str) -> None:
    kind = request_type(FETCH, version)
    assert kind is not None
    sender = {"replica_id": replica} if version < 15 else {"replica_state": {"replica_id": replica}}
    sent = request_frame(kind, {**sender, "max_wait": timedelta(seconds=1), "topics": []}, 7, "me")
    assert str(subjects(sent, request_header(sent))) == follower


@pytest.mark.parametrize("client_id", [b"\xff\xff", b"\0\2me"])
def test_so_does_one_of_a_version_that_is_no_longer_known(client_id: bytes) -> None:
    """`FetchRequest.json` of Kafka 2.8, version 3: replica, time to wait, least and most bytes, topics."""
    content = struct.pack(">hhi", FETCH, 3, 7) + client_id + struct.pack(">iiiii", 2, 500, 1, 9, 0)
    sent = frame(content)
    assert request_type(FETCH, 3) is None
    assert str(subjects(sent, request_header(sent))) == "broker 2"
    cut = frame(content[: -5 * 4])
    assert str(subjects(cut, request_header(cut))) == ""
