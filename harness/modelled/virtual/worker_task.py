"""A load client of a simulated run: a task that can be crashed and paused, and its journals in memory."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from core.client_settings import SessionSpec
from core.config import RunConfig
from core.runtime import Runtime
from harness.clients.database import Database
from harness.clients.worker import Died, Worker
from harness.clients.worker_protocol import ClientProgress, Command
from harness.modelled.virtual.cluster import SimulatedCluster
from harness.modelled.virtual.session import SimSession
from history import journal as j

T = TypeVar("T")


@dataclass(slots=True)
class Lines(Generic[T]):
    """A file of lines, in memory; the journal of a client that died takes none. Is a `JournalWriter`, and an
    `EventWriter` (`harness.run.program`) that never breaks."""

    lines: list[T] = field(default_factory=list)
    closed: bool = False
    broken: str = ""

    def write(self, line: T) -> None:
        """Append one line."""
        if not self.closed:
            self.lines.append(line)

    def close(self) -> None:
        """No more lines."""
        self.closed = True


class WorkerTask:
    """See `harness.clients.worker_protocol.WorkerHandle`; the host of its worker.

    journals: of all processes of the run, by number; takes those of this client. database: of the run.
    """

    def __init__(
        self,
        run: str,
        slot: int,
        config: RunConfig,
        runtime: Runtime,
        cluster: SimulatedCluster,
        journals: dict[int, Lines[j.Line]],
        database: Database | None = None,
    ) -> None:
        self.slot = slot
        self.condemned = False
        self.ended: int | None = None
        self._cluster = cluster
        self._journals = journals
        self._database = database
        self._journal: Lines[j.Line] | None = None
        self._session: SimSession | None = None
        self._paused = False
        self._worker = Worker(run, slot, config, runtime, self)
        runtime.spawn(f"client {slot}", self._serve())

    async def _serve(self) -> None:
        try:
            await self._worker.serve()
        except Died:
            return
        if self.ended is None:
            self.ended = 0

    # -- the host of the worker

    def connect(self, spec: SessionSpec) -> SimSession:
        """Open a session on the simulated cluster."""
        self._session = self._cluster.connect(spec)
        if self._paused:
            self._session.pause()
        return self._session

    def journal(self, header: j.JournalHeader) -> Lines[j.Line]:
        """Begin a journal."""
        self._journal = self._journals[header.process] = Lines[j.Line]([header])
        return self._journal

    def used(self, process: int) -> bool:
        """Whether the journal of this process exists."""
        return process in self._journals

    def database(self, config: RunConfig) -> Database | None:
        """That of the run; in memory, so all its clients have one connection."""
        return self._database

    def outside(self) -> tuple[Mapping[str, str], Path]:
        """No program of the user's can be in virtual time (`harness.compose` refuses such a run)."""
        raise AssertionError("a simulated run has no application")

    def die(self) -> None:
        """Neither the session nor the journal has an effect from now on."""
        if self.ended is not None:
            return
        self.ended = -signal.SIGKILL
        if self._session is not None:
            self._session.die()
        if self._journal is not None:
            self._journal.close()

    # -- the handle of the pool

    @property
    def progress(self) -> ClientProgress:
        """What it has done."""
        return self._worker.progress

    @property
    def heard_ns(self) -> int:
        """It has no process that could stand still."""
        return self._cluster.scheduler.ns

    def tell(self, command: Command) -> None:
        """Hand over a command; no error where the client has ended."""
        if self.ended is None:
            self._worker.take(command)

    def pause(self) -> None:
        """The client neither sends nor sees anything."""
        self._paused = True
        if self._session is not None:
            self._session.pause()

    def resume(self) -> None:
        """Continue, with everything that arrived meanwhile."""
        self._paused = False
        if self._session is not None:
            self._session.resume()

    def strike(self) -> None:
        """SIGKILL."""
        self._worker.die()

    def close(self) -> None:
        """Nothing is held."""

    def why_ended(self) -> str:
        """Its exit status; there are no last words."""
        return f"ended with status {self.ended}"

    def last_words(self) -> str:
        """There is no stderr."""
        return ""
