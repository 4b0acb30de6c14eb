"""Settings: presets, the user's words over them, and what makes no sense."""

import pytest

from harness.config import PRESETS, ConfigError, RunConfig, run_config
from harness.op import Isolation


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_a_valid_config_that_survives_its_file(preset: str) -> None:
    config = run_config({"seed": 1, "preset": preset})
    assert RunConfig.model_validate_json(config.model_dump_json()) == config


def test_options_win_over_the_preset() -> None:
    config = run_config({"seed": 1, "preset": "acks1", "nemesis": "none"})
    assert (config.acks, config.nemesis) == (1, "none")
    assert config.expect == ("lost-write",)


def test_isolation_by_name() -> None:
    config = run_config({"seed": 1, "isolation": "read_uncommitted"})
    assert config.isolation is Isolation.READ_UNCOMMITTED


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"preset": "bold"}, "unknown preset 'bold'; known: safe"),
        ({"isolation": "snapshot"}, "isolation"),
        ({"acks": 1}, "idempotent producer needs acks=all"),
        ({"brokers": 1}, "replication_factor 3 needs as many brokers"),
        ({"record_size": 10}, "record_size"),
        ({"color": "red"}, "color"),
        ({"seed": -1}, "seed"),
    ],
)
def test_nonsense_is_named(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        run_config({"seed": 1, **settings})
