"""The group coordinator's log of real nodes is accepted as it is, and refused where a record is changed."""

import base64
import json
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from checkers.engine.findings import Found
from checkers.logs.accept_offsets import CHECKS
from core.op import TopicPartition
from harness.evidence import directory
from history.evidence import Evidence, merged
from history.evidence_tables import schema
from tests.checkers.logs.made import asked_nothing, of_partition
from tests.histories.broker_files import GOLDEN

MODERN, CLASSIC = (TopicPartition("__consumer_offsets", number) for number in (3, 4))
Rows = list[dict[str, Any]]


def tables(version: str) -> dict[str, pa.Table]:
    return merged([directory.read(GOLDEN / version, 3)])


@pytest.fixture(scope="module")
def golden() -> dict[str, pa.Table]:
    return tables("4.3.1")


def judged(
    found: dict[str, pa.Table], tp: TopicPartition, change: Callable[[Rows], Rows], table: str = "group_log"
) -> Found:
    """With other rows of a table. Rows of other partitions stay."""
    rows = found[table].to_pylist()
    mine = [row for row in rows if (row["topic"], row["partition"]) == (tp.topic, tp.partition)]
    others = [row for row in rows if row not in mine]
    names = pa.Table.from_pylist([*others, *change(mine)], schema(table))
    return of_partition(CHECKS, Evidence(found | {table: names}), tp)


def places(judgement: Found) -> list[tuple[str, int]]:
    return [(finding.check, finding.offset) for finding in judgement.in_logs]


def same(rows: Rows) -> Rows:
    return rows


def body(at: int, **fields: Any) -> Callable[[Rows], Rows]:
    """The value at an offset, with other fields."""

    def change(rows: Rows) -> Rows:
        return [
            row | ({"body": json.dumps(json.loads(row["body"]) | fields)} if row["offset"] == at else {})
            for row in rows
        ]

    return change


def test_a_real_log_of_a_consumer_group_is_accepted(golden: dict[str, pa.Table]) -> None:
    judgement = judged(golden, MODERN, same)
    assert (judgement.in_logs, judgement.doubts) == ([], [])
    asked = {"one-group-type", "group-epochs-rise", "members-known", "member-epochs-bounded", "one-owner"}
    asked |= {"group-place", "subscription-raises-epoch", "targets-followed"}
    assert set(judgement.asked) == asked


@pytest.mark.parametrize("version", ["3.3.2", "3.9.1", "4.3.1"])
def test_a_real_log_of_a_classic_group_is_accepted(version: str) -> None:
    judgement = judged(tables(version), CLASSIC, same)
    assert judgement.in_logs == []
    # Only of 4.3.1 the metadata log was kept, which says how many partitions there are.
    assert {doubt.check for doubt in judgement.doubts} == (set() if version == "4.3.1" else {"group-place"})
    assert judgement.asked["one-owner"] == judgement.asked["generation-has-leader"] == 1


def test_a_metadata_log_without_the_topic_does_not_say_how_many_partitions_it_has(
    golden: dict[str, pa.Table],
) -> None:
    rows = [row for row in golden["metadata"].to_pylist() if row["topic"] != CLASSIC.topic]
    assert len(rows) == golden["metadata"].num_rows - 1
    judgement = judged(golden | {"metadata": pa.Table.from_pylist(rows, schema("metadata"))}, CLASSIC, same)
    assert judgement.in_logs == []
    assert {doubt.check for doubt in judgement.doubts} == {"group-place"}


def test_other_partitions_are_not_judged(golden: dict[str, pa.Table]) -> None:
    assert asked_nothing(of_partition(CHECKS, Evidence(golden), TopicPartition("__cluster_metadata", 0)))


def assignment(*numbers: int, topic: bytes = b"data") -> str:
    data = struct.pack(f">hih{len(topic)}si", 0, 1, len(topic), topic, len(numbers))
    data += struct.pack(f">{len(numbers)}i", *numbers)
    return base64.b64encode(data + struct.pack(">i", -1)).decode()


CLASSIC_VALUE = {"name": "GroupMetadata", "body": json.dumps({"generation": 1, "members": []})}
TWICE = [{"memberId": member, "groupInstanceId": None, "assignment": assignment(0, 1)} for member in "ab"]


