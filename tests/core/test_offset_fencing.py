"""Which brokers fence offsets that transactions commit."""

from typing import Any

import pytest

from core.config import run_config
from core.offset_fencing import offsets_fenced
from model.eras import ERAS


@pytest.mark.parametrize(
    ("settings", "fenced"),
    [
        ({"kafka": "0.11.0.3"}, False),
        ({"kafka": "2.4.1"}, False),
        ({"kafka": "2.5.0"}, True),
        ({"kafka": "2.8.2"}, True),
        ({"kafka": "4.4.0"}, True),
        ({"sut": "external"}, True),
        ({"sut": "imported"}, True),
        ({"sut": "simulated", "era": "one that comes later"}, True),
        ({"sut": "model", "era": "2.0"}, False),
    ],
)
def test_brokers_fence_offsets_of_transactions_since_2_5(settings: dict[str, Any], fenced: bool) -> None:
    assert offsets_fenced(run_config({"seed": 1, **settings})) is fenced


def test_an_era_fences_them_as_the_model_does() -> None:
    for name, era in ERAS.items():
        config = run_config({"seed": 1, "sut": "simulated", "era": name})
        assert offsets_fenced(config) is era.fenced_offsets, name
