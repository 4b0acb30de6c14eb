"""What a log had in an early take and lost since is not told as if it stood in the log."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.op import TopicPartition
from harness.report import facts as recorded
from harness.report.evidence import group_offsets
from history.evidence import Evidence
from history.evidence_tables import END, KILLED
from tests.checkers.logs.made import at, batch, tables
from tests.harness.report.test_causes import facts, nothing

TP = TopicPartition("x", 0)
LOG = TopicPartition("__consumer_offsets", 0)
Row = Mapping[str, Any]


def taken(take: int, node: int, base: int, last: int, producer: int, **more: Any) -> Row:
    """A batch of a producer in the copy of a node, whose sequences are the offsets."""
    numbers = {"producer_id": producer, "producer_epoch": 0, "base_sequence": base, "last": last}
    return batch(TP, node, base, **{"take": take, **numbers, **more})


def evidence(batches: Sequence[Row] = (), takes: Sequence[tuple[int, int]] = (), **more: Any) -> Evidence:
    """takes: as (take, node); the one of the highest number is that at the end."""
    end = max((take for take, _ in takes), default=0)
    why = [
        {"take": take, "node": node, "at_ns": take, "why": END if take == end else KILLED}
        for take, node in takes
    ]
    return Evidence(tables({"takes": why, "batches": batches, **more}))


@pytest.mark.parametrize(
    ("early", "found"),
    [
        ([], [(10, 9, 0, 10), (20, 9, 0, 20)]),
        ([taken(0, 1, 8, 12, 7)], [(10, 9, 0, 10), (20, 9, 0, 20)]),
        ([taken(0, 1, 3, 4, 7)], [(4, 7, 0, 4), (10, 9, 0, 10), (20, 9, 0, 20)]),
    ],
    ids=["one take", "cut off since", "deleted at the start"],
)
def test_sequences_are_those_that_the_log_has(
    early: list[Row], found: list[tuple[int, int, int, int]], tmp_path: Path
) -> None:
    bare = nothing(tmp_path)
    rows = [*early, taken(1, 1, 10, 10, 9), taken(1, 2, 10, 10, 9), taken(1, 1, 20, 20, 9)]
    read = dataclasses.replace(bare.inputs, evidence=evidence(rows, [(0, 1), (1, 1), (1, 2)]))
    example = msgspec.structs.replace(bare.example, offsets=[4, 10, 20])
    assert recorded._numbered(dataclasses.replace(bare, inputs=read, example=example)) == found


@pytest.mark.parametrize(
    ("early", "said"),
    [
        ([taken(0, 1, 6, 7, 5)], "begin with sequence 9 (offset 9)"),
        ([taken(0, 1, 0, 4, 5)], None),
        ([taken(0, 1, 3, 4, 5)], "begin with sequence 3 (offset 3)"),
    ],
    ids=["a first batch that was cut off", "one that was deleted at the start", "none of sequence 0"],
)
def test_the_first_batch_of_a_producer_is_one_that_was_not_cut_off(
    early: list[Row], said: str | None, tmp_path: Path
) -> None:
    bare = nothing(tmp_path)
    rows = [*early, taken(1, 1, 5, 5, 6, base_sequence=0), taken(1, 1, 9, 9, 5)]
    read = dataclasses.replace(bare.inputs, evidence=evidence(rows, [(0, 1), (1, 1)]))
    example = msgspec.structs.replace(bare.example, offsets=[-1])
    found = facts("lost-write", dataclasses.replace(bare, inputs=read, example=example))
    named = [one for one in found if one.startswith("in this partition the batches of producer 5/0")]
    assert len(named) == (said is not None)
    assert all(said in one for one in named if said)


@pytest.mark.parametrize(
    ("takes", "rows", "ends"),
    [
        (
            [(0, 1), (1, 1), (1, 2)],
            [(0, 1, 9), (0, 1, 19), (1, 1, 9), (1, 2, 12)],
            "13 (node 2), 10 (node 1)",
        ),
        ([(0, 1), (1, 2), (1, 3)], [(0, 1, 19), (1, 2, 12), (1, 3, 12)], "20 (node 1), 13 (nodes 2, 3)"),
        ([(0, 1), (1, 1), (1, 2)], [(0, 1, 19), (1, 2, 12)], None),
        ([(0, 1), (1, 1), (1, 2)], [(0, 1, 19), (1, 1, 12), (1, 2, 12)], None),
    ],
    ids=["cut off since", "of no later take", "not there in the last take", "none differs in the end"],
)
def test_a_copy_ends_where_its_last_take_has_it(
    takes: list[tuple[int, int]], rows: list[tuple[int, int, int]], ends: str | None, tmp_path: Path
) -> None:
    bare = nothing(tmp_path)
    batches = [taken(take, node, last // 10 * 10, last, 7) for take, node, last in rows]
    read = dataclasses.replace(bare.inputs, evidence=evidence(batches, takes))
    sentence = (
        "All faults healed, the cluster had not recovered 9 s later: x-0 has in-sync replicas [1] only."
    )
    example = msgspec.structs.replace(bare.example, sentence=sentence)
    told = facts("not-recovered", dataclasses.replace(bare, inputs=read, example=example))
    assert told == ([f"the copies of x-0 that were taken last end at {ends}"] if ends else [])


@pytest.mark.parametrize(
    ("commits", "markers", "ended"),
    [
        ([1], [(0, 5, "COMMIT"), (1, 6, "ABORT")], "ABORT"),
        ([0, 1], [(0, 5, "COMMIT"), (1, 6, "ABORT")], "ABORT"),
        ([0, 1], [(0, 5, "COMMIT")], "no marker"),
        ([0], [(0, 5, "COMMIT"), (1, 6, "ABORT")], "COMMIT"),
        ([0, 1], [(0, 5, "COMMIT"), (1, 5, "COMMIT")], "COMMIT"),
    ],
    ids=[
        "as it stands",
        "in both takes",
        "its marker was cut off",
        "it was cut off itself",
        "nothing changed",
    ],
)
def test_a_commit_ends_by_a_marker_of_its_own_copy(
    commits: list[int], markers: list[tuple[int, int, str]], ended: str, tmp_path: Path
) -> None:
    bare = nothing(tmp_path)
    mine = {"producer_id": 5, "producer_epoch": 0}
    rows = [
        at(LOG, 1, **{"take": t, "timestamp": 0, "offset": 4, "committed": 9, "transactional": True, **mine})
        for t in commits
    ]
    control = [
        at(LOG, 1, **{"take": t, "offset": n, "name": name, "coordinator_epoch": 0, **mine})
        for t, n, name in markers
    ]
    found = evidence(takes=[(0, 1), (1, 1)], control=control)
    (commit,) = group_offsets._commits(bare.inputs, found, LOG, [dict(row) for row in rows])
    assert commit.end == ended
