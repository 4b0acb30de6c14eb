"""What rules about logs find in simulated runs, without clients: planted bugs, and nothing in sound runs."""

import pytest

from checkers.logs.registry import LOG_CHECKS
from harness.explore.profile import clean, hunted, hunting, without_mutant
from harness.explore.trial import trial
from model.mutants.log_damage import LOG_DAMAGE
from model.mutants.registry import MUTANTS
from tests.harness.explore.judged_logs import damaging, first_found, found, judged


def test_bugs_that_leave_no_trace_show_in_runs() -> None:
    assert {name for name, bug in MUTANTS.items() if bug.no_trace} < set(hunted())


@pytest.mark.sampled(26)
def test_a_planted_bug_is_found_in_logs_and_its_twin_is_sound() -> None:
    tried, broken = first_found("elects-any-replica", range(9))
    assert "unclean-election" in broken
    config = hunting("elects-any-replica", tried - 1)
    assert found(config) == broken
    assert judged(without_mutant(config)).broken == {}


@pytest.mark.sampled(13)
def test_a_bug_of_a_reader_leaves_no_trace() -> None:
    assert found(hunting("aborted-not-filtered", 0)) == {}


@pytest.mark.sampled(11)
@pytest.mark.parametrize("seed", [0, 5])
def test_a_sound_run_breaks_no_rule(seed: int) -> None:
    verdict = judged(clean(seed), weaknesses=True)
    assert verdict.broken == {}
    assert verdict.tally.asked["replicas-equal"] > 0


@pytest.mark.slow
@pytest.mark.sampled(34)
@pytest.mark.parametrize("name", LOG_DAMAGE)
def test_rules_about_logs_find_what_clients_do_not_see(name: str) -> None:
    rules = set(LOG_DAMAGE[name].rules)
    assert rules <= LOG_CHECKS.keys()
    config = damaging(name)
    assert rules & judged(config).broken.keys()
    seen = trial(config, invariants=False)
    assert (seen.anomalies, seen.unknown, seen.crashed) == ({}, (), "")
    assert judged(without_mutant(config)).broken == {}
