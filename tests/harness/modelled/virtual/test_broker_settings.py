"""Settings of brokers that a simulated run has: each changes one setting of the model."""

from dataclasses import fields

import pytest

from core.config import run_config
from harness.explore.profile import BASE
from harness.modelled.shared.settings import BROKER_SETTINGS
from harness.modelled.virtual.cluster import SimulatedCluster
from harness.modelled.virtual.scheduler import Scheduler
from model.settings import Settings


def settings(**given: str) -> Settings:
    config = run_config({**BASE, "nemesis": "none", "seed": 1, "broker_settings": given})
    return SimulatedCluster(config, Scheduler()).settings


@pytest.mark.parametrize("name", BROKER_SETTINGS)
def test_a_setting_of_brokers_is_one_of_the_model(name: str) -> None:
    before, after = settings(), settings(**{name: "7777"})
    changed = [one.name for one in fields(Settings) if getattr(before, one.name) != getattr(after, one.name)]
    assert [getattr(after, field) for field in changed] == [7777]


def test_settings_of_brokers_have_each_their_own() -> None:
    numbers = {name: str(7000 + n) for n, name in enumerate(BROKER_SETTINGS)}
    after = settings(**numbers)
    held = {str(getattr(after, one.name)) for one in fields(Settings)}
    assert set(numbers.values()) <= held
