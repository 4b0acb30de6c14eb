"""The status line of a run: what a person reads while it runs."""

import io

import pytest
from rich.console import Console

from harness.run.progress import Display, RunProgress, SimulatedStatus, StatusLine, short


def at(seconds: float, acked: int, **other: object) -> RunProgress:
    fields: dict[str, object] = {
        "phase": "faults",
        "at_s": 100 + seconds,
        "seconds": seconds,
        "of_s": 60.0,
        "planned": True,
        "acked": acked,
        "read": 41_200,
        "unknown": 0,
        "faults": (),
        "brokers": 3,
        "of_brokers": 3,
    }
    return RunProgress(**(fields | other))  # type: ignore[arg-type]


def test_phase_time_faults_brokers_and_records_stand_in_this_order() -> None:
    line = StatusLine().text(at(23, 15_300, faults=("kill:one", "pause:one"), brokers=2, unknown=4))
    assert line == (
        "faults 23/60 s · kill:one · pause:one · brokers 2/3 · acked 0/s, 15.3 k in all · read 41.2 k"
        " · unknown 4"
    )


def test_the_rate_is_that_of_the_last_seconds() -> None:
    line = StatusLine()
    for second, acked in ((0, 0), (1, 9000), (2, 9000), (7, 9500), (8, 9600)):
        text = line.text(at(second, acked))
    assert "acked 100/s, 9600 in all" in text


def test_a_phase_without_a_planned_end_says_how_long_it_may_take() -> None:
    assert (
        StatusLine().text(at(4, 0, phase="recover", planned=False)).startswith("recover 4 s, at most 60 s · ")
    )
    assert StatusLine().text(at(4, 0, phase="collect", planned=False, of_s=0.0)).startswith("collect 4 s · ")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (9999, "9999"), (10_000, "10.0 k"), (999_900, "999.9 k"), (1_200_000, "1.2 M")],
)
def test_numbers_are_short(count: int, text: str) -> None:
    assert short(count) == text


def test_a_simulated_run_shows_how_far_it_is_and_no_lasting_line_of_its_cluster() -> None:
    out = io.StringIO()
    shown = SimulatedStatus(Display(Console(file=out)))
    shown.say("cluster of 3 brokers ready in 0.0 s")
    shown.refresh(lambda: "faults 3/20 s")
    assert out.getvalue() == "simulating faults 3/20 s\n"
