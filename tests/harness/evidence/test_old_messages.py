"""Logs in message formats 0 and 1, as Kafka before 0.11 writes them."""

import struct
from pathlib import Path
from zlib import crc32

import pytest

from harness.evidence import records, segments
from harness.evidence.damage import Damages
from harness.protocol.batches import batch
from tests.harness.evidence.test_segments import CONTENT
from tests.histories.old_messages import message

WHOLE = message(7, None, b"a") + message(8, b"k", b"bb", magic=0) + message(9, b"k", None)


def read(folder: Path, content: bytes) -> segments.Segment:
    file = folder / f"{7:020}.log"
    file.write_bytes(content)
    return segments.read(file)


def test_each_message_is_a_batch_of_one_record(tmp_path: Path) -> None:
    segment = read(tmp_path, WHOLE)
    assert segment.damage is None
    rows = segment.table().to_pylist()
    assert [(row["base"], row["last"], row["records"]) for row in rows] == [(7, 7, 1), (8, 8, 1), (9, 9, 1)]
    assert [row["max_timestamp"] for row in rows] == [1007, -1, 1009]
    assert {row["leader_epoch"] for row in rows} == {row["producer_id"] for row in rows} == {-1}
    assert all(row["intact"] and not row["transactional"] and not row["control"] for row in rows)
    assert [row["position"] + row["size"] for row in rows] == [row["position"] for row in rows[1:]] + [
        len(WHOLE)
    ]
    damages = Damages()
    found = [(one.offset, one.key, one.value) for one in records.walk(segment, damages)]
    assert found == [(7, None, b"a"), (8, b"k", b"bb"), (9, b"k", None)]
    assert not list(damages)


def test_cut_at_every_byte(tmp_path: Path) -> None:
    ends = [
        len(message(7, None, b"a")),
        len(message(7, None, b"a") + message(8, b"k", b"bb", magic=0)),
        len(WHOLE),
    ]
    for end in range(17, len(WHOLE)):
        segment = read(tmp_path, WHOLE[:end])
        assert len(segment.positions) == sum(one <= end for one in ends)
        assert (segment.damage is None) == (end in ends)


@pytest.mark.parametrize("place", range(12, len(message(7, None, b"a"))))
def test_a_flipped_byte_is_damage(tmp_path: Path, place: int) -> None:
    content = bytearray(WHOLE)
    content[place] ^= 1
    assert read(tmp_path, bytes(content)).damage is not None


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (CONTENT[:71], "no message of an old format: its format is 2"),
        (CONTENT[:60] + b"x" + CONTENT[61:], "no message of an old format: its format is 2"),
        (struct.pack(">qiIbb", 10, 3, 0, 1, 0), "no message: its length is 3"),
        (message(10, None, b"x")[:-1], "the message is cut off"),
    ],
)
def test_what_is_no_such_message_is_named(tmp_path: Path, tail: bytes, why: str) -> None:
    segment = read(tmp_path, WHOLE + tail)
    assert len(segment.positions) == 3
    assert segment.damage is not None
    assert segment.damage.position == len(WHOLE)
    assert why in segment.damage.why


def batch_at(base: int, records: int = 1) -> bytes:
    """A batch of format 2."""
    return struct.pack(">q", base) + batch((0, records - 1, 5, 5, -1, -1, -1, records), b"...")[8:]


@pytest.mark.parametrize(
    "formats", [[1, 1, 2, 2], [2, 1, 2], [1, 2, 0], [2, 2, 1, 0, 2], [0, 2, 2, 2, 1, 1], [1, 2, 1, 2, 1]]
)
def test_a_file_whose_format_changed_is_read_to_its_end(tmp_path: Path, formats: list[int]) -> None:
    parts = [
        batch_at(7 + n) if magic == 2 else message(7 + n, None, b"." * 40, magic)
        for n, magic in enumerate(formats)
    ]
    content = b"".join(parts)
    segment = read(tmp_path, content)
    assert segment.damage is None
    rows = segment.table().to_pylist()
    assert [row["base"] for row in rows] == [7 + n for n in range(len(formats))]
    assert [row["position"] for row in rows] == [len(b"".join(parts[:n])) for n in range(len(parts))]
    assert all(row["intact"] for row in rows)
    assert segment.headers["magic"].tolist() == formats
    cut = read(tmp_path, content[:-1])
    assert cut.damage is not None
    assert cut.damage.position == len(content) - len(parts[-1])
    assert len(cut.positions) == len(parts) - 1


def test_a_compressed_message_behind_a_batch_has_the_offsets_behind_it(tmp_path: Path) -> None:
    segment = read(tmp_path, batch_at(7, 3) + message(12, None, b"...", attributes=1))
    assert segment.damage is None
    assert [(row["base"], row["last"]) for row in segment.table().to_pylist()] == [(7, 9), (10, 12)]


def test_a_compressed_message_has_the_offsets_behind_the_one_before_it(tmp_path: Path) -> None:
    """What is inside is not read; the first one begins where the file does."""
    packed = message(9, None, b"...", attributes=1)
    for content, spans in (
        (packed, [(7, 9, 3)]),
        (message(7, None, b"a") + packed, [(7, 7, 1), (8, 9, 2)]),
        (packed + packed.replace(packed[:8], struct.pack(">q", 12)), [(7, 9, 3), (10, 12, 3)]),
        (packed + message(10, b"k", None), [(7, 9, 3), (10, 10, 1)]),
    ):
        segment = read(tmp_path, content)
        assert segment.damage is None
        rows = segment.table().to_pylist()
        assert [(row["base"], row["last"], row["records"]) for row in rows] == spans
    damages = Damages()
    assert [one.offset for one in records.walk(segment, damages)] == [10]
    assert [one.why for one in damages] == ["the batch is compressed: its records are not read"]


@pytest.mark.parametrize(("offset", "first"), [(2**31 + 6, 8), (2**31 + 7, 2**31 + 7)])
def test_a_compressed_message_has_as_many_offsets_as_a_batch_can_count(
    tmp_path: Path, offset: int, first: int
) -> None:
    segment = read(tmp_path, message(7, None, b"a") + message(offset, None, b"...", attributes=1))
    assert segment.table().to_pylist()[1]["base"] == first


@pytest.mark.parametrize("offset", [6, 2**62, -1])
def test_a_compressed_message_that_cannot_follow_begins_with_its_own_offset(
    tmp_path: Path, offset: int
) -> None:
    segment = read(tmp_path, message(7, None, b"a") + message(offset, None, b"...", attributes=1))
    assert segment.table().to_pylist()[1]["base"] == offset


def test_a_length_inside_that_does_not_fit_is_damage(tmp_path: Path) -> None:
    body = struct.pack(">bbqii", 1, 0, 0, 0, 5) + b"abc"
    segment = read(tmp_path, struct.pack(">qiI", 0, len(body) + 4, crc32(body)) + body)
    damages = Damages()
    assert list(records.walk(segment, damages)) == []
    assert [one.why for one in damages] == ["5 bytes are announced and 3 are left"]
