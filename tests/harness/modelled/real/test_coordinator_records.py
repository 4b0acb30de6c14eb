"""What coordinators wrote is read from the bytes of a fetch, also by the reader of logs."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.consumer_protocol import assignment
from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from harness.contract.dialect import IdPairs
from harness.contract.wire_data import batches
from harness.evidence import coordinator_records as logs
from harness.evidence import share_records
from harness.evidence.damage import Damages
from harness.evidence.segments import Segment, read
from harness.modelled.real.encoded.records import fetched
from harness.modelled.shared.base_time import BASE_MS
from harness.modelled.shared.topic_uuids import topic_id, topic_uuid
from model.coordinator.classic_group import GroupRecord, MemberRecord
from model.coordinator.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupTombstone,
    MemberState,
    group_tombstones,
    member_tombstones,
)
from model.coordinator.group_metadata_manager import OffsetRecord
from model.coordinator.transaction_metadata import TransactionRecord, TransactionState, TransactionTombstone
from model.eras import ERAS
from model.log.unified_log import COMMIT, REMOVED, RecordBatch, UnifiedLog
from model.protocol.share_messages import StateBatch
from model.share.dead_letter_queue import LetterRecord
from model.share.share_coordinator import ShareSnapshot, ShareUpdate

ONGOING = TransactionRecord(
    "té",
    2**40,
    60_000,
    epoch=3,
    state=TransactionState.ONGOING,
    partitions=(("a", 0), ("a", 300), ("b", 1)),
    started=5,
    updated=7,
    previous_id=4,
    next_id=9,
    version=2,
)
MEMBERS = tuple(
    MemberRecord(name, 10_000, 20_000, ("t",), ((("t", n)),), (("range", b"\0r"), ("sticky", name.encode())))
    for n, name in enumerate("MN")
)


def log_of(era: str, *written: tuple[object, ...]) -> UnifiedLog:
    """A log with a batch of each of these records, in leader epoch 4."""
    log = UnifiedLog(ERAS[era])
    for ms, records in enumerate(written):
        log.append(RecordBatch(-1, -1, records, appended_ms=100 + ms), 4)
    return log


def segment(log: UnifiedLog, folder: Path) -> Segment:
    """What a fetch of all of it brings."""
    path = folder / "0.log"
    path.write_bytes(b"".join(fetched(batch, log.era, BASE_MS) for batch in log.batches))
    found = read(path)
    assert found.damage is None
    assert found.intact.all()
    return found


@pytest.mark.parametrize("era", ["3.9", "4.2-tv1", "4.3"])
def test_the_log_of_transactions(era: str, tmp_path: Path) -> None:
    log = log_of(
        era,
        (TransactionRecord("e", 1, 1000, epoch=0, updated=3),),
        (ONGOING, ONGOING._replace(state=TransactionState.COMPLETE_ABORT, partitions=())),
        (TransactionTombstone("e"),),
    )
    damages = Damages()
    found = logs.transactions(segment(log, tmp_path), damages)
    assert not damages
    empty, ongoing, ended, gone = found.to_pylist()
    flexible = ERAS[era].server_transaction_version >= 2
    ids = (4, 9) if ERAS[era].ids_logged and flexible else (-1, -1)
    assert {
        name: ongoing[name] for name in ongoing if name not in ("leader_epoch", "next_producer_epoch")
    } == {
        "offset": 1,
        "timestamp": BASE_MS + 101,
        "transactional_id": "té",
        "version": int(flexible),
        "producer_id": 2**40,
        "previous_producer_id": ids[0],
        "next_producer_id": ids[1],
        "producer_epoch": 3,
        "timeout_ms": 60_000,
        "state": "Ongoing",
        "partitions": [{"topic": t, "partition": n} for t, n in (("a", 0), ("a", 300), ("b", 1))],
        "client_transaction_version": 2 if flexible else 0,
        "last_update_ms": BASE_MS + 7,
        "start_ms": BASE_MS + 5,
        "opaque": None,
    }
    assert (empty["state"], empty["partitions"], empty["start_ms"]) == ("Empty", [], -1)
    assert (ended["state"], ended["partitions"]) == ("CompleteAbort", [])
    assert (gone["transactional_id"], gone["state"]) == ("e", None)
    brought = batches(
        b"".join(fetched(batch, log.era) for batch in log.batches), IdPairs(), TRANSACTION_TOPIC
    )
    assert [record.state for record in brought[1].records] == ["Ongoing", "CompleteAbort"]  # type: ignore[attr-defined]


def test_offsets_also_those_of_a_transaction(tmp_path: Path) -> None:
    log = log_of("4.3", (OffsetRecord("g", ("t", 0), 5, 2), OffsetRecord("g", ("t", 1), 2**40)))
    log.append(RecordBatch(-1, -1, (OffsetRecord("h", ("t", 0), 7),), 9, 1, transactional=True), 4)
    log.append(RecordBatch(-1, -1, (), 9, 1, control=COMMIT, coordinator_epoch=3, appended_ms=8), 4)
    damages = Damages()
    found, others = logs.groups(segment(log, tmp_path), damages)
    assert not damages
    assert others.num_rows == 0
    names = ("group", "committed_topic", "committed_partition", "committed", "transactional", "producer_id")
    assert [tuple(row[name] for name in names) for row in found.to_pylist()] == [
        ("g", "t", 0, 5, False, -1),
        ("g", "t", 1, 2**40, False, -1),
        ("h", "t", 0, 7, True, 9),
    ]
    assert found["committed_leader_epoch"].to_pylist() == [2, -1, -1]


def decoded(log: UnifiedLog, folder: Path) -> list[dict[str, Any]]:
    damages = Damages()
    _, found = logs.groups(segment(log, folder), damages)
    assert not damages
    return [json.loads(body) for body in found.column("body").to_pylist()]


def test_generations_of_a_group(tmp_path: Path) -> None:
    group = GroupRecord("g", 7, "M", MEMBERS)
    first, second = decoded(log_of("4.3", (group,), (GroupRecord("g", 8, "", ()),)), tmp_path)
    assert (first["generation"], first["leader"], first["protocol"]) == (7, "M", "range")
    assert first["currentStateTimestamp"] == BASE_MS + 100
    assert [one["memberId"] for one in first["members"]] == ["M", "N"]
    assert (first["members"][1]["rebalanceTimeout"], first["members"][1]["sessionTimeout"]) == (
        20_000,
        10_000,
    )
    assert (second["generation"], second["leader"], second["protocol"], second["members"]) == (
        8,
        None,
        None,
        [],
    )
    log = log_of("4.3", (group,))
    ((brought,),) = (one.records for one in batches(fetched(log.batches[0], log.era), IdPairs(), GROUP_TOPIC))
    assert brought == GroupRecord("g", 7, "M", ())
    assert assignment((("t", 1),)) in fetched(log.batches[0], log.era)


@pytest.mark.parametrize("left", [(), (1,), (0, 1)])
def test_what_compaction_removed_leaves_its_offset(left: tuple[int, ...], tmp_path: Path) -> None:
    records = [OffsetRecord("g", ("t", n), n) if n in left else REMOVED for n in range(3)]
    log = log_of("4.3", (OffsetRecord("g", ("t", 9), 1),), tuple(records))
    found, _ = logs.groups(segment(log, tmp_path), Damages())
    assert found.column("offset").to_pylist() == [0, *(1 + n for n in left)]
    assert [(batch.base, len(batch.records)) for batch in brought(log)] == [(0, 1), (1, len(left))]
    assert segment(log, tmp_path).headers["last_delta"].tolist() == [0, 2]


def brought(log: UnifiedLog) -> list[RecordBatch]:
    return batches(b"".join(fetched(batch, log.era) for batch in log.batches), IdPairs(), GROUP_TOPIC)


@pytest.mark.parametrize("record", ["x", None])
def test_nothing_else_is_a_coordinators_record(record: object) -> None:
    with pytest.raises(AssertionError, match="no coordinator writes"):
        fetched(RecordBatch(0, 0, (record,)), ERAS["4.3"])


@pytest.mark.parametrize("era", ["4.2-tv1", "4.3"])
def test_records_of_consumer_groups(era: str, tmp_path: Path) -> None:
    """KIP-848; since which epoch a member has its partitions is told since 4.3 (KIP-1251)."""
    t0, t1, u0 = ("t", 0), ("t", 1), ("u", 0)
    state = MemberState.UNREVOKED_PARTITIONS
    log = log_of(
        era,
        (
            ConsumerGroupMemberMetadata("g", "m", ("t", "u"), 300_000, "i", "uniform"),
            ConsumerGroupMetadata("g", 3, (("t", 2), ("u", 1))),
            ConsumerGroupTargetAssignmentMember("g", "m", (t0, t1, u0)),
            ConsumerGroupTargetAssignmentMetadata("g", 3, 50),
            ConsumerGroupCurrentMemberAssignment("g", "m", 2, 1, state, ((t0, 1), (t1, 2)), ((u0, 1),)),
        ),
        (*member_tombstones("g", "m"), *group_tombstones("g"), GroupTombstone("GroupMetadata", "c")),
    )
    damages = Damages()
    _, found = logs.groups(segment(log, tmp_path), damages)
    assert not damages
    rows = found.to_pylist()
    kinds = ["MemberMetadata", "Metadata", "TargetAssignmentMember", "TargetAssignmentMetadata"]
    kinds.append("CurrentMemberAssignment")
    assert [row["name"].removeprefix("ConsumerGroup") for row in rows[:5]] == kinds
    assert {row["group"] for row in rows[:10]} == {"g"}
    said, group, target, targets, current = (json.loads(row["body"]) for row in rows[:5])
    assert (said["subscribedTopicNames"], said["rebalanceTimeoutMs"]) == (["t", "u"], 300_000)
    assert (said["instanceId"], said["serverAssignor"], said["rackId"]) == ("i", "uniform", None)
    assert (group["epoch"], targets["assignmentEpoch"]) == (3, 3)
    assert targets["assignmentTimestamp"] == BASE_MS + 50
    both = [{"topicId": topic_id(topic), "partitions": its} for topic, its in (("t", [0, 1]), ("u", [0]))]
    assert target["topicPartitions"] == both
    epochs = [one.pop("assignmentEpochs") for one in current["assignedPartitions"]]
    assert epochs == [[1, 2] if era == "4.3" else []]
    assert current["assignedPartitions"] == both[:1]
    assert (current["memberEpoch"], current["previousMemberEpoch"], current["state"]) == (2, 1, 1)
    assert [one["topicId"] for one in current["partitionsPendingRevocation"]] == [topic_id("u")]
    assert [row["body"] for row in rows[5:]] == [None] * 6
    assert [(row["name"], row["member"]) for row in rows[5:8]] == [
        (f"ConsumerGroup{what}", "m")
        for what in ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata")
    ]
    assert (rows[10]["name"], rows[10]["group"]) == ("GroupMetadata", "c")


@pytest.mark.parametrize("era", ["4.2-tv1", "4.3"])
def test_records_of_consumer_groups_are_brought_by_a_fetch(era: str) -> None:
    """All but a group's numbers of partitions, of which Kafka keeps a hash."""
    t0, t1, u0 = ("t", 0), ("t", 1), ("u", 0)
    state = MemberState.UNRELEASED_PARTITIONS
    written: tuple[object, ...] = (
        ConsumerGroupMemberMetadata("g", "m", ("t", "u"), 300_000, "i", "uniform"),
        ConsumerGroupMemberMetadata("g", "n", ("t",), 1, regex="u.*"),
        ConsumerGroupTargetAssignmentMember("g", "m", (t0, t1, u0)),
        ConsumerGroupTargetAssignmentMember("g", "n", ()),
        ConsumerGroupTargetAssignmentMetadata("g", 3),
        ConsumerGroupCurrentMemberAssignment("g", "m", 2, 1, state, ((t0, 1), (t1, 2)), ((u0, 1),)),
        *member_tombstones("g", "m"),
        *group_tombstones("g"),
        GroupTombstone("GroupMetadata", "c"),
        ConsumerGroupRegularExpression("g", "u.*", ("u", "uu"), 7),
        ConsumerGroupRegularExpression("g", "v.*", ()),
        GroupTombstone("ConsumerGroupRegularExpression", "g", regex="u.*"),
    )
    log = log_of(era, (ConsumerGroupMetadata("g", 3, (("t", 2),)), *written))
    names = IdPairs(topics={topic: topic_uuid(topic) for topic in "tu"})
    data = b"".join(fetched(batch, log.era) for batch in log.batches)
    (found,) = (batch.records for batch in batches(data, names, GROUP_TOPIC))
    assert found[0] == ConsumerGroupMetadata("g", 3)
    current = found[6]
    assert isinstance(current, ConsumerGroupCurrentMemberAssignment)
    if era != "4.3":
        assert {epoch for _, epoch in (*current.assigned, *current.revoking)} == {-1}
        current = written[5]
    assert (*found[1:6], current, *found[7:]) == written


