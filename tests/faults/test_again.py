"""Runs in real time once more: by a schedule file, repeated, shrunk."""

from pathlib import Path

import msgspec
import pytest

from harness.explore.shrink import Shrunk
from history.run_folder import Run
from tests.faults.command import arguments, inquest, the_run, verdict

pytestmark = pytest.mark.faults

LOSES = ("--set", 'broker_settings={"memory.bug":"lose"}')
HERE = ("--engine", "process", "--results")
TWO = """\
{"name": "partition:isolate@leader", "at_s": 0.2, "hold_s": 0.5}
{"name": "pause:short@random", "at_s": 0.5, "hold_s": 0.5}
"""


def scheduled(results: Path) -> list[str]:
    """A run that loses records, with the two faults of a file."""
    file = results.with_suffix(".jsonl")
    file.write_text(TWO)
    words = arguments(results, "--schedule", str(file), *LOSES)
    at = words.index("--nemesis")
    return words[:at] + words[at + 2 :]


def folders(results: Path) -> list[Run]:
    return [Run(path) for path in results.glob("2*")]


@pytest.mark.sampled(14)
def test_a_schedule_by_hand_is_executed_and_repeated(tmp_path: Path) -> None:
    ended = inquest(*scheduled(tmp_path / "first"))
    assert ended.code == 1, ended
    run = the_run(tmp_path / "first")
    assert run is not None
    names = [fault["name"] for fault in verdict(run)["faults"]]
    assert names == ["partition:isolate@leader", "pause:short@random"]
    assert verdict(run)["repro"] == f"inquest recording replay {run.folder}"

    again = inquest("recording", "replay", str(run.folder), "--runs", "2", *HERE, str(tmp_path / "again"))
    assert again.code == 1, again
    made = folders(tmp_path / "again")
    assert len(made) == 2
    assert all(one.schedule.read_bytes() == run.schedule.read_bytes() for one in made)
    assert "lost-write: the recorded run shows it, and 2 of 2 repeats" in again.out

    small = inquest(
        "recording",
        "shrink",
        str(run.folder),
        "--runs",
        "1",
        "--budget",
        "1s",
        *HERE,
        str(tmp_path / "small"),
    )
    assert small.code == 0, small
    (smallest,) = folders(tmp_path / "small")
    told = msgspec.json.decode(smallest.shrunk.read_bytes(), type=Shrunk)
    assert (told.of, told.anomaly, told.whole, told.rate) == (run.name, "lost-write", False, (1, 1))
    assert smallest.report.exists()
    assert "shrunk after 0 tries: lost-write, 2 → 2 faults; 1 of 1 repeats show it (stopped" in small.out
    assert f"inquest recording replay {smallest.folder}" in small.out


@pytest.mark.sampled(14)
def test_a_run_without_a_finding_is_not_shrunk(tmp_path: Path) -> None:
    assert inquest(*arguments(tmp_path)).code == 0
    run = the_run(tmp_path)
    assert run is not None
    ended = inquest("recording", "shrink", str(run.folder), *HERE, str(tmp_path))
    assert ended.code == 64
    assert "no forbidden finding to preserve" in ended.err
    assert len(folders(tmp_path)) == 1
