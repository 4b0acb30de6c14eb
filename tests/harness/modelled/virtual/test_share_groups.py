"""Share groups in simulated runs: what members get, what the end of a member frees, a known weakness."""

import unittest.mock
from pathlib import Path
from typing import Any

import pytest

from checkers.engine.share_groups import RunShareGroups
from checkers.logs.share_answers import STORED
from core.config import RunConfig, run_config
from core.op import Outcome
from harness.explore.profile import BASE
from harness.explore.trial import judged, trial
from harness.modelled.virtual.invariants.weaknesses import START_FELL
from harness.modelled.virtual.run import Simulated, simulate
from history import journal as j
from history.events import DeadLettersListed, ShareOffsetsListed
from tests.harness.modelled.virtual.test_labels import recorded
from tests.histories.folders import check_run


def config(seed: int, nemesis: str, **settings: Any) -> RunConfig:
    return run_config({**BASE, "preset": "share", "nemesis": nemesis, "seed": seed} | settings)


def lines(done: Simulated, kind: type[Any]) -> list[Any]:
    return [line for _, journal in done.journals for line in journal if isinstance(line, kind)]


@pytest.mark.parametrize(
    ("seed", "nemesis"),
    [(1, "none"), (2, "kill"), (3, "partition"), (4, "client:crash@member"), (5, "elections")],
)
@pytest.mark.sampled(11)
def test_a_share_group_keeps_its_promises(seed: int, nemesis: str) -> None:
    assert trial(config(seed, nemesis), logs=True).failures == []


@pytest.mark.sampled(11)
def test_a_member_may_be_given_again_what_it_renewed_and_still_keeps() -> None:
    run = config(18, "partition", renew_share=0.5, rate=8, batch_max=2)
    kept = trial(run, logs=True)
    assert (kept.failures, dict(kept.anomalies)) == ([], {})


@pytest.mark.sampled(8)
def test_a_paused_leader_that_was_replaced_gives_out_what_others_have_accepted() -> None:
    """Kafka does the same: ShareFetch has no leader epoch, and to acquire records asks nobody."""
    settings = {**BASE, "preset": "share", "nemesis": "random", "consumers": 1, "partitions": 6, "rate": 150}
    run = run_config({**settings, "seed": 170})
    assert trial(run, logs=True).failures == []
    with unittest.mock.patch.object(RunShareGroups, "may_be_of_replaced", return_value=False):
        assert set(trial(run, invariants=False).anomalies) == {"share-redelivery"}


@pytest.mark.sampled(11)
def test_members_accept_release_and_reject_and_the_group_gets_on() -> None:
    done = simulate(config(1, "none"))
    given = [run for line in lines(done, j.Acquired) for run in line.runs]
    counts = {count for run in given for count in run[4]}
    assert {1, 2} <= counts
    answers = {
        (Outcome(outcome), code) for line in lines(done, j.Acknowledged) for outcome, code in line.results
    }
    assert answers == {(Outcome.OK, ""), (Outcome.FAIL, "INVALID_RECORD_STATE")}  # of late ones
    (stands,) = (event for event in done.events if isinstance(event, ShareOffsetsListed))
    ends = {number: run for run in given for number in [run[1]]}
    assert [row[2] for row in stands.rows] == sorted(ends)
    assert all(offset > 100 for *_, offset in stands.rows)


@pytest.mark.sampled(16)
def test_a_late_write_of_share_state_is_a_weakness_of_its_era() -> None:
    """A partition holds a write back; the leader's next ones overtake it."""
    late = config(201, "partition:isolate@group-coordinator")
    done = simulate(late)
    assert {one.name for one in done.weak} == {START_FELL}
    assert judged(done).failures == []
    assert simulate(config(201, "partition:isolate@group-coordinator", era="4.4")).weak == []


@pytest.mark.sampled(11)
@pytest.mark.parametrize(("seed", "nemesis"), [(1, "none"), (3, "elections"), (5, "kill:one@leader")])
def test_what_a_group_gives_up_is_in_its_dead_letter_queue(seed: int, nemesis: str) -> None:
    done = simulate(config(seed, nemesis, preset="dead-letters", era="4.4"))
    judgement = judged(done)
    assert (judgement.failures, dict(judgement.anomalies)) == ([], {})
    (listed,) = (event for event in done.events if isinstance(event, DeadLettersListed))
    assert {row[4] for row in listed.rows} == {1, 2}  # rejected, and come to the limit
    assert {row[6] for row in listed.rows} == {0, 1, 2}
    assert all(row[5] >= 0 and row[2] == row[6] for row in listed.rows)


@pytest.mark.sampled(11)
def test_a_forgotten_group_gives_out_nothing_that_is_to_be_archived() -> None:
    """A leader that stood still finds the connections of all members broken, and at once they are back."""
    settings = {"preset": "dead-letters", "era": "4.4", "fault_s": 4.5, "renew_share": 0.5}
    run = config(11, "pause:long@leader", **settings)
    assert trial(run).failures == []
    planted = config(11, "pause:long@leader", **settings, mutant="letters-of-forgotten-group")
    assert set(trial(planted).anomalies) == {"dead-letter-of-accepted"}


@pytest.mark.sampled(8)
def test_what_members_had_answered_is_in_the_coordinators_log_where_leaders_write_it(tmp_path: Path) -> None:
    sound = check_run(recorded(config(2, "none"), tmp_path / "sound"))
    assert sound.log_checks[STORED].status == "valid"
    assert sound.log_checks[STORED].rows > 100
    broken = recorded(config(2, "none", mutant="share-answered-unstored"), tmp_path / "broken")
    found = check_run(broken).log_checks[STORED]
    assert found.disallowed == found.found > 0
