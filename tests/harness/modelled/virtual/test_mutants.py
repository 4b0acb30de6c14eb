"""The checks find every planted bug within a few runs; without it the run that shows it is clean.

The runs are those of `inquest model explore`; `pins.json` says within how many runs each bug has to show.
"""

import ast
from itertools import product
from pathlib import Path

import pytest

from checkers.catalogue import ANOMALIES, INFORMATIONAL
from core.config import SHORT, RunConfig, run_config
from core.errors import ConfigError
from harness.compose import plan
from harness.explore.exploration import hunt_once
from harness.explore.profile import BASE, hunted, hunting, without_mutant
from harness.explore.trial import trial
from harness.modelled.virtual.run import simulate
from model.eras import ERAS
from model.mutants.registry import MUTANTS, PLANTED
from tests.histories.stored import Pin, pins
from workloads.registry import WORKLOADS

PINS = pins()
ROOT = Path(__file__).parents[4]
MODEL, DOCS = ROOT / "model", ROOT / "docs"


def test_every_mutant_that_shows_has_a_pin() -> None:
    assert sorted(PINS) == sorted(hunted())


@pytest.mark.slow
@pytest.mark.sampled(37)
@pytest.mark.parametrize("name", hunted())
def test_a_mutant_is_found_and_its_twin_is_clean(name: str) -> None:
    for number in PINS[name].numbers():
        if hunt_once(name, number).shows:
            assert trial(without_mutant(hunting(name, number))).failures == []
            return
    pytest.fail(f"none of {PINS[name].within} runs shows {name}")


@pytest.mark.sampled(18)
@pytest.mark.slow
def test_two_votes_in_one_epoch_make_two_leaders_of_the_quorum() -> None:
    """Where two nodes stand within one round trip, which is rare."""
    for number in Pin(first=1, within=10).numbers():
        config = hunting("votes-twice", number)
        if broken := simulate(config).broken:
            assert broken[0].name == "one-quorum-leader"
            assert simulate(without_mutant(config)).broken == []
            return
    pytest.fail("no two nodes stood at the same time")


def asked_for() -> set[str]:
    """Names of planted bugs that the model's code asks for."""
    names = set()
    for path in MODEL.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and "bugs" in ast.unparse(node.comparators[0]):
                assert isinstance(node.ops[0], ast.In | ast.NotIn)
                names.add(ast.literal_eval(node.left))
            if isinstance(node, ast.BinOp) and "bugs" in ast.unparse(node.left):
                names |= BELOW_MINIMUM
    return names


BELOW_MINIMUM = {"hw-below-min-isr", "min-isr-ignored"}


def test_the_docs_count_them() -> None:
    assert f", and {len(PLANTED)} planted bugs (`mutant`)" in (DOCS / "i-build-kafka.md").read_text()


@pytest.mark.sampled(2)
def test_the_registry_holds_what_the_model_asks_for() -> None:
    assert asked_for() == set(PLANTED)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_names_classes_and_settings_that_exist(name: str) -> None:
    mutant = MUTANTS[name]
    assert mutant.anomalies
    assert set(mutant.anomalies) <= set(ANOMALIES) - INFORMATIONAL
    if mutant.hunt is None:
        return
    assert set(mutant.hunt.workloads) <= set(WORKLOADS)
    assert set(mutant.hunt.settings) <= {*RunConfig.model_fields, *SHORT}
    assert mutant.hunt.settings.get("era", "4.2") in ERAS


@pytest.mark.parametrize("name", hunted())
def test_hunts_go_round_workloads_and_nemeses(name: str) -> None:
    hunt = MUTANTS[name].hunt
    assert hunt is not None
    wanted = set(product(hunt.workloads, hunt.nemeses))
    configs = [hunting(name, number) for number in range(len(wanted))]
    assert {(one.workload, one.nemesis) for one in configs} == wanted
    assert {one.short()["mutant"] for one in configs} == {name}


def test_a_mutant_of_scenarios_has_no_runs() -> None:
    hidden = next(name for name in MUTANTS if name not in hunted())
    with pytest.raises(ConfigError, match="shows in no run"):
        hunting(hidden, 0)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"mutant": "nope"}, "unknown mutant 'nope'; all of them: inquest list mutants"),
        ({"mutant": "truncat-to-hw"}, "did you mean 'truncate-to-hw'[?] all of them: inquest list mutants"),
        ({"era": "9.9"}, "unknown era '9.9'; known: 0.10"),
        ({"sut": "kafka", "mutant": "keep-tail"}, "mutant=keep-tail is a setting of sut=simulated"),
        ({"sut": "kafka", "era": "0.10"}, "era=0.10 is a setting of sut=simulated"),
    ],
)
def test_what_no_simulation_knows_is_refused(settings: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        plan(run_config({**BASE, "nemesis": "none", "seed": 1, **settings}))
