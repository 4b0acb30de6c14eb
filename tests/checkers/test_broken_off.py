"""A recording that broke off with its machine: what journals may have lost is undecided, the rest judged."""

import shutil
from pathlib import Path

import pytest

from checkers.api import check
from core.config import run_config
from core.op import End, Phase, value_of
from harness.compose import record
from harness.run.progress import silent
from history.events import Event, PhaseStarted
from history.verdict import Verdict
from tests.histories.built import Built, Op, Process, Read, Send
from tests.histories.folders import RECOVERED, STARTED, check_run, write_run

S = 1_000_000_000
LATEST = PhaseStarted(ns=0, phase=Phase.FAULTS)
WHOLE = PhaseStarted(ns=1, phase=Phase.COLLECT)


def judged(folder: Path, *events: Event, end: End = End.CRASHED, writer: int = 1) -> Verdict:
    """Process 1 sent one record; process 2 read it, and another one of the process `writer`."""
    built = Built(tps=["x"])
    built.processes[1] = Process(end=end)
    built.ops = [
        Op(process=1, f="send", invoke=S, complete=2 * S, mops=[Send(tp=0, value=value_of(1, 1), offset=0)]),
        Op(
            process=2,
            f="poll",
            invoke=3 * S,
            complete=4 * S,
            mops=[
                Read(tp=0, offset=0, value=value_of(1, 1)),
                Read(tp=0, offset=1, value=value_of(writer, 2)),
            ],
        ),
    ]
    run = write_run(folder, built.tables(), events=(STARTED, *events, RECOVERED))
    return check_run(run)


@pytest.mark.parametrize("writer", [1, 9])
def test_a_record_whose_journal_may_lack_its_line_is_undecided(tmp_path: Path, writer: int) -> None:
    verdict = judged(tmp_path / "run", LATEST, writer=writer)
    assert "phantom-read" not in verdict.anomalies
    assert verdict.valid == "unknown"
    assert any(why.startswith("integrity: 1 records of x-0 were read") for why in verdict.unknown)


@pytest.mark.parametrize(
    ("events", "end", "writer"),
    [
        ((LATEST, WHOLE), End.REPLACED, 1),
        ((LATEST,), End.CLOSED, 1),  # its journal is whole
        ((LATEST,), End.REPLACED, 1),
        ((), End.CRASHED, 1),  # no phase is on record: not a run that broke off
        ((LATEST, WHOLE), End.CLOSED, 9),
    ],
)
def test_a_record_that_no_journal_lost_is_a_phantom(
    tmp_path: Path, events: tuple[Event, ...], end: End, writer: int
) -> None:
    verdict = judged(tmp_path / "run", *events, end=end, writer=writer)
    assert verdict.anomalies["phantom-read"].disallowed == 1
    assert verdict.exit_code == 1


@pytest.mark.sampled(8)
def test_a_run_whose_newest_lines_are_gone_is_unknown_and_not_invalid(tmp_path: Path) -> None:
    """As after a loss of power: events and journals end at different moments."""
    settings = {"sut": "simulated", "seed": 5, "duration_s": 5, "rate": 40, "nemesis": "none"}
    run = record(run_config(settings), results=tmp_path, display=silent()).run
    lines = run.events.read_bytes().splitlines(keepends=True)
    last = next(n for n, line in enumerate(lines) if b'"phase":3}' in line)
    run.events.write_bytes(b"".join(lines[:last]))
    producer = next(path for path in sorted(run.journal.iterdir()) if b'"isolation":-1' in path.read_bytes())
    kept = producer.read_bytes().splitlines(keepends=True)
    producer.write_bytes(b"".join(kept[: len(kept) // 2]))
    shutil.rmtree(run.history)
    verdict = check(run, engine="process").verdict
    assert (verdict.exit_code, verdict.anomalies) == (2, {})
    assert any("newest lines of journals may be gone" in why for why in verdict.unknown)
