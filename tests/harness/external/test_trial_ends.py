"""A trial of hooks that is interrupted: what is healed, and what is said of it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import ClusterError
from harness.brokers.admin.connection import Brokers
from harness.cli import doctor
from harness.external import trial
from harness.external.file import ClusterFile
from harness.external.hooks import HookRunner
from harness.external.nodes import Means

INTERRUPT = f"kill -s INT {os.getpid()}"


@pytest.fixture(autouse=True)
def _heeds_ctrl_c() -> Iterator[None]:
    """A shell that starts the tests behind it has SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class PlannedReaper:
    """Keeps how it was ended."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    def act(self) -> None:
        self.ends.append("act")

    def dismiss(self) -> None:
        self.ends.append("dismiss")


def runner(**commands: str) -> HookRunner:
    given = {"cluster": {"bootstrap": "here:1"}, "hooks": {"deadline_s": 60, **commands}}
    return HookRunner(ClusterFile.model_validate(given), Means(names={1: "one"}))


def given_up(hooks: HookRunner) -> list[str]:
    reaper: Any = PlannedReaper()
    trial._given_up(hooks, (1,), reaper)
    ends: list[str] = reaper.ends
    return ends


def test_a_hook_that_an_interrupt_leaves_under_way_ends_before_its_node_is_healed(tmp_path: Path) -> None:
    """As `docker stop`: the node that is started while it is being stopped is down afterwards. This one
    waits for that, and in vain."""
    waits = f"for n in 1 2 3 4 5 6 7 8 9; do [ -e {tmp_path}/node ] || sleep 0.1; done"
    hooks = runner(
        kill=f"{INTERRUPT}; {waits}; echo killed >>{tmp_path}/node", revive=f"echo revived >>{tmp_path}/node"
    )
    with pytest.raises(KeyboardInterrupt):
        trial._tried(hooks, Brokers({}), "kill", "revive", 1)
    assert given_up(hooks) == ["dismiss"]
    assert (tmp_path / "node").read_text() == "killed\nrevived\n"


def test_a_hook_that_fails_has_its_node_healed_at_once(tmp_path: Path) -> None:
    hooks = runner(kill=f"echo killed >>{tmp_path}/node; exit 3", revive=f"echo revived >>{tmp_path}/node")
    with pytest.raises(ClusterError, match="hook kill of node 1: exit code 3"):
        trial._tried(hooks, Brokers({}), "kill", "revive", 1)
    assert (tmp_path / "node").read_text() == "killed\nrevived\n"


def test_a_node_that_cannot_be_healed_is_named_and_left_to_the_reaper(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert given_up(runner(kill="true", revive="echo no such host >&2; exit 1")) == ["act"]
    why = "hook revive of node 1: exit code 1: no such host"
    assert capsys.readouterr().err == f"inquest: {why}; the reaper tries again in the background\n"


def test_a_second_interrupt_leaves_healing_to_the_reaper(capsys: pytest.CaptureFixture[str]) -> None:
    assert given_up(runner(kill="true", revive="true", heal_all=INTERRUPT)) == ["act"]
    assert "the hooks that heal were interrupted; the reaper" in capsys.readouterr().err


def test_a_trial_that_is_closed_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal was interrupted between two lines."""
    ended: list[str] = []

    def lines(*_: object) -> Iterator[trial.TrialLine]:
        try:
            yield trial.TrialLine("kill, revive: node 1", True, "well")
        finally:
            ended.append("closed")

    monkeypatch.setattr(trial, "trial", lines)

    def shown(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "show", shown)
    with pytest.raises(KeyboardInterrupt):
        doctor.try_cluster()
    assert ended == ["closed"]
