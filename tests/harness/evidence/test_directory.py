"""A whole data directory: the tables, and what damage in one file does to the others."""

import json
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from crc32c import crc32c

from harness.evidence.directory import read
from harness.protocol.batches import batch
from history import evidence_tables
from tests.histories.broker_files import NODE

LOG = "00000000000000000000.log"


def test_the_tables_of_a_node(node: Path) -> None:
    found = read(node, 3, take=7)
    assert found.keys() == {*evidence_tables.PER_PARTITION, *evidence_tables.PER_NODE}
    for name, table in found.items():
        assert table.schema.equals(evidence_tables.schema(name)), name
        assert set(table["take"].to_pylist()) <= {7}
        assert set(table["node"].to_pylist()) <= {3}
    assert found["takes"].to_pylist() == [{"take": 7, "node": 3, "at_ns": -1, "why": evidence_tables.END}]
    assert found["damage"].num_rows == 0
    assert found["batches"].num_rows == 173
    assert found["control"].num_rows == 12
    assert found["transaction_log"].num_rows == 19
    assert found["metadata"].num_rows == 209
    assert found["ends"].num_rows == 32
    assert found["partitions"].num_rows == 5


def test_decisions_of_a_coordinator(node: Path) -> None:
    rows = read(node, 3)["transaction_log"].to_pylist()
    assert {row["transactional_id"] for row in rows} == {"tx-2"}
    states = [row["state"] for row in rows]
    assert states[:4] == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    prepared = rows[2]
    assert (prepared["topic"], prepared["partition"], prepared["offset"]) == ("__transaction_state", 1, 2)
    assert prepared["timeout_ms"] == 20000
    assert {"topic": "data", "partition": 0} in prepared["partitions"]
    assert not any(row["opaque"] for row in rows)


def test_offsets_and_groups(node: Path) -> None:
    found = read(node, 3)
    offsets = [row for row in found["offset_log"].to_pylist() if row["group"] == "g3"]
    assert [row["committed"] for row in offsets] == [5, 6, 7, 8, 9, 10]
    assert all(row["transactional"] and row["producer_id"] == 4 for row in offsets)
    names = set(found["group_log"]["name"].to_pylist())
    assert {"GroupMetadata", "ConsumerGroupMetadata", "ConsumerGroupCurrentMemberAssignment"} <= names
    epochs = [row["epoch"] for row in found["group_log"].to_pylist() if row["name"] == "GroupMetadata"]
    assert epochs == sorted(epochs)


def test_elections(node: Path) -> None:
    """The fields of metadata records that elections need have columns of their own."""
    rows = read(node, 3)["metadata"].to_pylist()
    registered = [row for row in rows if row["name"] == "RegisterBrokerRecord"]
    assert sorted(row["broker"] for row in registered) == [1, 2, 2, 3]
    assert all(row["broker_epoch"] >= 0 and row["fenced"] == 1 for row in registered)
    topics = {row["topic"]: row["topic_id"] for row in rows if row["name"] == "TopicRecord"}
    assert topics["in"] == "So_D3SzXRweqsPjnCsDgsQ"
    made = [row for row in rows if row["name"] == "PartitionRecord" and row["topic_id"] == topics["in"]]
    assert [(row["partition"], row["partition_leader_epoch"]) for row in made] == [(0, 0), (1, 0)]
    assert all(sorted(row["replicas"]) == sorted(row["isr"]) == [1, 2, 3] for row in made)
    assert {row["feature"]: row["level"] for row in rows if row["feature"]}["transaction.version"] == 2
    assert all(row["snapshot"] == -1 for row in rows)
    assert all(json.loads(row["body"]) is not None for row in rows)


def test_markers(node: Path) -> None:
    rows = read(node, 3)["control"].to_pylist()
    mine = [row for row in rows if row["topic"] == "in"]
    assert [row["name"] for row in mine] == ["COMMIT", "COMMIT", "COMMIT", "ABORT", "COMMIT"]
    assert all(row["coordinator_epoch"] == 0 and row["producer_id"] == 4 for row in mine)
    (elected,) = [row for row in rows if row["topic"] == "__cluster_metadata"]
    assert elected["name"] == "LEADER_CHANGE"
    assert json.loads(elected["body"])["leaderId"] == 1


