"""Weaknesses of Kafka in simulated runs: labelled by evidence as real runs leave it."""

import shutil
from pathlib import Path

import pytest

from core.config import RunConfig, run_config
from harness.explore.profile import BASE
from harness.explore.trial import trial
from harness.modelled.virtual.run_folder import record
from harness.run.planning import planned
from history.run_folder import Run
from history.seal import seal
from tests.histories.folders import check_run
from tests.histories.stored import Pin

SEEDS = Pin(first=0, within=12)
LABEL = "uncommitted-state"


def config(seed: int, era: str) -> RunConfig:
    """A follower of a coordinator's log lags in sync, and two coordinators die; no marker is left out."""
    return run_config(
        {
            **BASE,
            "workload": "transactions",
            "preset": "safe",
            "nemesis": "failover:lagging",
            "brokers": 5,
            "controllers": 1,
            "producers": 12,
            "partitions": 6,
            "rate": 40,
            "duration_s": 25,
            "fault_s": 4,
            "calm_s": 2,
            "faults_begin": "served",
            "verb_deadline_s": 20,
            "transaction_timeout_s": 30,
            "broker_settings": {"replica.lag.time.max.ms": "30000"},
            "seed": seed,
            "era": era,
        }
    )


def recorded(made: RunConfig, folder: Path) -> Run:
    run = Run(folder)
    run.journal.mkdir(parents=True)
    run.config.write_text(made.model_dump_json())
    record(made, planned(made).steps, run)
    seal(run)
    return run


def labels(run: Run) -> set[str]:
    """Of the findings that are not allowed."""
    found = check_run(run).anomalies
    return {each.known_bug for each in found.values() if each.disallowed}


def torn(folder: Path) -> Run:
    """The first run that shows it."""
    for seed in SEEDS.numbers():
        run = recorded(config(seed, "4.2"), folder / str(seed))
        if labels(run):
            return run
    pytest.fail(f"none of {SEEDS.within} seeds shows it")


@pytest.mark.sampled(8)
@pytest.mark.slow
def test_the_evidence_gives_a_run_its_label_and_a_coordinator_that_waits_shows_nothing(
    tmp_path: Path,
) -> None:
    run = torn(tmp_path / "torn")
    assert labels(run) == {LABEL}
    for missing in ("cluster", "evidence"):
        less = Run(Path(shutil.copytree(run.folder, tmp_path / missing)))
        shutil.rmtree(less.folder / missing)
        assert LABEL not in labels(less)
    made = RunConfig.model_validate_json(run.config.read_text())
    twin = trial(config(made.seed, "4.3-mended"))
    assert (twin.failures, twin.weak) == ([], {})


@pytest.mark.sampled(8)
@pytest.mark.slow
def test_records_behind_a_start_that_fell_are_labelled(tmp_path: Path) -> None:
    settings = {**BASE, "preset": "share", "nemesis": "partition:isolate@group-coordinator"}
    made = run_config({**settings, "seed": 12, "era": "4.3"})
    run = recorded(made, tmp_path / "run")
    found = check_run(run)
    classes = {name for name, one in found.anomalies.items() if one.disallowed}
    assert classes == {"share-redelivery", "model-violation"}  # to a member, and in the coordinator's log
    assert labels(run) == {"share-start-falls"}
    shutil.rmtree(run.folder / "evidence")
    assert labels(run) == {""}
