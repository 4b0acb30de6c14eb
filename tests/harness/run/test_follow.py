"""Looking at a run while it records."""

from pathlib import Path

import pytest

from checkers.checks.uniqueness import DUPLICATE
from checkers.early import EARLY
from core.config import RunConfig
from harness.explore.profile import hunting
from harness.modelled.virtual.run import Simulated, simulate
from harness.run import follow
from harness.run.follow import Follower, Following
from history import jsonl
from history.run_folder import Run
from nemesis.types import PlannedFault
from tests.histories.stored import pins
from tests.waiting import until

MUTANT = "repeats-not-recognised"


@pytest.fixture(scope="module")
def made() -> Simulated:
    return simulate(hunting(MUTANT, pins()[MUTANT].first), invariants=False)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path)
    run.journal.mkdir()
    return run


def record(run: Run, made: Simulated, share: float) -> None:
    """What is on record after this share of each journal."""
    run.events.write_bytes(jsonl.encode(made.events))
    for name, lines in made.journals:
        (run.journal / f"{name}.jsonl").write_bytes(jsonl.encode(lines[: int(share * len(lines))]))


@pytest.mark.sampled(18)
def test_each_finding_is_shown_once(run: Run, made: Simulated) -> None:
    follower = Follower(run, made.config)
    assert follower.look() == []  # nothing is on record
    found = []
    for share in (0.3, 0.6, 1.0):
        record(run, made, share)
        found.append([one.identity for one in follower.look()])
    together = [one for some in found for one in some]
    assert sum(bool(some) for some in found) >= 2
    assert len(together) == len(set(together))
    assert follower.look() == []


def test_a_loss_of_power_that_is_planned_permits_what_it_may_cause(run: Run, made: Simulated) -> None:
    record(run, made, 1.0)
    power = PlannedFault(
        fault=0, name="power:all", family="power", kind="all", target="", at_s=900, hold_s=1, seed=1
    )
    run.schedule.write_bytes(jsonl.encode([power]))
    assert {one.allowed for one in Follower(run, made.config).look() if one.identity[0] == DUPLICATE} == {
        True
    }
    run.schedule.unlink()
    found = Follower(run, made.config).look()
    assert {one.allowed for one in found if one.identity[0] == DUPLICATE} == {False}


@pytest.mark.sampled(2)
def test_following_ends_with_the_first_forbidden_finding(
    run: Run, made: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "PAUSE_S", 0.01)
    said: list[str] = []
    with Following(run, made.config, said.append) as following:
        assert following.found() == ""
        record(run, made, 1.0)
        until(following.found, "a finding")
    assert following.found().partition(":")[0] in EARLY
    assert said == []


def test_a_journal_that_cannot_be_read_ends_the_looking_and_says_so(
    run: Run, made: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "PAUSE_S", 0.01)
    record(run, made, 0.1)
    next(iter(run.journal.iterdir())).write_bytes(b"scribble\n")
    said: list[str] = []
    with Following(run, RunConfig(seed=1), said.append) as following:
        until(lambda: said, "a line")
    assert said[0].startswith("--fail-fast has stopped looking: ")
    assert following.found() == ""