@pytest.mark.parametrize(
    ("tp", "change", "found"),
    [
        (MODERN, body(12, epoch=2), ("group-epochs-rise", 12)),
        (MODERN, body(3, assignmentEpoch=3), ("member-epochs-bounded", 3)),
        (MODERN, body(4, memberEpoch=3), ("member-epochs-bounded", 4)),
        (MODERN, lambda rows: [row for row in rows if row["offset"] != 0], ("members-known", 2)),
        (MODERN, lambda rows: [row for row in rows if row["offset"] != 1], ("subscription-raises-epoch", 2)),
        (MODERN, body(4, assignedPartitions=[]), ("targets-followed", 4)),
        (
            MODERN,
            lambda rows: [*rows, {**rows[1], "name": "GroupMetadata"} | CLASSIC_VALUE],
            ("one-group-type", 1),
        ),
        (CLASSIC, lambda rows: [row | {"group": "another"} for row in rows], ("group-place", 0)),
        (CLASSIC, body(1, generation=-1), ("generations-rise", 1)),
        (CLASSIC, body(1, leader="another"), ("generation-has-leader", 1)),
        (CLASSIC, body(1, leader="a", members=TWICE), ("one-owner", 1)),
    ],
)
def test_a_changed_record_is_found(
    golden: dict[str, pa.Table], tp: TopicPartition, change: Callable[[Rows], Rows], found: tuple[str, int]
) -> None:
    judgement = judged(golden, tp, change)
    assert places(judgement)[:1] == [found]
    assert judgement.asked[found[0]]


def test_a_group_in_the_wrong_partition_is_found_at_its_first_record(golden: dict[str, pa.Table]) -> None:
    """Its generation stands at offset 0, offsets that it committed from offset 2 on."""
    renamed = golden.copy()
    for table in ("group_log", "offset_log"):
        rows = [
            row | ({"group": "another"} if row["partition"] == CLASSIC.partition else {})
            for row in golden[table].to_pylist()
        ]
        renamed[table] = pa.Table.from_pylist(rows, schema(table))
    assert places(judged(renamed, CLASSIC, same)) == [("group-place", 0)]


def test_two_members_of_a_generation_may_have_one_number_of_different_topics(
    golden: dict[str, pa.Table],
) -> None:
    apart = [assignment(0, topic=topic) for topic in (b"data", b"tata")]
    members = [{"memberId": text, "groupInstanceId": None, "assignment": text} for text in apart]
    judgement = judged(golden, CLASSIC, body(1, leader=apart[0], members=members))
    assert (judgement.in_logs, judgement.asked["one-owner"]) == ([], 1)


@pytest.mark.parametrize(
    "near",
    [
        body(0, subscribedTopicNames=[]),
        lambda rows: [row for row in body(0, instanceId="i")(rows) if row["offset"] != 1],
        lambda rows: body(4, state=2)(body(4, assignedPartitions=[])(rows)),
        lambda rows: [
            *(row for row in rows if row["offset"] < 5),
            *(row | {"offset": 5} for row in body(0, subscribedTopicRegex="r.*")(rows[:1])),
            *(row | {"offset": 6} for row in body(4, assignedPartitions=[])(rows) if row["offset"] == 4),
        ],
        lambda rows: body(1, epoch=3)(body(4, assignedPartitions=[])([r for r in rows if r["offset"] < 12])),
    ],
    ids=["wants none", "static", "waits", "another expression", "the group has moved on"],
)
def test_near_misses_of_what_is_assigned(golden: dict[str, pa.Table], near: Callable[[Rows], Rows]) -> None:
    judgement = judged(golden, MODERN, near)
    assert (judgement.in_logs, judgement.doubts) == ([], [])


def test_an_assignment_of_another_form_is_not_judged(golden: dict[str, pa.Table]) -> None:
    other = [one | {"assignment": base64.b64encode(b"other").decode()} for one in TWICE]
    judgement = judged(golden, CLASSIC, body(1, leader="a", members=other))
    assert (judgement.in_logs, judgement.asked["one-owner"]) == ([], 0)


def test_tasks_of_a_streams_group_are_no_partitions(golden: dict[str, pa.Table]) -> None:
    tasks = [{"subtopologyId": "0", "partitions": [0, 1]}]

    def change(rows: Rows) -> Rows:
        changed = []
        for row in rows:
            made = json.loads(row["body"] or "{}")
            named = made.keys() & {"topicPartitions", "assignedPartitions"}
            fields = made | dict.fromkeys(named, tasks)
            changed.append(row | ({"body": json.dumps(fields)} if named else {}))
        return changed

    whole, judgement = judged(golden, MODERN, same), judged(golden, MODERN, change)
    assert (judgement.in_logs, judgement.doubts) == ([], [])
    assert judgement.asked["one-owner"] < whole.asked["one-owner"]


