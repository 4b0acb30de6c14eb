"""Two users of one machine make the same run at the same time, on brokers behind Kafka's protocol: each run
has its own brokers, and each verdict is about them."""

import os
import signal
from pathlib import Path

import pytest

from core.op import Phase
from history import events as ev
from history import journal as j
from history.run_folder import Run
from tests.faults.command import Ended, Inquest, arguments, inquest, reached, the_run, until, verdict

pytestmark = pytest.mark.faults

ALL = ["--sut", "model", "--nemesis", "kill:all", "--set", "fault_s=3", "--set", "calm_s=0.5"]
NONE = ["--sut", "model", "--duration", "1"]


def user(home: Path, *words: str) -> Inquest:
    """A run of a user with a home, a cache and a results folder of his own."""
    home.mkdir()
    around = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    return Inquest(*arguments(home / "results", *words), module="inquest", around=around)


def all_are_down(results: Path) -> bool:
    """A fault that hit all brokers is in force."""
    run = the_run(results)
    if run is None or not run.events.exists():
        return False
    seen = ev.decode(run.events.read_bytes())
    began = [event.fault for event in seen if isinstance(event, ev.FaultStarted) and len(event.nodes) == 3]
    healed = {event.fault for event in seen if isinstance(event, ev.FaultHealed)}
    return any(fault not in healed for fault in began)


def kept_apart(run: Run, ended: Ended) -> None:
    """The verdict is valid, and nothing of another cluster or run was seen."""
    assert ended.code == 0, ended
    assert verdict(run)["valid"] is True
    seen = ev.decode(run.events.read_bytes())
    assert not [event for event in seen if isinstance(event, ev.WrongCluster)]
    for path in run.journal.glob("*.jsonl"):
        assert not [line for line in j.read(path) if isinstance(line, j.Polled) and line.foreign]


def test_a_run_that_begins_while_all_brokers_of_another_users_run_are_down_does_not_meet_it(
    tmp_path: Path,
) -> None:
    first = user(tmp_path / "first", *ALL, "--duration", "8")
    until(lambda: all_are_down(tmp_path / "first" / "results"), "all brokers of the first run are down")
    second = user(tmp_path / "second", *NONE)
    until(lambda: reached(tmp_path / "second" / "results", Phase.WARMUP), "the second run has its brokers")
    for home, command in (("second", second), ("first", first)):
        run = the_run(tmp_path / home / "results")
        assert run is not None
        kept_apart(run, command.wait())


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
    assert inquest("check", str(latest), "--without-spark").code == 2
