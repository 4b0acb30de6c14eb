"""Scripted schedules on real brokers: the bad side shows its bug, the good side does not.

Should a bad side fail with a newer Kafka, then that version has mended the bug: `docs/findings` and the model
then need to say since when.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.config import KAFKA_VERSION
from core.runtime import run_blocking
from harness.reproduce import trials
from harness.reproduce.schedules import REPRODUCTIONS
from harness.reproduce.stage import Stage
from harness.reproduce.trials import Outcome


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(KAFKA_VERSION, tmp_path_factory.mktemp("reproduce") / "cluster", print)
    try:
        made.start()
        yield made
    finally:
        run_blocking(made.cluster.stop())


@pytest.mark.parametrize(
    ("name", "good", "outcome"),
    [
        ("kafka-20734", False, Outcome.SHOWN),
        ("uncommitted-abort", False, Outcome.SHOWN),
        ("uncommitted-abort", True, Outcome.CLEAN),
        ("uncommitted-partition", False, Outcome.SHOWN),
        ("uncommitted-partition", True, Outcome.CLEAN),
    ],
)
@pytest.mark.sampled(2)
def test_each_side_shows_what_it_says(
    stage: Stage, tmp_path: Path, name: str, good: bool, outcome: Outcome
) -> None:
    reproduction = REPRODUCTIONS[name]
    trial, producer = trials.perform(stage, reproduction, f"{name}-{'good' if good else 'bad'}", good)
    run_blocking(stage.cluster.collect(tmp_path / "cluster"))
    assert trials.confirmed(trial, producer, reproduction.log, tmp_path).outcome is outcome, trial.text
