"""The picture of a witness: what replicas held, what a coordinator decided, and logs that differ."""

import itertools
from pathlib import Path

import pytest

from core.op import TopicPartition
from harness.report import inputs, story
from harness.report.drawing import held
from harness.report.drawing.strips import Box, TimeAxis
from harness.report.evidence import decisions, replicas, side_by_side
from harness.report.evidence.decisions import CoordinatorDecisions, DrawnMarker, WrittenPart
from harness.report.evidence.replicas import ReplicaEnds, ReplicaMoment
from harness.report.inputs import Inputs
from harness.report.timeline import numbers
from history import trace as tr
from history.replica_lines import replica_lines
from history.run_folder import Run
from tests.histories import traced

AXIS = TimeAxis(0.0, 10.0)
LOG = """\
2026-11-26T21:33:58.420Z INFO state.change.logger - [Broker id=3] Leader queue-0 with topic id Some(JfC) \
starts at leader epoch 1 from offset 3792 with partition epoch 3, high watermark 3789, ISR [1,2], adding \
replicas [] and removing replicas [] . Previous leader Some(3) and previous leader epoch was 0.
2026-11-26T21:34:01.171Z INFO state.change.logger - [Broker id=3] Follower queue-0 starts at leader \
epoch 1 from offset 6869 with partition epoch 3 and high watermark 3792. Current leader is 1. Previous \
leader Some(3) and previous leader epoch was 0.
2026-11-26T21:34:01.195Z INFO org.apache.kafka.storage.internals.log.UnifiedLog - [UnifiedLog \
partition=queue-01, dir=/data] Truncating to offset 1328
2026-11-26T21:34:01.220Z INFO org.apache.kafka.storage.internals.log.UnifiedLog - [UnifiedLog \
partition=queue-0, dir=/data] Truncating to offset 3792
2026-11-26T21:34:01.230Z INFO org.apache.kafka.storage.internals.log.UnifiedLog - [UnifiedLog \
partition=queue-0, dir=/data] Truncating to 3792 has no effect as the largest offset in the log is 3791
"""


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """A simulated run that lost records."""
    return inputs.read(traced.recorded(tmp_path_factory.mktemp("lost") / "run", traced.losing()))


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """A simulated run in which one partition of a transaction gets no marker."""
    made = traced.config(
        workload="transactions", nemesis="none", mutant="marker-skips-a-partition", seed=1, partitions=3
    )
    return inputs.read(traced.recorded(tmp_path_factory.mktemp("torn") / "run", made))


def bars(ends: ReplicaEnds, node: int, style: str) -> list[Box]:
    """Of the row of a node."""
    strips = {strip.label: strip for strip in held.replica_strips(ends, AXIS)}
    return [box for box in strips[f"node {node}"].bars if box.style == style]


def test_brokers_say_where_their_replicas_end_and_are_cut(tmp_path: Path) -> None:
    (tmp_path / "cluster/3").mkdir(parents=True)
    (tmp_path / "cluster/3/server.log").write_text(LOG)
    found = replica_lines(Run(tmp_path), "queue-0")
    assert [(one.node, one.end, one.high, one.cut) for one in found] == [
        (3, 3792, 3789, False), (3, 6869, 3792, False), (3, 3792, -1, True),
    ]  # fmt: skip
    assert f"{found[-1].wall:%H:%M:%S.%f}" == "21:34:01.220000"


@pytest.mark.sampled(48)
def test_every_replica_of_a_simulated_run_is_drawn_as_the_trace_has_it(lost: Inputs) -> None:
    found = story.build(lost, numbers.build(lost))
    assert found is not None
    assert lost.trace is not None
    offset = min(found.example.offsets)
    ends = replicas.build(lost, found.example.partition, offset)
    assert ends is not None
    assert ends.whole
    cut = set()
    for node, mine in ends.moments.items():
        states = [
            one
            for one in lost.trace.states
            if isinstance(one, tr.TracedReplica) and one.node == node and one.partition == ends.partition
        ]
        cut |= {node for a, b in itertools.pairwise(states) if b.end <= offset < a.end}
        assert {one.end for one in states} == {moment.end for moment in mine}
    assert cut, "what was lost was cut off somewhere"
    assert ends.cuts
    axis = TimeAxis(0.0, 60.0)
    drawn = {
        strip.label
        for strip in held.replica_strips(ends, axis)
        if any(b.style == held.CUT for b in strip.bars)
    }
    assert drawn == {f"node {node}" for node in cut}
    assert found.drawing is not None
    assert {f"node {node}" for node in ends.moments} <= {strip.label for strip in found.drawing.strips}


def test_between_two_moments_nothing_is_drawn_that_only_one_of_them_says() -> None:
    moments = [
        ReplicaMoment(1.0, 0), ReplicaMoment(2.0, 8, 3), ReplicaMoment(4.0, 9, 9),
        ReplicaMoment(5.0, 2, cut=True), ReplicaMoment(7.0, 6), ReplicaMoment(9.0, 4),
    ]  # fmt: skip
    ends = ReplicaEnds(partition="queue-0", offset=5, whole=False, moments={1: moments})
    assert [(box.x, box.x + box.width) for box in bars(ends, 1, held.HAS)] == [(2.0, 5.0)]
    assert [box.x for box in bars(ends, 1, held.CUT)] == [5.0]
    (again,) = bars(ends, 1, held.AGAIN)
    assert again.x == 7.0
    assert again.width < 0.001, "a moment, and no time after it"
    (high,) = bars(ends, 1, held.HIGH)
    assert high.x == 4.0
    assert high.width < 0.001
    assert ends.cuts == [5.0]


