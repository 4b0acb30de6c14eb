"""Recordings of others as the journals of a run folder, which `history.seal` makes tables from.

    recording = Recording(run, config)
    recording.process(0, ns=0)
    recording.write(0, line)                 # lines of `history.journal`, in order for each process
    recording.refuse("FILE: line 7", "…")    # what could not be read
    recording.close(bounds)

What an import could not read is one event of `events.jsonl` that makes the recording not whole: its verdict
is unknown at best. Memory: a buffer of journal lines, whatever the size of the recording.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from core.client_settings import SessionSpec
from core.config import RunConfig
from core.op import End, Isolation
from history import events as ev
from history import journal as j
from history import jsonl
from history.run_folder import FORMAT, Run, write_atomically

BUFFER: Final = 1 << 24
"""Bytes of lines that are kept before they are written."""
REASONS: Final = 5
"""Reasons for what could not be read that the recording names; the others are counted."""
_HASHED: Final = 1 << 62
NEVER: Final = 1 << 62
"""A time after all others."""


def value_id(value: str | int) -> int:
    """The number of a value in the tables: itself for integers from 0 up to 2^62, else a hash of 62 bits
    above them. Numbers are compared within a partition only."""
    if isinstance(value, int) and 0 <= value < _HASHED:
        return value
    text = f"{type(value).__name__}:{value}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return _HASHED | int.from_bytes(digest, "big") % _HASHED


def header(run: str, spec: SessionSpec, ns: int) -> j.JournalHeader:
    """The first line of the journal of a process."""
    return j.JournalHeader(format=FORMAT, run=run, process=spec.process, slot=spec.slot, ns=ns, spec=spec)


class Recording:
    """Writes `journal/` and `events.jsonl` of a run folder that has its config."""

    def __init__(self, run: Run, config: RunConfig) -> None:
        self.run = run
        self.config = config
        self.refused = 0
        self.ops = 0
        self._reasons: list[str] = []
        self._buffers: dict[int, bytearray] = {}
        self._size = 0
        self._headed: set[int] = set()
        self._elsewhere = 0
        self.began_ns = NEVER
        """When the first op began: the start of the run, as far as it is on record."""
        self._last: dict[int, int] = {}
        self._ended: dict[int, End] = {}

    @property
    def processes(self) -> int:
        """How many processes have lines."""
        return len(self._headed) + self._elsewhere

    @property
    def reasons(self) -> list[str]:
        """The first reasons for what could not be read, each with its place."""
        return list(self._reasons)

    def refuse(self, where: str, why: str) -> None:
        """Something at this place could not be read."""
        self.refused += 1
        if len(self._reasons) < REASONS:
            self._reasons.append(f"{where}: {why}")

    def add(self, *, ops: int, processes: int, refused: int, reasons: Iterable[str], began_ns: int) -> None:
        """What others wrote into the journals of this run. reasons: the first ones, in order."""
        self.began_ns = min(self.began_ns, began_ns)
        self.ops += ops
        self._elsewhere += processes
        self.refused += refused
        self._reasons = [*self._reasons, *reasons][:REASONS]

    def process(
        self,
        process: int,
        *,
        ns: int,
        produces: bool = True,
        consumes: bool = True,
        acks: int | None = None,
        idempotent: bool | None = None,
        isolation: Isolation | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        slot: int | None = None,
    ) -> None:
        """Settings of a process, before its first line; None: as the config has it. slot: of its client; None
        = one of its own."""
        config = self.config
        spec = SessionSpec(
            slot=(process if slot is None else slot) % (1 << 15),
            process=process,
            acks=(config.acks if acks is None else acks) if produces else None,
            idempotent=produces and (config.idempotent if idempotent is None else idempotent),
            isolation=(config.isolation if isolation is None else isolation) if consumes else Isolation.NONE,
            group=group,
            transactional_id=transactional_id,
            report_end=True,
        )
        self._headed.add(process)
        self._last[process] = ns
        self._append(process, header(self.run.name, spec, ns))

    def known(self, process: int) -> bool:
        """Whether its settings were given."""
        return process in self._headed

    def write(self, process: int, *lines: j.Line) -> None:
        """Lines of a process whose settings were given, in order of time."""
        for line in lines:
            self._append(process, line)
            if isinstance(line, j.Invoked):
                self.ops += 1
                self.began_ns = min(self.began_ns, line.ns)
            if line.ns < NEVER:  # else when it happened is not on record
                self._last[process] = max(self._last.get(process, 0), line.ns)

    def ended(self, process: int, end: End) -> None:
        """How the process ended; CRASHED where nothing says it."""
        self._ended[process] = end

    def close(self, bounds: Iterable[tuple[str, int, int, int, int]] = ()) -> None:
        """Write everything. bounds: ends of partitions, as `history.events.BoundsListed` has them.

        Raises: OSError.
        """
        self.write_journals()
        rows = tuple(bounds)
        began = self.began_ns if self.ops else 0
        events: list[ev.Event] = [ev.RunStarted(ns=began, wall="", run=self.run.name, versions={})]
        if rows:
            events.append(ev.BoundsListed(ns=began, rows=rows, stable=True))
        if self.refused:
            more = f"; {self.refused} places in all" if self.refused > len(self._reasons) else ""
            text = f"the import could not read everything: {'; '.join(self._reasons)}{more}"
            events.append(ev.Note(ns=began, text=text, incomplete=True))
        write_atomically(self.run.events, jsonl.encode(events))

    def write_journals(self) -> None:
        """Write what is left of all journals. Raises: OSError."""
        for process, end in self._ended.items():
            self._append(process, j.Closed(ns=self._last.get(process, 0), end=end))
        self._flush()

    def _append(self, process: int, line: j.Line) -> None:
        encoded = jsonl.encode([line])
        self._buffers.setdefault(process, bytearray()).extend(encoded)
        self._size += len(encoded)
        if self._size >= BUFFER:
            self._flush()

    def _flush(self) -> None:
        for process, lines in self._buffers.items():
            with self._path(process).open("ab") as file:
                file.write(lines)
        self._buffers.clear()
        self._size = 0

    def _path(self, process: int) -> Path:
        return self.run.journal / f"{process}.jsonl"
