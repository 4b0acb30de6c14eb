"""Batches that producers compressed: a log of them passes, and what is wrong inside of one is found."""

import shutil
import struct
from pathlib import Path

import pytest

from checkers.engine.findings import Found
from checkers.logs.audit import CHECKS, DENSE, INTACT
from core.op import TopicPartition
from harness.evidence.directory import read
from harness.protocol.batches import HEADER, batch, record
from history.evidence import Evidence, merged
from tests.checkers.logs.made import of_partition
from tests.harness.evidence.test_segments import PACKED
from tests.histories.broker_files import NODE

TP = TopicPartition("packed", 0)


def judged(folder: Path, log: bytes) -> Found:
    """What the rules say of this log, beside others of a real node."""
    node = shutil.copytree(NODE, folder / "node")
    (node / str(TP)).mkdir()
    (node / str(TP) / f"{0:020}.log").write_bytes(log)
    return of_partition(CHECKS, Evidence(merged([read(node, 1)])), TP)


def at(base: int, made: bytes) -> bytes:
    """A batch at its place: no checksum covers its offset."""
    return struct.pack(">q", base) + made[8:]


def packed(name: str, base: int) -> bytes:
    """A batch of nine records, compressed."""
    number, pack = PACKED[name]
    content = pack(b"".join(record(n, None, b"value" * 20) for n in range(9)))
    return at(base, batch((number, 8, 5, 7, -1, -1, -1, 9), content))


def plain(base: int) -> bytes:
    return at(base, batch((0, 0, 5, 5, -1, -1, -1, 1), record(0, None, b"behind it")))


@pytest.mark.parametrize("name", PACKED)
def test_a_byte_that_changed_inside_of_a_compressed_batch_is_found(name: str, tmp_path: Path) -> None:
    log = packed(name, 0) + packed(name, 9) + plain(18)
    whole = judged(tmp_path / "whole", log)
    assert not whole.in_logs
    assert whole.asked[INTACT] >= 3
    flipped = bytearray(log)
    flipped[HEADER.size + 4] ^= 1
    found = judged(tmp_path / "flipped", bytes(flipped)).in_logs
    assert INTACT in {one.check for one in found}


@pytest.mark.parametrize("name", PACKED)
def test_records_that_are_missing_between_compressed_batches_are_found(name: str, tmp_path: Path) -> None:
    (found,) = judged(tmp_path, packed(name, 0) + packed(name, 18) + plain(27)).in_logs
    assert (found.check, found.offset) == (DENSE, 18)
