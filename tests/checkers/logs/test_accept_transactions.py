"""Ring 1 over `__transaction_state`: evidence of real brokers passes, the rules refuse what a test plants."""

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from checkers.engine.findings import Found
from checkers.logs.accept_transactions import CHECKS
from checkers.logs.audit import DENSE
from checkers.logs.registry import LOG_CHECKS
from core.op import TopicPartition
from harness.evidence.directory import read
from history.evidence import Evidence, merged
from model.accepting import transaction_log as rules
from tests.checkers.logs.made import asked_nothing, of_partition, tables
from tests.histories.broker_files import GOLDEN

LOG = TopicPartition("__transaction_state", 1)
Row = dict[str, Any]
Made = dict[str, list[Row]]
VERSIONS = ["3.3.2", "3.9.1", "4.3.1"]


def real(version: str = "4.3.1") -> Made:
    """The log of a real broker, 19 records of one id: Empty, then six transactions."""
    found = merged([read(GOLDEN / version, 1)])
    return {name: table.to_pylist() for name, table in found.items()}


def judged(made: Made) -> Found:
    return of_partition(CHECKS, Evidence(tables(made, nodes=(1,))), LOG)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_log_of_a_real_broker_passes(version: str) -> None:
    found = judged(real(version))
    assert not found.in_logs
    assert {found.asked[rule] for rule in (*rules.FOLLOWING, rules.OWNER)} == {19}
    doubts = [] if version == "4.3.1" else [rules.PLACE]  # other copies have no metadata log
    assert [doubt.check for doubt in found.doubts] == doubts


SEGMENTS = (0, 3, 7, 12)
"""Where segments begin, of a log with 19 batches of one record each."""


def rolled(folder: Path) -> Made:
    """The same log in several files, as a broker leaves it that rolls it."""
    node = shutil.copytree(GOLDEN / "4.3.1", folder / "node")
    whole = node / str(LOG) / f"{0:020}.log"
    content, placed = whole.read_bytes(), real()["batches"]
    at = {row["base"]: row["position"] for row in placed if row["topic"] == LOG.topic}
    for first, following in pairwise((*SEGMENTS, None)):
        part = content[at[first] : None if following is None else at[following]]
        (whole.parent / f"{first:020}.log").write_bytes(part)
    found = merged([read(node, 1)])
    return {name: table.to_pylist() for name, table in found.items()}


def test_a_log_of_several_segments_is_judged_as_one(tmp_path: Path) -> None:
    made = rolled(tmp_path)
    assert {row["segment"] for row in made["batches"] if row["topic"] == LOG.topic} == {*SEGMENTS}
    assert made["transaction_log"] == real()["transaction_log"]
    found = judged(made)
    assert not found.in_logs
    assert {found.asked[rule] for rule in (*rules.FOLLOWING, rules.OWNER)} == {19}
    without_prepare(made["transaction_log"])
    (first, *_) = judged(made).in_logs
    assert (first.check, first.offset) == (rules.STATE, 3)  # the first record of the second segment


def test_a_hole_between_the_segments_of_a_log_is_found(tmp_path: Path) -> None:
    made = rolled(tmp_path)
    dense = {DENSE: LOG_CHECKS[DENSE]}
    assert not of_partition(dense, Evidence(tables(made, nodes=(1,))), LOG).in_logs
    made["batches"] = [row for row in made["batches"] if (row["topic"], row["base"]) != (LOG.topic, 12)]
    (found,) = of_partition(dense, Evidence(tables(made, nodes=(1,))), LOG).in_logs
    assert (found.check, found.offset) == (DENSE, 13)


def test_a_record_without_a_list_of_partitions_names_none() -> None:
    made = real()
    empty = [row for row in made["transaction_log"] if not row["partitions"]]
    for row in empty:
        row["partitions"] = None
    found = judged(made)
    assert empty
    assert not found.in_logs
    assert not found.crashed


def without_prepare(rows: list[Row]) -> None:
    del rows[2]


def another_state(rows: list[Row]) -> None:
    rows[2]["state"] = "PrepareAbort"


def fewer_partitions(rows: list[Row]) -> None:
    rows[2]["partitions"] = []


def a_raised_epoch(rows: list[Row]) -> None:
    rows[4]["producer_epoch"] += 1


def another_producer(rows: list[Row]) -> None:
    rows[4]["producer_id"] += 1


def another_begin(rows: list[Row]) -> None:
    rows[3]["start_ms"] += 1


