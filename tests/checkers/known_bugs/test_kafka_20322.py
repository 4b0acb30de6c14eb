"""KAFKA-20322: the label needs markers that are refused at the end, and transactions that hang."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from history.events import Recovered
from tests.histories.built import Built, Op, Process
from tests.histories.folders import STARTED, check_run, write_run

S = 1_000_000_000
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
GAVE_UP_S = 158.0
WHY = "clients [0, 2] have completed nothing since"
MARKERS, FETCH = "27 (WriteTxnMarkers)", "1 (FETCH)"


def refused(at_s: float, api: str = MARKERS) -> str:
    wall = (BEGAN + timedelta(seconds=at_s)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return (
        f"{wall} ERROR kafka.network.Processor - Closing socket for 10.0.0.1:9092-10.0.0.3:5-1-3 because of"
        " error\n"
        "org.apache.kafka.common.errors.UnsupportedVersionException: Received request for api with key"
        f" {api} and unsupported version 2\n"
    )


NOW = refused(GAVE_UP_S - 0.5)


@pytest.mark.parametrize(
    ("why", "log", "transactional", "labelled"),
    [
        (WHY, NOW, (0, 2), True),
        (WHY, refused(30) + NOW, (0, 1, 2), True),
        (WHY, "", (0, 2), False),
        (WHY, refused(30), (0, 2), False),  # all brokers have one version since
        (WHY, refused(GAVE_UP_S + 1), (0, 2), False),
        (WHY, refused(GAVE_UP_S - 0.5, FETCH), (0, 2), False),
        (WHY, NOW.splitlines()[1] + "\n", (0, 2), False),  # nobody says when
        (WHY, NOW, (0,), False),  # client 2 has no transactions
        (f"{WHY}; node 2 ended on its own", NOW, (0, 2), False),
        ("brokers [1, 2] answer, and do not all agree on the leaders", NOW, (0, 2), False),
        ("groups ['g'] were given nothing since", NOW, (0, 2), False),
    ],
)
def test_the_label_needs_refused_markers_at_the_end(
    tmp_path: Path, why: str, log: str, transactional: tuple[int, ...], labelled: bool
) -> None:
    label = known_bug(tmp_path, why, log, transactional, {"kafka": "4.1.2", "upgrade": "4.2.0"})
    assert label == ("KAFKA-20322" if labelled else "")


@pytest.mark.parametrize(
    ("settings", "labelled"),
    [
        ({"kafka": "4.0.0", "upgrade": "4.2.0"}, True),
        ({"kafka": "4.1.2", "upgrade": "4.2.1"}, False),  # it asks
        ({"kafka": "4.1.2", "upgrade": "4.4.0"}, False),
        ({"kafka": "4.2.0", "upgrade": "4.4.0"}, False),  # both know what 4.2.0 sends
        ({"kafka": "4.2.0"}, False),
        ({"kafka": "4.1.2"}, False),
    ],
)
def test_the_label_needs_a_version_that_does_not_ask_beside_an_earlier_one(
    tmp_path: Path, settings: dict[str, str], labelled: bool
) -> None:
    assert known_bug(tmp_path, WHY, NOW, (0, 2), settings) == ("KAFKA-20322" if labelled else "")


def known_bug(
    tmp_path: Path, why: str, log: str, transactional: tuple[int, ...], settings: dict[str, str]
) -> str:
    """The label of a cluster that did not recover."""
    built = Built(tps=["x"])
    for slot in range(3):
        built.processes[slot] = Process(slot=slot, txn_id=slot if slot in transactional else -1)
        built.ops.append(Op(process=slot, f="txn", invoke=10 * S, complete=11 * S))
    late = Recovered(ns=round(GAVE_UP_S * S), recovered=False, seconds=120, why=why)
    run = write_run(tmp_path / "run", built.tables(), settings=settings, events=(STARTED, late))
    (run.cluster / "2").mkdir(parents=True)
    (run.cluster / "2" / "server.log").write_text("2026-01-01T00:00:00.000Z INFO something else\n" + log)
    found = check_run(run).anomalies["not-recovered"]
    assert (found.allowed, found.count) == (False, 1)
    return found.examples[0].known_bug
