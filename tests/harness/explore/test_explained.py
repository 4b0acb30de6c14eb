"""KAFKA-20734 in simulated runs: explore counts it, a recorded run labels it, and the mended era is clean."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkers.catalogue import ANOMALIES
from checkers.checks.poll_order import Skipped
from checkers.engine.findings import Finding
from core.client_settings import SessionSpec
from core.config import run_config
from core.op import Phase, Send, TopicPartition
from core.systems import SimulatedSection
from harness.explore.explained import explained_by
from harness.explore.profile import BASE
from harness.explore.trial import checked, findings, judged, trial
from harness.modelled.virtual.invariants.weaknesses import Weakness
from harness.modelled.virtual.run import Simulated, simulate
from harness.modelled.virtual.run_folder import record
from harness.run.planning import planned
from history import journal
from history.reader import History
from history.run_folder import FORMAT, Run
from history.seal import seal
from tests.histories.folders import check_run

S = 1_000_000_000


@pytest.fixture(scope="module")
def torn() -> Simulated:
    """A run in which a marker was left out, and that shows."""
    faults = {"nemesis": "client:crash-in-transaction,kill", "brokers": 5, "consumers": 3, "seed": 5234}
    done = simulate(run_config({**BASE, "workload": "transactions", **faults}))
    made = judged(done)
    assert made.explained
    assert made.failures == []
    assert {*made.weak} == {"KAFKA-20734"}
    return done


@pytest.mark.sampled(38)
@pytest.mark.slow
def test_the_mended_era_is_clean_where_the_other_is_not(torn: Simulated) -> None:
    mended = torn.config.section(SimulatedSection).model_copy(update={"era": "4.3-mended"})
    twin = trial(torn.config.model_copy(update={"simulated": mended}))
    assert (twin.failures, twin.weak) == ([], {})


@pytest.mark.sampled(2)
@pytest.mark.slow
def test_what_resembles_it_is_not_explained(torn: Simulated) -> None:
    found = findings(torn, checked(torn))
    assert explained_by(torn.weak, torn.journals, found)
    changes: tuple[dict[str, Any], ...] = (
        {"transactional_id": "another"},
        {"tps": frozenset({("transactions", 99)})},
        {"time_us": 0},  # before the transaction began
    )
    for change in changes:
        others = [replace(one, **change) for one in torn.weak]
        assert explained_by(others, torn.journals, found) == []


class OfAnyClass(Finding):
    """A finding without a story."""

    def sentence(self, history: History) -> str:
        return ""


def test_half_a_transaction_explains_findings_of_some_classes_only() -> None:
    """A transaction sends a record to q-0, where it has no marker; each finding is in q-0."""
    spec = SessionSpec(slot=0, process=0, acks=-1, idempotent=True, transactional_id="id")
    sends = (Send(TopicPartition("q", 0), 5),)
    lines: list[journal.Line] = [
        journal.JournalHeader(FORMAT, "run", 0, 0, 0, spec),
        journal.Invoked(0, S, Phase.FAULTS, "txn", True, False, sends),
    ]
    weak = Weakness(
        time_us=10**15, name="KAFKA-20734", text="…", transactional_id="id", tps=frozenset({("q", 0)})
    )
    found = [OfAnyClass(key=(0, 5), name=name, ops=(0,)) for name in ANOMALIES]
    assert {one.name for one in explained_by([weak], [("0", lines)], found)} == {
        *("lost-write", "aborted-read", "torn-txn", "poll-skip", "int-poll-skip"),
        *("stuck-lso", "hanging-txn"),
    }


@pytest.mark.sampled(8)
@pytest.mark.slow
def test_a_recorded_run_labels_it_from_the_log_of_a_node(torn: Simulated, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.journal.mkdir(parents=True)
    run.config.write_text(torn.config.model_dump_json())
    record(torn.config, planned(torn.config).steps, run)
    seal(run)
    found = check_run(run).anomalies
    assert {each.known_bug for each in found.values() if each.disallowed} == {"KAFKA-20734"}


@pytest.mark.sampled(11)
@pytest.mark.slow
def test_a_skip_over_such_records_is_explained(torn: Simulated) -> None:
    """The skip is in a partition that got its marker: an abort, while the one left out shows the commit."""
    skips = [one for one in findings(torn, checked(torn)) if isinstance(one, Skipped)]
    assert skips
    assert explained_by(torn.weak, torn.journals, skips) == skips
    others = [replace(one, transactional_id="another") for one in torn.weak]
    assert explained_by(others, torn.journals, skips) == []
