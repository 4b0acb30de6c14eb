"""The coordinators' log from the evidence of the end: whose copy, and how much of it is committed."""

from typing import Any

import msgspec
import pytest

from checkers.logs.coordinator_log import CoordinatorLog, coordinator_log
from checkers.logs.transactions import transaction_logs
from core.internal_topics import TRANSACTION_TOPIC
from core.op import TopicPartition
from harness.evidence.directory import read
from history.evidence import Evidence, merged
from history.evidence_tables import KILLED
from tests.checkers.logs.made import at, batch, tables, whole
from tests.histories.broker_files import NODE

TP = TopicPartition(TRANSACTION_TOPIC, 3)


def made(
    ends: dict[int, int], epochs: dict[int, int] | None = None, high: int = 0, lacks: int = -1
) -> Evidence:
    """Nodes with so many records each, and the newest leader epoch that they know (default 5); the high
    watermark that all noted; an offset without a record."""
    rows: dict[str, list[dict[str, Any]]] = {
        "partitions": [whole(TP, node) for node in ends],
        "epochs": [at(TP, node, epoch=(epochs or {}).get(node, 5), start=0) for node in ends],
        "ends": [
            at(TP, node, file=file, value=value)
            for node in ends
            for file, value in (("replication", high), ("recovery-point", 99))
        ],
        "batches": [batch(TP, node, base) for node, end in ends.items() for base in range(end)],
        "transaction_log": [
            at(TP, node, offset=offset, transactional_id=f"node-{node}", state="Ongoing", producer_id=7)
            for node, end in ends.items()
            for offset in range(end)
            if offset != lacks
        ],
    }
    return Evidence(tables(rows, ends))


def offsets(log: CoordinatorLog) -> list[tuple[str, int]]:
    return [(one.transactional_id, one.offset) for one in log.records]


@pytest.mark.parametrize(
    ("evidence", "node", "committed"),
    [
        (made({1: 3, 2: 3, 3: 3}), 1, 3),  # all have all
        (made({1: 2, 2: 3, 3: 2}), 2, 2),  # the last record is on one node alone
        (made({1: 1, 2: 3, 3: 3}, high=3), 2, 3),  # node 1 was behind, and not in sync
        (made({1: 4, 2: 3, 3: 3}, epochs={2: 6}), 2, 3),  # node 1 has what node 2 never got
        (made({1: 0, 2: 0}), 1, 0),
    ],
)
def test_the_newest_leader_tells_what_is_committed(evidence: Evidence, node: int, committed: int) -> None:
    log = coordinator_log(evidence)
    assert offsets(log) == [(f"node-{node}", offset) for offset in range(committed)]
    assert (log.whole, log.missing) == (frozenset({3}), "")
    assert transaction_logs(evidence).logs[TP].node == node  # findings rest on the same copy


def test_a_log_that_lacks_a_record_is_not_whole() -> None:
    log = coordinator_log(made({1: 3, 2: 3}, lacks=1))
    assert offsets(log) == [("node-1", 0), ("node-1", 2)]
    assert log.whole == frozenset()
    assert log.missing == "__transaction_state-3 of node 1 lacks records below 3"


def test_a_tombstone_has_nothing_beside_the_id() -> None:
    rows = {
        "partitions": [whole(TP, 1)],
        "batches": [batch(TP, 1, 0)],
        "transaction_log": [at(TP, 1, offset=0, timestamp=9, leader_epoch=5, transactional_id="t")],
    }
    (record,) = coordinator_log(Evidence(tables(rows, [1]))).records
    assert msgspec.structs.astuple(record) == (3, 0, 9, 5, "t", "", -1, -1, -1, (), -1, -1)


def test_without_the_end_nothing_is_known() -> None:
    assert "was not taken" in coordinator_log(Evidence({})).missing
    killed = Evidence(merged([read(NODE, 3, 0, 0, KILLED)]))
    log = coordinator_log(killed)
    assert "was not taken" in log.missing
    assert (log.records, log.whole) == ((), frozenset())


def test_a_record_of_a_real_broker() -> None:
    log = coordinator_log(Evidence(merged([read(NODE, 3)])))
    assert log.whole == {1}
    prepared = log.records[2]
    assert (prepared.partition, prepared.offset, prepared.transactional_id) == (1, 2, "tx-2")
    assert (prepared.state, prepared.timeout_ms) == ("PrepareCommit", 20000)
    assert "data-0" in prepared.partitions
    assert prepared.updated_ms >= prepared.started_ms > 0
