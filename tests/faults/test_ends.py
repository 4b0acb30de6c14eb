"""Nodes and clients of the model's brokers that end from outside: exit code and first lines say so."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from core.op import Phase
from tests.faults.command import Inquest, arguments, reached, the_run, verdict, workers_of
from tests.harness.cli.bad_input import Ended
from tests.waiting import until

pytestmark = pytest.mark.faults


def recorded(tmp_path: Path, phase: Phase, act: Callable[[], None], *words: str) -> Ended:
    """A run in which `act` is called when a phase has begun."""
    words = ("--sut", "model", "--set", "verb_deadline_s=10", "--set", "transaction_timeout_s=10", *words)
    command = Inquest(*arguments(tmp_path, *words), module="inquest")
    until(lambda: reached(tmp_path, phase), f"the phase {phase.name}")
    act()
    return command.wait()


def nodes_of(tmp_path: Path) -> list[int]:
    """Process ids of the nodes of the run under way."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command, logged = (place / "cmdline").read_bytes(), os.readlink(place / "fd" / "2")
        except OSError:
            continue
        if b"node_main" in command and logged.startswith(str(tmp_path)):
            found.append(int(place.name))
    return found


def kill_a_node(tmp_path: Path) -> None:
    """SIGKILL, from outside."""
    os.kill(min(nodes_of(tmp_path)), signal.SIGKILL)


@pytest.mark.sampled(48)
@pytest.mark.parametrize("phase", [Phase.FAULTS, Phase.RECOVER])
def test_a_node_that_is_killed_by_hand_is_unknown_and_named_first(tmp_path: Path, phase: Phase) -> None:
    ended = recorded(tmp_path, phase, lambda: kill_a_node(tmp_path), "--duration", "4")
    assert ended.code == 2, ended
    first, second, *_ = ended.out.splitlines()
    assert first.startswith("UNKNOWN: ")
    assert "something sent it SIGKILL" in first
    assert second.startswith("incident: at ")
    assert "something sent it SIGKILL" in second
    assert "something sent it SIGKILL" in ended.err  # at once, while the run was under way
    run = the_run(tmp_path)
    assert run is not None
    assert verdict(run)["anomalies"].keys() <= {"offset-reuse", "int-send-skip"}
    page = run.report.read_text()
    assert page.index("What happened without being planned") < page.index("What was tested")


@pytest.mark.sampled(10)
def test_a_run_that_loses_all_its_clients_is_unknown(tmp_path: Path) -> None:
    def kill_all() -> None:
        for pid in workers_of(tmp_path):
            os.kill(pid, signal.SIGKILL)

    ended = recorded(tmp_path, Phase.FAULTS, kill_all, "--duration", "30")
    assert ended.code == 2, ended
    assert "all clients were lost" in ended.out.splitlines()[0]