def test_the_node_itself(node: Path) -> None:
    (row,) = read(node, 3)["nodes"].to_pylist()
    assert row["clean_shutdown"] is True
    assert row["broker_epoch"] == 16
    assert json.loads(row["quorum_state"])["leaderEpoch"] == 1
    assert "node.id=3" in row["meta"]
    (node / ".kafka_cleanshutdown").unlink()
    (killed,) = read(node, 3)["nodes"].to_pylist()
    assert killed["clean_shutdown"] is False


def test_a_snapshot_of_the_metadata_log(node: Path) -> None:
    shutil.copy(node / "bootstrap.checkpoint", node / "__cluster_metadata-0" / f"{9:020}-{2:010}.checkpoint")
    found = read(node, 3)
    rows = [row for row in found["metadata"].to_pylist() if row["snapshot"] == 9]
    assert {row["feature"] for row in rows} >= {"metadata.version", "transaction.version"}
    assert found["damage"].num_rows == 0


def test_what_waits_for_deletion_is_left_out(node: Path) -> None:
    before = read(node, 3)
    shutil.copytree(node / "in-0", node / "in-0.0123456789abcdef-delete")
    shutil.copy(node / "in-0" / LOG, node / "in-0" / f"{LOG}.deleted")
    assert read(node, 3) == before


def test_files_whose_numbers_no_log_has_belong_to_none(node: Path) -> None:
    before = read(node, 3)
    most = 10**20 - 1
    shutil.copytree(node / "in-0", node / f"in-{2**31}")
    for ending in ("log", "log.swap", "snapshot", "txnindex", "log.cleaned"):
        shutil.copy(node / "in-0" / LOG, node / "in-0" / f"{most}.{ending}")
    shutil.copy(node / "bootstrap.checkpoint", node / "__cluster_metadata-0" / f"{most}-{2:010}.checkpoint")
    assert read(node, 3) == before


