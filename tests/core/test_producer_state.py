"""Which setting says when brokers forget an idle producer, by their version (KIP-854)."""

from typing import Any

import pytest

from core.config import run_config
from core.flushing import DAY_MS
from core.producer_state import forgetful, forgotten_after_ms

NEW, OLD = "producer.id.expiration.ms", "transactional.id.expiration.ms"
BOTH = {NEW: "3000", OLD: "5000"}


@pytest.mark.parametrize(
    ("config", "settings", "after_ms"),
    [
        ({"kafka": "3.4.0"}, {}, DAY_MS),
        ({"kafka": "3.4.0"}, BOTH, 3000),
        ({"kafka": "4.4.0"}, {OLD: "5000"}, DAY_MS),
        ({"kafka": "3.3.2"}, {}, 7 * DAY_MS),
        ({"kafka": "3.3.2"}, BOTH, 5000),
        ({"kafka": "3.3.2"}, {NEW: "3000"}, 7 * DAY_MS),  # not known there
        ({"kafka": "3.3.2", "upgrade": "3.9.1"}, {OLD: "5000"}, 5000),
        ({"kafka": "3.3.2", "upgrade": "3.9.1"}, BOTH, 3000),
        ({"kafka": "3.3.2", "upgrade": "3.9.1"}, {}, DAY_MS),
        ({"sut": "external"}, {NEW: "86400000", OLD: "5000"}, DAY_MS),
        ({"sut": "external"}, {OLD: "5000"}, 5000),  # they name no other one: they are older
        ({"sut": "external"}, {}, DAY_MS),
        ({"sut": "simulated", "era": "2.4"}, BOTH, 3000),
    ],
)
def test_brokers_forget_producers_by_the_setting_of_their_version(
    config: dict[str, Any], settings: dict[str, str], after_ms: int
) -> None:
    made = run_config({"seed": 1, **config, "broker_settings": settings})
    assert forgotten_after_ms(made) == after_ms
    assert forgotten_after_ms(forgetful(made)) == (after_ms if after_ms >= DAY_MS else 0)
