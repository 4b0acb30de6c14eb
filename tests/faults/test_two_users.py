"""Two users of one machine make the same run at the same time, on brokers behind Kafka's protocol: each run
has its own brokers, and each verdict is about them."""

import os
import signal
from pathlib import Path
from typing import TypeVar

import pytest

from history import events as ev
from history import journal as j
from history.run_folder import Run
from tests.faults.command import Inquest, arguments, inquest, the_run, verdict
from tests.harness.cli.bad_input import Ended
from tests.waiting import until

pytestmark = pytest.mark.faults

E = TypeVar("E")

ALL = ["--sut", "model", "--nemesis", "kill:all", "--set", "fault_s=8", "--set", "calm_s=0.3"]
NONE = ["--sut", "model", "--duration", "1"]


def user(home: Path, *words: str, module: str = "inquest") -> Inquest:
    """A run of a user with a home, a cache and a results folder of his own."""
    home.mkdir()
    around = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "HELD": str(home)}
    return Inquest(*arguments(home / "results", *words), module=module, around=around)


def the_only(events: list[ev.Event], kind: type[E]) -> E:
    """The one event of its kind."""
    (found,) = [event for event in events if isinstance(event, kind)]
    return found


def events(results: Path) -> list[ev.Event]:
    """Those of the only run, so far."""
    run = the_run(results)
    return ev.decode(run.events.read_bytes()) if run is not None and run.events.exists() else []


def kept_apart(run: Run, ended: Ended) -> None:
    """The verdict is valid, and nothing of another cluster or run was seen."""
    assert ended.code == 0, ended
    assert verdict(run)["valid"] is True
    seen = ev.decode(run.events.read_bytes())
    assert not [event for event in seen if isinstance(event, ev.WrongClusterSeen)]
    for path in run.journal.glob("*.jsonl"):
        assert not [line for line in j.read(path) if isinstance(line, j.Polled) and line.foreign]


@pytest.mark.sampled(21)
def test_a_run_that_begins_while_all_brokers_of_another_users_run_are_down_does_not_meet_it(
    tmp_path: Path,
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    second = user(theirs, *NONE, module="tests.faults.held")
    until((theirs / "held").exists, "the second run is ready to begin")
    first = user(mine, *ALL, "--duration", "9")
    until(
        lambda: any(isinstance(event, ev.FaultStarted) for event in events(mine / "results")),
        "all brokers of the first run are down",
    )
    (theirs / "go").touch()
    for home, command in ((theirs, second), (mine, first)):
        ended, run = command.wait(), the_run(home / "results")
        assert run is not None
        kept_apart(run, ended)
    began = the_only(events(theirs / "results"), ev.RunStarted).ns
    recorded = events(mine / "results")
    fault, healed = the_only(recorded, ev.FaultStarted), the_only(recorded, ev.FaultHealed)
    assert fault.nodes == (1, 2, 3)
    assert fault.ns < began < healed.begin_ns  # it took its ports right before


@pytest.mark.sampled(14)
def test_the_same_run_of_two_users_at_the_same_time_is_two_runs(tmp_path: Path) -> None:
    """The same second (nearly always), seed, workload and nemesis; the same folders but for the users'."""
    commands = {home: user(tmp_path / home, *NONE, "--nemesis", "kill:one") for home in ("first", "second")}
    runs: list[Run] = []
    for home, command in commands.items():
        ended = command.wait()
        run = the_run(tmp_path / home / "results")
        assert run is not None
        kept_apart(run, ended)
        runs.append(run)
    assert runs[0].name != runs[1].name


@pytest.mark.sampled(14)
def test_after_a_killed_run_latest_leads_to_it_and_not_to_the_run_before(tmp_path: Path) -> None:
    assert inquest(*arguments(tmp_path)).code == 0
    before = os.readlink(tmp_path / "latest")
    command = Inquest(*arguments(tmp_path, "--duration", "60"))
    latest = tmp_path / "latest"
    until(lambda: os.readlink(latest) != before, "latest leads to the new run")
    until(lambda: '"phase":2' in (latest / "events.jsonl").read_text(), "the faults have begun")
    os.kill(command.process.pid, signal.SIGKILL)
    assert command.wait().code == -signal.SIGKILL
    assert os.readlink(latest) != before
    assert inquest("check", str(latest), "--engine", "process").code == 2