def test_a_topic_without_a_known_name_keeps_its_id() -> None:
    log = log_of("4.3", (ConsumerGroupTargetAssignmentMember("g", "m", (("t", 0),)),))
    (record,) = brought(log)[0].records
    assert record == ConsumerGroupTargetAssignmentMember("g", "m", ((str(topic_uuid("t")), 0),))


def test_the_log_of_share_coordinators(tmp_path: Path) -> None:
    runs = (StateBatch(7, 2**40, 2, 3), StateBatch(2**40 + 1, 2**40 + 1, 4, 300))
    log = log_of(
        "4.4",
        (ShareSnapshot("gé", ("t", 5), 1, 2, 3, 7, runs),),
        (ShareUpdate("g", ("t", 0), 1, 4, -1, ()), ShareUpdate("g", ("t", 0), 1, 5, 2**40, runs[:1])),
    )
    damages = Damages()
    found = share_records.states(segment(log, tmp_path), damages).to_pylist()
    assert not damages
    names = ("offset", "name", "group", "shared_partition", "snapshot_epoch", "state_epoch")
    assert [tuple(row[name] for name in names) for row in found] == [
        (0, "ShareSnapshot", "gé", 5, 1, 2),
        (1, "ShareUpdate", "g", 0, 1, None),
        (2, "ShareUpdate", "g", 0, 1, None),
    ]
    assert [(row["shared_leader_epoch"], row["start"]) for row in found] == [(3, 7), (4, -1), (5, 2**40)]
    states = [[*map(tuple, (one.values() for one in row["states"]))] for row in found]
    assert states == [[*map(tuple, runs)], [], [tuple(runs[0])]]
    assert {(row["shared_topic"], row["timestamp"] - row["offset"]) for row in found[:2]} == {
        (topic_id("t"), BASE_MS + 100)
    }


def test_dead_letters_name_their_records_in_headers(tmp_path: Path) -> None:
    log = log_of(
        "4.4", (LetterRecord("g", ("té", 2), 9, 3, b"copy"), LetterRecord("g", ("t", 0), 1, 1, None))
    )
    assert segment(log, tmp_path).table().to_pylist()[0]["records"] == 2
    (raw,) = (fetched(batch, log.era) for batch in log.batches)
    for name, value in {
        "topic": "té",
        "partition": "2",
        "offset": "9",
        "group": "g",
        "delivery.count": "3",
    }.items():
        key, said = f"__dlq.errors.{name}".encode(), value.encode()
        assert bytes([len(key) << 1]) + key + bytes([len(said) << 1]) + said in raw
    assert b"copy" in raw
