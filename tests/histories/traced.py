"""Small simulated runs with their verdicts: one that loses a record, one that is clean."""

from functools import cache
from pathlib import Path

from core.config import RunConfig, run_config
from harness.explore.trial import trial
from harness.modelled.virtual.run_folder import record
from harness.run.planning import planned
from history.run_folder import Run, write_atomically
from history.seal import seal
from tests.histories.folders import check_run

SMALL = {
    "sut": "simulated",
    "workload": "queue",
    "nemesis": "kill:one@leader",
    "duration_s": 6,
    "rate": 40,
    "partitions": 1,
    "producers": 2,
    "home_producers": 0,
    "consumers": 1,
    "fault_s": 2.0,
    "calm_s": 0.5,
    "verb_deadline_s": 5,
}
LOSING = {"mutant": "hw-is-leader-end", "rate": 300, "producers": 4, "duration_s": 8}
"""The high watermark is the leader's end: what only the killed leader had is acknowledged, and lost."""
SEEDS = 60
CLEAN = {"seed": 8}


def config(**settings: object) -> RunConfig:
    """Of a small run."""
    return run_config({**SMALL, **settings})


@cache
def losing(first: int = 0) -> RunConfig:
    """Of the first run with this bug, from this seed on, that loses a record."""
    for seed in range(first, SEEDS):
        made = config(**LOSING, seed=seed)
        if "lost-write" in trial(made).anomalies:
            return made
    raise AssertionError(f"nothing was lost with any of {SEEDS} seeds")


def recorded(folder: Path, made: RunConfig) -> Run:
    """The run, sealed and judged."""
    run = Run(folder)
    run.journal.mkdir(parents=True)
    write_atomically(run.config, made.model_dump_json())
    record(made, planned(made).steps, run)
    seal(run)
    check_run(run)
    return run