def test_two_log_directories_are_one_node(node: Path, tmp_path: Path) -> None:
    """Each replica is read once, wherever it is, and whatever a move between the two has left."""
    before, other = read(node, 3), tmp_path / "other"
    other.mkdir()
    for name in ("meta.properties", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        shutil.copy(node / name, other / name)
    shutil.move(node / "in-0", other / "in-0")
    shutil.copytree(other / "in-0", node / "in-0.0123456789abcdef0123456789abcdef-delete")
    shutil.copytree(node / "__transaction_state-1", other / "__transaction_state-1.0123456789-future")
    shutil.copytree(node / "__transaction_state-1", other / "__transaction_state-1")
    (other / "__transaction_state-1" / LOG).write_bytes(b"")  # the copy that was just begun
    (other / "replication-offset-checkpoint").write_text("0\n1\n__transaction_state 1 0\n")
    found = read(node, 3, others=[other])
    for name, table in found.items():
        assert sorted(map(str, table.to_pylist())) == sorted(map(str, before[name].to_pylist())), name


def test_a_node_shut_down_cleanly_where_each_of_its_directories_says_so(node: Path, tmp_path: Path) -> None:
    assert read(node, 3, others=[tmp_path])["nodes"]["clean_shutdown"].to_pylist() == [False]


def test_damage_in_a_second_directory_is_told_with_its_name(node: Path, tmp_path: Path) -> None:
    other = tmp_path / "1"
    other.mkdir()
    (other / "replication-offset-checkpoint").write_text("0\n2\nin 0 5\n")
    assert read(node, 3, others=[other])["damage"]["file"].to_pylist() == ["1/replication-offset-checkpoint"]


FILES = [
    f"in-0/{LOG}",
    f"__transaction_state-1/{LOG}",
    f"__consumer_offsets-4/{LOG}",
    f"__cluster_metadata-0/{LOG}",
    "in-0/00000000000000000010.snapshot",
    "in-0/00000000000000000000.txnindex",
    "in-0/leader-epoch-checkpoint",
    "in-0/partition.metadata",
    "replication-offset-checkpoint",
    ".kafka_cleanshutdown",
]


@pytest.mark.parametrize("name", FILES)
def test_one_damaged_file_is_one_row_and_the_rest_is_read(node: Path, name: str) -> None:
    whole = read(node, 3)
    content = (node / name).read_bytes()
    (node / name).write_bytes(content[: len(content) * 2 // 3 + 1])
    found = read(node, 3)
    (row,) = found["damage"].to_pylist()
    assert row["file"] == name
    assert 0 <= row["position"] <= len(content)
    assert row["why"]
    for table in ("batches", "transaction_log", "offset_log", "group_log", "metadata", "control"):
        kept, all_rows = found[table].to_pylist(), whole[table].to_pylist()
        assert [row for row in all_rows if row in kept] == kept, table
        if not name.endswith(".log"):
            assert kept == all_rows


def test_a_file_that_cannot_be_opened_is_damage(node: Path) -> None:
    (node / "in-0" / LOG).unlink()
    (node / "in-0" / LOG).symlink_to(node)
    (row,) = read(node, 3)["damage"].to_pylist()
    assert row["file"] == f"in-0/{LOG}"
    assert row["why"] == "it cannot be read: Is a directory"


def test_compressed_batches_of_a_coordinator_are_named(node: Path) -> None:
    """`offsets.topic.compression.codec` can be set: what is inside is then not read, and that is said."""
    path = node / "__consumer_offsets-3" / LOG
    content = bytearray(path.read_bytes())
    size = 12 + int.from_bytes(content[8:12], "big")
    content[22] |= 1
    content[17:21] = crc32c(bytes(content[21:size])).to_bytes(4, "big")
    path.write_bytes(bytes(content))
    (row,) = read(node, 3)["damage"].to_pylist()
    assert (row["position"], row["why"]) == (0, "the batch is compressed: its records are not read")


def test_messages_of_a_newer_kafka_are_opaque(node: Path) -> None:
    path = node / "__transaction_state-1" / LOG
    content = bytearray(path.read_bytes())
    size = 12 + int.from_bytes(content[8:12], "big")
    key_end = content.index(b"tx-2") + 4
    assert content[key_end + 1 : key_end + 3] == b"\x00\x01"  # the version, after the value's length
    content[key_end + 2] = 9
    content[17:21] = crc32c(bytes(content[21:size])).to_bytes(4, "big")
    path.write_bytes(bytes(content))
    found = read(node, 3)
    assert found["damage"].num_rows == 0
    first, second, *_ = found["transaction_log"].to_pylist()
    assert first["transactional_id"] == "tx-2"
    assert first["state"] is None
    assert first["opaque"].startswith(b"\x00\x09")
    assert second["opaque"] is None


def with_right_checksums(content: bytearray) -> bytes:
    """The same bytes, so that damage reaches what reads the records."""
    position = 0
    while position + 61 <= len(content):
        end = position + 12 + int.from_bytes(content[position + 8 : position + 12], "big", signed=True)
        if not position + 61 <= end <= len(content):
            break
        crc = crc32c(bytes(content[position + 21 : end]))
        content[position + 17 : position + 21] = crc.to_bytes(4, "big")
        position = end
    return bytes(content)


@pytest.mark.parametrize("value", [-(2**63), -1, 2**63 - 1])
@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".log")])
@pytest.mark.parametrize(("first", "size"), [(0, 8), (27, 8), (35, 8)])
def test_no_offset_and_no_time_of_a_batch_is_too_large_to_be_read(
    tmp_path: Path, name: str, value: int, first: int, size: int
) -> None:
    """No checksum covers its base offset; its times are under a right one here."""
    content = bytearray((NODE / name).read_bytes())
    path = tmp_path / name
    path.parent.mkdir()
    batches, at = 0, 0
    while at < len(content):
        content[at + first : at + first + size] = value.to_bytes(size, "big", signed=True)
        at += 12 + int.from_bytes(content[at + 8 : at + 12], "big")
        batches += 1
    path.write_bytes(with_right_checksums(content))
    assert read(tmp_path, 1)["batches"].num_rows == batches


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".log")])
def test_damage_under_a_right_checksum_is_a_row_of_the_file_and_one_of_its_records(
    tmp_path: Path, name: str
) -> None:
    """A file alone, flipped, shortened and stretched at random places; no exception."""
    content = (NODE / name).read_bytes()
    draw = random.Random(f"damage {name}")
    path = tmp_path / name
    path.parent.mkdir()
    damaged = 0
    for _ in range(60):
        changed = bytearray(content)
        at = draw.randrange(len(changed))
        match draw.randrange(4):
            case 0:
                changed[at] ^= 1 << draw.randrange(8)
            case 1:
                changed[at] = draw.choice((0, 0x7F, 0x80, 0xFF))
            case 2:
                del changed[at : at + draw.randrange(1, 40)]
            case 3:
                changed[at:at] = draw.randbytes(draw.randrange(1, 40))
        path.write_bytes(with_right_checksums(changed))
        rows = read(tmp_path, 1)["damage"].to_pylist()
        assert len(rows) <= 2
        damaged += bool(rows)
    assert damaged > 20


