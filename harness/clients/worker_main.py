"""A worker: the operating-system process of one load client (`python -m
harness.clients.worker_main RUN SLOT`).

The run program starts it in a session of its own, with a pipe on stdin and one on stdout. Lines in: where
the cluster is, then commands. Lines out: `WorkerLine` every 250 ms. The end of stdin ends the worker at
once: its journal is whole up to the last line.

Exit status: 0 after a request to end; EX_CONFIG where the client refuses a setting, or a
program of the user's that is the client cannot be started; EX_PROTOCOL
where a broker of another cluster answered; EX_UNAVAILABLE where a program of the user's that is the client
is lost; EX_IOERR where the journal cannot be written; EX_SOFTWARE for any
other fault of the harness.
"""

import os
import pkgutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import msgspec

from core.client_settings import SessionSpec
from core.cluster import Endpoint
from core.config import RunConfig
from core.errors import ConfigError, WrongCluster
from core.runtime import run_blocking
from core.session import Session
from harness.clients.command.session import end_with_worker
from harness.clients.command.speaker import ClientLost
from harness.clients.database import Store, store_of
from harness.clients.worker import Worker
from harness.clients.worker_protocol import Command, WorkerLine
from harness.processes import guard
from harness.processes.parent import ignore_ctrl_c, tell
from harness.processes.real_time import RealRuntime
from history.journal import Journal, JournalHeader
from history.run_folder import Run

PROGRESS_S = 0.25


class ProcessHost:
    """This process: sessions at the endpoint, journals in the run folder."""

    def __init__(self, run: Run, endpoint: Endpoint) -> None:
        self._run = run
        self._args = endpoint.args
        self._factory = pkgutil.resolve_name(endpoint.factory)

    def connect(self, spec: SessionSpec) -> Session:
        """Open a session. Raises: ConfigError, where the client refuses a setting."""
        session: Session = self._factory(self._args, spec)
        return session

    def journal(self, header: JournalHeader) -> Journal:
        """Open the file."""
        return Journal(self._run.journal / f"{header.process}.jsonl", header)

    def used(self, process: int) -> bool:
        """Whether the file exists."""
        return (self._run.journal / f"{process}.jsonl").exists()

    def outside(self) -> tuple[Mapping[str, str], Path]:
        """The endpoint's, and a folder of the run. What is started outlives this process by nothing."""
        end_with_worker()
        return self._args, self._run.application

    def database(self, config: RunConfig) -> Store | None:
        """The file in the run folder."""
        return store_of(config, self._run)

    def die(self) -> None:
        """SIGKILL to this process and its group, which it leads: what it started dies with it."""
        guard.signal_to(os.getpid(), signal.SIGKILL)


def serve(run: Run, slot: int) -> None:
    """The whole life of the worker."""
    config = RunConfig.model_validate_json(run.config.read_text())
    first = sys.stdin.buffer.readline()
    if not first:
        return  # the parent ended before it said anything
    host = ProcessHost(run, msgspec.json.decode(first, type=Endpoint))
    worker = Worker(run.name, slot, config, RealRuntime(), host)
    threading.Thread(target=_take_commands, args=(worker,), daemon=True).start()
    threading.Thread(target=_report, args=(worker,), daemon=True).start()
    run_blocking(worker.serve())
    _emit(worker)


def _take_commands(worker: Worker) -> None:
    decoder = msgspec.json.Decoder(Command)
    for line in sys.stdin.buffer:
        worker.take(decoder.decode(line))
    os._exit(0)


def _report(worker: Worker) -> None:
    while True:
        time.sleep(PROGRESS_S)
        _emit(worker)


def _emit(worker: Worker) -> None:
    try:
        tell(WorkerLine(progress=worker.progress))
    except OSError:
        os._exit(0)  # the parent is gone


def main() -> None:
    """Entry point of a worker process."""
    ignore_ctrl_c()
    try:
        serve(Run(Path(sys.argv[1])), int(sys.argv[2]))
    except ConfigError as error:
        _end(os.EX_CONFIG, str(error))
    except WrongCluster as error:
        _end(os.EX_PROTOCOL, str(error))
    except ClientLost as error:
        _end(os.EX_UNAVAILABLE, str(error))
    except OSError as error:
        _end(os.EX_IOERR, f"journal: {error}")  # the run program knows it as a full disk
    except Exception:  # noqa: BLE001 - a client thread that does not end must not hide the failure
        _end(os.EX_SOFTWARE, traceback.format_exc())
    _end(0)


def _end(status: int, words: str = "") -> NoReturn:
    """End the process with its last words. A client thread that does not end must not hold it, and a log
    that cannot be written (it lies on the same full disk) must not take its status."""
    with suppress(OSError):
        if words:
            print(words, file=sys.stderr, flush=True)
    os._exit(status)


if __name__ == "__main__":
    main()
