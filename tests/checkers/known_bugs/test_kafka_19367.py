"""KAFKA-19367: the label needs a broker of 4.0.0, and an abort whose epoch is 2 higher."""

from pathlib import Path

import pytest

from checkers.known_bugs.registry import labels
from checkers.logs import accept_transactions
from model.accepting.transaction_log import EPOCH
from tests.checkers.known_bugs.test_log_findings import FAIL, T1, Logs, recorded
from tests.checkers.known_bugs.upgrades import upgrade_of
from tests.checkers.logs.made import of_all
from tests.checkers.logs.test_decisions import P0

KNOWN = {
    "start_ms": T1,
    "last_update_ms": T1,
    "timeout_ms": 60_000,
    "previous_producer_id": -1,
    "next_producer_id": -1,
    "client_transaction_version": 2,
}


def ended(state: str, epoch: int) -> Logs:
    """T1 is decided with this epoch, and completed."""
    logs = Logs()
    logs.coordinator("Ongoing", T1, P0, **KNOWN)
    logs.coordinator(f"Prepare{state}", T1 + 20, P0, epoch=epoch, **KNOWN)
    logs.coordinator(f"Complete{state}", T1 + 40, epoch=epoch, **KNOWN)
    return logs


@pytest.mark.parametrize(
    ("kafka", "state", "epoch", "found"),
    [
        ("4.0.0", "Abort", 2, ["KAFKA-19367"]),
        ("4.0.0", "Abort", 1, []),
        ("4.0.0", "Abort", 3, [""]),
        ("4.0.0", "Commit", 2, [""]),
        ("4.0.2", "Abort", 2, [""]),
        ("4.4.0", "Abort", 2, [""]),
    ],
)
def test_an_abort_with_an_epoch_that_is_two_higher(
    tmp_path: Path, kafka: str, state: str, epoch: int, found: list[str]
) -> None:
    settings = {"kafka": {"version": kafka, "metadata": "kraft"}}
    history, kept = recorded(tmp_path / "run", ended(state, epoch), FAIL, settings=settings)
    refused = [one for one in of_all(accept_transactions.CHECKS, kept).in_logs if one.check == EPOCH]
    assert labels(history, kept, refused) == found


@pytest.mark.parametrize(
    ("upgraded_s", "found"),
    [((T1 + 10_000) / 1000, ["KAFKA-19367"]), ((T1 + 500) / 1000, ["KAFKA-19367"]), (0.5, [""])],
)
def test_no_broker_raises_it_twice_once_all_have_a_later_version(
    tmp_path: Path, upgraded_s: float, found: list[str]
) -> None:
    """The abort is of 1.02 s: before the upgrade, while it is under way, or after it."""
    settings, events = upgrade_of("4.0.0", upgraded_s)
    settings["kafka"]["metadata"] = "kraft"
    changes = tuple(events[1:-1])
    history, logs = recorded(tmp_path / "run", ended("Abort", 2), FAIL, settings=settings, events=changes)
    refused = [one for one in of_all(accept_transactions.CHECKS, logs).in_logs if one.check == EPOCH]
    assert labels(history, logs, refused) == found
