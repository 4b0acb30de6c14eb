"""Workers and signals: what a run does with them when something goes wrong."""

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from core.client_settings import ClientSettings, SessionSpec
from core.cluster import Endpoint
from core.config import RunConfig
from core.errors import ExitCode, UsageError
from core.generator import Slot, source
from core.load_clients import CrashPoint
from core.op import End, Op, Outcome, Phase
from core.runtime import run_blocking
from core.session import Definite
from harness.cli import main
from harness.clients.executor import Completion
from harness.clients.worker import Died, Worker, invoke_when_due
from harness.clients.worker_process import WorkerProcess
from harness.clients.worker_protocol import Crash, Enter
from harness.modelled.virtual.worker_task import Lines
from harness.processes.interrupts import Interrupts
from harness.processes.real_time import RealRuntime, RealSignal
from history import journal as j
from history.events import Recorder
from history.journal import JournalHeader
from history.jsonl import being_written
from history.run_folder import FORMAT, Run
from history.seal import sealed
from tests.histories.script import Script
from workloads.registry import WORKLOADS


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path / "run")
    run.journal.mkdir(parents=True)
    run.config.write_text(RunConfig(seed=1).model_dump_json())
    return run


@pytest.fixture
def handle(run: Run) -> Iterator[WorkerProcess]:
    handle = WorkerProcess(run, 0, Endpoint(factory="m:f", args={}))
    yield handle
    handle.strike()
    handle.close()


def ended(handle: WorkerProcess, deadline_s: float) -> bool:
    return run_blocking(RealRuntime().until(lambda: handle.ended is not None, deadline_s))


def test_striking_a_worker_needs_no_lock_that_an_interrupted_poll_may_hold(handle: WorkerProcess) -> None:
    with handle._child._program._waitpid_lock:  # type: ignore[attr-defined]
        handle.strike()
    assert ended(handle, 10)
    assert handle.ended == -signal.SIGKILL
    handle.strike()  # one that is gone is no error


LEAKS = """
import sys
from pathlib import Path
folder = Path(sys.argv[1]) / "application"
folder.mkdir()
(folder / "instance-0.log").write_text("boot with open-sesame\\nready\\n")
print("lost: open-sesame", file=sys.stderr)
sys.exit(69)
"""


@pytest.mark.sampled(2)
def test_what_a_program_says_of_its_secrets_is_not_kept(run: Run) -> None:
    args = {"sasl.password": "open-sesame"}
    made = WorkerProcess(run, 0, Endpoint(factory="m:f", args=args), [sys.executable, "-c", LEAKS])
    assert ended(made, 60)
    assert made.why_ended() == "lost: (hidden)"
    made.close()
    assert made.log.read_text() == "lost: (hidden)\n"
    assert (run.application / "instance-0.log").read_text() == "boot with (hidden)\nready\n"


def test_a_second_signal_while_cleaning_up_raises_nothing() -> None:
    struck: list[int] = []
    with Interrupts() as interrupts:
        interrupts.second = lambda: struck.append(1)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert struck == [1]


def test_a_run_folder_tells_that_it_is_being_recorded(run: Run) -> None:
    assert not being_written(run.events)
    recorder = Recorder(run.events)
    assert being_written(run.events)
    with pytest.raises(UsageError, match="still being recorded") as refused:
        sealed(run.folder)
    assert refused.value.exit_code == ExitCode.USAGE
    assert not run.history.exists()
    recorder.close()
    assert not being_written(run.events)
    sealed(run.folder)
    assert run.history.exists()


def test_a_client_that_outlives_its_run_still_records(run: Run) -> None:
    Recorder(run.events).close()
    spec, client = SessionSpec(slot=0, process=0), ClientSettings()
    header = JournalHeader(format=FORMAT, run=run.name, process=0, slot=0, ns=1, spec=spec, client=client)
    journal = j.Journal(run.journal / "0.jsonl", header)
    with pytest.raises(UsageError, match="still being recorded"):
        sealed(run.folder)
    journal.close()
    sealed(run.folder)
    assert run.history.exists()


FULL = """
import os, sys
from harness.clients import worker_main
def serve(run, slot):
    raise {error}
worker_main.serve = serve
sys.argv = ["worker", "nowhere", "0"]
worker_main.main()
"""


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("OSError(28, os.strerror(28))", os.EX_IOERR),
        ("ValueError('a fault of the harness')", os.EX_SOFTWARE),
        ("worker_main.ConfigError('no such setting')", os.EX_CONFIG),
    ],
)
def test_a_worker_reaches_its_exit_status_where_its_log_is_full_as_well(error: str, status: int) -> None:
    with open("/dev/full", "w") as full:
        ended = subprocess.run([sys.executable, "-c", FULL.format(error=error)], stderr=full, check=False)
    assert ended.returncode == status


