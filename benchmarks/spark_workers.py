"""What a second Spark worker brings: sealing and checking on a cluster here, with one worker and with two.

    python -m benchmarks.spark_workers [--messages 1000000] [--history FOLDER] [--workers 1 --workers 2]

A run folder with the journals of 8 producers and 8 consumers is written (no faults, no anomalies) and sealed
and checked by a standalone cluster whose workers have one core each. `--history`: check this sealed run, too,
for example one of `benchmarks.make_history`. Printed, one line a job: its wall time on the driver, from the
first task to the last answer, and the ratio to one worker; of a check also the time of its tasks alone,
without what the driver does after them. The sealed files have to be the same each time.

The machine needs a core for each worker and little else to do: the load before is printed.
"""

import argparse
import functools
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from checkers.api import check_history
from checkers.engine.engines import chosen
from core.client_settings import SessionSpec
from core.config import RunConfig
from core.op import End, Isolation, Outcome, Phase, Poll, Send, TopicPartition
from core.progress import ProgressStage
from harness.cli import spark_cluster
from history import events as ev
from history import journal as j
from history import jsonl
from history.reader import load
from history.run_folder import FORMAT, Run
from history.seal import seal
from history.tasks import Workers

T = TypeVar("T")
PROCESSES = 8
PER_OP = 4
PER_POLL = 500
PARTITIONS = 32


def record(folder: Path, messages: int) -> Run:
    """Journals of producers that send, and of consumers that read each partition once."""
    run = Run(folder)
    run.journal.mkdir(parents=True)
    run.config.write_text(RunConfig(seed=0).model_dump_json())
    started = ev.RunStarted(ns=0, wall="2026-01-01T00:00:00Z", run=run.name, versions={})
    run.events.write_bytes(jsonl.encode([started]))
    each = messages // PARTITIONS
    for process in range(PROCESSES):
        mine = range(process, PARTITIONS, PROCESSES)
        with (run.journal / f"{process}.jsonl").open("wb") as file:
            file.writelines(jsonl.encode([line]) for line in _producer(process, mine, each))
        with (run.journal / f"{process + PROCESSES}.jsonl").open("wb") as file:
            file.writelines(jsonl.encode([line]) for line in _consumer(process + PROCESSES, mine, each))
    return run


def _header(process: int, **spec: Any) -> j.Line:
    settings = SessionSpec(slot=process, process=process, **spec)
    return j.JournalHeader(format=FORMAT, run="run", process=process, slot=process, ns=0, spec=settings)


def _producer(process: int, partitions: range, each: int) -> Iterator[j.Line]:
    yield _header(process, acks=-1, idempotent=True)
    op = 0
    for offset in range(0, each, PER_OP):
        for partition in partitions:
            begin, tp = (op + 1) * 1_000_000, TopicPartition("t", partition)
            offsets = range(offset, min(offset + PER_OP, each))
            mops = tuple(Send(tp, at) for at in offsets)
            results = [(int(Outcome.OK), at, begin + 500_000, "") for at in offsets]
            yield j.Invoked(op, begin, Phase.FAULTS, "send", False, False, mops)
            yield j.SendResults(op, 0, begin, begin + 500_000, results)
            yield j.OpCompleted(op, begin + 600_000, Outcome.OK)
            op += 1
    yield j.Closed((op + 2) * 1_000_000, End.CLOSED)


def _consumer(process: int, partitions: range, each: int) -> Iterator[j.Line]:
    yield _header(process, isolation=Isolation.READ_COMMITTED)
    op, late = 0, 10**15
    for offset in range(0, each, PER_POLL):
        for partition in partitions:
            begin, offsets = late + op * 1_000_000, list(range(offset, min(offset + PER_POLL, each)))
            yield j.Invoked(op, begin, Phase.FAULTS, "poll", False, False, (Poll(),))
            run = ("t", partition, offsets, offsets, [0] * len(offsets))
            yield j.Polled(op, 0, begin, begin + 500_000, [run])
            yield j.OpCompleted(op, begin + 600_000, Outcome.OK)
            op += 1
    yield j.Closed(late + (op + 2) * 1_000_000, End.CLOSED)


def digest(run: Run) -> str:
    """Of all sealed files."""
    files = sorted(path for path in run.history.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Wall time in seconds, and the answer."""
    begin = time.perf_counter()
    found = work()
    return time.perf_counter() - begin, found


class Clocked:
    """These workers; the wall time of each of their jobs is added to the times."""

    def __init__(self, workers: Workers, times: list[float]) -> None:
        self.title, self.apart, self.scratch, self.done = workers.title, workers.apart, workers.scratch, 0
        self._workers, self._times = workers, times

    def map(self, stage: ProgressStage, work: Callable[[int], T]) -> list[T]:
        """See `Workers`."""
        seconds, answers = timed(lambda: self._workers.map(stage, work))
        self._times.append(seconds)
        return answers


def main() -> None:
    """Measure with each number of workers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--history", type=Path, action="append")
    parser.add_argument("--workers", type=int, action="append")
    options = parser.parse_args()
    first: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="inquest-workers-") as scratch:
        run = record(Path(scratch) / "run", options.messages)
        for workers in options.workers or [1, 2]:
            folder = Path(scratch) / f"cluster-{workers}"
            master = spark_cluster.start(folder, port=0, workers=workers, cores=1)
            load_before = os.getloadavg()[0]
            try:
                with chosen(run.folder, master=master) as choice:
                    on = choice.workers
                    on.map(ProgressStage(name="", tasks="", sizes=[1] * workers), range)
                    shutil.rmtree(run.history, ignore_errors=True)
                    spent = {"seal": timed(functools.partial(seal, run, on))[0]}
                    for judged in [run, *(Run(each) for each in options.history or ())]:
                        tasks: list[float] = []
                        name, clocked = f"check {judged.name}", Clocked(on, tasks)
                        spent[name], tally = timed(functools.partial(check_history, load(judged), clocked))
                        spent[f"{name}, tasks"] = sum(tasks)
                        assert not tally.crashed, tally.crashed
            finally:
                spark_cluster.stop(folder)
            for name, seconds in spent.items():
                ratio = first.setdefault(name, seconds) / seconds
                print(f"{workers} workers, load {load_before:.1f}: {name} {seconds:.1f} s, ratio {ratio:.2f}")
            print(f"  sealed files: {digest(run)}")


if __name__ == "__main__":
    main()
