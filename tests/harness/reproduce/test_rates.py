"""Measured rates are kept by side and version, and the page of known bugs shows them."""

from pathlib import Path

import pytest

from harness.reproduce import rates
from harness.reproduce.attempts import ScheduleRun, Shows
from harness.reproduce.stage import Deaths

DONE = [ScheduleRun(shows=shows, text="") for shows in (Shows.SHOWN, Shows.SHOWN, Shows.UNREACHED)]
DAY = "2026-11-27"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "measured.json"
    made.write_text("[]")
    return made


def test_a_rate_counts_what_the_runs_showed() -> None:
    rate = rates.rate("kafka-20734", "4.3.1", False, DONE, DAY)
    assert (rate.runs, rate.shown, rate.clean, rate.unreached) == (3, 2, 0, 1)


def test_a_new_measurement_takes_the_place_of_its_side_and_version_only(path: Path) -> None:
    first, good = (rates.rate("kafka-20734", "4.3.1", good, DONE, DAY) for good in (False, True))
    other = rates.rate("kafka-20734", "4.0.2", False, DONE, DAY)
    for one in (first, good, other):
        rates.record(one, path)
    again = rates.rate("kafka-20734", "4.3.1", False, DONE[:1], DAY)
    rates.record(again, path)
    assert rates.measured(path) == [other, again, good]


def test_ways_to_lose_a_coordinator_are_measured_apart(path: Path) -> None:
    by_kill, by_election = (
        rates.rate("uncommitted-abort", "4.4.0", False, DONE, DAY, deaths)
        for deaths in (Deaths.KILL, Deaths.ELECTION)
    )
    for one in (by_kill, by_election):
        rates.record(one, path)
    again = rates.rate("uncommitted-abort", "4.4.0", False, DONE[:1], DAY, Deaths.ELECTION)
    rates.record(again, path)
    assert sorted(rates.measured(path)) == sorted([by_kill, again])


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        (
            "uncommitted-abort",
            "kill|shutdown|election`: how coordinators lose their partition: SIGKILL; a controlled shutdown,"
            " as in a rolling restart; an election of the preferred leader, where no broker ends.",
        ),
        (
            "deleted-topic-offsets",
            "kill|election`: how coordinators lose their partition: SIGKILL; an election of the preferred"
            " leader, where no broker ends.",
        ),
    ],
)
def test_the_page_explains_the_ways_that_a_reproduction_takes(name: str, ways: str) -> None:
    _, _, section = rates.page().partition(f"\n- `inquest bugs reproduce {name}`")
    assert section.splitlines()[1] == f"  `--deaths {ways}"


def test_the_page_shows_each_measurement_at_its_bug(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    rates.record(rates.rate("kafka-20734", "4.3.1", False, DONE, DAY), path)
    known = rates.measured(path)
    monkeypatch.setattr(rates, "measured", lambda: known)
    before, _, section = rates.page().partition("\n## KAFKA-20734\n")
    row = "| kafka-20734 | bad | 4.3.1 | 3 | 2 | 0 | 1 | 0 | 2026-11-27 |"
    assert row in section
    assert row not in before
