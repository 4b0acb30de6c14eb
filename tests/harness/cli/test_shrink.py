"""`recording shrink` of a run on real brokers: which run it names, where `latest` leads, what is left."""

import os
from pathlib import Path

import msgspec
import pytest

from core.config import run_config
from core.errors import ClusterError
from harness.cli import again
from harness.compose import create_folder, point_latest, record
from harness.explore import repeats
from harness.explore.shrink import ShrinkCase, Shrunk
from harness.run.planning import names_of, recorded_steps
from harness.run.progress import silent
from history import jsonl
from history.run_folder import Run
from nemesis.written import written
from tests.harness.cli.bad_input import Ended, command, no_traceback
from tests.harness.explore.made_repeats import INTERRUPTED, Answer, MadeRuns, shown

LOST = "lost-write"
FAULTS = b"""\
{"name": "kill:one@leader", "at_s": 2, "hold_s": 1}
{"name": "partition:isolate@leader", "at_s": 6, "hold_s": 1}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The newest run of its results folder, which is the current one's."""
    monkeypatch.chdir(tmp_path)
    made = create_folder(run_config({"seed": 1, "duration_s": 10, "nemesis": "schedule"}), Path("results"))
    config = run_config({"seed": 1, "duration_s": 10})
    made.schedule.write_bytes(jsonl.encode(written(FAULTS, config, names_of(config))))
    made.verdict.write_bytes(msgspec.json.encode(shown(LOST)))
    assert point_latest(made) == ""
    return made


def shrunk(monkeypatch: pytest.MonkeyPatch, made: MadeRuns, *words: str) -> tuple[Ended, list[Run]]:
    """The command; the run folders that it handed to the last check."""
    checked: list[Run] = []
    monkeypatch.setattr(repeats, "record", made.record)
    monkeypatch.setattr(again, "checked", lambda run, *_: (made.judge(run), ""))
    monkeypatch.setattr(again, "judge", lambda run, *_, **__: checked.append(run))
    ended = command("recording", "shrink", "results/latest", "--engine", "process", *words)
    no_traceback(ended)
    return ended, checked


def told(run: Run) -> Shrunk:
    return msgspec.json.decode(run.shrunk.read_bytes(), type=Shrunk)


def folders() -> set[str]:
    return {path.name for path in Path("results").glob("2*")}


def test_a_shrunk_run_is_latest_and_names_the_run_that_it_was(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeRuns([], lambda steps: LOST if any(s.family == "kill" for s in steps) else "")
    ended, (smallest,) = shrunk(monkeypatch, made, "--runs", "3", "--needed", "2")
    assert ended.code == 0, ended
    summary = told(smallest)
    assert (summary.of, summary.steps, summary.whole, summary.rate) == (run.name, (2, 1), True, (3, 3))
    assert os.readlink("results/latest") == smallest.name
    assert folders() == {run.name, smallest.name}
    assert f"shrunk after {summary.tries} tries: lost-write, 2 → 1 faults" in ended.out


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (INTERRUPTED, 130, "interrupted; the smallest run so far is "),
        (KeyboardInterrupt(), 130, "interrupted; the smallest run so far is "),
        (ClusterError("no broker answered"), 70, "no broker answered"),
    ],
)
def test_what_ends_the_search_leaves_the_smallest_run_so_far(
    answer: Answer, code: int, said: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeRuns([LOST, "", LOST], lambda _: answer)
    ended, (smallest,) = shrunk(monkeypatch, made, "--runs", "1")
    assert ended.code == code, ended
    assert said in ended.err
    summary = told(smallest)
    assert (summary.of, summary.steps, summary.whole, summary.rate) == (run.name, (2, 1), False, (1, 1))
    assert folders() == {run.name, smallest.name}
    assert os.readlink("results/latest") == smallest.name
    assert "(stopped early; more may be left out)" in ended.out
    assert "--budget" not in ended.out


def test_a_search_that_had_too_little_time_says_how_to_give_more(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.soak.session.budget_seconds", lambda _: 0.0)
    ended, (smallest,) = shrunk(monkeypatch, MadeRuns([], lambda _: LOST), "--runs", "1")
    assert (ended.code, told(smallest).whole, told(smallest).steps) == (0, False, (2, 2))
    assert "(stopped early; more may be left out); give it more time: --budget" in ended.out


@pytest.mark.parametrize(
    ("answers", "code"), [(["", LOST, ""], 64), ([LOST, INTERRUPTED], 130), ([INTERRUPTED], 130)]
)
def test_where_nothing_was_shrunk_latest_is_the_run_that_it_was(
    answers: list[Answer], code: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, checked = shrunk(monkeypatch, MadeRuns(answers), "--runs", "3", "--needed", "2")
    assert (ended.code, checked, folders()) == (code, [], {run.name}), ended
    assert os.readlink("results/latest") == run.name
    assert f"fewer than 2 of 3 repeats of {run.name} show it; 0 were" in ended.err or code == 130


@pytest.mark.sampled(13)
@pytest.mark.parametrize("tried", [0, 1])
def test_an_interrupt_leaves_the_smallest_simulated_run_so_far(
    tried: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tried: smaller runs before the interrupt. Without one, there is none to leave."""
    settings = {
        "sut": "simulated",
        "seed": 5,
        "duration_s": 8,
        "rate": 5,
        "nemesis": "kill,pause",
        "producers": 1,
    }
    run = record(run_config(settings), results=tmp_path / "runs", display=silent()).run
    many = len(recorded_steps(run))
    assert many > 1
    asked: list[int] = []

    def findings(case: ShrinkCase, *, known: bool = False) -> list[str]:
        asked.append(len(case.steps))
        if len(asked) == tried + 2:
            raise KeyboardInterrupt
        return [LOST]

    checked: list[Run] = []
    monkeypatch.setattr("harness.explore.shrink.findings", findings)
    monkeypatch.setattr(again, "judge", lambda run, *_, **__: checked.append(run))
    results = tmp_path / "results"
    words = ("recording", "shrink", run.folder, "--engine", "process", "--results", results)
    ended = command(*words)
    no_traceback(ended)
    assert (ended.code, len(checked), asked[0]) == (130, tried, many)
    if not tried:
        assert "interrupted; the recorded run is as it was" in ended.err
        assert not results.exists()
        return
    (smallest,) = checked
    assert f"the smallest run so far is {smallest.folder}" in ended.err
    assert (told(smallest).whole, told(smallest).steps) == (False, (many, asked[1]))
    assert len(recorded_steps(smallest)) == asked[1] < many


def test_repeats_of_latest_are_told_as_those_of_the_run_that_it_was(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeRuns([LOST, ""])

    def recorded_and_judged(*args: object, **given: object) -> object:
        recorded = made.record(*args, **given)  # type: ignore[arg-type]
        recorded.run.verdict.write_bytes(msgspec.json.encode(made.judge(recorded.run)))
        assert point_latest(recorded.run) == ""
        return recorded

    monkeypatch.setattr("harness.compose.record", recorded_and_judged)
    monkeypatch.setattr(again, "judge", lambda *_, **__: 0)
    ended = command("recording", "replay", "results/latest", "--engine", "process", "--runs", "2")
    assert ended.code == 0, ended
    said = " ".join(ended.err.split())
    assert all(f"repeat {n} of 2 of {run.name}, 2 faults" in said for n in (1, 2))
    assert "lost-write: the recorded run shows it, and 1 of 2 repeats" in ended.out
