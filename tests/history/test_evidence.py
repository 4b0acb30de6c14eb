"""Evidence in a run folder: written and read, and what is wrong with a damaged file."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import HistoryError
from core.op import TopicPartition
from history import storage
from history.evidence import Evidence, evidence_taken, merged, write
from history.evidence_tables import (
    END,
    KILLED,
    LATER,
    LOST_POWER,
    PER_NODE,
    PER_PARTITION,
    PER_RUN,
    schema,
    table,
)


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


def test_a_table_that_earlier_versions_did_not_write_is_empty(tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    write(folder, merged([ends(0, 1, ("a", 0, 5))]))
    (folder / "share_log.parquet").unlink()
    for found in (Evidence.load(folder), Evidence.opened(folder)):
        assert found.table("share_log").schema.equals(schema("share_log"))
        assert found.of("share_log", TopicPartition("a", 0)).num_rows == 0
        assert found.of("ends", TopicPartition("a", 0)).num_rows == 1


def test_when_files_were_taken_is_told_without_numbers_of_takes() -> None:
    rows = [(0, 2, 1, KILLED), (1, 2, 2, KILLED), (1, 3, 2, LOST_POWER), (2, 2, 3, END), (2, 3, 3, END)]
    rows.append((2, 2, 3, KILLED))  # it was down at the end
    found = Evidence({"takes": table(schema("takes"), rows)})
    assert found.moments() == {
        (0, 2): "when it was killed (1st time)",
        (1, 2): "when it was killed (2nd time)",
        (1, 3): "when it had lost power",
        (2, 2): "at the end",
        (2, 3): "at the end",
    }
    assert Evidence({}).moments() == {}


def test_a_run_without_evidence_has_none(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="evidence: there is no such folder"):
        Evidence.load(tmp_path / "evidence")
    nothing = Evidence.recorded(tmp_path / "evidence", [])
    assert nothing.lacks == ""
    assert nothing.table("takes").num_rows == 0
    assert nothing.partitions() == []


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _all(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize(
    "damage",
    [
        _all,
        lambda folder: (folder / "takes.parquet").unlink(),
        lambda folder: (folder / "ends.parquet").unlink(),
        lambda folder: _half(folder / "ends.parquet"),
        lambda folder: (folder / "ends.parquet").write_bytes(b""),
    ],
)
def test_of_evidence_that_is_not_whole_nothing_is_taken(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    folder = tmp_path / "evidence"
    write(folder, merged([ends(0, 1, ("a", 0, 1))]))
    assert Evidence.recorded(folder, []).lacks == ""
    damage(folder)
    found = Evidence.recorded(folder, [])
    assert found.lacks
    assert found.table("ends").num_rows == 0


@pytest.mark.parametrize("lost", ["", "ends", "znodes", "share_log"])
def test_evidence_that_a_run_had_does_not_go_unnoticed(tmp_path: Path, lost: str) -> None:
    """The folder, or one of its tables, those that earlier versions do not have, too."""
    folder = tmp_path / "evidence"
    assert evidence_taken(folder, 7) == []
    write(folder, merged([ends(0, 1, ("a", 0, 1))]))
    events = evidence_taken(folder, 7)
    assert Evidence.recorded(folder, events).lacks == ""
    if lost:
        (folder / f"{lost}.parquet").unlink()
    else:
        shutil.rmtree(folder)
    found = Evidence.recorded(folder, events)
    path = folder / f"{lost}.parquet" if lost else folder
    assert found.lacks == f"{path} is gone; the run had it when it ended"
    assert found.table("ends").num_rows == 0
    if lost != "ends":  # a recording of an earlier version stays as it is
        assert Evidence.recorded(folder, []).lacks == ""


@pytest.mark.parametrize("lost", [(one,) for one in PER_RUN if one not in LATER] + [("gaps", "frame_parts")])
def test_of_messages_that_are_there_in_part_nothing_is_taken(tmp_path: Path, lost: tuple[str, ...]) -> None:
    """Without gaps, each doubt about a message would be a finding."""
    folder = tmp_path / "evidence"
    write(folder, merged([ends(0, 1, ("a", 0, 1))]) | {name: table(PER_RUN[name], []) for name in PER_RUN})
    assert Evidence.load(folder).captured
    for name in lost:
        (folder / f"{name}.parquet").unlink()
    found = Evidence.recorded(folder, [])
    assert any(name in found.lacks for name in lost)
    assert (found.captured, found.table("ends").num_rows) == (False, 0)


def test_messages_of_an_earlier_version_have_no_orders(tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    write(folder, merged([ends(0, 1, ("a", 0, 1))]) | {name: table(PER_RUN[name], []) for name in PER_RUN})
    (folder / "orders.parquet").unlink()
    found = Evidence.load(folder)
    assert (found.captured, found.lacks) == (True, "")
    assert found.table("orders").schema.equals(schema("orders"))


def test_evidence_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = storage.write_parquet
    count = 0

    def fill_up(table: pa.Table, path: Path, **options: Any) -> None:
        nonlocal count
        count += 1
        if count > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        written(table, path, **options)

    monkeypatch.setattr(storage, "write_parquet", fill_up)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "evidence", merged([ends(0, 1, ("a", 0, 1))]))
    assert list(tmp_path.iterdir()) == []


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
