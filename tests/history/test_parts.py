"""Sealing: the same bytes wherever its tasks run, and whatever the size of pieces and units."""

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread, get_ident
from typing import TypeVar

import pyarrow.parquet as pq
import pytest

from core.config import run_config
from core.errors import HistoryError
from core.progress import ProgressStage
from harness.modelled.virtual.run_folder import record
from harness.run.planning import planned
from history import journal, journal_rows, parts, seal, units
from history.prefix import tables_of
from history.reader import load
from history.run_folder import Run, write_atomically
from history.tasks import SIGNATURE, Files, Here, signed

T = TypeVar("T")


class Apart(Here):
    """In this process; what it calls and what it answers travels as between processes."""

    def __init__(self) -> None:
        super().__init__()
        self.apart = True

    def map(self, stage: ProgressStage, work: Callable[[int], T]) -> list[T]:
        there: Callable[[int], T] = pickle.loads(pickle.dumps(work))
        return super().map(stage, lambda number: pickle.loads(pickle.dumps(there(number))))


class Again(Apart):
    """Each task runs twice, as on Spark where its executor dies before it has answered."""

    def map(self, stage: ProgressStage, work: Callable[[int], T]) -> list[T]:
        """See `Workers`."""

        def twice(number: int) -> T:
            work(number)
            return work(number)

        return Here.map(self, stage, twice)


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


def unsealed(folder: Path, workload: str, **settings: object) -> Run:
    """A simulated run that nothing has sealed."""
    run = Run(folder / "run")
    run.journal.mkdir(parents=True)
    chosen = {"sut": "simulated", "seed": 5, "duration_s": 2, "rate": 30, "nemesis": "random"}
    config = run_config({**chosen, "workload": workload, **settings})
    write_atomically(run.config, config.model_dump_json())
    record(config, planned(config).steps, run)
    return run


@pytest.fixture
def copy(recorded: Run, tmp_path: Path) -> Run:
    shutil.copytree(recorded.folder, tmp_path / "run")
    return Run(tmp_path / "run")


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("piece_rows", "unit_rows"), [(1_000_000, 250_000), (20, 100)])
def test_tasks_seal_to_the_same_bytes(
    copy: Run, monkeypatch: pytest.MonkeyPatch, piece_rows: int, unit_rows: int
) -> None:
    monkeypatch.setattr(units, "UNIT_ROWS", unit_rows)
    seal.seal(copy)
    here = files(copy)
    assert len(here) > 10
    shutil.rmtree(copy.history)
    monkeypatch.setattr(parts, "PIECE_ROWS", piece_rows)
    monkeypatch.setattr(journal_rows, "SPILL_LINES", 1)
    seal.seal(copy, Again())
    assert files(copy) == here


def test_sealed_tables_are_those_that_one_pass_over_all_journals_makes(copy: Run) -> None:
    seal.seal(copy)
    sealed = load(copy)
    made, names, _ = tables_of((str(path), journal.read(path)) for path in seal.journals(copy))
    for name in made.keys() - {"bounds"}:  # a run that still goes has none
        assert sealed.whole(name).equals(made[name]), name
    assert names == {name: getattr(sealed.names, name) for name in names}


@pytest.mark.sampled(8)
def test_two_that_seal_one_run_at_once_seal_it_once(copy: Run) -> None:
    """The second one waits, and finds it sealed."""
    reading, go, threads = Event(), Event(), set[int]()

    class Slow(Here):
        def map(self, stage: ProgressStage, work: Callable[[int], T]) -> list[T]:
            threads.add(get_ident())
            reading.set()
            assert go.wait(60)
            return super().map(stage, work)

    first, second = (Thread(target=seal.seal, args=(copy, Slow())) for _ in range(2))
    first.start()
    assert reading.wait(60)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    assert len(threads) == 1
    go.set()
    first.join(60)
    second.join(60)
    assert seal.is_sealed(copy)
    assert threads == {first.ident}