def test_a_node_that_is_down_holds_nothing() -> None:
    moments = [ReplicaMoment(1.0, 8), ReplicaMoment(3.0, 8, up=False), ReplicaMoment(6.0, 8)]
    ends = ReplicaEnds(partition="queue-0", offset=5, whole=True, moments={1: moments})
    assert [(box.x, box.x + box.width) for box in bars(ends, 1, held.HAS)] == [(1.0, 3.0), (6.0, 10.0)]
    assert not ends.differ


@pytest.mark.sampled(8)
def test_a_torn_transaction_shows_what_was_decided_and_each_partition_s_marker(torn: Inputs) -> None:
    name = "torn-txn"
    example = next(one for one in torn.verdict.anomalies[name].examples if not one.allowed)
    found = decisions.build(torn, example)
    assert found is not None
    assert torn.evidence is not None
    op = next(op for op in example.ops if op.txn)
    assert found.transactional_id == op.transactional_id
    assert any(state.startswith("Prepare") for _, state in found.states)
    for partition, written in found.partitions.items():
        topic, _, number = partition.rpartition("-")
        rows = torn.evidence.of("control", TopicPartition(topic, int(number))).to_pylist()
        markers = {(row["offset"], row["name"] == "COMMIT") for row in rows}
        assert all(one.marker is None or (one.marker.offset, one.marker.commit) in markers for one in written)
    table = side_by_side.partitions(found)
    assert table is not None
    assert [bool(row.differing) for row in table.rows] == [False, True]
    assert len(set(table.rows[1].cells)) > 1
    told = story.build(torn, numbers.build(torn))
    assert told is not None
    assert told.side is not None


def test_a_transaction_with_one_kind_of_marker_has_no_table() -> None:
    def written(marker: DrawnMarker | None) -> list[WrittenPart]:
        return [WrittenPart(begin=1.0, first=4, last=6, producer="7/0", marker=marker)]

    commit = DrawnMarker(2.0, 7, True)
    made = CoordinatorDecisions(
        transactional_id="t",
        producers=frozenset({7}),
        states=[(1.0, "Ongoing"), (2.0, "PrepareCommit"), (2.5, "CompleteCommit")],
        partitions={"x-0": written(commit), "x-1": written(commit)},
    )
    assert side_by_side.partitions(made) is None
    made.partitions["x-1"] = written(None)
    table = side_by_side.partitions(made)
    assert table is not None
    assert table.rows[1].cells == ["COMMIT at offset 7", "no marker"]
    decided, *others = held.decision_strips(made, AXIS)
    assert [(box.word, box.x) for box in decided.bars] == [("Ongoing", 1.0), ("PrepareCommit", 2.0)]
    assert [strip.note for strip in others] == ["COMMIT at offset 7", "no marker"]
    assert others[1].bars[0].width == AXIS.end - 1.0
    made.partitions["x-0"] += written(DrawnMarker(3.0, 12, False))
    assert held.decision_strips(made, AXIS)[1].note == "last drawn: ABORT at offset 12"


@pytest.mark.sampled(24)
def test_copies_that_read_alike_show_their_checksums() -> None:
    batch = {
        **dict.fromkeys(("base", "last", "leader_epoch", "producer_epoch", "base_sequence"), 0),
        **{"producer_id": 5, "records": 1, "control": False, "crc": 10},
    }
    (row,) = side_by_side._rows([[batch], [batch | {"crc": 11}]], [1, 2], {}, 0)
    assert [cell.rpartition(" ")[2] for cell in row.cells] == ["0000000a", "0000000b"]
    assert row.differing == {0}
    (alike,) = side_by_side._rows([[batch], [batch | {"base_sequence": 3}]], [1, 2], {}, 0)
    assert not any("checksum" in cell for cell in alike.cells)


@pytest.mark.parametrize(
    ("cells", "copies_of", "marked"),
    [
        ("aab", [1, 1, 1], {2}),
        ("ab", [1, 3], {0}),
        ("ab", [1, 1], {0, 1}),
        ("aa", [1, 1], set()),
        ("abc", [1, 1, 2], {0, 1}),
    ],
)
def test_cells_that_differ_from_most_are_marked(cells: str, copies_of: list[int], marked: set[int]) -> None:
    assert side_by_side.differing(cells, copies_of) == marked


@pytest.mark.sampled(45)
def test_copies_stand_side_by_side_where_they_differ(lost: Inputs) -> None:
    found = story.build(lost, numbers.build(lost))
    assert found is not None
    table = side_by_side.copies(lost, found.example.partition, min(found.example.offsets))
    assert table is not None
    assert table.differs
    assert len(table.columns) == len(table.rows[0].cells) > 1
    assert side_by_side.copies(lost, found.example.partition, -1) is None
    assert side_by_side.copies(lost, "nowhere-0", 4) is None
