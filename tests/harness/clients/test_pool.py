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

from core.cluster import Endpoint
from core.errors import ClusterError
from core.load_clients import Clients, ClientSlot, CrashPoint
from core.op import Isolation, Phase
from core.runtime import run_blocking
from harness.clients.pool import ClientPool, Loss
from harness.clients.worker_process import WorkerProcess
from harness.clients.worker_protocol import Enter
from harness.processes.real_time import RealRuntime
from history.run_folder import Run
from tests.processes import alive, state
from tests.waiting import until

FAKE = """
import json, os, signal, sys
folder, slot = sys.argv[1:]
heard = os.path.join(folder, f"heard-{slot}-{os.getpid()}")
print('{"progress": [3,0,0,5,5,0,%d,%d]}' % (os.getpid(), os.getpid()), flush=True)
for line in sys.stdin:
    with open(heard, "a") as file:
        file.write(line)
    command = json.loads(line)
    if command.get("command") == "crash" and command["point"] == "in-transaction":
        os.kill(os.getpid(), signal.SIGKILL)
    if command.get("command") == "crash" and command["point"] == "before-commit":
        sys.exit(70)
"""
ENDPOINT = Endpoint(factory="m:f", args={})


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


Pools = Callable[[float], ClientPool]


@pytest.fixture
def pools(run: Run, fake: Path) -> Iterator[Pools]:
    """Pools of two clients whose run has begun, by `crash_s`."""
    made: list[ClientPool] = []

    def pool(crash_s: float) -> ClientPool:
        slots = (ClientSlot(slot=0, produces=True), ClientSlot(slot=1, group="g"))
        program = (sys.executable, str(fake))
        made.append(
            ClientPool(
                slots,
                lambda slot: WorkerProcess(run, slot, ENDPOINT, program),
                RealRuntime(),
                crash_s=crash_s,
            )
        )
        made[-1].launch()
        made[-1].enter(Phase.WARMUP)
        made[-1].enter(Phase.FAULTS)
        return made[-1]

    yield pool
    for one in made:
        one.end()


@pytest.fixture
def clients(pools: Pools) -> ClientPool:
    """They have all the time that they need to get to a crash point."""
    return pools(60.0)


def process(clients: ClientPool, slot: int) -> WorkerProcess:
    handle = clients.handles[slot]
    assert isinstance(handle, WorkerProcess)
    return handle


def heard(run: Run, handle: WorkerProcess) -> list[dict[str, Any]]:
    path = run.folder / f"heard-{handle.slot}-{handle.pid}"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line) for line in lines]


def test_the_clients_of_a_run_are_what_nemeses_act_on(clients: ClientPool) -> None:
    assert isinstance(clients, Clients)
    assert [slot.group for slot in clients.slots] == ["", "g"]


def test_readers_that_are_lost_are_named_by_their_level(clients: ClientPool) -> None:
    """They follow the clients in the order of slots, and are none."""
    clients.launch_readers([Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED])
    one, _ = clients._readers
    assert isinstance(one, WorkerProcess)
    os.kill(one.pid, signal.SIGKILL)
    until(lambda: one.ended is not None, "the reader died")
    assert clients.losses() == [Loss(2, -9, "ended by SIGKILL", "", "read_uncommitted")]
    late = Loss(3, None, "did not end its reads in time and was killed", "", "read_committed")
    assert run_blocking(clients.read_final({}, 0.2)) == [late]


def test_a_client_dies_by_its_own_hand_at_its_point(pools: Pools) -> None:
    clients = pools(60.0)
    begin = time.monotonic()
    run_blocking(clients.crash([0], CrashPoint.IN_TRANSACTION))
    assert time.monotonic() - begin < 60
    assert clients.down == (0,)
    assert clients.handles[1].ended is None