def another_timeout(rows: list[Row]) -> None:
    rows[1]["timeout_ms"] += 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("plant", "rule", "offset"),
    [
        (without_prepare, rules.STATE, 3),
        (another_state, rules.STATE, 3),
        (fewer_partitions, rules.PARTITIONS, 2),
        (a_raised_epoch, rules.EPOCH, 4),
        (another_producer, rules.PRODUCER_ID, 4),
        (another_begin, rules.TIMES, 3),
        (another_timeout, rules.TIMES, 1),
    ],
)
def test_a_planted_record_is_told_at_its_offset(
    plant: Callable[[list[Row]], None], rule: str, offset: int, version: str
) -> None:
    made = real(version)
    plant(made["transaction_log"])
    found = judged(made)
    first = found.in_logs[0]
    assert (first.check, first.offset) == (rule, offset)
    assert first.text.startswith(f"at offset {offset} of {LOG}: tx-2: ")
    assert first.before.startswith("tx-2: ")
    assert first.transactional_id == "tx-2"


def test_a_transactional_id_in_another_partition() -> None:
    """The metadata log has five partitions; one more, and the hash names another one."""
    made = real()
    created = [row for row in made["metadata"] if row["name"] == "TopicRecord" and row["topic"] == LOG.topic]
    last = made["metadata"][-1]
    more = {"name": "PartitionRecord", "topic_id": created[0]["topic_id"], "topic": None}
    made["metadata"] += [
        last | more | {"offset": last["offset"] + 1 + number, "partition": 5 + number} for number in range(4)
    ]
    assert {finding.check for finding in judged(made).in_logs} == {rules.PLACE}


def test_without_a_metadata_log_the_directories_tell_the_number_of_partitions() -> None:
    made = real() | {"metadata": []}
    assert [doubt.check for doubt in judged(made).doubts] == [rules.PLACE]
    (own,) = (row for row in made["partitions"] if row["topic"] == LOG.topic)
    made["partitions"] += [own | {"partition": number} for number in (0, 2, 3, 4)]
    found = judged(made)
    assert not found.in_logs
    assert not found.doubts
    assert found.asked[rules.PLACE] == 19


def test_a_metadata_log_without_its_begin_does_not_tell_it() -> None:
    """Nodes that were not taken may have had the last partitions."""
    made = real()
    (own,) = (row for row in made["partitions"] if row["topic"] == LOG.topic)
    made["partitions"] += [own | {"partition": number} for number in (0, 2)]
    assert not judged(made).in_logs
    for row in made["partitions"]:
        row["start"] = 9 if row["topic"] == "__cluster_metadata" else row["start"]
    found = judged(made)
    assert not found.in_logs
    assert [doubt.check for doubt in found.doubts] == [rules.PLACE]


def test_without_a_metadata_log_the_leader_may_be_the_same_in_another_epoch() -> None:
    """On ZooKeeper: a transaction whose begin was not heard to be committed begins again."""
    made = real()
    rows = made["transaction_log"]
    first = rows[1]
    later = {"start_ms": first["start_ms"] + 5, "last_update_ms": first["last_update_ms"] + 5}
    rows[2:] = [first | later | {"offset": 2, "leader_epoch": first["leader_epoch"] + 1}]
    assert {finding.check for finding in judged(made).in_logs} == {rules.TIMES}
    assert not judged(made | {"metadata": []}).in_logs
    rows[2]["timeout_ms"] += 1
    assert {finding.check for finding in judged(made | {"metadata": []}).in_logs} == {rules.TIMES}


def test_a_producer_id_of_another_id_in_another_partition() -> None:
    made = real()
    first = made["transaction_log"][0]
    other = first | {"partition": 0, "transactional_id": "u", "timestamp": first["timestamp"] - 1}
    made["transaction_log"].append(other)
    assert {finding.check for finding in judged(made).in_logs} == {rules.OWNER}
    other["producer_id"] += 1
    assert not judged(made).in_logs


def test_a_gap_is_a_doubt() -> None:
    made = real()
    log = [row for row in made["batches"] if row["topic"] == LOG.topic]
    made["batches"].remove(log[5])
    del made["transaction_log"][5]
    found = judged(made)
    assert not found.in_logs
    assert {doubt.check for doubt in found.doubts} == {*rules.FOLLOWING}


def test_a_compressed_batch_is_a_doubt() -> None:
    made = real()
    log = [row for row in made["batches"] if row["topic"] == LOG.topic]
    log[5]["compression"] = 1
    del made["transaction_log"][5]
    found = judged(made)
    assert not found.in_logs
    assert {doubt.check for doubt in found.doubts} == {*rules.FOLLOWING}


def test_a_value_of_a_newer_format_is_a_doubt() -> None:
    made = real()
    row = made["transaction_log"][5]
    row.update(dict.fromkeys((name for name in row if name in read_columns()), None), opaque=b"new")
    found = judged(made)
    assert not found.in_logs
    assert {doubt.check for doubt in found.doubts} == {*rules.FOLLOWING}


def read_columns() -> list[str]:
    """Of a value."""
    names = [field.name for field in Evidence({}).table("transaction_log").schema]
    return names[names.index("version") : names.index("opaque")]


def test_other_topics_are_not_about_transactional_ids() -> None:
    assert asked_nothing(of_partition(CHECKS, Evidence(tables(real(), nodes=(1,))), TopicPartition("in", 0)))
