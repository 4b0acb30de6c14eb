"""Who seals and judges: Spark, or this process where the user says so or Spark cannot be started."""

import errno
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, TCPServer
from typing import Any, NoReturn, TypeVar

import pytest

from checkers.api import check
from checkers.engine import engines, spark
from checkers.engine.engines import Chosen, chosen
from checkers.engine.spark import spark_runs
from core.errors import HistoryError, SparkError
from core.programs import SUBMITTED
from core.progress import ProgressStage
from history.tables import TABLES
from tests.histories.folders import write_run
from tests.histories.random_history import simulate
from tests.history.test_parts import Apart, unsealed

T = TypeVar("T")


class AccumulatorServer(TCPServer):
    """As PySpark 4.0 names what later ones have two of."""


@pytest.mark.sampled(10)
def test_any_pyspark_4_is_asked_for_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no JVM: so this process judges, whatever the servers of accumulators are called."""
    from pyspark import accumulators, java_gateway

    for name in ("AccumulatorTCPServer", "AccumulatorUnixServer"):
        monkeypatch.delattr(accumulators, name, raising=False)
    monkeypatch.setattr(accumulators, "AccumulatorServer", AccumulatorServer, raising=False)

    def none(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.ENOENT, "no JVM")

    monkeypatch.setattr(java_gateway, "launch_gateway", none)
    monkeypatch.setattr(spark, "_archive_path", lambda: None)
    monkeypatch.setattr(spark._JVM, "gateway", None)  # a test before it may have started one
    with chosen(tmp_path, master="local[1]") as engine:
        assert "no JVM" in engine.why
    with AccumulatorServer(("localhost", 0), StreamRequestHandler) as server:
        server.handle_error(server.socket, "")
    assert capsys.readouterr().err == ""


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark cannot be started."""

    def refusing(master: str | None) -> Any:
        raise SparkError("asked")

    monkeypatch.setattr(engines, "a_session", refusing)


@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "asked"),
        ({"master": "local[1]"}, "asked"),
        ({"engine": "process"}, ""),
        ({"engine": "process", "master": "local[1]"}, ""),
    ],
)
def test_spark_judges_a_run_folder_unless_the_user_says_otherwise(
    tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    result = check(write_run(tmp_path / "run", simulate(3, portable=False).tables()), **options)
    assert (result.spark_failed, result.verdict.engine) == (why, "this process")


@pytest.mark.sampled(19)
@pytest.mark.usefixtures("refused")
def test_the_engine_that_judges_seals(tmp_path: Path) -> None:
    run = unsealed(tmp_path, "groups")
    assert check(run).spark_failed == "asked"
    assert run.names.exists()


@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize(
    ("runs", "master", "asked"), [(False, None, ""), (True, None, "asked"), (False, "local", "asked")]
)
def test_tables_are_judged_here_unless_there_is_a_session(
    monkeypatch: pytest.MonkeyPatch, runs: bool, master: str | None, asked: str
) -> None:
    monkeypatch.setattr("checkers.api.spark_runs", lambda: runs)
    tables = simulate(3, portable=False).tables()
    given = {name: tables[name] for name in TABLES}
    assert check(given, master=master).spark_failed == asked


class Elsewhere(Apart):
    """Workers of another machine, which find no file of this one."""

    def map(self, stage: ProgressStage, work: Callable[[int], T]) -> list[T]:
        """See `Workers`."""
        raise HistoryError(f"no file is there for {stage.name}")


@pytest.mark.parametrize("here", [False, True])
def test_tables_are_judged_by_who_reaches_their_files(monkeypatch: pytest.MonkeyPatch, here: bool) -> None:
    @contextmanager
    def session(*_: object, **__: object) -> Iterator[Chosen]:
        workers = Apart() if here else Elsewhere()
        workers.title = "Spark"
        yield Chosen(workers, here=here)

    monkeypatch.setattr("checkers.api.chosen", session)
    tables = simulate(3, portable=False).tables()
    found = check({name: tables[name] for name in TABLES}, master="spark://elsewhere:7077")
    assert found.verdict.engine.partition(",")[0] == ("Spark" if here else "this process")
    assert found.counts == check({name: tables[name] for name in TABLES}, engine="process").counts


@pytest.mark.sampled(8)
@pytest.mark.usefixtures("refused")
def test_a_cluster_that_cannot_be_used_judges_nothing(tmp_path: Path) -> None:
    run = unsealed(tmp_path, "groups")
    with pytest.raises(SparkError, match="asked"), chosen(run.folder, master="spark://127.0.0.1:9"):
        pass
    with pytest.raises(SparkError, match="asked"):
        check(run, master="sc://127.0.0.1:9")
    assert not run.history.exists()


def test_spark_submit_has_started_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUBMITTED, raising=False)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    assert not spark_runs()
    monkeypatch.setenv(SUBMITTED, "4711")
    assert spark_runs()
