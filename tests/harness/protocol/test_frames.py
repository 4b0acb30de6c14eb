"""Frames: cut out of a stream, read and refused."""

import random

import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.schema.metadata.v12.request import MetadataRequest

from harness.protocol.bounds import check
from harness.protocol.frames import SIZE, FrameError, Splitter, correlation_id, frame, request_header
from harness.protocol.payloads import decode_request, request_type
from tests.harness.protocol.fuzz import made, outcomes
from tests.harness.protocol.kio_frames import encode_request

KINDS = [(key, version) for key, name in api_key_map.items() for version in schema_name_map[name]]
METADATA = encode_request(
    MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False),
    correlation_id=7,
    client_id="client",
)


def test_a_stream_in_single_bytes_gives_its_frames() -> None:
    sent = [frame(b""), frame(b"one"), frame(b"x" * 300)]
    splitter = Splitter()
    got = [one for byte in b"".join(sent) for one in splitter.feed(bytes([byte]))]
    assert got == sent
    assert splitter.held == 0


def test_a_piece_gives_all_frames_that_it_completes_and_keeps_the_rest() -> None:
    splitter = Splitter()
    assert splitter.feed(frame(b"one") + frame(b"two") + frame(b"three")[:5]) == [
        frame(b"one"),
        frame(b"two"),
    ]
    assert splitter.held == 5


@pytest.mark.parametrize("size", [-1, 101, 2**31 - 1])
def test_a_size_out_of_bounds_is_refused_before_its_content_comes(size: int) -> None:
    with pytest.raises(FrameError, match=str(size)):
        Splitter(limit=100).feed(size.to_bytes(4, signed=True))


def test_the_header_of_a_request_is_read_in_every_version() -> None:
    header = request_header(METADATA)
    assert header == (3, 12, 7, "client")
    assert correlation_id(frame((9).to_bytes(4))) == 9


@pytest.mark.parametrize(
    "content", [b"", b"\0\3\0\x0c\0\0\0\7", b"\0\3\0\x0c\0\0\0\7\0\x10client", b"\0\3\0\x0c\0\0\0\7\xff\xfe"]
)
def test_a_request_shorter_than_its_header_is_refused(content: bytes) -> None:
    with pytest.raises(FrameError):
        request_header(frame(content))


def test_an_api_or_a_version_that_is_not_known_is_opaque() -> None:
    assert request_type(999, 0) is None
    assert request_type(3, 99) is None


def test_an_array_that_does_not_fit_is_refused_before_memory_is_reserved() -> None:
    huge = frame(METADATA[SIZE : SIZE + 17] + b"\xff\xff\xff\xff\x0f")
    with pytest.raises(FrameError, match="array of 4294967294"):
        decode_request(huge, MetadataRequest)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("part", range(4))
def test_what_is_written_is_read_in_each_version_of_each_api(part: int) -> None:
    rng = random.Random(part)
    for api_key, version in KINDS[part::4]:
        data, kind = made(rng, api_key, version)  # it compares
        header: type = kind.__header_schema__
        assert check(kind, data, check(header, data, SIZE)) == len(data)


@pytest.mark.sampled(6)
def test_damage_is_refused_and_ends_nothing() -> None:
    rng = random.Random(1)
    became = [
        outcome
        for api_key, version in rng.choices(KINDS, k=150)
        for data, kind in [made(rng, api_key, version)]
        for _ in range(5)
        for outcome in outcomes(rng, data, kind)
    ]
    assert {"refused", "read as sound", "not whole"} <= set(became)
