"""The comparison of two checks of one run: which run it takes, and that it finds a difference."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from checkers.api import EngineName, Result, check
from history.run_folder import Run
from tests.histories.folders import write_run
from tests.histories.planted import random_history
from tests.spark import largest

SEED = 7
MASTER = "spark://127.0.0.1:1"


def judged(folder: Path, seed: int) -> Run:
    """A run folder with a history and its verdict."""
    run = write_run(folder, random_history(seed)[0].tables())
    check(run, engine="process").write(run)
    return run


def by_spark(result: Result, **others: Any) -> Result:
    """The same, as if Spark had judged. others: fields of the verdict that are not the same."""
    stats = {**result.verdict.stats, "seconds to check": 99.0}
    verdict = msgspec.structs.replace(result.verdict, stats=stats, engine="Spark 4.3.0, …", **others)
    return replace(result, verdict=verdict)


def compared(run: Run, there: Result, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    def one(run: Run, *, master: str | None = None, engine: EngineName = "spark") -> Result:
        assert (master == MASTER) is (engine == "spark")
        return there if master else check(run, engine=engine)

    monkeypatch.setattr(largest, "check", one)
    return largest.differences(run, MASTER)


def test_two_checks_that_say_the_same_do_not_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = judged(tmp_path / "run", SEED)
    assert compared(run, by_spark(check(run, engine="process")), monkeypatch) == []


@pytest.mark.sampled(5)
def test_a_difference_is_found_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = judged(tmp_path / "run", SEED)
    here = check(run, engine="process")
    assert here.findings.num_rows
    (said,) = compared(run, by_spark(here, summary="another"), monkeypatch)
    assert said.startswith("summary: ")
    (said,) = compared(run, replace(by_spark(here), findings=here.findings.slice(1)), monkeypatch)
    assert said.endswith("not the same")
    (said,) = compared(run, here, monkeypatch)
    assert said.startswith("not one of them")
    told = compared(run, replace(here, spark_failed="no Java"), monkeypatch)
    assert told[0] == "Spark did not judge: no Java"


@pytest.mark.sampled(5)
def test_the_run_with_the_most_history_is_taken(tmp_path: Path) -> None:
    assert largest.largest(tmp_path) is None
    assert largest.main([str(tmp_path), MASTER]) == 2
    runs = [judged(tmp_path / f"run-{seed}", seed) for seed in (4, 5, 7)]
    write_run(tmp_path / "not-judged", random_history(8)[0].tables())
    (runs[0].history / "more").write_bytes(bytes(1 << 20))
    found = largest.largest(tmp_path)
    assert found is not None
    assert found.folder == runs[0].folder
