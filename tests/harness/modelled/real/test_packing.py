"""Values of the model as bytes, and back."""

import struct

import msgspec
import pytest
from crc32c import crc32c
from msgspec.structs import replace

from harness.modelled.real.encoded.model_values import kinds, pack, unpack
from harness.modelled.real.encoded.records import CorruptBatch, WireRecords, batch_of, fetched
from model.coordinator.transaction_metadata import TransactionRecord, TransactionState
from model.eras import ERAS
from model.errors import KafkaError
from model.log.unified_log import COMMIT, RecordBatch
from model.metadata.image import PartitionRecord
from model.protocol.controller_messages import QuorumFetchResponse
from model.protocol.messages import Fetch, FetchedPartition, FetchPartition, FetchResponse, PartitionState

ERA = ERAS["4.3"]
VALUE = b"\0\0\0\0\0\x02v\0"
"""A record without key with the value v, after its length."""


def wire_batch(*, count: int = 1, producer_id: int = 7, attributes: int = 0x10) -> bytes:
    """A batch as a client sends it, of equal records."""
    records = b"".join(bytes((2 * 7,)) + bytes((0, 0, 2 * n, 1)) + b"\x02v\0" for n in range(count))
    rest = struct.pack(">hiqqqhii", attributes, count - 1, 0, 0, producer_id, 3, 0, count) + records
    return struct.pack(">qiibI", 0, 9 + len(rest), -1, 2, crc32c(rest)) + rest


PLACED = replace(batch_of(wire_batch(count=2)), base=10, epoch=4)


@pytest.mark.parametrize(
    "value",
    [
        None,
        (1, "a", b"\0", 2.5, True, ()),
        {("t", 0): [1, 2], "k": frozenset({3})},
        KafkaError.FENCED_LEADER_EPOCH,
        Fetch(-1, {("t", 1): FetchPartition(5, 2)}, committed=True),
        FetchResponse({("t", 1): FetchedPartition(KafkaError.NONE, (PLACED,), 12, 12, 0)}),
        RecordBatch(0, 0, (TransactionRecord("x", 1, 60, state=TransactionState.ONGOING),)),
        RecordBatch(3, 0, (), 7, 0, control=COMMIT, coordinator_epoch=2),
        QuorumFetchResponse(
            1, 1, entries=((1, None), (1, PartitionRecord(("t", 0), PartitionState((1,), (1,), 1))))
        ),
    ],
)
def test_a_value_comes_back(value: object) -> None:
    back = unpack(pack(value))
    assert back == value
    assert type(back) is type(value)


def test_all_messages_of_the_model_are_known() -> None:
    assert {"Vote", "Produce", "JoinGroupResponse", "OffsetRecord", "GroupRecord"} <= kinds().keys()


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", msgspec.msgpack.encode(["Popen", "true"]), msgspec.msgpack.encode([])]
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no packed value"):
        unpack(data)


def test_what_is_not_of_the_model_is_not_packed() -> None:
    with pytest.raises(TypeError, match="has no packed form"):
        pack((object(),))


def test_a_batch_keeps_its_bytes_but_for_its_place() -> None:
    raw = wire_batch(count=2)
    batch = batch_of(raw)
    assert (len(batch.records), batch.producer_id, batch.producer_epoch, batch.transactional) == (
        2,
        7,
        3,
        True,
    )
    assert list(batch.records) == [b"v", b"v"]
    brought = fetched(replace(batch, base=10, epoch=4), ERA)
    assert brought[16:] == raw[16:]
    assert struct.unpack_from(">qii", brought) == (10, len(raw) - 12, 4)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda raw: raw[:40], "fewer than the header"),
        (lambda raw: raw[:-1], "one batch a partition"),
        (lambda raw: raw + raw, "one batch a partition"),
        (lambda raw: raw[:16] + b"\1" + raw[17:], "message format 1"),
        (lambda raw: raw[:-1] + b"x", "checksum"),
        (lambda raw: wire_batch(attributes=0x20), "no batch of records of a client"),
    ],
)
def test_what_is_not_a_clients_batch_is_refused(spoil, why: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CorruptBatch, match=why):
        batch_of(spoil(wire_batch()))


def test_a_marker_is_a_control_batch() -> None:
    raw = fetched(RecordBatch(5, 2, (), 7, 3, control=COMMIT, coordinator_epoch=9, appended_ms=1), ERA)
    assert struct.unpack_from(">qii", raw) == (5, len(raw) - 12, 2)
    assert crc32c(raw[21:]) == struct.unpack_from(">I", raw, 17)[0]
    assert WireRecords(raw)[0] == struct.pack(">hi", 0, 9)
