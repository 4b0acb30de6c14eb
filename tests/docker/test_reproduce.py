"""Scripted schedules on real brokers: the bad side shows its bug, the good side does not.

Should a bad side fail with a newer Kafka, then that version has mended the bug: `docs/findings` and the model
then need to say since when.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.config import KAFKA_VERSION
from core.runtime import run_blocking
from harness.reproduce import attempts
from harness.reproduce.attempts import Shows
from harness.reproduce.schedules import REPRODUCTIONS
from harness.reproduce.stage import FiveBrokers


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FiveBrokers]:
    made = FiveBrokers(KAFKA_VERSION, tmp_path_factory.mktemp("reproduce") / "cluster", print)
    try:
        made.start()
        yield made
    finally:
        run_blocking(made.cluster.stop())


@pytest.mark.parametrize(
    ("name", "good", "shows"),
    [
        ("kafka-20734", False, Shows.SHOWN),
        ("uncommitted-abort", False, Shows.SHOWN),
        ("uncommitted-abort", True, Shows.CLEAN),
        ("uncommitted-partition", False, Shows.SHOWN),
        ("uncommitted-partition", True, Shows.CLEAN),
    ],
)
def test_each_side_shows_what_it_says(
    stage: FiveBrokers, tmp_path: Path, name: str, good: bool, shows: Shows
) -> None:
    reproduction = REPRODUCTIONS[name]
    attempt, producer = attempts.perform(stage, reproduction, f"{name}-{'good' if good else 'bad'}", good)
    run_blocking(stage.cluster.collect(tmp_path / "cluster"))
    assert attempts.confirmed(attempt, producer, reproduction.left_out, tmp_path).shows is shows, attempt.text
