"""Records of `__transaction_state`, as brokers write them."""

import struct
from dataclasses import replace

import pytest

from harness.evidence.coordinator_records import TransactionLogValue, transaction_value, transactional_id
from harness.protocol.cursor import Malformed
from harness.protocol.messages import UnknownMessage

FIXED = struct.pack(">qhib", 2000, 3, 60_000, 1)
TIMES = struct.pack(">qq", 1_700_000_000_123, 1_700_000_000_000)
V0 = (
    struct.pack(">h", 0)
    + FIXED
    + struct.pack(">i", 2)
    + struct.pack(">h", 1) + b"a" + struct.pack(">iii", 2, 0, 7)
    + struct.pack(">h", 1) + b"b" + struct.pack(">ii", 1, 4)
    + TIMES
)  # fmt: skip
# Lengths are one more; each topic and the value end with tagged fields.
V1 = (
    struct.pack(">h", 1)
    + FIXED
    + b"\x03"
    + b"\x02a" + b"\x03" + struct.pack(">ii", 0, 7) + b"\x00"
    + b"\x02b" + b"\x02" + struct.pack(">i", 4) + b"\x01\x05\x02zz"
    + TIMES
    + b"\x01\x02\x02\x00\x02"
)  # fmt: skip
EXPECTED = TransactionLogValue(
    version=0,
    producer_id=2000,
    previous_producer_id=-1,
    next_producer_id=-1,
    producer_epoch=3,
    next_producer_epoch=-1,
    timeout_ms=60_000,
    state="Ongoing",
    partitions=(("a", 0), ("a", 7), ("b", 4)),
    client_transaction_version=0,
    last_update_ms=1_700_000_000_123,
    start_ms=1_700_000_000_000,
)


def test_both_versions_say_the_same() -> None:
    assert transaction_value(V0) == EXPECTED
    assert transaction_value(V1) == replace(EXPECTED, version=1, client_transaction_version=2)


@pytest.mark.parametrize("version", [0, 1])
def test_a_transaction_without_partitions(version: int) -> None:
    null = struct.pack(">i", -1) if version == 0 else b"\x00"
    value = struct.pack(">h", version) + FIXED + null + TIMES + b"\x00" * version
    assert transaction_value(value).partitions == ()


@pytest.mark.parametrize("value", [V0, V1])
def test_a_value_that_was_cut_off_is_malformed(value: bytes) -> None:
    for size in range(len(value)):
        with pytest.raises(Malformed):
            transaction_value(value[:size])


def test_an_unknown_version_or_status_is_refused() -> None:
    with pytest.raises(UnknownMessage):
        transaction_value(struct.pack(">h", 2) + V1[2:])
    for status in (b"\x08", b"\xff"):
        with pytest.raises(Malformed):
            transaction_value(V0[:16] + status + V0[17:])


def test_keys() -> None:
    assert transactional_id(struct.pack(">hh", 0, 3) + b"abc") == "abc"
    with pytest.raises(UnknownMessage):
        transactional_id(struct.pack(">h", 1) + b"another meaning")
    for damaged in (struct.pack(">hh", 0, 9) + b"abc", struct.pack(">hh", 0, 2) + b"\xff\xff"):
        with pytest.raises(Malformed):
            transactional_id(damaged)
