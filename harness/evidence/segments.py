"""Segment files (`.log`, `.checkpoint` of KRaft): the headers of their batches, by one walk over the file.

The walk needs the lengths alone, so it costs the same for compressed batches, whose records are not read.
numpy gathers the headers at the positions found. A CRC is computed for each batch; base offset, length and
leader epoch are outside of it. Where the walk meets something that cannot be a batch it ends: Kafka's
recovery truncates a log there too (`LogSegment.recover`). Files of brokers before 0.11 have messages in the
place of batches (`old_messages`); a file may have both, one after the other.
"""

import mmap
import struct
from array import array
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c

from harness.evidence import old_messages
from harness.evidence.damage import Damage
from harness.protocol.batches import (
    CHECKED_FROM,
    COMPRESSION,
    CONTROL,
    DELETE_HORIZON,
    FIELDS,
    HEADER,
    LOG_APPEND_TIME,
    MAGIC,
    PREFIX,
    TRANSACTIONAL,
)
from history.evidence_tables import BATCHES

MAGIC_AT: Final = 16
"""Index of the format of a batch, and of a message of an old one."""
COLUMNS: Final = np.dtype([(name, f">{code}") for name, code in FIELDS.items()])
"""The header of a batch (`harness.protocol.batches`) in memory: packed, big-endian."""


@dataclass(frozen=True)
class Segment:
    """The batches of one file.

    path: of the file. data: all its bytes; a map of the file, unless it is empty. positions: where each
    batch begins. headers: of type COLUMNS. intact: whether a batch's CRC is the one of its bytes. damage:
    None = all bytes of the file belong to intact batches with rising offsets.
    """

    path: Path
    data: mmap.mmap | bytes
    positions: npt.NDArray[np.int64]
    headers: np.ndarray
    intact: npt.NDArray[np.bool_]
    damage: Damage | None

    def table(self) -> pa.Table:
        """The batches as rows of `tables.BATCHES`, in the order of the file."""
        native = native_columns(self.headers)
        attributes = native["attributes"]
        columns = {
            "segment": np.full(len(self.positions), offset_of(self.path), np.int64),
            "position": self.positions,
            "size": native["length"] + np.int32(PREFIX),
            "base": native["base"],
            "last": native["base"] + native["last_delta"],
            "leader_epoch": native["leader_epoch"],
            "producer_id": native["producer_id"],
            "producer_epoch": native["producer_epoch"],
            "base_sequence": native["base_sequence"],
            "records": native["records"],
            "base_timestamp": native["base_timestamp"],
            "max_timestamp": native["max_timestamp"],
            "compression": (attributes & COMPRESSION).astype(np.int8),
            "log_append_time": attributes & LOG_APPEND_TIME != 0,
            "transactional": attributes & TRANSACTIONAL != 0,
            "control": attributes & CONTROL != 0,
            "delete_horizon": attributes & DELETE_HORIZON != 0,
            "crc": native["crc"],
            "intact": self.intact,
        }
        return pa.table([pa.array(columns[name]) for name in BATCHES.names], schema=BATCHES)


def offset_of(path: Path) -> int:
    """The offset that a file of a log is named for; -1 where its name is none."""
    name = path.name.partition(".")[0].partition("-")[0]
    return int(name) if name.isdecimal() else -1


