"""The loading clients as nemeses act on them: crashed, started again, paused, and never left behind.

The workers here are a small program that does what it is told and tells its parent about it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import clients as module
from harness.clients import LoadingClients, idle_groups
from harness.cluster import Clients, ClientSlot, ClusterError, CrashPoint, Endpoint
from harness.messages import Enter, Progress, Start
from harness.op import Phase
from harness.session import drive
from harness.store import Run
from harness.workers import GUARD, WorkerHandle

FAKE = """
import json, os, signal, sys
folder, slot = sys.argv[1:]
heard = os.path.join(folder, f"heard-{slot}-{os.getpid()}")
print('[3,0,0,5,5,0,%d,%d]' % (os.getpid(), os.getpid()), flush=True)
for line in sys.stdin:
    with open(heard, "a") as file:
        file.write(line)
    command = json.loads(line)
    if command["command"] == "crash" and command["point"] == "in-transaction":
        os.kill(os.getpid(), signal.SIGKILL)
    if command["command"] == "crash" and command["point"] == "before-commit":
        sys.exit(70)
"""
START = Start(Endpoint(factory="m:f", args={}), 9)


def until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError(f"never happened: {what}")


def state(pid: int) -> str:
    """Letter of its state (T: stopped), "" = gone or a zombie."""
    try:
        letter = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
    return "" if letter == "Z" else letter


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    path = tmp_path / "fake.py"
    path.write_text(FAKE)
    return path


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path / "run")
    run.journal.mkdir(parents=True)
    return run


@pytest.fixture
def clients(run: Run, fake: Path) -> Iterator[LoadingClients]:
    slots = (ClientSlot(slot=0, produces=True), ClientSlot(slot=1, group="g"))
    made = LoadingClients(
        run, slots, lambda run, n: WorkerHandle(run, n, (sys.executable, str(fake)))
    )
    made.launch()
    made.begin(START)
    made.enter(Phase.WARMUP)
    made.enter(Phase.FAULTS)
    yield made
    made.end()


def heard(run: Run, handle: WorkerHandle) -> list[dict[str, Any]]:
    path = run.folder / f"heard-{handle.slot}-{handle.pid}"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line) for line in lines]


def test_the_clients_of_a_run_are_what_nemeses_act_on(clients: LoadingClients) -> None:
    assert isinstance(clients, Clients)
    assert [slot.group for slot in clients.slots] == ["", "g"]


def test_a_client_dies_by_its_own_hand_at_its_point(
    clients: LoadingClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CRASH_S", 15.0)
    begin = time.monotonic()
    drive(clients.crash([0], CrashPoint.IN_TRANSACTION))
    assert time.monotonic() - begin < 10
    assert clients.down == (0,)
    assert clients.handles[0].executed
    assert clients.handles[1].ended is None


def test_a_client_that_does_not_get_there_dies_where_it_is(
    clients: LoadingClients, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CRASH_S", 0.5)
    begin = time.monotonic()
    drive(clients.crash([0, 1], CrashPoint.AFTER_COMMIT))
    assert time.monotonic() - begin >= 0.5
    assert clients.down == (0, 1)


def test_a_client_started_again_knows_the_cluster_and_the_phase(
    clients: LoadingClients, run: Run
) -> None:
    drive(clients.crash([0], CrashPoint.IN_TRANSACTION))
    dead, other = clients.handles
    clients.enter(Phase.HEAL)  # told while it is down
    drive(clients.restart([0, 1]))
    fresh = clients.handles[0]
    assert fresh.pid != dead.pid
    assert clients.handles[1] is other  # it runs
    told = until(lambda: len(h := heard(run, fresh)) == 2 and h, "two commands")
    assert told == [
        msgspec.to_builtins(START),
        msgspec.to_builtins(Enter(Phase.HEAL)),
    ]
    assert clients.down == ()
    assert dead.executed  # whoever still looks at the old one does not take it for lost
    drive(clients.restart([0]))
    assert clients.handles[0] is fresh


def test_what_clients_did_before_they_died_still_counts(clients: LoadingClients) -> None:
    until(lambda: clients.progress().ok == 6, "both reports")
    drive(clients.crash([0], CrashPoint.IN_TRANSACTION))
    drive(clients.restart([0]))
    until(lambda: clients.progress().ok == 9, "the report of the new one")
    total = clients.progress()
    assert (total.sent, total.acked) == (15, 15)
    newest = max(handle.pid for handle in clients.handles)
    assert newest <= total.ok_invoked_ns < 2 * newest
    assert total.worked_ns == total.ok_invoked_ns  # times are not added up


@pytest.mark.parametrize(
    ("worked", "idle"),
    [
        ({0: 0, 1: 8, 2: 0, 3: 8}, []),  # one member of each group is enough
        ({0: 0, 1: 7, 2: 7, 3: 7}, []),
        ({0: 0, 1: 6, 2: 0, 3: 8}, ["a"]),
        ({0: 0, 1: 0, 2: 0, 3: 0}, ["a", "b"]),
        ({0: 0, 2: 0, 3: 8}, ["a"]),  # member 1 is lost: the other one has to be given it
        ({0: 0, 3: 8}, []),  # all members of a are lost
        ({1: 0, 2: 0, 3: 0, 4: 0}, []),  # the producer is lost: nobody feeds them
    ],
)
def test_a_group_is_idle_where_none_of_its_members_was_given_anything(
    worked: dict[int, int], idle: list[str]
) -> None:
    slots = (
        ClientSlot(slot=0, produces=True),
        ClientSlot(slot=1, group="a", produces=True),  # a copier
        ClientSlot(slot=2, group="a", produces=True),
        ClientSlot(slot=3, group="b"),
        ClientSlot(slot=4),  # reads by itself
    )
    progress = {slot: Progress(ok=1, ok_invoked_ns=9, worked_ns=ns) for slot, ns in worked.items()}
    assert idle_groups(slots, progress, 7) == idle


def test_a_client_that_died_by_itself_is_lost_and_stays_down(clients: LoadingClients) -> None:
    os.kill(clients.handles[0].pid, signal.SIGKILL)
    until(lambda: clients.handles[0].ended is not None, "its end")
    assert not clients.handles[0].executed
    assert clients.down == ()
    for verb in (clients.pause, lambda slots: clients.crash(slots, CrashPoint.ANYWHERE)):
        with pytest.raises(ClusterError, match=r"clients \[0\] are not running"):
            drive(verb([1, 0]))
    dead = clients.handles[0]
    drive(clients.restart([0, 1]))
    assert clients.handles[0] is dead
    assert not clients.handles[1].condemned
    assert clients.handles[1].ended is None


def test_a_client_that_fails_instead_of_dying_is_lost(clients: LoadingClients) -> None:
    drive(clients.crash([0], CrashPoint.BEFORE_COMMIT))
    assert clients.handles[0].ended == 70
    assert not clients.handles[0].executed
    assert clients.down == ()


def test_a_paused_client_stands_still_until_it_is_resumed(
    clients: LoadingClients, run: Run
) -> None:
    pid = clients.handles[0].pid
    until(lambda: len(heard(run, clients.handles[0])) == 3, "the commands before")
    drive(clients.pause([0]))
    drive(clients.pause([0]))  # no-op
    until(lambda: state(pid) == "T", "standing still")
    clients.enter(Phase.HEAL)  # it hears it when it goes on
    drive(clients.resume([0, 1]))
    drive(clients.resume([0]))
    until(lambda: state(pid) in ("S", "R"), "going on")
    until(lambda: len(heard(run, clients.handles[0])) == 4, "the command sent meanwhile")
    assert clients.down == ()


def test_a_paused_client_can_be_crashed_and_started_again(
    clients: LoadingClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CRASH_S", 0.2)
    drive(clients.pause([0]))
    drive(clients.crash([0], CrashPoint.IN_TRANSACTION))
    assert clients.down == (0,)
    drive(clients.restart([0]))
    drive(clients.resume([0]))
    assert clients.handles[0].ended is None
    assert state(clients.handles[0].pid) in ("S", "R")


def test_nobody_is_started_once_all_were_struck_or_ended(clients: LoadingClients) -> None:
    drive(clients.crash([0], CrashPoint.IN_TRANSACTION))
    clients.strike()
    until(lambda: all(h.ended is not None for h in clients.handles), "the end of all")
    drive(clients.restart([0, 1]))
    assert all(handle.ended is not None for handle in clients.handles)


def test_ending_ends_also_who_stands_still_and_its_guard(clients: LoadingClients) -> None:
    drive(clients.pause([0, 1]))
    guards = [handle._guard for handle in clients.handles]
    clients.end()
    assert all(handle.ended == -signal.SIGKILL for handle in clients.handles)
    assert all(guard is not None and guard.returncode is not None for guard in guards)


HARNESS = """
import sys, time
from pathlib import Path
from harness.clients import LoadingClients
from harness.cluster import ClientSlot
from harness.session import drive
from harness.store import Run
from harness.workers import WorkerHandle
folder, fake = sys.argv[1:]
clients = LoadingClients(
    Run(Path(folder)),
    [ClientSlot(slot=0), ClientSlot(slot=1)],
    lambda run, n: WorkerHandle(run, n, (sys.executable, fake)),
)
clients.launch()
drive(clients.pause([0]))
print(*(handle.pid for handle in clients.handles), clients.handles[0]._guard.pid, flush=True)
time.sleep(60)
"""


def test_nobody_is_left_standing_still_when_the_harness_is_killed(run: Run, fake: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(run.folder), str(fake)], stdout=subprocess.PIPE
    ) as harness:
        assert harness.stdout is not None
        pids = [int(word) for word in harness.stdout.readline().split()]
        assert len(pids) == 3
        until(lambda: state(pids[0]) == "T", "standing still")
        harness.kill()
    try:
        until(lambda: not any(map(state, pids)), "the end of both clients and of the guard")
    finally:
        for pid in filter(state, pids):
            os.kill(pid, signal.SIGKILL)


def test_nobody_is_left_standing_still_when_the_harness_dies_before_it_hears_the_guard() -> None:
    nobody, report = os.pipe()
    os.close(nobody)
    with (
        subprocess.Popen(["sleep", "60"]) as worker,
        subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "sh", str(worker.pid)],
            stdin=subprocess.DEVNULL,
            stdout=report,
            stderr=subprocess.DEVNULL,
        ) as guard,
    ):
        os.close(report)
        try:
            assert guard.wait(20) == 0
            until(lambda: state(worker.pid) == "S", "going on")
        finally:
            worker.kill()
