"""A worker: the operating-system process of one logical client (`python -m harness.worker RUN SLOT`).

Started by the interpreter in a session of its own, with a pipe on stdin and one on stdout. Lines in:
`Start` (first), then `Enter` at each change of phase, and `ReadFinal` for the two final readers.
Lines out: `Progress` every 250 ms. The end of stdin ends the worker at once: its journal is whole up
to the last line.

A worker lives through *processes* (incarnations) of its slot: after an indefinite op it closes its
clients and goes on under the next process number. One that is started after another was crashed goes
on with the first number that has no journal: numbers are never used again.

Exit status: 0 when it was told to end; EX_CONFIG where the client refuses a setting; EX_IOERR where the
journal cannot be written; EX_SOFTWARE for any other fault of the harness.

Not here: the client loop (`harness.client`), supervision (`harness.interpreter`).
"""

import importlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from harness.client import Client, Counters
from harness.cluster import CrashPoint, Endpoint
from harness.config import ConfigError, RunConfig
from harness.generator import Slot, source
from harness.journal import Journal, Opened
from harness.load import live, read_final
from harness.messages import Command, Crash, Enter, Progress, ReadFinal, Start
from harness.op import End, Isolation, Phase, TopicPartition
from harness.session import Session, SessionSpec, drive
from harness.store import FORMAT, Run
from workloads import WORKLOADS

PROGRESS_S = 0.25
REOPEN_S = 0.1
"""Pause before the next process of a slot: a client that fails at once must not spin."""


class WorkerClock:
    """Real time. Sleeping ends early when the load is to stop."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    async def sleep(self, seconds: float) -> None:
        """Blocks; in a worker nothing else runs in this thread."""
        if seconds > 0:
            self._stop.wait(seconds)


def connector(endpoint: Endpoint) -> Callable[[SessionSpec], Session]:
    """The function that opens sessions at an endpoint."""
    module, _, name = endpoint.factory.partition(":")
    factory = getattr(importlib.import_module(module), name)
    return lambda spec: factory(endpoint.args, spec)


class Worker:
    """One slot. `phase` and `crash_at` are set by the thread that reads commands."""

    def __init__(self, run: Run, slot: int) -> None:
        self.run = run
        self.slot = slot
        self.config = RunConfig.model_validate_json(run.config.read_text())
        self.workload = WORKLOADS[self.config.workload]
        self.phase = Phase.SETUP
        self.crash_at: CrashPoint | None = None
        self.begun = threading.Event()
        self.stopping = threading.Event()
        self.final: ReadFinal | None = None
        self.start: Start | None = None
        self.started = threading.Event()
        self.clock = WorkerClock(self.stopping)
        self.counters = Counters()

    def serve(self) -> None:
        """The whole life of the worker."""
        threading.Thread(target=self._commands, daemon=True).start()
        threading.Thread(target=self._report, daemon=True).start()
        self.started.wait()
        assert self.start is not None
        connect = connector(self.start.endpoint)
        plans = self.workload.plans(self.config)
        self.begun.wait()
        if self.slot < len(plans):
            self._load(plans[self.slot], connect)
        else:
            self._read_final(Isolation(self.slot - len(plans)), connect)
        self._emit()

    def _commands(self) -> None:
        decoder = msgspec.json.Decoder(Command)
        for line in sys.stdin.buffer:
            command = decoder.decode(line)
            match command:
                case Start():
                    self.start = command
                    self.started.set()
                case Enter(phase=phase):
                    self.phase = phase
                    if phase >= Phase.QUIESCE:
                        self.stopping.set()
                    if phase >= Phase.WARMUP and not self._is_final():
                        self.begun.set()
                case ReadFinal():
                    self.phase = Phase.FINAL
                    self.final = command
                    self.begun.set()
                case Crash(point=CrashPoint.ANYWHERE):
                    _die()
                case Crash(point=point):
                    self.crash_at = point
        os._exit(0)

    def _at(self, point: CrashPoint) -> None:
        """The client is at this point of its work."""
        if self.crash_at is point:
            _die()

    def _is_final(self) -> bool:
        return self.slot >= len(self.workload.plans(self.config))

    def _report(self) -> None:
        while True:
            time.sleep(PROGRESS_S)
            self._emit()

    def _emit(self) -> None:
        c = self.counters
        line = Progress(c.ok, c.fail, c.info, c.sent, c.acked, c.read, c.ok_invoked_ns, c.worked_ns)
        try:
            os.write(1, msgspec.json.encode(line) + b"\n")
        except OSError:
            os._exit(0)  # the parent is gone

    def _open(self, spec: SessionSpec, connect: Callable[[SessionSpec], Session]) -> Client:
        header = Opened(
            FORMAT, self.run.name, spec.process, spec.slot, self.clock.now_ns(), spec.as_json()
        )
        return Client(
            run=self.run.name,
            process=spec.process,
            session=connect(spec),
            journal=Journal(self.run.journal / f"{spec.process}.jsonl", header),
            clock=self.clock,
            phase=lambda: self.phase,
            record_size=self.config.record_size,
            isolation=spec.isolation,
            counters=self.counters,
            at=self._at,
            replication=self.config.replication_factor,
            topic_settings=self.config.settings_of_topics(),
        )

    def _load(self, plan: SessionSpec, connect: Callable[[SessionSpec], Session]) -> None:
        assert self.start is not None
        while not self.stopping.is_set():
            process = unused(self.run, self.slot, self.start.width)
            incarnation = (process - self.slot) // self.start.width
            spec = replace(plan, process=process)
            client = self._open(spec, connect)
            slot = Slot(
                slot=self.slot,
                process=process,
                tps=self.workload.tps(self.config),
                rng=source(self.config.seed, self.slot, incarnation),
            )
            ops = self.workload.ops(self.config, spec, slot)
            end = drive(live(client, ops, self.clock, self.stopping.is_set))
            drive(client.close(end))
            drive(self.clock.sleep(REOPEN_S))

    def _read_final(self, isolation: Isolation, connect: Callable[[SessionSpec], Session]) -> None:
        """Read every partition from its beginning up to the listed end, by a fresh consumer."""
        assert self.final is not None
        spec = SessionSpec(
            slot=self.slot,
            process=self.slot,
            isolation=isolation,
            report_end=True,
            deadline_s=self.config.verb_deadline_s,
        )
        ends = {TopicPartition(topic, p): end for topic, p, end in self.final.ends[isolation]}
        client = self._open(spec, connect)
        drive(read_final(client, ends, self.clock, self.config.final_deadline_s))
        drive(client.close(End.CLOSED))


def unused(run: Run, slot: int, width: int) -> int:
    """The first process number of a slot (slot, slot + width, …) that has no journal."""
    process = slot
    while (run.journal / f"{process}.jsonl").exists():
        process += width
    return process


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Entry point of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    try:
        Worker(Run(Path(sys.argv[1])), int(sys.argv[2])).serve()
    except ConfigError as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(os.EX_CONFIG)
    except OSError as error:
        print(f"journal: {error}", file=sys.stderr, flush=True)
        os._exit(os.EX_IOERR)  # the interpreter knows it as a full disk
    except Exception:  # noqa: BLE001 - a client thread that will not end must not hide the failure
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(os.EX_SOFTWARE)
    os._exit(0)  # a client thread that will not end must not hold the worker


if __name__ == "__main__":
    main()