def test_a_client_that_does_not_get_there_dies_where_it_is(pools: Pools) -> None:
    clients = pools(0.5)
    begin = time.monotonic()
    run_blocking(clients.crash([0, 1], CrashPoint.AFTER_COMMIT))
    assert time.monotonic() - begin >= 0.5
    assert clients.down == (0, 1)


def test_a_client_started_again_knows_the_cluster_and_the_phase(clients: ClientPool, run: Run) -> None:
    run_blocking(clients.crash([0], CrashPoint.IN_TRANSACTION))
    dead, other = process(clients, 0), process(clients, 1)
    clients.enter(Phase.HEAL)  # told while it is down
    run_blocking(clients.restart([0, 1]))
    fresh = process(clients, 0)
    assert fresh.pid != dead.pid
    assert clients.handles[1] is other  # it runs
    told = until(lambda: len(h := heard(run, fresh)) == 2 and h, "two commands")
    assert told == [msgspec.to_builtins(ENDPOINT), msgspec.to_builtins(Enter(Phase.HEAL))]
    assert clients.down == ()
    assert clients.losses() == []
    run_blocking(clients.restart([0]))
    assert clients.handles[0] is fresh


def test_what_clients_did_before_they_died_still_counts(clients: ClientPool) -> None:
    until(lambda: clients.progress().ok == 6, "both reports")
    before = [process(clients, slot).pid for slot in range(2)]
    run_blocking(clients.crash([0], CrashPoint.IN_TRANSACTION))
    run_blocking(clients.restart([0]))
    until(lambda: clients.progress().ok == 9, "the report of the new one")
    total = clients.progress()
    assert (total.sent, total.acked) == (15, 15)
    newest = max(*before, process(clients, 0).pid)
    assert (total.ok_invoked_ns, total.worked_ns) == (newest, newest)  # times are not added up


def test_a_client_that_died_by_itself_is_lost_and_stays_down(clients: ClientPool) -> None:
    os.kill(process(clients, 0).pid, signal.SIGKILL)
    until(lambda: clients.handles[0].ended is not None, "its end")
    assert [loss.slot for loss in clients.losses()] == [0]
    assert clients.losses() == []  # each is named once
    assert clients.down == ()
    for verb in (clients.pause, lambda slots: clients.crash(slots, CrashPoint.ANYWHERE)):
        with pytest.raises(ClusterError, match=r"clients \[0\] are not running"):
            run_blocking(verb([1, 0]))
    dead = clients.handles[0]
    run_blocking(clients.restart([0, 1]))
    assert clients.handles[0] is dead
    assert not clients.handles[1].condemned
    assert clients.handles[1].ended is None


def test_a_client_that_ends_in_order_before_it_was_asked_to_is_lost(clients: ClientPool) -> None:
    process(clients, 0)._child.end_input()  # that ends it, with status 0
    until(lambda: clients.handles[0].ended is not None, "its end")
    assert [(loss.slot, loss.status) for loss in clients.losses()] == [(0, 0)]
    clients.enter(Phase.QUIESCE)
    process(clients, 1)._child.end_input()
    until(lambda: clients.handles[1].ended is not None, "the end of the other one")
    assert clients.losses() == []


def test_a_client_that_does_not_stop_in_time_is_lost_and_the_run_goes_on(clients: ClientPool) -> None:
    os.kill(process(clients, 0).pid, signal.SIGSTOP)
    clients.enter(Phase.QUIESCE)
    late = run_blocking(clients.quiesce(0.2))
    assert [(loss.slot, loss.status) for loss in late] == [(0, None), (1, None)]
    clients.enter(Phase.FINAL)  # its pipe is closed
    assert clients.losses() == []


def test_a_client_that_stands_still_is_known_by_its_silence(clients: ClientPool) -> None:
    until(lambda: clients.progress().ok == 6, "both reports")
    now = time.monotonic_ns()
    assert clients.silent(now) == [0, 1]  # the programs of this test report once
    assert clients.silent(0) == []
    os.kill(process(clients, 0).pid, signal.SIGKILL)
    until(lambda: clients.handles[0].ended is not None, "its end")
    assert clients.silent(now) == [1]


