"""Clients die and stand still, from the command line to the verdict: none is left behind, none lost."""

import os
import signal
from pathlib import Path

import pytest

from core.config import RunConfig
from core.op import Phase
from harness.clients.pool import CRASH_S
from harness.processes import guard
from history import events as ev
from history import journal as j
from history.run_folder import Run
from tests.faults.command import Inquest, arguments, in_force, inquest, reached, the_run, verdict, workers_of
from tests.waiting import until
from workloads.registry import WORKLOADS

pytestmark = pytest.mark.faults

PACE = [
    "--duration", "4", "--set", "calm_s=0.5", "--set", "producers=2", "--set", "home_producers=0",
    "--set", "consumers=3",
]  # fmt: skip


def events(run: Run) -> list[ev.Event]:
    return ev.decode(run.events.read_bytes())


def journals(run: Run) -> dict[int, list[j.Line]]:
    return {int(path.stem): j.read(path) for path in run.journal.glob("*.jsonl")}


def opened(lines: list[j.Line]) -> j.JournalHeader:
    assert isinstance(lines[0], j.JournalHeader)
    return lines[0]


def last_processes(run: Run, slot: int, before_ns: int) -> list[list[j.Line]]:
    """Journals of a slot's processes that were opened before a time, newest last."""
    mine = [lines for lines in journals(run).values() if opened(lines).slot == slot]
    return sorted(
        (lines for lines in mine if opened(lines).ns < before_ns), key=lambda lines: opened(lines).ns
    )


def width(run: Run) -> int:
    """Distance of the process numbers of one slot: loading clients and two final readers."""
    config = RunConfig.model_validate_json(run.config.read_text())
    return len(WORKLOADS[config.workload].plans(config)) + 2


def polled(lines: list[j.Line]) -> bool:
    return any(isinstance(line, j.Polled) and line.runs for line in lines)


def open_op(lines: list[j.Line]) -> list[j.Line]:
    """What a cut-off journal holds of its open op, its invocation first."""
    starts = [at for at, line in enumerate(lines) if isinstance(line, j.Invoked)]
    return lines[starts[-1] :]


@pytest.mark.sampled(48)
@pytest.mark.parametrize(
    ("workload", "kind", "codes"),
    [
        ("queue", "crash", [0]),
        ("transactions", "crash-in-transaction", [0]),
        ("copier", "crash-before-commit", [0]),
        ("copier", "crash-after-commit", [0, 1]),  # at most once: records are lost there
    ],
)
def test_a_crashed_client_is_started_again_and_the_verdict_is_made(
    tmp_path: Path, workload: str, kind: str, codes: list[int]
) -> None:
    words = ["--workload", workload, "--nemesis", f"client:{kind}"]
    commit = ["--set", "commit=before"] if workload == "copier" else []
    ended = inquest(*arguments(tmp_path, *words, *commit, *PACE))
    assert ended.code in codes, ended
    run = the_run(tmp_path)
    assert run is not None
    assert verdict(run)["valid"] is (ended.code == 0)
    done = events(run)
    crashes = [event for event in done if isinstance(event, ev.FaultStarted)]
    assert crashes
    healed = {event.fault: event.ns for event in done if isinstance(event, ev.FaultHealed)}
    assert set(healed) == {crash.fault for crash in crashes}
    assert not [event for event in done if isinstance(event, ev.WorkerLost | ev.Note)]
    (recovery,) = [event for event in done if isinstance(event, ev.Recovered)]
    assert recovery.recovered
    for number, lines in journals(run).items():
        header = opened(lines)
        assert header.process == number  # each journal has one header: numbers are never used again
        assert [line for line in lines if isinstance(line, j.JournalHeader)] == [header]
        assert number % width(run) == header.slot
    for crash in crashes:
        (slot,) = crash.slots
        died = last_processes(run, slot, crash.ns)[-1]
        assert not isinstance(died[-1], j.Closed)
        assert died[-1].ns < crash.ns
        successors = last_processes(run, slot, healed[crash.fault] + 2**62)
        after = successors[successors.index(died) + 1]
        assert opened(after).ns > healed[crash.fault]
        assert any(isinstance(line, j.OpCompleted) for line in after)
        if crash.ns - crash.begin_ns < CRASH_S * 1e9:  # else it dies wherever it is then
            _died_where_meant(kind, died)


