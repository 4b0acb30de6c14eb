"""Sealing in tasks: the bytes that sealing in one process writes, whatever the size of parts and units."""

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from core.config import run_config
from core.errors import HistoryError
from core.progress import Stage
from harness.run.planning import planned
from harness.simulation.run_folder import record
from history import parts, seal
from history.parts import seal_in_tasks
from history.run_folder import Run, write_atomically
from history.tasks import SIGNATURE, Here, signed

T = TypeVar("T")


class Apart(Here):
    """In this process; what it calls and what it answers travels as between processes."""

    def map(self, stage: Stage, work: Callable[[int], T]) -> list[T]:
        there: Callable[[int], T] = pickle.loads(pickle.dumps(work))
        return super().map(stage, lambda number: pickle.loads(pickle.dumps(there(number))))


def files(run: Run) -> dict[str, bytes]:
    """The sealed files."""
    return {
        path.relative_to(run.history).as_posix(): path.read_bytes()
        for path in run.history.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module", params=["copier", "groups"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return unsealed(tmp_path_factory.mktemp("parts"), request.param)


def unsealed(folder: Path, workload: str) -> Run:
    """A simulated run that nothing has sealed."""
    run = Run(folder / "run")
    run.journal.mkdir(parents=True)
    chosen = {"sut": "simulated", "seed": 5, "duration_s": 2, "rate": 30, "nemesis": "random"}
    config = run_config({**chosen, "workload": workload})
    write_atomically(run.config, config.model_dump_json())
    record(config, planned(config).steps, run)
    return run


@pytest.fixture
def copy(recorded: Run, tmp_path: Path) -> Run:
    shutil.copytree(recorded.folder, tmp_path / "run")
    return Run(tmp_path / "run")


@pytest.mark.parametrize(("piece_rows", "unit_rows"), [(1_000_000, 250_000), (20, 100)])
def test_tasks_seal_to_the_same_bytes(
    copy: Run, monkeypatch: pytest.MonkeyPatch, piece_rows: int, unit_rows: int
) -> None:
    monkeypatch.setattr(seal, "UNIT_ROWS", unit_rows)
    monkeypatch.setattr(parts, "PIECE_ROWS", piece_rows)
    assert seal.waiting(copy) > 10_000
    seal.seal(copy)
    assert seal.waiting(copy) == 0
    here = files(copy)
    assert len(here) > 10
    shutil.rmtree(copy.history)
    seal_in_tasks(copy, Apart())
    assert files(copy) == here


def test_damage_leaves_nothing_half_written(copy: Run) -> None:
    last = seal.journals(copy)[-1]
    content = last.read_bytes()
    last.write_bytes(content[: len(content) // 2] + b"garbage\n" + content[len(content) // 2 :])
    with pytest.raises(HistoryError, match=last.name):
        seal_in_tasks(copy, Apart())
    assert not copy.history.exists()
    assert not list(copy.folder.glob(".history-*"))


class Harmful:
    """Unpickling it makes a folder. at: of that name."""

    def __init__(self, at: Path) -> None:
        self.at = at

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.at),)


def test_nothing_is_unpickled_that_no_task_of_this_sealing_wrote(copy: Run, tmp_path: Path) -> None:
    """Another program that can write into the run folder, or into its bucket, cannot run code here."""
    stranger = pickle.dumps(Harmful(tmp_path / "ran"))

    class Forging(Apart):
        def map(self, stage: Stage, work: Callable[[int], T]) -> list[T]:
            answers = super().map(stage, work)
            if isinstance(work, parts.ReadJournal):
                part = answers[0]
                assert isinstance(part, parts.Part)
                path = Path(part.rows)
                whole = path.read_bytes()
                copied, other = whole[:SIGNATURE] + stranger, signed(stranger, b"another key")
                for forged in (stranger, other, copied, whole[:10], b""):
                    path.write_bytes(forged)
                    with pytest.raises(HistoryError, match="another program wrote"):
                        work.scratch.read(part.rows)
                path.write_bytes(whole if mended else other)
            return answers

    mended = False
    with pytest.raises(HistoryError, match="another program wrote"):
        seal_in_tasks(copy, Forging())
    assert not seal.is_sealed(copy)
    mended = True
    seal_in_tasks(copy, Forging())
    assert seal.is_sealed(copy)
    assert not (tmp_path / "ran").exists()
    pickle.loads(stranger)
    assert (tmp_path / "ran").exists()  # it would have run