def test_a_client_that_fails_instead_of_dying_is_lost(clients: ClientPool) -> None:
    run_blocking(clients.crash([0], CrashPoint.BEFORE_COMMIT))
    assert clients.handles[0].ended == 70
    assert [(loss.slot, loss.status) for loss in clients.losses()] == [(0, 70)]
    assert list(clients.working) == [1]
    assert clients.down == ()


def test_a_paused_client_stands_still_until_it_is_resumed(clients: ClientPool, run: Run) -> None:
    pid = process(clients, 0).pid
    until(lambda: len(heard(run, process(clients, 0))) == 3, "the commands before")
    run_blocking(clients.pause([0]))
    run_blocking(clients.pause([0]))  # no-op
    until(lambda: state(pid) == "T", "standing still")
    clients.enter(Phase.HEAL)  # it hears it when it goes on
    run_blocking(clients.resume([0, 1]))
    run_blocking(clients.resume([0]))
    until(lambda: state(pid) not in ("", "T", "Z"), "going on")
    until(lambda: len(heard(run, process(clients, 0))) == 4, "the command sent meanwhile")
    assert clients.down == ()


def test_a_paused_client_can_be_crashed_and_started_again(pools: Pools) -> None:
    clients = pools(0.2)
    run_blocking(clients.pause([0]))
    run_blocking(clients.crash([0], CrashPoint.IN_TRANSACTION))
    assert clients.down == (0,)
    run_blocking(clients.restart([0]))
    run_blocking(clients.resume([0]))
    assert clients.handles[0].ended is None
    assert state(process(clients, 0).pid) not in ("", "T")


def test_nobody_is_started_once_all_were_struck_or_ended(clients: ClientPool) -> None:
    run_blocking(clients.crash([0], CrashPoint.IN_TRANSACTION))
    clients.strike()
    until(lambda: all(h.ended is not None for h in clients.handles), "the end of all")
    run_blocking(clients.restart([0, 1]))
    assert all(handle.ended is not None for handle in clients.handles)


def test_ending_ends_also_who_stands_still_and_its_guard(clients: ClientPool) -> None:
    run_blocking(clients.pause([0, 1]))
    guards = [process(clients, slot).paused for slot in range(2)]
    clients.end()
    assert all(handle.ended == -signal.SIGKILL for handle in clients.handles)
    assert all(guard is not None and guard.ended is not None for guard in guards)


HARNESS = """
import sys, time
from pathlib import Path
from harness.clients.pool import ClientPool
from core.cluster import Endpoint
from core.load_clients import ClientSlot
from core.runtime import run_blocking
from harness.processes.real_time import RealRuntime
from history.run_folder import Run
from harness.clients.worker_process import WorkerProcess
folder, fake = sys.argv[1:]
endpoint = Endpoint(factory="m:f", args={})
clients = ClientPool(
    [ClientSlot(slot=0), ClientSlot(slot=1)],
    lambda n: WorkerProcess(Run(Path(folder)), n, endpoint, (sys.executable, fake)),
    RealRuntime(),
)
clients.launch()
run_blocking(clients.pause([0]))
print(*(handle.pid for handle in clients.handles), clients.handles[0].paused.pid, flush=True)
time.sleep(60)
"""


def test_nobody_is_left_standing_still_when_the_harness_is_killed(run: Run, fake: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(run.folder), str(fake)], stdout=subprocess.PIPE
    ) as harness:
        assert harness.stdout is not None
        try:
            pids = [int(word) for word in harness.stdout.readline().split()]
            assert len(pids) == 3
            until(lambda: state(pids[0]) == "T", "standing still")
        finally:
            harness.kill()
    try:
        until(lambda: not any(map(alive, pids)), "the end of both clients and of the guard")
    finally:
        for pid in filter(alive, pids):
            os.kill(pid, signal.SIGKILL)
