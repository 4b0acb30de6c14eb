"""Spark Connect: a server on this machine seals and judges a run, with the code of the client."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.programs import environment, program
from history.run_folder import Run
from history.seal import seal
from tests.history.test_parts import files, unsealed
from tests.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow]
pytest.importorskip("grpc")

SAYS_WHERE = """
import sys
import pyarrow
from checkers.engine.engines import chosen
from pathlib import Path

def where(batches):
    import checkers.engine.pipeline as imported
    for _ in batches:
        yield pyarrow.record_batch([[imported.__file__]], names=["file"])

with chosen(Path(sys.argv[2]), master=sys.argv[1]) as choice:
    print(choice.here, choice.workers.title)
    print(choice.workers.session.range(1).mapInArrow(where, "file string").first().file)
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server whose tasks run in its own process's workers, and find no code of ours."""
    import pyspark

    folder, home = tmp_path_factory.mktemp("connect"), Path(pyspark.__file__).parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    around = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    around |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    around |= {"SPARK_LOG_DIR": str(folder), "SPARK_PID_DIR": str(folder)}
    log = folder / "said"
    with log.open("wb") as said:
        server = subprocess.Popen(
            [str(home / "sbin" / "start-connect-server.sh"), "--wait", "--master", "local[2]", *words],
            cwd=folder, env=around, stdout=said, stderr=said, start_new_session=True,
        )  # fmt: skip
    try:
        until(lambda: b"server started at" in log.read_bytes() or server.poll() is not None, "it runs", 120)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def python(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


@pytest.mark.sampled(8)
def test_it_seals_and_says_of_a_run_what_this_process_says(master: str, tmp_path: Path) -> None:
    there = unsealed(tmp_path / "results", "groups", nemesis="kill")
    here = Run(Path(shutil.copytree(there.folder, tmp_path / "here" / "run")))
    seal(here)
    ended = python(*program("inquest", "check", str(there.folder), "--master", master))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "judged by Spark 4." in ended.stdout
    assert files(there) == files(here)
    assert not [path.name for path in there.folder.iterdir() if path.name.startswith((".", "scratch"))]
    same = python(*program("tests.spark.largest", str(tmp_path / "results"), master))
    assert (same.returncode, "0 differences" in same.stdout) == (0, True), same


@pytest.mark.sampled(32)
def test_its_tasks_run_the_clients_code_and_their_scratch_is_with_the_run(
    master: str, tmp_path: Path
) -> None:
    ended = python(sys.executable, "-c", SAYS_WHERE, master, str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    title, where = ended.stdout.splitlines()
    assert (title.split()[0], title.endswith("Spark Connect")) == ("False", True)
    assert "/inquest-" in where
    assert ".zip/" in where


@pytest.mark.sampled(45)
def test_a_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    run = unsealed(tmp_path, "groups")
    ended = python(*program("inquest", "check", str(run.folder), "--master", "sc://127.0.0.1:9"))
    assert (ended.returncode, ended.stdout) == (70, "")
    assert ended.stderr.startswith("inquest: sc://127.0.0.1:9: no server of Spark Connect answers (")
    assert ended.stderr.count("\n") == 1
    assert not run.names.exists()
