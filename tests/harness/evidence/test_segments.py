"""Header walks over files of real brokers: whole, cut, flipped and foreign."""

import gzip
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from harness.evidence import segments
from harness.evidence.damage import Damages
from harness.evidence.records import walk
from harness.protocol.batches import batch, record
from tests.histories.broker_files import NODE

LOG = NODE / "in-0" / "00000000000000000000.log"
CONTENT = LOG.read_bytes()
STARTS = [0, 72, 150, 222, 300, 372, 450, 522, 600, 672]
OUTSIDE_OF_CRC = {*range(8), *range(12, 16)}
"""Bytes of base offset and leader epoch in a batch: no checksum covers them."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / LOG.name


def read(file: Path, content: bytes) -> segments.Segment:
    file.write_bytes(content)
    return segments.read(file)


def batch_of(position: int) -> int:
    return max(start for start in STARTS if start <= position)


def test_a_whole_file() -> None:
    segment = segments.read(LOG)
    assert segment.damage is None
    assert segment.positions.tolist() == STARTS
    rows = segment.table().to_pylist()
    assert [row["base"] for row in rows] == [row["last"] for row in rows] == list(range(10))
    assert all(row["intact"] and row["transactional"] for row in rows)
    assert [row["control"] for row in rows] == [False, True] * 5
    assert {row["segment"] for row in rows} == {0}


def test_an_empty_file_has_no_batches_and_no_damage(file: Path) -> None:
    segment = read(file, b"")
    assert segment.damage is None
    assert segment.table().num_rows == 0


@pytest.mark.sampled(2)
def test_cut_at_every_byte(file: Path) -> None:
    """Whole batches stay; the cut one is the damage."""
    for end in range(len(CONTENT)):
        segment = read(file, CONTENT[:end])
        whole = [
            start for start, after in zip(STARTS, [*STARTS[1:], len(CONTENT)], strict=True) if after <= end
        ]
        assert segment.positions.tolist() == whole
        assert segment.intact.all()
        if end in STARTS:
            assert segment.damage is None
        else:
            assert segment.damage is not None
            assert segment.damage.file == file
            assert segment.damage.position == batch_of(end)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_flipped_at_every_byte(file: Path, flip: int) -> None:
    """The damage is at the batch with the flipped byte, unless no checksum covers that byte."""
    for position in range(len(CONTENT)):
        changed = bytearray(CONTENT)
        changed[position] ^= flip
        segment = read(file, bytes(changed))
        start = batch_of(position)
        before = [one for one in STARTS if one < start]
        assert segment.positions.tolist()[: len(before)] == before
        assert segment.intact[: len(before)].all()
        if position - start not in OUTSIDE_OF_CRC:
            assert segment.damage is not None
            assert segment.damage.position == start


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (bytes(200), "zeros in place of a batch"),
        (b"x" * 200, "its magic is"),
        (b"x" * 9, "9 bytes are left"),
        (struct.pack(">qiIb", 10, 60, 1, 1) + bytes(60), "a message of format 1"),
        (struct.pack(">qiib", 10, 200, 0, 2) + bytes(60), "cut off: 212 bytes are announced and 77 are left"),
        (struct.pack(">qiib", 10, 12, 0, 2) + bytes(60), "its length is 12"),
        (struct.pack(">qiib", 10, -5, 0, 2) + bytes(60), "its length is -5"),
        (CONTENT[:72], "offsets do not rise"),
    ],
)
def test_what_follows_the_batches(file: Path, tail: bytes, why: str) -> None:
    segment = read(file, CONTENT + tail)
    assert segment.positions.tolist()[: len(STARTS)] == STARTS
    assert segment.damage is not None
    assert segment.damage.position == len(CONTENT)
    assert why in segment.damage.why
    assert str(segment.damage).startswith(f"{file}, byte {len(CONTENT)}: ")


def test_the_first_thing_wrong_is_the_damage(file: Path) -> None:
    changed = bytearray(CONTENT + b"x" * 100)
    changed[STARTS[3] + 65] ^= 1
    segment = read(file, bytes(changed))
    assert segment.damage is not None
    assert segment.damage.position == STARTS[3]
    assert segment.intact.tolist() == [True] * 3 + [False] + [True] * 6


def test_offset_of_a_name() -> None:
    assert segments.offset_of(Path("00000000000000000472.snapshot")) == 472
    assert segments.offset_of(Path("00000000000000000100-0000000003.checkpoint")) == 100
    assert segments.offset_of(Path("other.log")) == -1


def snappy_java(content: bytes) -> bytes:
    """As the Java producer writes it (xerial): a header, then blocks of snappy, each after its length."""
    block: bytes = pa.compress(content, codec="snappy", asbytes=True)
    return b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block


PACKED: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (1, gzip.compress),
    "snappy": (2, partial(pa.compress, codec="snappy", asbytes=True)),
    "snappy-java": (2, snappy_java),
    "lz4": (3, partial(pa.compress, codec="lz4", asbytes=True)),
    "zstd": (4, partial(pa.compress, codec="zstd", asbytes=True)),
}


@pytest.mark.parametrize("name", PACKED)
def test_compressed_batches_are_walked_over_and_their_records_are_passed_by(file: Path, name: str) -> None:
    """Whatever the codec, and its framing: the header and the checksum are outside of it."""
    number, packed = PACKED[name]
    content = packed(b"".join(record(n, None, b"value" * 20) for n in range(9)))
    fields = (number, 8, 5, 7, 70, 1, 40, 9)
    plain = batch((0, 0, 5, 5, 70, 1, 49, 1), record(0, None, b"after it"))
    compressed = batch(fields, content)
    segment = read(file, compressed + struct.pack(">q", 9) + plain[8:])
    assert segment.damage is None
    first, second = segment.table().to_pylist()
    assert (first["compression"], first["base"], first["last"], first["records"]) == (number, 0, 8, 9)
    assert (first["producer_id"], first["base_sequence"], first["max_timestamp"]) == (70, 40, 7)
    assert (second["compression"], second["base"], second["intact"], first["intact"]) == (0, 9, True, True)
    damages = Damages()
    assert [each.value for each in walk(segment, damages)] == [b"after it"]
    (damage,) = damages
    assert "compressed" in damage.why
    flipped = bytearray(compressed)
    flipped[-1] ^= 1
    assert read(file, bytes(flipped)).damage is not None