def test_values_that_no_definition_reads_are_doubts(golden: dict[str, pa.Table]) -> None:
    opaque = judged(golden, CLASSIC, lambda rows: [row | {"opaque": b"?", "body": None} for row in rows])
    assert {doubt.check for doubt in opaque.doubts} == set(CHECKS)
    assert set(opaque.asked) == {"group-place"}


@pytest.mark.parametrize(
    "gap",
    [
        lambda rows: [row for row in rows if row["base"] > 4],
        lambda rows: [row | {"records": row["records"] - (row["base"] == 0)} for row in rows],
        lambda rows: [row for row in rows if row["base"] != 5],
    ],
    ids=["the first batch", "a record of a batch", "a batch between others"],
)
def test_compaction_leaves_members_unknown(golden: dict[str, pa.Table], gap: Callable[[Rows], Rows]) -> None:
    """The record of a member, at offset 0, is gone, and something else shows that compaction was there."""
    mine = {"topic": MODERN.topic, "partition": MODERN.partition}
    ends = [row for row in golden["ends"].to_pylist() if not mine.items() <= row.items()]
    ends.append({"take": 0, "node": 3, **mine, "file": "cleaner", "value": 9})
    tables = golden | {
        "group_log": golden["group_log"].filter(pc.greater(golden["group_log"]["offset"], 0)),
        "ends": pa.Table.from_pylist(ends, schema("ends")),
    }
    judgement = judged(tables, MODERN, gap, "batches")
    assert judgement.in_logs == []
    assert [doubt.check for doubt in judgement.doubts] == ["members-known", "subscription-raises-epoch"]


def test_a_hole_leaves_everything_unknown(golden: dict[str, pa.Table]) -> None:
    """A member that gave up its partitions in a damaged batch still has them, as far as the rest says."""
    batches = [row for row in golden["batches"].to_pylist() if row["topic"] == MODERN.topic]
    bases = sorted(row["base"] for row in batches if row["partition"] == MODERN.partition)
    hole, after = bases[1], bases[2]

    def torn(rows: Rows) -> Rows:
        return [row | {"intact": row["base"] != hole} for row in rows]

    left = golden["group_log"].to_pylist()
    kept = [row for row in left if row["partition"] != MODERN.partition or not hole <= row["offset"] < after]
    tables = golden | {"group_log": pa.Table.from_pylist(kept, schema("group_log"))}
    judgement = judged(tables, MODERN, torn, "batches")
    assert judgement.in_logs == []
    assert {doubt.check for doubt in judgement.doubts} == set(CHECKS)


@pytest.mark.parametrize("packed", ["all", "first", "last"])
def test_what_is_compressed_is_unknown(golden: dict[str, pa.Table], packed: str) -> None:
    """The topic's codec may have been set, or taken away, while it had records. The first batch has a record
    of a member alone."""
    bases: list[int] = []

    def compressed(rows: Rows, codec: int = 3) -> Rows:
        first, *rest = sorted(rows, key=lambda row: row["base"])
        member = first | {"last": 0, "records": 1}
        split = [member, first | {"base": 1, "records": first["records"] - 1, "position": 1}, *rest]
        chosen = {"all": split, "first": split[:1], "last": split[-1:]}[packed]
        bases[:] = [offset for row in chosen for offset in range(row["base"], row["last"] + 1)]
        return [row | {"compression": codec * (row in chosen)} for row in split]

    judged(golden, MODERN, compressed, "batches")
    records = golden["group_log"].to_pylist()
    kept = [row for row in records if row["partition"] != MODERN.partition or row["offset"] not in bases]
    tables = golden | {"group_log": pa.Table.from_pylist(kept, schema("group_log"))}
    judgement = judged(tables, MODERN, compressed, "batches")
    assert judgement.in_logs == []
    assert {doubt.check for doubt in judgement.doubts} == set(CHECKS)
    if packed == "first":  # a record that is not there at all is missed
        plain = judged(tables, MODERN, lambda rows: compressed(rows, codec=0), "batches")
        assert "members-known" in {one.check for one in plain.in_logs}
