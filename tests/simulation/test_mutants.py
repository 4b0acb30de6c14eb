"""Every planted bug is found by the checks of histories, on a pinned run; without it that run is clean.

The runs are those of `inquest explore`: the pin of a mutant is the number of its run (`pins.json`).
"""

import ast
import json
from itertools import product
from pathlib import Path

import pytest

from checkers.catalogue import ANOMALIES, INFORMATIONAL
from harness.config import ConfigError, RunConfig
from harness.exploring.profile import BASE, hunted, hunting, without_mutant
from harness.exploring.tasks import face
from harness.exploring.trial import trial
from harness.run import plan
from model.eras import ERAS
from model.mutants import MUTANTS
from workloads import WORKLOADS

PINS: dict[str, dict[str, int | str]] = json.loads(
    (Path(__file__).parent / "pins.json").read_text()
)
MODEL = Path(__file__).parents[2] / "model"


def test_every_mutant_that_shows_has_a_pin() -> None:
    assert sorted(PINS) == sorted(hunted())


@pytest.mark.parametrize("name", hunted())
def test_a_mutant_is_found_and_its_twin_is_clean(name: str) -> None:
    config = hunting(name, int(PINS[name]["number"]))
    found = trial(config, invariants=False)
    assert face(name, found) == PINS[name]["class"], found.failures
    assert trial(without_mutant(config)).failures == []


def test_most_mutants_show_in_histories_alone() -> None:
    assert len(hunted()) >= 40


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


def test_the_registry_holds_what_the_model_asks_for() -> None:
    assert asked_for() == set(MUTANTS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_names_classes_and_settings_that_exist(name: str) -> None:
    mutant = MUTANTS[name]
    assert mutant.anomalies
    assert set(mutant.anomalies) <= set(ANOMALIES) - INFORMATIONAL
    if mutant.hunt is None:
        return
    assert set(mutant.hunt.workloads) <= set(WORKLOADS)
    assert set(mutant.hunt.settings) <= set(RunConfig.model_fields)
    assert mutant.hunt.settings.get("era", "4.2") in ERAS


@pytest.mark.parametrize("name", hunted())
def test_hunts_go_round_workloads_and_nemeses(name: str) -> None:
    hunt = MUTANTS[name].hunt
    assert hunt is not None
    wanted = set(product(hunt.workloads, hunt.nemeses))
    configs = [hunting(name, number) for number in range(len(wanted))]
    assert {(one.workload, one.nemesis) for one in configs} == wanted
    assert {one.mutant for one in configs} == {name}


def test_a_mutant_of_scenarios_has_no_runs() -> None:
    hidden = next(name for name in MUTANTS if name not in hunted())
    with pytest.raises(ConfigError, match="shows in no run"):
        hunting(hidden, 0)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"mutant": "nope"}, "unknown mutant 'nope'; known: ack-before"),
        ({"era": "9.9"}, "unknown era '9.9'; known: 0.10"),
        ({"sut": "kafka", "mutant": "keep-tail"}, "era and mutant are settings of sut=simulated"),
        ({"sut": "kafka", "era": "0.10"}, "era and mutant are settings of sut=simulated"),
    ],
)
def test_what_no_simulation_knows_is_refused(settings: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        plan(RunConfig(**{**BASE, "nemesis": "none", "seed": 1, **settings}))
