"""Known bugs of Kafka, from real brokers' logs alone: each is found at its place, and nothing else is.

`golden/NAME-SIDE.zip` is the evidence of one run of `inquest bugs reproduce NAME`: of its topic, of the
partition of `__transaction_state` that decided, of the first kill and of the end, with one controller's
metadata log.

`golden/deleted-records.zip` has no bug: a broker of Kafka 4.3.1 whose clients deleted records (DeleteRecords)
before it was killed and once more before the end, and read as groups of all three protocols, a share group
among them.
"""

import json
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pytest

from checkers.api import check_evidence
from checkers.engine.findings import Found
from checkers.logs import decisions
from history.evidence import Evidence
from history.evidence_tables import PER_NODE, PER_PARTITION

GOLDEN = Path(__file__).with_name("golden")


def evidence(name: str, folder: Path) -> Evidence:
    with ZipFile(GOLDEN / f"{name}.zip") as archive:
        archive.extractall(folder)
    return Evidence.load(folder)


def judged(name: str, folder: Path) -> Found:
    return check_evidence(evidence(name, folder))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("kafka-14402-bad", [("partitions-marked", "run-1-0", 2)]),
        ("kafka-14402-good", []),
        ("kafka-20734-bad", [("partitions-marked", "run-1-1", 0)]),
        ("uncommitted-abort-bad", [("decisions-agree", "run-1-0", 1), ("marker-decided", "run-1-0", 1)]),
        ("uncommitted-partition-bad", [("partitions-named", "run-1-1", 0)]),
    ],
)
def test_logs_alone_show_the_bug_at_its_place(
    name: str, found: list[tuple[str, str, int]], tmp_path: Path
) -> None:
    judgement = judged(name, tmp_path)
    assert sorted((one.check, str(one.log), one.offset) for one in judgement.in_logs) == found
    assert not judgement.crashed
    assert all(judgement.asked[rule] for rule in decisions.CHECKS if rule != decisions.AGREE)


@pytest.mark.parametrize(
    ("name", "witness"),
    [
        ("kafka-14402-bad", "the records came after the end of their transaction (KAFKA-14402)"),
        ("kafka-20734-bad", "the partition had no leader (KAFKA-20734)"),
        ("uncommitted-abort-bad", "acted upon a decision that was not committed"),
        ("uncommitted-partition-bad", "answered from a record that was not committed"),
    ],
)
def test_the_finding_says_what_a_dead_node_or_the_metadata_log_shows(
    name: str, witness: str, tmp_path: Path
) -> None:
    texts = [one.text for one in judged(name, tmp_path).in_logs]
    assert texts
    assert all(witness in text for text in texts)


def places(judgement: Found) -> list[tuple[str, str]]:
    return sorted({(one.check, str(one.log)) for one in judgement.in_logs})


@pytest.mark.sampled(2)
def test_deleted_records_are_no_finding(tmp_path: Path) -> None:
    found = evidence("deleted-records", tmp_path)
    judgement = check_evidence(found)
    assert places(judgement) == []
    assert not judgement.crashed
    noted = [("epoch-checkpoint", "q-0"), ("epoch-checkpoint", "q-1")]
    forgotten = (
        "no-repeated-batch",
        "producer-snapshot",
        "sequence-follows",
    )  # no disk has the log start yet
    open_ = sorted((one.check, str(one.log)) for one in judgement.doubts)
    assert open_ == sorted([*noted, *((rule, log) for rule in forgotten for log in ("q-0", "q-1"))])
    nodes = found.table("nodes")
    at = nodes.column_names.index("clean_shutdown")
    clean = nodes.set_column(at, nodes.schema.field(at), pa.array([True] * nodes.num_rows))
    assert (
        places(check_evidence(changed(found, nodes=clean))) == noted
    )  # the log start would be in its checkpoint


def test_the_records_of_a_share_group_are_judged(tmp_path: Path) -> None:
    found = evidence("deleted-records", tmp_path)
    log = found.table("group_log")
    rows = log.to_pylist()
    newest = max(row["offset"] for row in rows if row["name"] == "ShareGroupMetadata")
    for row in rows:
        if row["offset"] == newest and row["group"] == "sg":
            row["body"] = json.dumps(json.loads(row["body"]) | {"epoch": 1})
    older = pa.Table.from_pylist(rows, log.schema)
    assert ("group-epochs-rise", "__consumer_offsets-2") in places(
        check_evidence(changed(found, group_log=older))
    )


def changed(found: Evidence, **tables: pa.Table) -> Evidence:
    return Evidence({name: found.table(name) for name in (*PER_PARTITION, *PER_NODE)} | tables)
