"""The log of a share coordinator: which records may follow each other."""

import pyarrow as pa
import pytest

from checkers.logs.accept_share import CHECKS, EPOCHS, START, WHOLE, starts_that_fell
from core.internal_topics import SHARE_STATE_TOPIC
from core.op import TopicPartition
from harness.modelled.shared.disk_copy import DiskCopy
from harness.modelled.shared.evidence import tables
from history.evidence import Evidence
from history.evidence_tables import END, schema
from model.broker import Durable
from model.eras import ERAS
from model.log.unified_log import RecordBatch, UnifiedLog
from model.protocol.share_messages import StateBatch
from model.settings import Settings
from model.share.record_states import RecordState
from model.share.share_coordinator import ShareSnapshot, ShareUpdate
from tests.checkers.logs.made import of_partition

TP = TopicPartition(SHARE_STATE_TOPIC, 0)
Record = ShareSnapshot | ShareUpdate
FREE, DONE, GONE = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED


def snapshot(start: int, *states: StateBatch, state: int = 0, leader: int = 0) -> Record:
    return ShareSnapshot("g", ("data", 0), 0, state, leader, start, states)


def update(start: int, *states: StateBatch, leader: int = 0, partition: int = 0) -> Record:
    return ShareUpdate("g", ("data", partition), 0, leader, start, states)


def one(offset: int, state: RecordState, times: int = 1) -> StateBatch:
    return StateBatch(offset, offset, state, times)


def evidence(*records: Record) -> Evidence:
    log = UnifiedLog(ERAS["4.4"])
    for number, record in enumerate(records):
        log.append(RecordBatch(-1, -1, (record,), appended_ms=number), 0)
    where = (SHARE_STATE_TOPIC, 0)
    durable = Durable(logs={where: log}, checkpoint={where: log.end})
    disk = DiskCopy(node=1, ns=0, why=END, durable=durable)
    return Evidence(tables([[disk]], Settings(), "4.4"))


@pytest.mark.parametrize(
    ("records", "refused"),
    [
        ([snapshot(-1), update(0, one(1, DONE)), update(2), update(2, one(2, FREE), leader=1)], []),
        ([snapshot(3), update(2)], [(START, 1)]),
        ([snapshot(3), update(-1), update(3)], []),  # -1: it stays
        ([snapshot(3), update(2, partition=1)], []),
        ([snapshot(3), snapshot(0, state=1), update(1)], []),  # the group began again
        ([snapshot(3, state=1), snapshot(3, state=0)], [(EPOCHS, 1)]),
        ([snapshot(3, leader=2), update(3, leader=1)], [(EPOCHS, 1)]),
        ([snapshot(3, leader=2), snapshot(3, state=1, leader=0)], []),
        ([snapshot(0, one(1, DONE)), update(0, one(2, GONE)), snapshot(0, one(1, DONE))], [(WHOLE, 2)]),
        ([snapshot(0, one(1, DONE)), snapshot(0, one(1, FREE))], [(WHOLE, 1)]),
        ([snapshot(0, one(1, DONE)), snapshot(0, one(1, FREE, 2))], []),  # it was delivered again
        ([snapshot(0, one(1, DONE)), snapshot(2, one(2, DONE))], []),
    ],
)
def test_what_may_follow(records: list[Record], refused: list[tuple[str, int]]) -> None:
    found = of_partition(CHECKS, evidence(*records), TP)
    assert [(one.check, one.offset) for one in found.in_logs] == refused
    assert found.asked[EPOCHS] == len(records) - len({record.partition for record in records})


def test_a_start_that_fell_is_told_with_what_it_was() -> None:
    (fell,) = starts_that_fell(evidence(snapshot(3), update(7), update(5), update(6)))
    assert (fell.key[0], fell.key[2], fell.before, fell.after) == ("g", 0, 7, 5)


def test_other_logs_are_left_alone() -> None:
    found = of_partition(CHECKS, evidence(snapshot(3), update(2)), TopicPartition("data", 0))
    assert found.asked[EPOCHS] == 0


@pytest.mark.parametrize(("packed", "refused"), [(0, []), (1, []), (2, [(START, 1)])])
def test_nothing_is_known_of_what_is_compressed(packed: int, refused: list[tuple[str, int]]) -> None:
    found = evidence(snapshot(3), update(2 if packed == 2 else 7), update(6))
    names = ("batches", "share_log")
    batches, records = (found.table(name).to_pylist() for name in names)
    made = {name: found.table(name) for name in ("takes", "partitions", "metadata", "epochs", "ends")}
    batches[packed]["compression"] = 3
    del records[packed]
    for name, rows in zip(names, (batches, records), strict=True):
        made[name] = pa.Table.from_pylist(rows, schema(name))
    judged = of_partition(CHECKS, Evidence(made), TP)
    assert [(one.check, one.offset) for one in judged.in_logs] == refused
    assert {doubt.check for doubt in judged.doubts} == set(CHECKS)
