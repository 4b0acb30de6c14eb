"""Records of `__transaction_state`, as brokers write them."""

import struct

import pytest

from core.errors import ClusterError
from harness.kafka.transaction_value import TransactionValue, transaction_value, transactional_id

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
EXPECTED = TransactionValue(
    producer_id=2000,
    producer_epoch=3,
    timeout_ms=60_000,
    status=1,
    partitions=("a-0", "a-7", "b-4"),
    updated_ms=1_700_000_000_123,
    started_ms=1_700_000_000_000,
)


@pytest.mark.parametrize("value", [V0, V1])
def test_both_versions_say_the_same(value: bytes) -> None:
    assert transaction_value(value) == EXPECTED
    assert transaction_value(value).state == "Ongoing"


@pytest.mark.parametrize("version", [0, 1])
def test_a_transaction_without_partitions(version: int) -> None:
    null = struct.pack(">i", -1) if version == 0 else b"\x00"
    value = struct.pack(">h", version) + FIXED + null + TIMES + b"\x00" * version
    assert transaction_value(value).partitions == ()


@pytest.mark.parametrize("value", [V0, V1])
def test_a_value_that_was_cut_off_is_damaged(value: bytes) -> None:
    whole = len(V0) if value is V0 else len(value) - 5  # tagged fields at the end are not read
    for size in range(whole):
        with pytest.raises(ClusterError):
            transaction_value(value[:size] if size > 1 else b"\x00")


@pytest.mark.parametrize(
    "value", [struct.pack(">h", 2) + V1[2:], V0[:16] + b"\x08" + V0[17:], V0[:16] + b"\xff" + V0[17:]]
)
def test_an_unknown_version_or_status_is_refused(value: bytes) -> None:
    with pytest.raises(ClusterError):
        transaction_value(value)


def test_keys() -> None:
    assert transactional_id(struct.pack(">hh", 0, 3) + b"abc") == "abc"
    assert transactional_id(struct.pack(">h", 1) + b"another meaning") is None
    with pytest.raises(ClusterError):
        transactional_id(struct.pack(">hh", 0, 9) + b"abc")
    with pytest.raises(ClusterError):
        transactional_id(struct.pack(">hh", 0, 2) + b"\xff\xff")
