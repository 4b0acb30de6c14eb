"""Payloads: what is sent is read back, and everything else is named for what it is."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.op import TopicPartition
from core.payload import MIN_SIZE, Foreign, decode, encode
from history.tables import FOREIGN_REASONS

TP = TopicPartition("orders", 3)
RUN = "20261103T101500-queue-partition-7"

names = st.text(min_size=1, max_size=40)
tps = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))
values = st.integers(-(2**63), 2**63 - 1)
sizes = st.integers(MIN_SIZE, 400)


@given(run=names, tp=tps, value=values, size=sizes)
def test_a_record_says_its_value_and_has_the_size_asked_for(
    run: str, tp: TopicPartition, value: int, size: int
) -> None:
    payload = encode(run, tp, value, size)
    assert len(payload) == size
    found = decode(run, tp, payload)
    assert found == value
    assert type(found) is int


@given(value=values, size=sizes, bit=st.integers(0, MIN_SIZE * 8 - 1))
def test_any_flipped_bit_is_seen(value: int, size: int, bit: int) -> None:
    payload = bytearray(encode(RUN, TP, value, size))
    at = bit * len(payload) * 8 // (MIN_SIZE * 8)
    payload[at // 8] ^= 1 << at % 8
    expected = Foreign.UNREADABLE if at < 32 else Foreign.CORRUPT
    assert decode(RUN, TP, bytes(payload)) is expected


@given(value=values, size=sizes, data=st.data())
def test_a_record_cut_short_is_never_read(value: int, size: int, data: st.DataObject) -> None:
    payload = encode(RUN, TP, value, size)[: data.draw(st.integers(0, size - 1))]
    expected = Foreign.CORRUPT if len(payload) >= 4 else Foreign.UNREADABLE
    assert decode(RUN, TP, payload) is expected


MAGIC = encode(RUN, TP, 0, 100)[:4]


@given(payload=st.binary(max_size=200).filter(lambda payload: not payload.startswith(MAGIC)))
def test_bytes_of_others_are_unreadable(payload: bytes) -> None:
    assert decode(RUN, TP, payload) is Foreign.UNREADABLE


def test_bytes_of_others_with_a_right_checksum_are_unreadable() -> None:
    body = b"x" * 60
    assert decode(RUN, TP, body + crc32(body).to_bytes(4, "little")) is Foreign.UNREADABLE


@pytest.mark.parametrize("elsewhere", [TopicPartition("orders", 4), TopicPartition("carts", 3)])
def test_a_whole_record_of_another_partition_is_misdirected(elsewhere: TopicPartition) -> None:
    assert decode(RUN, TP, encode(RUN, elsewhere, 5, 100)) is Foreign.MISDIRECTED


def test_a_whole_record_of_another_run_is_of_another_run_wherever_it_was_meant_for() -> None:
    assert decode(RUN, TP, encode("other", TP, 5, 100)) is Foreign.OTHER_RUN
    assert decode(RUN, TP, encode("other", TopicPartition("carts", 0), 5, 100)) is Foreign.OTHER_RUN


def test_reasons_are_the_ones_of_the_history() -> None:
    assert [reason.name.lower().replace("_", "-") for reason in Foreign] == list(FOREIGN_REASONS)
    assert [int(reason) for reason in Foreign] == list(range(len(FOREIGN_REASONS)))


def test_too_small_a_record_is_refused() -> None:
    with pytest.raises(ValueError, match="at least"):
        encode(RUN, TP, 1, MIN_SIZE - 1)


def test_padding_does_not_compress_and_is_the_same_each_time() -> None:
    one, two = encode(RUN, TP, 1, 1000), encode(RUN, TP, 2, 1000)
    assert one[MIN_SIZE:-4] == two[MIN_SIZE:-4]
    assert len(set(one)) > 200
