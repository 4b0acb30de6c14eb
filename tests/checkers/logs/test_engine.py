"""Rules about logs: in this process and under Spark alike; a rule that crashes is named."""

from pathlib import Path
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest

import history.evidence
from checkers.engine.check import Check, Join, LogKernel, Tally, WholeRun
from checkers.engine.engines import chosen
from checkers.engine.findings import LogFinding, PartitionResult
from checkers.engine.log_tasks import dealt
from checkers.engine.pipeline import check_evidence
from checkers.logs.classes import DIVERGENCE
from checkers.logs.rule import Rule, checks_of
from core.errors import HistoryError
from core.op import TopicPartition
from history.evidence import Evidence, write
from history.evidence_tables import PER_PARTITION
from tests.checkers.logs.made import TP, batch, tables, whole

OTHER = TopicPartition("q", 1)


def _even(evidence: Evidence, tp: TopicPartition, result: PartitionResult) -> None:
    for row in evidence.of("batches", tp).to_pylist():
        result.asked["even-offsets"] += 1
        if row["base"] % 2:
            text = f"offset {row['base']} is odd"
            place = {"log": tp, "offset": row["base"], "take": row["take"], "nodes": (row["node"],)}
            result.refuse(LogFinding(check="even-offsets", text=text, **place))


def _crash(evidence: Evidence, tp: TopicPartition, result: PartitionResult) -> None:
    raise ValueError(f"no rule for {tp}")


def _crash_over_all(run: WholeRun, tally: Tally) -> None:
    raise ValueError("nothing over all")


def alike(name: str, kernel: LogKernel | None, join: Join | None = None) -> dict[str, Check]:
    return checks_of({name: Rule("…", "…", DIVERGENCE)}, ring=0, log_kernel=kernel, join=join)


EVEN = alike("even-offsets", _even)
LOCAL = EVEN | alike("crashing", _crash)
TABLES = tables(
    {
        "batches": [batch(TP, 1, 0), batch(TP, 2, 0), batch(OTHER, 1, 2), batch(OTHER, 1, 3)],
        "partitions": [whole(TP, 1), whole(TP, 2), whole(OTHER, 1)],
    }
)


def test_each_partition_is_judged_and_a_crash_is_named() -> None:
    found = check_evidence(Evidence(TABLES), LOCAL)
    assert [(one.log, one.offset, one.nodes) for one in found.in_logs] == [(OTHER, 3, (1,))]
    assert found.asked == {"even-offsets": 4}
    assert found.refused == {"even-offsets": 1}
    assert set(found.crashed) == {"crashing"}
    assert "no rule for q-" in found.crashed["crashing"]


def test_rules_over_all_partitions_crash_alone() -> None:
    found = check_evidence(Evidence(TABLES), EVEN | alike("crashing", None, _crash_over_all))
    assert found.refused == {"even-offsets": 1}
    assert "nothing over all" in found.crashed["crashing"]


def test_a_run_without_evidence_asks_no_rule() -> None:
    assert check_evidence(Evidence({}), LOCAL) == Tally()


def test_tasks_take_every_partition_once() -> None:
    assert sorted(tp for some in dealt(Evidence(TABLES)) for tp in some) == [TP, OTHER]


@pytest.mark.parametrize(("rows", "many"), [(0, 2), (1, 2), (10**6, 1)])
def test_partitions_share_a_task_while_it_has_room(
    monkeypatch: pytest.MonkeyPatch, rows: int, many: int
) -> None:
    monkeypatch.setattr("checkers.engine.log_tasks.TASK_ROWS", rows)
    assert len(dealt(Evidence(TABLES))) == many


def test_rows_of_a_partition_that_do_not_stand_together_are_refused() -> None:
    mixed = TABLES | {"batches": TABLES["batches"].take([0, 2, 1])}
    with pytest.raises(HistoryError, match="do not stand together"):
        Evidence(mixed).of("batches", TP)


def test_a_part_that_is_read_from_the_files_is_that_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("history.evidence.GROUP_ROWS", 2)
    every = [TopicPartition(topic, number) for topic in ("p", "q") for number in (0, 1)]
    rows = [batch(tp, node, base) for tp in every for node in (1, 2) for base in range(3)]
    write(tmp_path, tables({"batches": rows, "partitions": [whole(tp, 1) for tp in every]}))
    assert pq.ParquetFile(tmp_path / "batches.parquet").num_row_groups > 2
    loaded, opened = Evidence.load(tmp_path), Evidence.opened(tmp_path)
    for tp in [*loaded.partitions(), TopicPartition("absent", 0)]:
        for name in PER_PARTITION:
            assert opened.of(name, tp).to_pylist() == loaded.of(name, tp).to_pylist()
    some = ["topic", "producer_id"]
    assert opened.columns("batches", some).to_pylist() == loaded.table("batches").select(some).to_pylist()
    assert opened.table("metadata") == loaded.table("metadata")
    assert opened.partitions() == loaded.partitions()


def test_kernels_of_one_partition_read_a_table_of_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, TABLES)
    opened, reads = Evidence.opened(tmp_path), Mock(side_effect=history.evidence._read)
    monkeypatch.setattr("history.evidence._read", reads)
    for tp in (TP, OTHER, TP):
        once, again = opened.of("batches", tp), opened.of("batches", tp)
        assert once is again
        assert once.equals(Evidence(TABLES).of("batches", tp))
    assert reads.call_count == 3


def test_a_part_reads_only_the_row_groups_that_may_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("history.evidence.GROUP_ROWS", 2)
    rows = [batch(TopicPartition(topic, 0), node, 0) for topic in ("p", "q") for node in (1, 2)]
    write(tmp_path, tables({"batches": rows}))
    path = tmp_path / "batches.parquet"
    data = path.read_bytes()
    at = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    path.write_bytes(data[:at] + bytes(40) + data[at + 40 :])
    opened = Evidence.opened(tmp_path)
    assert opened.of("batches", TopicPartition("q", 0)).num_rows == 2
    with pytest.raises(HistoryError, match=r"batches\.parquet"):
        opened.of("batches", TopicPartition("p", 0))


@pytest.mark.sampled(8)
@pytest.mark.spark
@pytest.mark.slow
def test_spark_comes_to_the_same_judgement(tmp_path: Path) -> None:
    write(tmp_path, TABLES)
    here = check_evidence(Evidence(TABLES), LOCAL)
    with chosen(tmp_path, master="local[1]") as choice:
        workers = choice.workers
        there = check_evidence(Evidence.load(tmp_path), LOCAL, workers=workers)
        sound = Evidence.load(tmp_path)
        (tmp_path / "batches.parquet").write_bytes(b"damaged")
        with pytest.raises(HistoryError, match=r"batches\.parquet"):
            check_evidence(sound, LOCAL, workers=workers)
    assert there.in_logs == here.in_logs
    assert there.counts == here.counts
    assert there.asked == here.asked
    assert set(there.crashed) == set(here.crashed)
