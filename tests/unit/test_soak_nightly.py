"""A whole night with runs that are made up: written down, cut short, given up."""

from pathlib import Path

import pytest

from harness.config import ConfigError
from harness.night import FOLDER, Outcome, Task, nights
from harness.soak.choice import failing
from harness.soak.nightly import ERRORS_MAX
from harness.soak.opening import open_night, seconds
from tests.nights import LOST, outcome
from tests.soaks import Fakes, whys, wish


def test_a_whole_night(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path)
    assert fakes.go(wish(tmp_path)) == 0
    (night,) = nights(tmp_path)
    assert whys(night) == ["canary"] + ["matrix"] * 9
    assert night.over is not None
    assert (night.over.code, night.spent_s, night.started.seed) == (0, 600.0, 5)
    assert fakes.indexes == 11  # before the first run, and after each
    assert [a.begun.command for a in night.attempts] == [
        ["inquest", str(a.begun.task.seed)] for a in night.attempts
    ]


def test_the_same_seed_makes_the_same_night(tmp_path: Path) -> None:
    tasks = []
    for name in ("a", "b"):
        fakes = Fakes(tmp_path / name)
        fakes.go(wish(tmp_path / name))
        tasks.append([begun.task for begun in fakes.made])
    assert tasks[0] == tasks[1]


def test_a_silent_canary_makes_the_night_void(tmp_path: Path) -> None:
    def comes_to(task: Task) -> Outcome:
        return outcome("silent" if task.why == "canary" else "valid")

    assert Fakes(tmp_path, comes_to).go(wish(tmp_path)) == 4
    (night,) = nights(tmp_path)
    assert night.void
    assert "matrix" in whys(night)


def test_the_second_night_begins_with_what_failed_in_the_first(tmp_path: Path) -> None:
    bad: list[Task] = []

    def comes_to(task: Task) -> Outcome:
        if task.why == "matrix" and len(bad) < 2:
            bad.append(task)
            return outcome("anomaly", LOST)
        return outcome()

    assert Fakes(tmp_path, comes_to).go(wish(tmp_path)) == 1
    assert Fakes(tmp_path, lambda _: outcome()).go(wish(tmp_path, seed=6)) == 0
    first, second = nights(tmp_path)
    assert whys(second)[:4] == ["repeat", "repeat", "canary", "matrix"]
    for attempt, task in zip(second.attempts, bad, strict=False):
        made = attempt.begun.task
        assert made.key == task.key
        assert made.of.startswith(first.name)


def test_errors_in_a_row_end_the_night(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path, lambda _: outcome("error", seconds=1))
    assert fakes.go(wish(tmp_path)) == 70
    assert len(fakes.made) == ERRORS_MAX
    assert any("in a row" in line for line in fakes.said)


def test_single_errors_do_not(tmp_path: Path) -> None:
    def comes_to(task: Task) -> Outcome:
        return outcome("valid" if len(fakes.made) % 2 else "error")

    fakes = Fakes(tmp_path, comes_to)
    assert fakes.go(wish(tmp_path)) == 70
    assert len(fakes.made) > ERRORS_MAX


def test_a_repetition_that_this_version_cannot_make_is_left_out_and_named(tmp_path: Path) -> None:
    from tests.nights import task, write

    gone = task(preset="gone-preset", seed=4)
    renamed = [task(nemesis="gone-nemesis", seed=seed) for seed in range(10, 10 + ERRORS_MAX)]
    refused = task("gone-workload", seed=5)
    kept = task(seed=8)
    bad = [gone, *renamed, refused, kept]
    write(tmp_path, "20200101T000000Z", [(one, outcome("anomaly")) for one in bad])
    assert len(failing(nights(tmp_path))) == len(bad)
    fakes = Fakes(tmp_path)
    fakes.go(wish(tmp_path))
    assert [begun.task.seed for begun in fakes.made if begun.task.why == "repeat"] == [8]
    assert any("gone-preset" in line and "20200101T000000Z/1" in line for line in fakes.said)
    assert sum("gone-nemesis" in line for line in fakes.said) == len(renamed)
    assert any("gone-workload" in line for line in fakes.said)
    assert "canary" in whys(nights(tmp_path)[-1])


def test_a_budget_without_room_for_the_canary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"30 s.*canary"):
        open_night(wish(tmp_path, budget_s=30.0))
    assert not (tmp_path / FOLDER).exists()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        open_night(wish(tmp_path / "file" / "results"))


@pytest.mark.parametrize(
    ("text", "value"), [("90s", 90), ("30m", 1800), ("8h", 28800), ("1h30m", 5400), ("1h1s", 3601)]
)
def test_budgets(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "30", "m", "-5m", "5m3h", "1.5h", "long", "0x5m"])
def test_budgets_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="budget"):
        seconds(text)
