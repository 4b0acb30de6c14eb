"""Which checks Spark makes: those of large histories, and those for which the user asks."""

import sys
from pathlib import Path
from typing import Any

import pytest

from checkers import api
from checkers.engine import sealing
from checkers.engine.spark import SUBMITTED, spark_runs
from core.errors import SparkError
from tests.histories.folders import write_run
from tests.histories.random_history import simulate
from tests.history.test_parts import unsealed


@pytest.mark.parametrize(
    ("rows", "options", "asked"),
    [
        (api.SPARK_ROWS, {}, False),
        (0, {}, True),
        (api.SPARK_ROWS, {"master": "local[1]"}, True),
        (0, {"without_spark": True}, False),
        (0, {"without_spark": True, "master": "local[1]"}, False),
    ],
)
def test_spark_checks_what_is_large_or_what_the_user_gives_it(
    rows: int, options: dict[str, Any], asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: object, **__: object) -> Any:
        raise SparkError("asked")

    monkeypatch.setattr(api, "spark", refusing)
    monkeypatch.setattr(api, "SPARK_ROWS", rows)
    monkeypatch.setattr(api, "spark_runs", lambda: False)
    result = api.check(write_run(tmp_path / "run", simulate(3, portable=False).tables()), **options)
    assert result.spark_failed == ("asked" if asked else "")
    assert result.verdict.stats["checked by Spark"] == 0


@pytest.mark.parametrize(
    ("most", "options", "asked"),
    [
        (sealing.SPARK_BYTES, {}, False),
        (0, {}, True),
        (sealing.SPARK_BYTES, {"master": "local[1]"}, True),
        (0, {"without_spark": True, "master": "local[1]"}, False),
    ],
)
def test_spark_seals_what_is_large_or_what_the_user_gives_it(
    most: int, options: dict[str, Any], asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: object, **__: object) -> Any:
        raise SparkError("asked")

    monkeypatch.setattr(sealing, "spark", refusing)
    monkeypatch.setattr(sealing, "SPARK_BYTES", most)
    monkeypatch.setattr(sealing, "spark_runs", lambda: False)
    run = unsealed(tmp_path, "groups")
    options = {"master": None, **options}
    with sealing.sealing(run, **options) as failed:
        assert failed == ("asked" if asked else "")
    assert run.names.exists()
    with sealing.sealing(run, **options) as failed:
        assert failed == ""


def test_a_cluster_that_cannot_be_used_seals_nothing(tmp_path: Path) -> None:
    run = unsealed(tmp_path, "groups")
    with pytest.raises(SparkError, match="no Spark master"), sealing.sealing(run, "spark://127.0.0.1:9"):
        pass
    assert not run.history.exists()


def test_a_session_that_runs_already_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*_: object, **__: object) -> Any:
        raise SparkError("asked")

    monkeypatch.setattr(api, "spark", refusing)
    monkeypatch.setattr(api, "spark_runs", lambda: True)
    assert (
        api.check(write_run(tmp_path / "run", simulate(3, portable=False).tables())).spark_failed == "asked"
    )


def test_spark_submit_has_started_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUBMITTED, raising=False)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    assert not spark_runs()
    monkeypatch.setenv(SUBMITTED, "4711")
    assert spark_runs()
