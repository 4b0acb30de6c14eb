"""KAFKA-15591 where brokers' logs are on record: what a broker took first of a producer was not its first."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from core.op import TopicPartition
from history import evidence
from tests.checkers.known_bugs.test_registry import fresh
from tests.checkers.logs.made import batch, tables, whole
from tests.histories.folders import check_run, write_run

X = TopicPartition("x", 0)
BUG = "KAFKA-15591"


def appended(offset: int, sequence: int, node: int = 1, epoch: int = 0) -> dict[str, Any]:
    """A batch of the producer, with one record."""
    return batch(X, node, offset, producer_id=7, producer_epoch=epoch, base_sequence=sequence)


def label(folder: Path, lost: int, batches: Sequence[dict[str, Any]], start: int = 0) -> set[str]:
    """Of the first `lost` records of a producer, which were acknowledged without an offset; the next one is
    the first in the log. start: of the logs, of nodes 1 and 2."""
    built = fresh(*((n, None) for n in range(lost)), (lost, start))
    run = write_run(folder, built.tables())
    partitions = [{**whole(X, node), "start": start} for node in (1, 2)]
    # what node 2 has was cut off, as the metadata log says: node 1 alone is in sync
    state: dict[str, Any] = {
        "partition": 0,
        "leader": 1,
        "isr": [1],
        "replicas": [1, 2],
        "partition_leader_epoch": 1,
    }
    metadata: list[dict[str, Any]] = [
        {"name": "TopicRecord", "topic": "x", "topic_id": "X"},
        {"name": "PartitionRecord", "topic_id": "X", "partition_epoch": 1, **state},
    ]
    rows = [{"take": 0, "node": 1, "snapshot": -1, "offset": n, **row} for n, row in enumerate(metadata)]
    found = {"partitions": partitions, "batches": [*batches], "metadata": rows}
    evidence.write(run.evidence, tables(found, nodes=(1, 2)))
    examples = check_run(run).anomalies["lost-write"].examples
    return {one.known_bug for one in examples if not one.check}  # the others are of rules about logs


@pytest.mark.parametrize(
    ("lost", "batches", "start", "expected"),
    [
        (1, [appended(0, 1)], 0, {BUG}),
        (3, [appended(0, 3)], 0, {BUG}),
        (1, [appended(0, 1), appended(1, 0, epoch=1)], 0, {BUG}),  # the producer raised its epoch then
        (1, [appended(0, 0)], 0, {""}),  # it took nothing out of order
        (3, [appended(0, 2)], 0, {BUG, ""}),  # two were refused; the third one was lost otherwise
        (1, [appended(0, 1), appended(0, 0, node=2), appended(1, 1, node=2)], 0, {""}),  # it was cut off
        (1, [appended(4, 0)], 4, {BUG}),  # the beginning of the log is gone
        (1, [], 0, {BUG}),
    ],
)
def test_the_first_batch_of_the_producer_leaves_room_for_what_is_lost(
    tmp_path: Path, lost: int, batches: Sequence[dict[str, Any]], start: int, expected: set[str]
) -> None:
    assert label(tmp_path / "run", lost, batches, start) == expected
