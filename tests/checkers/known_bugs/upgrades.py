"""Runs whose brokers change to 4.4.0, for tests of labels that rest on versions."""

from collections.abc import Sequence
from typing import Any

from history.events import Event
from tests.histories.fault_events import begun, both
from tests.histories.folders import RECOVERED, STARTED


def upgrade_of(version: str, upgraded_s: float | None) -> tuple[dict[str, Any], Sequence[Event]]:
    """Settings and events. upgraded_s: when all brokers had the later version, None = they keep the first."""
    if upgraded_s is None:
        return {"kafka": {"version": version}}, (STARTED, RECOVERED)
    upgrade = both(begun("upgrade:rolling", upgraded_s - 1, upgraded_s, nodes=(1, 2, 3)), upgraded_s)
    return {"kafka": {"version": version, "upgrade": "4.4.0"}}, (STARTED, *upgrade, RECOVERED)
