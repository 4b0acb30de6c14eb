"""Clusters of tests of other programs, on real brokers: what the test is told, and that nothing is left."""

import signal
from pathlib import Path
from typing import Final

import docker
import pytest

from harness.containers.engine import RUN_LABEL
from tests.inquest.test_pytest_plugin import started
from tests.waiting import until

GONE_S: Final = 120.0
TEST: Final = """
import pytest

@pytest.mark.inquest(rate=40)
def test_orders(inquest_cluster):
    print("run", inquest_cluster.folder.name, flush=True)
    with inquest_cluster.faults("kill:one@leader", seed=7):
        WHAT
    assert inquest_cluster.judge().startswith("VALID: ")
"""


def containers(run: str) -> int:
    """How many containers of a run there are."""
    client = docker.from_env()
    try:
        return len(client.containers.list(all=True, filters={"label": f"{RUN_LABEL}={run}"}))
    finally:
        client.close()


@pytest.mark.sampled(19)
@pytest.mark.parametrize("end", [None, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_however_the_tests_end(tmp_path: Path, end: signal.Signals | None) -> None:
    what = "pass" if end is None else "import time; print('broken', flush=True); time.sleep(600)"
    with started(tmp_path, TEST.replace("WHAT", what), "-s", "--inquest-sut", "kafka") as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        run = next(line.split()[-1] for line in lines if "run 2" in line)
        assert containers(run) >= 3
        if end is not None:
            assert any("broken" in line for line in lines)
            process.send_signal(end)
        out, _ = process.communicate()
    expected = {None: 0, signal.SIGINT: pytest.ExitCode.INTERRUPTED, signal.SIGKILL: -signal.SIGKILL}[end]
    assert process.returncode == expected, out
    until(lambda: containers(run) == 0, "the containers are gone", GONE_S)
