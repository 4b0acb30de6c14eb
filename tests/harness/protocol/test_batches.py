"""Batches as a producer sends them: the bytes that kio writes."""

import io
from datetime import UTC, datetime

import pytest
from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_new_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from harness.protocol.batches import sent_batch

MS = 1_700_000_000_123


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("values", [[b"one"], [b"", b"x" * 200, b"last"], [b"v"] * 70])
def test_the_bytes_are_those_of_kio(values: list[bytes], transactional: bool) -> None:
    stamp = TZAwareMicros.parse(datetime.fromtimestamp(MS / 1000, UTC))
    records = tuple(
        Record(attributes=i8(0), timestamp=stamp, offset=i64(n), key=None, value=value, headers=())
        for n, value in enumerate(values)
    )
    wanted = io.BytesIO()
    write_new_batch(
        wanted,
        NewRecordBatch(
            partition_leader_epoch=i32(-1),
            attributes=i16(16 if transactional else 0),
            producer_id=i64(7),
            producer_epoch=i16(3),
            base_sequence=i32(12),
            records=records,
        ),
    )
    assert sent_batch(values, MS, (7, 3, 12), transactional=transactional) == wanted.getvalue()
