"""Runs whose brokers change to 4.4.0, for tests of labels that rest on versions."""

from collections.abc import Sequence
from typing import Any

from history.events import Event, FaultHealed, FaultStarted
from tests.histories.folders import RECOVERED, STARTED

S = 1_000_000_000


def upgrade_of(version: str, upgraded_s: float | None) -> tuple[dict[str, Any], Sequence[Event]]:
    """Settings and events. upgraded_s: when all brokers had the later version, None = they keep the first."""
    if upgraded_s is None:
        return {"kafka": {"version": version}}, (STARTED, RECOVERED)
    done = int(upgraded_s * S)
    began = FaultStarted(
        begin_ns=done - S, ns=done, fault=0, name="upgrade:rolling", nodes=(1, 2, 3), text="", colour=""
    )
    healed = FaultHealed(begin_ns=done, ns=done, fault=0)
    return {"kafka": {"version": version, "upgrade": "4.4.0"}}, (STARTED, began, healed, RECOVERED)