def _died_where_meant(kind: str, died: list[j.Line]) -> None:
    """What the journal shows of the point."""
    rest = open_op(died)
    invoked = rest[0]
    assert isinstance(invoked, j.Invoked)
    if kind == "crash-in-transaction":
        assert invoked.txn
        assert isinstance(rest[-1], j.SendResults | j.Polled)
        assert any(isinstance(line, j.SendResults) for line in rest)
    elif kind == "crash-before-commit":
        assert isinstance(rest[-1], j.Polled)
        assert polled(rest)
    elif kind == "crash-after-commit":
        assert isinstance(rest[-1], j.OffsetsCommitted)


@pytest.mark.sampled(10)
def test_a_paused_client_goes_on(tmp_path: Path) -> None:
    words = ["--workload", "transactions", "--nemesis", "client:pause"]
    shorter = ["--duration", "5", "--set", "transaction_timeout_s=1"]
    ended = inquest(*arguments(tmp_path, *words, *PACE, *shorter))
    assert ended.code == 0, ended
    run = the_run(tmp_path)
    assert run is not None
    done = events(run)
    (pause, *_) = [event for event in done if isinstance(event, ev.FaultStarted)]
    (heal, *_) = [event for event in done if isinstance(event, ev.FaultHealed)]
    assert not [event for event in done if isinstance(event, ev.WorkerLost | ev.Note)]
    (slot,) = pause.slots
    times = [line.ns for lines in last_processes(run, slot, 2**62) for line in lines]
    assert not [ns for ns in times if pause.ns < ns < heal.begin_ns]
    assert [ns for ns in times if ns > heal.begin_ns]


@pytest.mark.sampled(35)
def test_nobody_is_left_when_the_harness_is_killed_while_a_client_stands_still(tmp_path: Path) -> None:
    words = ["--nemesis", "client:pause", "--duration", "60"]
    command = Inquest(*arguments(tmp_path, *words))
    until(lambda: in_force(tmp_path), "a paused client")
    until(lambda: [pid for pid in workers_of(tmp_path) if guard.stopped(pid)], "it stands still")
    os.kill(command.process.pid, signal.SIGKILL)
    assert command.wait().code == -signal.SIGKILL
    until(lambda: not workers_of(tmp_path), "the end of all workers")


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", ["crash", "pause"])
def test_ctrl_c_starts_and_wakes_everybody_before_the_end(tmp_path: Path, kind: str) -> None:
    words = ["--nemesis", f"client:{kind}", "--duration", "60", "--set", "calm_s=0"]
    command = Inquest(*arguments(tmp_path, *words))
    run = until(lambda: in_force(tmp_path), "a fault in force")
    os.kill(command.process.pid, signal.SIGINT)
    ended = command.wait()
    assert ended.code == 130, ended
    done = events(run)
    started = {event.fault for event in done if isinstance(event, ev.FaultStarted)}
    assert {event.fault for event in done if isinstance(event, ev.FaultHealed)} == started
    assert not [event for event in done if isinstance(event, ev.WorkerLost)]
    assert not workers_of(tmp_path)
    assert verdict(run)["interrupted"] is True


@pytest.mark.sampled(48)
def test_a_client_that_dies_by_itself_is_lost_while_others_are_crashed(tmp_path: Path) -> None:
    command = Inquest(*arguments(tmp_path, "--nemesis", "client:crash", *PACE))
    until(lambda: reached(tmp_path, Phase.WARMUP), "the phase before the faults")
    pid = min(workers_of(tmp_path))
    slot = int(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[-2])
    os.kill(pid, signal.SIGKILL)
    ended = command.wait()
    assert ended.code == 0, ended
    run = the_run(tmp_path)
    assert run is not None
    lost = [event.slot for event in events(run) if isinstance(event, ev.WorkerLost)]
    assert lost == [slot]
