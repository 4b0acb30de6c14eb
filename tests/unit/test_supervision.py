"""Workers and signals: what a run does with them when something goes wrong."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from harness import cli, judging
from harness.client import Completion
from harness.cluster import CrashPoint, Endpoint
from harness.config import RunConfig
from harness.generator import Slot, source
from harness.interpreter import Interpreter
from harness.load import live
from harness.messages import Enter, Start
from harness.op import End, Op, Outcome, Phase
from harness.recorder import Interrupts, Recorder, recording
from harness.session import drive
from harness.store import Run
from harness.worker import Worker, unused
from harness.workers import WorkerHandle, wait_ended
from workloads import WORKLOADS


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path / "run")
    run.journal.mkdir(parents=True)
    run.config.write_text(RunConfig(seed=1).model_dump_json())
    return run


@pytest.fixture
def handle(run: Run) -> Iterator[WorkerHandle]:
    handle = WorkerHandle(run, 0)
    yield handle
    handle.kill()
    handle.close()


def test_striking_a_worker_needs_no_lock_that_an_interrupted_poll_may_hold(
    handle: WorkerHandle,
) -> None:
    with handle._process._waitpid_lock:  # type: ignore[attr-defined]
        handle.strike()
    assert wait_ended([handle], 10) == []
    assert handle.ended == -signal.SIGKILL
    handle.strike()  # one that is gone is no error


def test_a_second_signal_while_cleaning_up_raises_nothing() -> None:
    struck: list[int] = []
    with Interrupts() as interrupts:
        interrupts.second = lambda: struck.append(1)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert struck == [1]


def test_the_cluster_is_stopped_also_where_a_worker_cannot_be_ended() -> None:
    stopped: list[bool] = []

    def fail(*_: object) -> None:
        raise OSError("no")

    async def stop() -> None:
        stopped.append(True)

    anything: Any = SimpleNamespace(
        name="r", write=fail, stop=stop, immediate=True, kill=fail,
        slots=(), tps=(), duration_s=1.0, stage=lambda *_: None,
    )  # fmt: skip
    interpreter = Interpreter(
        run=anything,
        config=anything,
        cluster=anything,
        load=anything,
        nemesis=anything,
        recorder=anything,
        interrupts=anything,
        display=anything,
        versions={},
        wall=lambda: "",
        readers=[anything],
    )
    with pytest.raises(OSError, match="no"):
        interpreter.execute()
    assert stopped == [True]
    assert anything.immediate is False


def test_a_run_folder_tells_that_it_is_being_recorded(run: Run) -> None:
    assert not recording(run.events)
    recorder = Recorder(run.events)
    assert recording(run.events)
    with pytest.raises(typer.Exit) as refused:
        judging.existing(run.folder)
    assert refused.value.exit_code == judging.USAGE
    assert not run.history.exists()
    recorder.close()
    assert not recording(run.events)
    judging.existing(run.folder)
    assert run.history.exists()


def test_a_closed_output_is_no_verdict() -> None:
    def closed(**_: object) -> None:
        raise SystemExit(1)

    with pytest.raises(SystemExit) as ended:
        cli.main(closed)
    assert ended.value.code == judging.HARNESS_FAULT


class Invoked:
    """A client whose first op ends as told; the load stops after two."""

    def __init__(self, worker: Worker, first: Outcome) -> None:
        self.worker = worker
        self.outcomes = [first, Outcome.OK]

    async def invoke(self, op: Op) -> Completion:
        done = Completion(self.outcomes.pop(0))
        if not self.outcomes:
            self.worker.stopping.set()
        return done


@pytest.mark.parametrize(("first", "end"), [(Outcome.OK, End.CLOSED), (Outcome.FAIL, End.REPLACED)])
def test_a_producer_goes_on_only_where_every_partition_knows_it(
    run: Run, first: Outcome, end: End
) -> None:
    worker = Worker(run, 0)
    config = worker.config
    workload = WORKLOADS[config.workload]
    rng = source(1, 0, 0)
    slot = Slot(slot=0, process=0, tps=workload.tps(config), rng=rng)
    client: Any = Invoked(worker, first)
    ops = workload.ops(config, workload.plans(config)[0], slot)
    assert drive(live(client, ops, worker.clock, worker.stopping.is_set)) is end


def test_a_process_number_that_has_a_journal_is_never_used_again(run: Run) -> None:
    assert unused(run, 2, 9) == 2
    for process in (2, 11, 3, 21):
        (run.journal / f"{process}.jsonl").touch()
    assert unused(run, 2, 9) == 20
    assert unused(run, 3, 9) == 12
    assert unused(run, 0, 9) == 0


@pytest.mark.parametrize("ordered", [None, *CrashPoint])
def test_a_worker_dies_only_at_the_point_it_was_told(
    run: Run, ordered: CrashPoint | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    died: list[CrashPoint] = []
    worker = Worker(run, 0)
    worker.crash_at = ordered
    for point in CrashPoint:
        monkeypatch.setattr("harness.worker._die", lambda point=point: died.append(point))
        worker._at(point)
    assert died == ([ordered] if ordered else [])


def test_a_worker_whose_client_refuses_a_setting_says_so(run: Run) -> None:
    """The real worker and the real client library; no cluster is needed to refuse a setting."""
    settings = RunConfig(seed=1, client_settings={"producer.linger.mss": "1"})
    run.config.write_text(settings.model_dump_json())
    refused = WorkerHandle(run, 0)
    try:
        args = {"bootstrap": "127.0.0.1:1"}
        refused.tell(Start(Endpoint(factory="harness.cluster.session:connect", args=args), 9))
        refused.tell(Enter(Phase.WARMUP))
        assert wait_ended([refused], 30) == []
        assert refused.ended == os.EX_CONFIG
        assert "linger.mss" in refused.last_words()
    finally:
        refused.kill()
        refused.close()