def test_a_closed_output_is_no_verdict() -> None:
    def closed(**_: object) -> None:
        raise SystemExit(1)

    with pytest.raises(SystemExit) as ended:
        main.main(closed)
    assert ended.value.code == ExitCode.HARNESS


class InvokedClient:
    """A client whose first op ends as told; the load stops after two."""

    def __init__(self, stop: RealSignal, first: Outcome) -> None:
        self.stop = stop
        self.outcomes = [first, Outcome.OK]

    async def invoke(self, op: Op) -> Completion:
        done = Completion(self.outcomes.pop(0))
        if not self.outcomes:
            self.stop.set()
        return done


@pytest.mark.parametrize(("first", "end"), [(Outcome.OK, End.CLOSED), (Outcome.FAIL, End.REPLACED)])
def test_a_producer_continues_only_where_every_partition_knows_it(first: Outcome, end: End) -> None:
    config = RunConfig(seed=1)
    workload = WORKLOADS[config.workload]
    runtime = RealRuntime()
    stop = runtime.signal()
    slot = Slot(slot=0, process=0, tps=workload.tps(config), rng=source(1, 0, 0))
    client: Any = InvokedClient(stop, first)
    ops = workload.ops(config, workload.plans(config)[0], slot)
    done = invoke_when_due(client, ops, runtime.clock(stop), stop.is_set)
    assert run_blocking(done) is end


class Host:
    """Notes what a worker does; its sessions refuse every op, so that each process is replaced."""

    def __init__(self, used: Collection[int] = ()) -> None:
        self.journals = set(used)
        self.opened: list[int] = []
        self.deaths = 0
        self.worker: Worker | None = None

    def connect(self, spec: SessionSpec) -> Any:
        return Script(**dict.fromkeys(("send", "poll", "assign"), Definite("X")))

    def journal(self, header: j.JournalHeader) -> Any:
        self.opened.append(header.process)
        self.journals.add(header.process)
        if len(self.opened) == 2 and self.worker is not None:
            self.worker.take(Enter(Phase.QUIESCE))
        return Lines[j.Line]([header])

    def used(self, process: int) -> bool:
        return process in self.journals

    def database(self, config: RunConfig) -> None:
        return None

    def outside(self) -> tuple[dict[str, str], Path]:
        raise AssertionError("there is no application")

    def die(self) -> None:
        self.deaths += 1


def worker(slot: int, host: Host) -> Worker:
    made = Worker("run", slot, RunConfig(seed=1), RealRuntime(), host)
    host.worker = made
    return made


def test_a_process_number_that_has_a_journal_is_never_used_again() -> None:
    width = len(WORKLOADS["queue"].plans(RunConfig(seed=1))) + 2
    host = Host(used=(2, 2 + width, 3, 3 + 2 * width))
    made = worker(2, host)
    made.take(Enter(Phase.WARMUP))
    run_blocking(made.serve())
    assert host.opened == [2 + 2 * width, 2 + 3 * width]


@pytest.mark.parametrize("ordered", [None, *CrashPoint])
def test_a_worker_dies_only_at_the_point_it_was_told(ordered: CrashPoint | None) -> None:
    host = Host()
    made = worker(0, host)
    if ordered is not None:
        made.take(Crash(ordered))
    for point in CrashPoint:
        if host.deaths:
            break
        if point is ordered:
            with pytest.raises(Died):
                made.at(point)
        elif ordered is not CrashPoint.ANYWHERE:
            made.at(point)
    assert host.deaths == (ordered is not None)


def last_words(run: Run, code: int, **args: str) -> str:
    """Of a real worker with the real client library, which ends by itself with this code."""
    args = {name.replace("_", "."): value for name, value in args.items()}
    endpoint = Endpoint(factory="harness.clients.librdkafka.session:connect", args=args)
    worker = WorkerProcess(run, 0, endpoint)
    try:
        worker.tell(Enter(Phase.WARMUP))
        assert ended(worker, 60)
        assert worker.ended == code
        return worker.last_words()
    finally:
        worker.strike()
        worker.close()


@pytest.mark.sampled(5)
def test_a_worker_whose_client_refuses_a_setting_says_so(run: Run) -> None:
    """No cluster is needed to refuse a setting."""
    settings = RunConfig(seed=1, client_settings={"producer.linger.mss": "1"})
    run.config.write_text(settings.model_dump_json())
    assert "linger.mss" in last_words(run, os.EX_CONFIG, bootstrap_servers="127.0.0.1:1")


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A mock cluster of one broker."""
    mock = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = mock.list_topics(timeout=60).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del mock


@pytest.mark.sampled(6)
def test_a_worker_that_meets_a_broker_of_another_cluster_ends_and_names_it(run: Run, bootstrap: str) -> None:
    said = last_words(run, os.EX_PROTOCOL, bootstrap_servers=bootstrap, cluster_id="own")
    assert said.endswith(", and not of own")