def native_columns(entries: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of packed big-endian entries, each as an array of this machine's byte order."""
    kinds = entries.dtype
    return {name: entries[name].astype(kinds[name].newbyteorder("=")) for name in kinds.names or ()}


def read(path: Path) -> Segment:
    """The batches of a file. The file must not shrink meanwhile: read copies, or files of an ended node.

    Raises: OSError, where the file cannot be opened.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
    old = size > MAGIC_AT and data[MAGIC_AT] in old_messages.FORMATS and any(data[:MAGIC_AT])
    walks = [_of_messages(data, 0, offset_of(path)) if old else _of_batches(data, 0)]
    while (stop := walks[-1].stop) < size and _other_format_follows(data, stop, old=old):
        old = not old
        end = int(walks[-1].headers["base"][-1]) + int(walks[-1].headers["last_delta"][-1]) + 1
        walks.append(_of_messages(data, stop, end) if old else _of_batches(data, stop))
    positions, headers, intact = (
        np.concatenate([getattr(one, name) for one in walks]) for name in ("positions", "headers", "intact")
    )
    why = "" if stop == size else old_messages.why_none(data, stop) if old else _why_no_batch(data, stop)
    damage = _damage(path, positions, headers, intact, stop, why)
    return Segment(path, data, positions, headers, intact, damage)


@dataclass(frozen=True, slots=True)
class _Walk:
    """What stands in a part of a file, all of one kind. stop: where the walk ended."""

    positions: npt.NDArray[np.int64]
    headers: np.ndarray
    intact: npt.NDArray[np.bool_]
    stop: int


def _other_format_follows(data: mmap.mmap | bytes, at: int, *, old: bool) -> bool:
    """Whether a walk ended where the format changes: what begins there is whole. Kafka begins no new file
    where a topic, or the version of a broker, changes it, and the cleaner puts segments together. old: the
    walk was over messages."""
    if not old:
        return old_messages.is_whole(data, at)
    if at + HEADER.size > len(data) or data[at + MAGIC_AT] != MAGIC:
        return False
    (length,) = struct.unpack_from(">i", data, at + 8)
    end = at + PREFIX + length
    if length < HEADER.size - PREFIX or end > len(data):
        return False
    (crc,) = struct.unpack_from(">I", data, at + CHECKED_FROM - 4)
    return bool(crc32c(data[at + CHECKED_FROM : end]) == crc)


def _of_batches(data: mmap.mmap | bytes, begin: int) -> _Walk:
    positions, stop = walk_lengths(data, begin)
    headers = gather(data, positions)
    foreign = np.flatnonzero(headers["magic"] != MAGIC)
    if foreign.size:
        stop = int(positions[foreign[0]])
        positions, headers = positions[: foreign[0]], headers[: foreign[0]]
    return _Walk(positions, headers, _intact(data, positions, headers), stop)


def _of_messages(data: mmap.mmap | bytes, begin: int, following: int) -> _Walk:
    """Messages of an old format, one in the place of a batch each. following: the offset that comes next."""
    positions, headers, whole = old_messages.walk(data, following, begin)
    made = np.array(headers, COLUMNS)
    stop = int(positions[-1] + PREFIX + made["length"][-1]) if positions.size else begin
    return _Walk(positions, made, np.array(whole, np.bool_), stop)


def walk_lengths(data: mmap.mmap | bytes, begin: int = 0) -> tuple[npt.NDArray[np.int64], int]:
    """Where batches begin from a place on, and where the walk ended (the end of the data, unless it met
    something else)."""
    length_of = struct.Struct(">8xi").unpack_from
    found = array("q")
    append = found.append
    position, size = begin, len(data)
    shortest = HEADER.size - PREFIX
    with suppress(struct.error):  # the end, or not even a length is left
        while True:
            (length,) = length_of(data, position)
            after = position + PREFIX + length
            if length < shortest or after > size:
                break
            append(position)
            position = after
    return np.array(found, np.int64), position


def gather(data: mmap.mmap | bytes, positions: npt.NDArray[np.int64]) -> np.ndarray:
    """A copy of the headers at these positions."""
    if not positions.size:
        return np.empty(0, COLUMNS)
    places = len(data) - HEADER.size + 1
    # One header at every byte, as a view: nothing is read but what the index picks. Plain bytes are copied
    # much faster than fields.
    picked: np.ndarray = np.ndarray((places,), f"V{HEADER.size}", data, strides=(1,))[positions]
    return picked.view(COLUMNS)


def _intact(
    data: mmap.mmap | bytes, positions: npt.NDArray[np.int64], headers: np.ndarray
) -> npt.NDArray[np.bool_]:
    begins = (positions + CHECKED_FROM).tolist()
    ends = (positions + PREFIX + headers["length"]).tolist()
    with memoryview(data) as view:
        computed = [crc32c(view[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    same: npt.NDArray[np.bool_] = np.array(computed, np.uint32) == headers["crc"]
    return same


def _damage(
    path: Path,
    positions: npt.NDArray[np.int64],
    headers: np.ndarray,
    intact: npt.NDArray[np.bool_],
    stop: int,
    why_stopped: str,
) -> Damage | None:
    """The first thing wrong in the file; at one place, the more exact reason. why_stopped: why the walk ended
    where it did, "" = at the end of the file."""
    found: list[tuple[int, str]] = []
    broken = np.flatnonzero(~intact)
    if broken.size:
        found.append((int(positions[broken[0]]), "the checksum is not the one of the batch's bytes"))
    ends = headers["base"] + headers["last_delta"]
    back = np.flatnonzero((headers["base"][1:] <= ends[:-1]) | (headers["last_delta"][1:] < 0))
    if back.size:
        found.append((int(positions[back[0] + 1]), "offsets do not rise from the batch before to this one"))
    if why_stopped:
        found.append((stop, why_stopped))
    if not found:
        return None
    position, why = min(found)
    return Damage(path, position, why)


def _why_no_batch(data: mmap.mmap | bytes, at: int) -> str:
    left = len(data) - at
    if left < HEADER.size:
        return f"{left} bytes are left, fewer than the header of a batch has"
    (length,) = struct.unpack_from(">i", data, at + 8)
    magic = data[at + 16]
    if not any(data[at : at + HEADER.size]):
        return "zeros in place of a batch"
    if magic in (0, 1) and 14 <= length <= left - PREFIX:
        return f"a message of format {magic}; only batches (format {MAGIC}) are read"
    if magic != MAGIC:
        return f"no batch: its magic is {magic}"
    if length < HEADER.size - PREFIX:
        return f"no batch: its length is {length}"
    return f"the batch is cut off: {PREFIX + length} bytes are announced and {left} are left"
