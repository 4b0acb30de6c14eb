"""Checkpoints, producer snapshots and aborted indexes: whole, cut, flipped and foreign."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from harness.evidence import checkpoints, producer_state
from harness.evidence.damage import Damages
from tests.histories.broker_files import NODE

SNAPSHOT = NODE / "in-0" / "00000000000000000010.snapshot"
INDEX = NODE / "in-0" / "00000000000000000000.txnindex"
ENTRY = 34


@pytest.fixture
def damages() -> Damages:
    return Damages()


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def one(damages: Damages) -> tuple[int, str]:
    """Position and reason of the only damage."""
    (found,) = damages
    return found.position, found.why


def test_a_producer_snapshot(damages: Damages) -> None:
    (row,) = producer_state.producers(SNAPSHOT, damages).to_pylist()
    assert row == {
        "snapshot": 10,
        "producer_id": 4,
        "producer_epoch": 0,
        "last_sequence": 4,
        "last_offset": 8,
        "offset_delta": 0,
        "timestamp": 1795375567254,
        "coordinator_epoch": 0,
        "first_offset_of_transaction": -1,
    }
    assert not list(damages)


def test_a_snapshot_without_producers_is_one_row(tmp_path: Path, damages: Damages) -> None:
    nothing = struct.pack(">i", 0)
    path = written(tmp_path, SNAPSHOT.name, struct.pack(">hI", 1, crc32c(nothing)) + nothing)
    (row,) = producer_state.producers(path, damages).to_pylist()
    assert {name: value for name, value in row.items() if value != -1} == {"snapshot": 10}
    assert not list(damages)


def test_a_snapshot_cut_or_flipped_at_every_byte_is_damaged(tmp_path: Path) -> None:
    content = SNAPSHOT.read_bytes()
    for at in range(len(content)):
        for changed in (content[:at], content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :]):
            damages = Damages()
            assert not producer_state.producers(written(tmp_path, SNAPSHOT.name, changed), damages).num_rows
            assert len(damages) == 1


def test_an_aborted_index(damages: Damages) -> None:
    (row,) = producer_state.aborted(INDEX, damages).to_pylist()
    assert row == {"segment": 0, "producer_id": 4, "first": 6, "last": 7, "last_stable": 8}
    assert not list(damages)


def test_an_index_cut_at_every_byte_keeps_its_whole_entries(tmp_path: Path) -> None:
    content = INDEX.read_bytes() * 3
    for end in range(len(content)):
        damages = Damages()
        rows = producer_state.aborted(written(tmp_path, INDEX.name, content[:end]), damages).num_rows
        assert rows == end // ENTRY
        assert len(damages) == (end % ENTRY != 0)


def test_a_foreign_entry_ends_an_index(tmp_path: Path, damages: Damages) -> None:
    content = INDEX.read_bytes()
    path = written(tmp_path, INDEX.name, content + b"\x00\x07" + content[2:] + content)
    assert producer_state.aborted(path, damages).num_rows == 1
    assert one(damages) == (ENTRY, "no entry of version 0")


def test_leader_epochs(tmp_path: Path, damages: Damages) -> None:
    path = written(tmp_path, "leader-epoch-checkpoint", b"0\n2\n0 0\n3 118\n")
    assert checkpoints.leader_epochs(path, damages).to_pylist() == [
        {"epoch": 0, "start": 0},
        {"epoch": 3, "start": 118},
    ]
    assert not list(damages)


def test_offsets_of_topics_with_dots_and_dashes(tmp_path: Path, damages: Damages) -> None:
    path = written(tmp_path, "replication-offset-checkpoint", b"0\n2\na.b-c 0 5\n__x 12 -1\n")
    found = checkpoints.offsets(path, damages)
    assert found == {("a.b-c", 0): 5, ("__x", 12): -1}


@pytest.mark.parametrize(
    ("content", "position", "why"),
    [
        (b"1\n0\n", 0, "no checkpoint of version 0"),
        (b"\x00\xff\x80", 0, "no checkpoint of version 0"),
        (b"0\n", 2, "the number of entries is missing"),
        (b"0\nmany\n", 2, "the number of entries is missing"),
        (b"0\n2\n0 0\n", 8, "2 entries are announced and 1 are whole"),
        (b"0\n1\n0 0\n1 5\n", 12, "1 entries are announced and 2 are whole"),
        (b"0\n1\n0 0", 7, "1 entries are announced and 1 are whole"),
        (b"0\n1\n0 x\n", 4, "the line is not `epoch start`"),
        (b"0\n1\n0 0 0\n", 4, "the line is not `epoch start`"),
        (b"0\n1\n0 " + b"9" * 400 + b"\n", 4, "the line is not `epoch start`"),
    ],
)
def test_damaged_checkpoints(
    tmp_path: Path, damages: Damages, content: bytes, position: int, why: str
) -> None:
    checkpoints.leader_epochs(written(tmp_path, "leader-epoch-checkpoint", content), damages)
    assert one(damages) == (position, why)


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (checkpoints.leader_epochs, "in-0/leader-epoch-checkpoint"),
        (checkpoints.offsets, "replication-offset-checkpoint"),
        (checkpoints.topic_id, "in-0/partition.metadata"),
        (checkpoints.broker_epoch, ".kafka_cleanshutdown"),
        (producer_state.aborted, "in-0/00000000000000000000.txnindex"),
    ],
)
def test_a_small_file_flipped_or_cut_is_read_or_damaged(
    tmp_path: Path, read: Callable[[Path, Damages], object], name: str
) -> None:
    """No exception; at most one damage. A number that is longer fits nowhere, or is another one."""
    content = (NODE / name).read_bytes()
    for at in range(min(len(content), 60)):
        longer = [content[:at] + b"9" * count + content[at:] for count in (4, 11, 19)]
        flipped = [
            content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :] for flip in (0x01, 0x20, 0xFF)
        ]
        for changed in (content[:at], *flipped, *longer):
            damages = Damages()
            read(written(tmp_path, Path(name).name, changed), damages)
            assert len(damages) <= 1


@pytest.mark.parametrize(
    ("entry", "fits"),
    [
        (b"in 2147483647 9223372036854775807", True),
        (b"in 2147483648 0", False),
        (b"in 0 9223372036854775808", False),
        (b"in 99999999999 0", False),
    ],
)
def test_numbers_of_a_checkpoint_fit_the_tables(
    tmp_path: Path, damages: Damages, entry: bytes, fits: bool
) -> None:
    name = "replication-offset-checkpoint"
    found = checkpoints.offsets(written(tmp_path, name, b"0\n1\n" + entry + b"\n"), damages)
    assert found == ({("in", 2147483647): 9223372036854775807} if fits else {})
    assert [one.why for one in damages] == ([] if fits else ["the line is not `topic partition offset`"])
    name = "leader-epoch-checkpoint"
    of_epochs = b"0\n1\n" + entry.removeprefix(b"in ") + b"\n"
    assert checkpoints.leader_epochs(written(tmp_path, name, of_epochs), Damages()).num_rows == fits


def test_the_epoch_of_a_clean_shutdown(tmp_path: Path, damages: Damages) -> None:
    assert checkpoints.broker_epoch(NODE / ".kafka_cleanshutdown", damages) == 16
    assert checkpoints.broker_epoch(written(tmp_path, ".kafka_cleanshutdown", b""), damages) is None
    assert not list(damages)
    assert checkpoints.broker_epoch(written(tmp_path, ".kafka_cleanshutdown", b"[]"), damages) is None
    assert one(damages) == (0, "no JSON object with a number `brokerEpoch`")
    contents = {"9223372036854775807": 2**63 - 1, "9223372036854775808": None, "1e999": None, "true": None}
    for epoch, known in contents.items():
        path = written(tmp_path, ".kafka_cleanshutdown", f'{{"brokerEpoch": {epoch}}}'.encode())
        assert checkpoints.broker_epoch(path, Damages()) == known
    assert (
        checkpoints.broker_epoch(written(tmp_path, ".kafka_cleanshutdown", b"[" * 10**5), Damages()) is None
    )
