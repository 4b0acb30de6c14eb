"""Payloads from plain values: the bytes that kio writes, for every version of every API, newer ones too."""

import random
import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.schema.produce.v10.response import ProduceResponse

from harness.protocol.encoding import request_frame, response_frame
from harness.protocol.newer import REQUESTS, RESPONSES
from harness.protocol.payloads import decode_request, decode_response, request_type, response_type
from harness.protocol.schemas import plain
from tests.harness.protocol.kio_frames import encode_request, encode_response
from tests.harness.protocol.random_payloads import payload

KINDS = [(key, version) for key, name in api_key_map.items() for version in schema_name_map[name]]
KINDS += [kind for kind in REQUESTS if kind not in KINDS]


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


@pytest.mark.sampled(5)
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
