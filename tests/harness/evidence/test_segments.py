"""Header walks over files of real brokers: whole, cut, flipped and foreign."""

import struct
from pathlib import Path

import pytest

from harness.evidence import segments
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
