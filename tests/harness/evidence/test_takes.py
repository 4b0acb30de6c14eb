from pathlib import Path

from harness.evidence.directory import read
from harness.evidence.takes import Takes
from history.evidence import Evidence
from history.evidence_tables import END, KILLED
from tests.histories.broker_files import NODE


def test_takes_are_numbered_and_written_together(tmp_path: Path) -> None:
    takes = Takes()
    assert takes.begin() == 0
    takes.add(read(NODE, 3, 0, 1000, KILLED))
    assert takes.begin() == 1
    for node in (2, 3):
        takes.add(read(NODE, node, 1, 2000, END))
    assert takes.write(tmp_path / "evidence") == []
    found = Evidence.load(tmp_path / "evidence")
    assert found.table("takes").to_pylist() == [
        {"take": 0, "node": 3, "at_ns": 1000, "why": KILLED},
        {"take": 1, "node": 2, "at_ns": 2000, "why": END},
        {"take": 1, "node": 3, "at_ns": 2000, "why": END},
    ]
    assert found.table("batches").num_rows == 3 * read(NODE, 3)["batches"].num_rows


def test_a_run_without_takes_has_no_evidence(tmp_path: Path) -> None:
    takes = Takes()
    takes.miss("node 1: the engine does not answer")
    assert takes.write(tmp_path / "evidence") == ["node 1: the engine does not answer"]
    assert not (tmp_path / "evidence").exists()


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / "evidence").write_text("a file in place of the folder")
    takes = Takes()
    takes.add(read(NODE, 3))
    (why,) = takes.write(tmp_path / "evidence")
    assert str(tmp_path / "evidence") in why
