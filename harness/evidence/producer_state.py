"""What a broker computed from a log: producer states (`.snapshot`) and aborted transactions (`.txnindex`).

A snapshot is a version (1), the CRC-32C of the bytes after it, a number of entries, and entries of 46 bytes
(`ProducerStateManager`). An index has entries of 34 bytes, each with its version (0), and nothing around
them (`TransactionIndex`).
"""

import struct
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from harness.evidence.damage import Damages
from harness.evidence.segments import native_columns, offset_of
from history.evidence_tables import ABORTED, NO_PRODUCER, PRODUCERS

HEAD: Final = struct.Struct(">hIi")
CHECKED_FROM: Final = 6
SNAPSHOT_VERSION: Final = 1
INDEX_VERSION: Final = 0
PRODUCER: Final = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("last_sequence", ">i4"),
        ("last_offset", ">i8"),
        ("offset_delta", ">i4"),
        ("timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("first_offset_of_transaction", ">i8"),
    ]
)
TRANSACTION: Final = np.dtype(
    [("version", ">i2"), ("producer_id", ">i8"), ("first", ">i8"), ("last", ">i8"), ("last_stable", ">i8")]
)


def producers(path: Path, damages: Damages) -> pa.Table:
    """A `.snapshot` as rows of `tables.PRODUCERS`; none where the file is damaged. Raises: OSError."""
    content = path.read_bytes()
    if why := _why_no_snapshot(content):
        damages.note(path, 0, why)
        entries = np.empty(0, PRODUCER)
    elif len(content) == HEAD.size:
        entries = np.array([(NO_PRODUCER,) * len(PRODUCER.names or ())], PRODUCER)
    else:
        entries = np.frombuffer(content, PRODUCER, offset=HEAD.size)
    return _table(PRODUCERS, entries, {"snapshot": offset_of(path)})


def _why_no_snapshot(content: bytes) -> str:
    """Why this is not a whole snapshot; "" = it is one."""
    if len(content) < HEAD.size:
        return f"{len(content)} bytes are fewer than the head of a snapshot has"
    version, crc, count = HEAD.unpack_from(content)
    if version != SNAPSHOT_VERSION:
        return f"no snapshot of version {SNAPSHOT_VERSION}: its version is {version}"
    if crc != crc32c(content[CHECKED_FROM:]):
        return "the checksum is not the one of the snapshot's bytes"
    if len(content) != HEAD.size + count * PRODUCER.itemsize:
        return f"{count} entries are announced in {len(content)} bytes"
    return ""


def aborted(path: Path, damages: Damages) -> pa.Table:
    """A `.txnindex` as rows of `tables.ABORTED`, up to its first damage. Raises: OSError."""
    content = path.read_bytes()
    whole = len(content) // TRANSACTION.itemsize
    entries = np.frombuffer(content, TRANSACTION, count=whole)
    if len(content) % TRANSACTION.itemsize:
        damages.note(path, whole * TRANSACTION.itemsize, "the entry is cut off")
    other = np.flatnonzero(entries["version"] != INDEX_VERSION)
    if other.size:
        damages.note(path, int(other[0]) * TRANSACTION.itemsize, "no entry of version 0")
        entries = entries[: other[0]]
    return _table(ABORTED, entries, {"segment": offset_of(path)})


def _table(schema: pa.Schema, entries: np.ndarray, constant: dict[str, int]) -> pa.Table:
    columns = {name: np.full(len(entries), value, np.int64) for name, value in constant.items()}
    columns |= native_columns(entries)
    return pa.table([pa.array(columns[name]) for name in schema.names], schema=schema)