def test_a_malformed_record_is_damage_at_its_byte(node: Path) -> None:
    path = node / "in-0" / LOG
    content = bytearray(path.read_bytes())
    record = 72 + 61  # of the second batch, a marker
    content[record] += 2  # the record says that it is one byte longer
    path.write_bytes(with_right_checksums(content))
    found = read(node, 3)
    (row,) = found["damage"].to_pylist()
    assert (row["file"], row["position"]) == (f"in-0/{LOG}", record + 1)
    assert "a record of" in row["why"]
    markers = [one["offset"] for one in found["control"].to_pylist() if one["topic"] == "in"]
    assert markers == [3, 5, 7, 9]
    assert found["batches"]["intact"].to_pylist().count(False) == 0


@pytest.mark.parametrize("tail", [b"", b"x" * 33])
@pytest.mark.parametrize("topic", ["q", "__consumer_offsets", "__transaction_state"])
def test_a_record_that_is_not_read_hides_no_damage_of_its_file(
    tmp_path: Path, topic: str, tail: bytes
) -> None:
    """Its batch is whole, and says nothing of what follows."""
    folder = tmp_path / f"{topic}-0"
    folder.mkdir()
    packed = batch((1, 0, 5, 5, -1, -1, -1, 1), b"packed")
    (folder / LOG).write_bytes(packed + tail)
    rows = read(tmp_path, 1)["damage"].to_pylist()
    unread = [] if topic == "q" else [(0, "the batch is compressed: its records are not read")]
    foreign = [(len(packed), "33 bytes are left, fewer than the header of a batch has")] if tail else []
    assert [(row["position"], row["why"]) for row in rows] == [*unread, *foreign]


def ends(found: dict[str, pa.Table], name: str) -> list[int]:
    """What a checkpoint says of `in-0`."""
    mine = [row for row in found["ends"].to_pylist() if (row["topic"], row["partition"]) == ("in", 0)]
    return [row["value"] for row in mine if row["file"] == name]


CHECKPOINTS = ("replication", "recovery-point", "log-start", "cleaner")


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize(
    ("elsewhere", "here", "keeps", "value"),
    [
        (99, 7, False, 7),
        (3, 7, False, 7),
        (3, None, False, 3),  # moved a moment ago: the directory has not noted it yet
        (99, None, True, None),  # of another log of the partition, in a directory that failed
        (99, 7, True, 7),
    ],
)
def test_a_checkpoint_speaks_of_the_logs_of_its_own_directory(
    node: Path, tmp_path: Path, name: str, elsewhere: int, here: int | None, keeps: bool, value: int | None
) -> None:
    """But for the cleaner's, of which any may be the newest one."""
    other, file = tmp_path / "other", f"{name}-offset-checkpoint"
    other.mkdir()
    (other / "in-0").mkdir()
    shutil.copy(node / "in-0" / LOG, other / "in-0" / LOG)
    if keeps:
        content = (node / "in-0" / LOG).read_bytes()
        (node / "in-0" / LOG).write_bytes(content[: len(content) // 2])
    else:
        shutil.rmtree(node / "in-0")
    for directory, said in ((node, elsewhere), (other, here)):
        (directory / file).write_text("0\n0\n" if said is None else f"0\n1\nin 0 {said}\n")
    newest = [one for one in (elsewhere, here) if one is not None]
    expected = [max(newest)] if name == "cleaner" else [value] * (value is not None)
    for first, second in ((node, other), (other, node)):
        assert ends(read(first, 3, others=[second]), name) == expected


@pytest.mark.parametrize("larger", [True, False])
def test_a_failed_directory_keeps_a_log_that_the_node_has_elsewhere_by_now(
    node: Path, tmp_path: Path, larger: bool
) -> None:
    """The one that ends later is the node's, also where the older one has more bytes."""
    other = tmp_path / "other"
    shutil.copytree(node / "in-0", other / "in-0")
    content, half = (node / "in-0" / LOG).read_bytes(), 72 + 78 + 72 + 78  # four batches
    (node / "in-0" / LOG).write_bytes(content[: half + 72])
    if larger:
        (other / "in-0" / LOG).unlink()
        (other / "in-0" / f"{8:020}.log").write_bytes(content[2 * half :])
    found = read(node, 3, others=[other])["batches"].to_pylist()
    assert [row["base"] for row in found if row["topic"] == "in"] == ([8, 9] if larger else [*range(10)])
