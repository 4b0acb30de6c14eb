"""The checker on a cluster: a master and two workers on this machine, the run on a local S3 server."""

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from checkers.engine.shipped import archive, package
from harness.cli import spark_cluster
from history import seal, units
from history.run_folder import Run
from history.storage import location
from tests.histories.folders import write_run
from tests.histories.planted import random_history
from tests.history.test_parts import files, unsealed
from tests.spark.largest import main
from tests.spark.test_largest import judged
from tests.stores import BUCKET, s3_server

SEED = 7


class Place(NamedTuple):
    """A cluster whose workers can reach the store. folder: its pid files, logs, executors' folders."""

    master: str
    folder: Path
    environment: Mapping[str, str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("cluster")
    with s3_server() as environment:
        master = spark_cluster.start(folder, port=0, memory="1g", environment=environment)
        try:
            yield Place(master, folder, environment)
        finally:
            assert spark_cluster.stop(folder) == 3
            assert not spark_cluster.stop(folder)


def inquest(
    *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.cli.main", *arguments]
    known = {**os.environ, **(environment or {})}
    return subprocess.run(command, env=known, capture_output=True, text=True, check=False)


SAYS_WHERE = """
import sys
import pyarrow
from checkers.engine.spark import spark
from harness.cli.verdict import Engine, judge
from history.seal import sealed
from history.storage import location

def where(batches):
    import checkers.engine.pipeline as imported
    for _ in batches:
        yield pyarrow.record_batch([[imported.__file__]], names=["file"])

with spark(sys.argv[1]) as session:
    print(session.range(1).mapInArrow(where, "file string").first().file)
    judge(sealed(location(sys.argv[2])), Engine(sys.argv[1]))
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.sampled(48)
def test_a_run_on_a_store_is_checked_by_executors_with_the_drivers_code(
    cluster: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "UNIT_ROWS", 1)
    tables = random_history(SEED)[0].tables()
    there = write_run(location(f"s3://{BUCKET}/run"), tables)
    here = write_run(tmp_path / "run", tables)
    assert len(list(there.table("sends").iterdir())) > 1
    ended = subprocess.run(
        [sys.executable, "-c", SAYS_WHERE, cluster.master, str(there.folder)],
        env={**os.environ, **cluster.environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    first = ended.stdout.splitlines()[0]
    assert re.match(r"(\./|/.*/work.*/)inquest-\w+\.zip/", first), first
    local = inquest("check", str(here.folder), "--engine", "process")
    assert there.anomalies.read_bytes() == here.anomalies.read_bytes()
    verdicts = [json.loads(run.verdict.read_bytes()) for run in (there, here)]
    assert verdicts[0]["engine"].startswith("Spark ")
    assert verdicts[1]["engine"] == "this process"
    assert verdicts[0]["anomalies"] == verdicts[1]["anomalies"]
    assert verdicts[0]["anomalies"]
    assert verdicts[0]["exit_code"] == local.returncode
    assert there.report.exists()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.sampled(11)
def test_spark_submit_takes_the_package_and_ends_with_the_exit_code(cluster: Place, tmp_path: Path) -> None:
    import pyspark

    there = write_run(location(f"s3://{BUCKET}/submitted"), random_history(SEED)[0].tables())
    code, program = package(tmp_path, "harness.cli.main")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = ["--master", cluster.master, "--py-files", str(code)]
    options += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    ended = subprocess.run(
        [str(submit), *options, str(program), "check", str(there.folder)],
        env={**os.environ, **cluster.environment, "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert there.verdict.exists(), ended.stderr
    verdict = json.loads(there.verdict.read_bytes())
    assert verdict["engine"].startswith("Spark ")
    assert ended.returncode == verdict["exit_code"], ended.stderr
    assert there.report.exists()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.sampled(11)
def test_executors_seal_a_run_on_a_store_to_the_bytes_that_this_process_writes(
    cluster: Place, tmp_path: Path
) -> None:
    here = unsealed(tmp_path, "copier")
    there = Run(location(f"s3://{BUCKET}/unsealed"))
    store = there.folder.fs  # type: ignore[attr-defined]
    store.put(str(here.folder), f"{BUCKET}/unsealed", recursive=True)
    ended = inquest("check", str(there.folder), "--master", cluster.master, environment=cluster.environment)
    assert there.verdict.exists(), ended.stderr
    assert json.loads(there.verdict.read_bytes())["exit_code"] == ended.returncode
    seal.seal(here)
    found = {
        path.removeprefix(f"{BUCKET}/unsealed/history/"): store.cat_file(path)
        for path in store.find(f"{BUCKET}/unsealed/history")
    }
    ours = files(here)
    names, ours_names = (json.loads(each.pop("names.json")) for each in (found, ours))
    assert names | {"run": ""} == ours_names | {"run": ""}
    assert found == ours


@pytest.mark.sampled(6)
def test_the_archive_holds_the_rooms_and_is_the_same_each_time(tmp_path: Path) -> None:
    first = archive(tmp_path)
    data = first.read_bytes()
    assert archive(tmp_path) == first
    assert first.read_bytes() == data
    names = zipfile.ZipFile(first).namelist()
    assert {"checkers/engine/pipeline.py", "history/storage.py", "harness/report/report.html.j2"} <= set(
        names
    )
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/")) or ".pyc" in name]


@pytest.mark.sampled(18)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["check", "nosuch://bucket/run"], 64, "nosuch"),
        (["check", "s3://"], 64, "names no bucket"),
        (["check", "memory://none"], 64, "is not a run folder"),
        (["check", "s3://bucket/run"], 70, "the store cannot be used"),
        (["report", "s3://bucket/run"], 70, "the store cannot be used"),
        (["check", "{run}", "--master", "spark://127.0.0.1:9"], 70, "no Spark master answers"),
        (["check", "{run}", "--master", "spark://nowhere:7077"], 70, "no Spark master answers"),
        (["check", "{run}", "--master", "spark://nowhere"], 64, "spark://host:7077"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    arguments: list[str], code: int, said: str, tmp_path: Path
) -> None:
    run = write_run(tmp_path / "run", random_history(1)[0].tables())
    nothing = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_MAX_ATTEMPTS": "1",
    }
    filled = [argument.format(run=run.folder) for argument in arguments]
    ended = inquest(*filled, environment=nothing)
    assert ended.returncode == code
    assert said in ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert not run.verdict.exists()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.sampled(11)
def test_a_cluster_says_of_a_run_what_this_process_says(
    cluster: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judged(tmp_path / "run", SEED)
    assert main([str(tmp_path), cluster.master]) == 0
    assert capsys.readouterr().out.startswith("run: ")
