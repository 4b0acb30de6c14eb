"""Evidence in a run folder: written and read, and what is wrong with a damaged file."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import HistoryError
from core.op import TopicPartition
from history.evidence import PER_NODE, PER_PARTITION, Evidence, merged, schema, write


def ends(take: int, node: int, *parts: tuple[str, int, int]) -> dict[str, pa.Table]:
    rows = [(take, node, topic, partition, "replication", value) for topic, partition, value in parts]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    wanted = schema("ends")
    arrays = [column.cast(field.type) for column, field in zip(columns, wanted, strict=True)]
    return {"ends": pa.table(arrays, schema=wanted)}


def test_takes_of_several_nodes_are_one_set_in_order(tmp_path: Path) -> None:
    found = [ends(1, 2, ("b", 0, 7), ("a", 1, 5)), ends(0, 3, ("b", 0, 6)), ends(1, 1, ("b", 0, 8))]
    write(tmp_path / "evidence", merged(found))
    loaded = Evidence.load(tmp_path / "evidence")
    for name in (*PER_PARTITION, *PER_NODE):
        assert loaded.table(name).schema.equals(schema(name)), name
    where = [(r["topic"], r["take"], r["node"], r["value"]) for r in loaded.table("ends").to_pylist()]
    assert where == [("a", 1, 2, 5), ("b", 0, 3, 6), ("b", 1, 1, 8), ("b", 1, 2, 7)]
    assert loaded.of("ends", TopicPartition("b", 0))["value"].to_pylist() == [6, 8, 7]
    assert loaded.of("ends", TopicPartition("c", 0)).num_rows == 0


def test_a_run_without_evidence_has_none(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="evidence: there is no such folder"):
        Evidence.load(tmp_path / "evidence")
    nothing = Evidence.load(tmp_path / "evidence", missing_ok=True)
    assert nothing.table("takes").num_rows == 0
    assert nothing.partitions() == []


def test_a_damaged_or_foreign_file_is_one_clear_error(tmp_path: Path) -> None:
    write(tmp_path, merged([ends(0, 1, ("a", 0, 1))]))
    path = tmp_path / "ends.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(HistoryError, match=r"ends\.parquet: "):
        Evidence.load(tmp_path)
    pq.write_table(pa.table({"take": [1]}), path)
    with pytest.raises(HistoryError, match=r"ends\.parquet: its columns are not those"):
        Evidence.load(tmp_path)
    path.unlink()
    with pytest.raises(HistoryError, match=r"ends\.parquet: "):
        Evidence.load(tmp_path)