@pytest.mark.sampled(8)
def test_a_second_attempt_at_a_task_that_is_cut_off_harms_nothing_of_the_first(
    copy: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal.seal(copy)
    here = files(copy)
    shutil.rmtree(copy.history)
    write_bytes, cut = Path.write_bytes, list[Path]()

    class Cut(Apart):
        def map(self, stage: ProgressStage, work: Callable[[int], T]) -> list[T]:
            answers = super().map(stage, work)
            monkeypatch.setattr(pq, "write_table", lambda table, path, **_: half(Path(path)))
            monkeypatch.setattr(Path, "write_bytes", lambda path, _: half(path))
            for number in range(len(stage.sizes)):
                with pytest.raises(KeyboardInterrupt):
                    work(number)
            monkeypatch.undo()
            return answers

    def half(path: Path) -> None:
        write_bytes(path, b"PAR1 half of it")
        cut.append(path)
        raise KeyboardInterrupt

    seal.seal(copy, Cut())
    assert len(cut) > 4
    assert files(copy) == here


@pytest.mark.sampled(5)
def test_what_a_sealing_that_was_killed_left_goes_with_the_next_one(copy: Run) -> None:
    for pid in ("1", "99999999"):
        (copy.folder / f".history-{pid}" / "parts").mkdir(parents=True)
        (copy.folder / f".history-{pid}" / "parts" / "0-rows.pickle").write_bytes(b"half")
    (copy.folder / ".evidence-4711").mkdir()
    (copy.folder / ".evidence-4711" / "ends.parquet").write_bytes(b"half")
    before = {path.name for path in copy.folder.iterdir() if not path.name.startswith(".")}
    seal.seal(copy)
    assert {path.name for path in copy.folder.iterdir()} == before | {"history"}


@pytest.mark.sampled(5)
def test_damage_leaves_nothing_half_written(copy: Run) -> None:
    last = seal.journals(copy)[-1]
    content = last.read_bytes()
    last.write_bytes(content[: len(content) // 2] + b"garbage\n" + content[len(content) // 2 :])
    with pytest.raises(HistoryError, match=last.name):
        seal.seal(copy, Apart())
    assert not copy.history.exists()
    assert not list(copy.folder.glob(".history-*"))


class Harmful:
    """Unpickling it makes a folder. at: of that name."""

    def __init__(self, at: Path) -> None:
        self.at = at

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.at),)


@pytest.mark.sampled(11)
def test_nothing_is_unpickled_that_no_task_of_this_sealing_wrote(copy: Run, tmp_path: Path) -> None:
    """Another program that can write into the run folder, or into its bucket, cannot run code here."""
    stranger = pickle.dumps(Harmful(tmp_path / "ran"))

    class Forging(Apart):
        def map(self, stage: ProgressStage, work: Callable[[int], T]) -> list[T]:
            answers = super().map(stage, work)
            if isinstance(work, parts.ReadJournal):
                part = answers[0]
                assert isinstance(part, parts.Part)
                path, scratch = Path(part.rows), work.scratch
                assert isinstance(scratch, Files)
                whole = path.read_bytes()
                copied, other = whole[:SIGNATURE] + stranger, signed(stranger, b"another key")
                for forged in (stranger, other, copied, whole[:10], b""):
                    path.write_bytes(forged)
                    with pytest.raises(HistoryError, match="another program wrote"):
                        scratch.read(part.rows)
                path.write_bytes(whole if mended else other)
            return answers

    mended = False
    with pytest.raises(HistoryError, match="another program wrote"):
        seal.seal(copy, Forging())
    assert not seal.is_sealed(copy)
    mended = True
    seal.seal(copy, Forging())
    assert seal.is_sealed(copy)
    assert not (tmp_path / "ran").exists()
    pickle.loads(stranger)
    assert (tmp_path / "ran").exists()  # it would have run
