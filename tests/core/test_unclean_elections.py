"""Which controllers look at unclean.leader.election.enable."""

from typing import Any

import pytest

from core.config import run_config
from core.unclean_elections import unheeded
from model.eras import ERAS


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"kafka": "3.3.2"}, "Kafka 3.3.2"),
        ({"kafka": "3.8.1"}, "Kafka 3.8.1"),
        ({"kafka": "3.7.1", "upgrade": "3.8.1"}, "Kafka 3.7.1 → 3.8.1"),
        ({"kafka": "3.8.1", "upgrade": "3.9.0"}, ""),
        ({"kafka": "3.9.0"}, ""),
        ({"kafka": "4.4.0"}, ""),
        ({"kafka": "3.8.1", "metadata": "zookeeper"}, ""),
        ({"kafka": "2.8.2"}, ""),
        ({"sut": "external"}, ""),
        ({"sut": "simulated", "era": "one that comes later"}, ""),
        ({"sut": "model", "era": "3.6"}, "era 3.6"),
    ],
)
def test_controllers_of_kraft_look_at_the_setting_since_3_9(settings: dict[str, Any], what: str) -> None:
    assert unheeded(run_config({"seed": 1, **settings})) == what


def test_an_era_looks_at_it_as_the_model_does() -> None:
    for name, era in ERAS.items():
        config = run_config({"seed": 1, "sut": "simulated", "era": name})
        assert (unheeded(config) == "") is era.unclean_by_setting, name
