"""A broker of Kafka that ends during a run: killed by hand, out of memory, halted. First lines and exit code
say which."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from core.op import Phase
from harness.containers.data import DATA
from harness.containers.engine import NODE_LABEL, RUN_LABEL
from history.run_folder import Run
from tests.faults.command import Inquest, reached, the_run, verdict
from tests.harness.cli.bad_input import Ended
from tests.waiting import until

NODE = 2
LIMIT = 420 << 20
"""More than a broker of these tests uses (the engine refuses less), and less than with what is added."""


@contextmanager
def broker(run: Run) -> Iterator[Container]:
    client = docker.from_env()
    try:
        labels = [f"{RUN_LABEL}={run.name}", f"{NODE_LABEL}={NODE}"]
        (found,) = client.containers.list(filters={"label": labels})
        yield found
    finally:
        client.close()


def kill(container: Container) -> None:
    container.kill()


def use_up_memory(container: Container) -> None:
    container.update(mem_limit=LIMIT, memswap_limit=LIMIT)
    container.exec_run(["sh", "-c", f"head -c {2 * LIMIT} /dev/zero | tail"])


def take_disk_away(container: Container) -> None:
    container.exec_run(["rm", "-rf", DATA])


def recorded(tmp_path: Path, phase: Phase, act: Callable[[Container], None]) -> Ended:
    """A run without faults in which `act` is called on a broker when a phase has begun."""
    words = ["--nemesis", "none", "--duration", "12", "--rate", "50", "--engine", "process", "--seed", "5"]
    command = Inquest("run", "--results", str(tmp_path), *words, module="inquest")
    try:
        run = until(lambda: reached(tmp_path, phase), f"the phase {phase.name}")
        with broker(run) as container:
            act(container)
        return command.wait()
    finally:
        command.end()


@pytest.mark.parametrize(
    ("phase", "act", "code", "told"),
    [
        (Phase.FAULTS, kill, 2, "node 2 ended with exit code 137: something sent it SIGKILL"),
        (Phase.RECOVER, kill, 2, "node 2 ended with exit code 137: something sent it SIGKILL"),
        (Phase.FAULTS, use_up_memory, 2, "node 2 ended with exit code 137: its memory was used up"),
        (Phase.FAULTS, take_disk_away, 1, "node 2 ended on its own with exit code 1; its last "),
    ],
)
@pytest.mark.sampled(14)
def test_a_broker_that_ends_is_in_the_first_lines_and_the_exit_code(
    tmp_path: Path, phase: Phase, act: Callable[[Container], None], code: int, told: str
) -> None:
    ended = recorded(tmp_path, phase, act)
    assert ended.code == code, ended
    first, *others = ended.out.splitlines()
    if code == 1:  # the finding comes before what happened beside it
        assert others.pop(0).startswith("first node-died: ")
    assert others[0].startswith("incident: at ")
    assert told in others[0]
    assert told in ended.err  # at once, while the run was under way
    run = the_run(tmp_path)
    assert run is not None
    found = verdict(run)
    if code == 2:
        assert told in first
        assert not [name for name, one in found["anomalies"].items() if one["disallowed"]]
    else:
        assert "node-died (1)" in first
        (example,) = found["anomalies"]["node-died"]["examples"]
        assert "all log dirs in /data have failed" in example["sentence"]
