"""Sealing: journals and events of a run → the tables of its history, once.

    seal(run, workers)

Idempotent: `seal` leaves a sealed run as it is, unless its tables are of an older format. All tables appear
at once or none: `seal` writes them beside the final place and renames the folder; on a store it writes
names.json last. Where two processes of a machine seal one run, the second waits and finds it sealed. `seal`
takes whatever was recorded, also of a run that a crash cut short: an op without
completion is indefinite, and a final read that was never performed is an incomplete one.

Tasks reach the run folder by its path or URL, and their scratch lies in it until it is sealed; tasks in this
process keep what they have in memory.

Not here: what the tasks do (`history.parts`).
"""

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow as pa

from core.errors import HistoryError, UsageError
from history import events as ev
from history import storage
from history.journal import by_process
from history.jsonl import being_written
from history.parts import given, read_parts, write_units
from history.reader import Names, Unit, format_of, read_events
from history.recorded_files import refuse_reduced, refuse_special
from history.rows import NUMBERS
from history.run_folder import FORMAT, Run, write_atomically
from history.tables import CLUSTERED, NAMES, TABLES
from history.tasks import Here, Memory, Scratch, Workers, files_in
from history.units import write_table


def seal(run: Run, workers: Workers | None = None) -> None:
    """Write `history/` from `journal/` and `events.jsonl`. workers: None = this process. The caller has the
    rows of all tables but sends and reads in memory.

    Raises: HistoryError (nothing recorded yet, damaged recording), OSError (full disk), SparkError (a job
    that failed); nothing is left half-written.
    """
    if is_sealed(run):
        return
    with _alone(run):
        if not is_sealed(run):  # another process may have done it meanwhile
            _seal(run, workers or Here())


def _seal(run: Run, workers: Workers) -> None:
    recorded = SealedEvents.of(run)
    with published(run) as folder, _scratch(folder, workers) as scratch:
        rows, placed = read_parts(journals(run), recorded.bounds, workers, scratch)
        units = write_units(placed, folder, workers, scratch)
        write_others(folder, rows.tables(), recorded.names(run, units, rows.names()))


@contextmanager
def _alone(run: Run) -> Iterator[None]:
    """No other process of this machine seals the run meanwhile, and what a killed one left goes; a file
    system without locks, or a store, has none to keep it off."""
    if storage.remote(run.folder) is not None:
        yield
        return
    handle = os.open(run.folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
            storage.remove_unpublished(run.history)
            storage.remove_unpublished(run.evidence)  # who recorded the run has written it, or died
        yield
    finally:
        os.close(handle)


@contextmanager
def _scratch(folder: Path, workers: Workers) -> Iterator[Scratch]:
    if not workers.apart:
        yield Memory()
        return
    with files_in(folder / "parts") as scratch:
        yield scratch


@dataclass(frozen=True, slots=True)
class SealedEvents:
    """What sealing takes from the events: listed ends, and when the run started."""

    bounds: Sequence[tuple[str, int, int, int, int]] = ()
    start_ns: int = 0
    start_wall: str = ""

    @classmethod
    def of(cls, run: Run) -> "SealedEvents":
        """Read the events. Raises: HistoryError, also where there are none: nothing is recorded yet."""
        events = read_events(run)
        listed = [event for event in events if isinstance(event, ev.BoundsListed)]
        for topic, partition, isolation, start, end in listed[-1].rows if listed else ():
            possible = -1 <= end < 2**62 and -1 <= start <= (end if end >= 0 else 2**62)
            if not (0 <= partition < NUMBERS and isolation in (0, 1) and possible):
                row = f"{topic!r}, {partition}, {isolation}, {start}, {end}"
                raise HistoryError(f"{run.events}: no partition can have these bounds: {row}")
        started = next((event for event in events if isinstance(event, ev.RunStarted)), None)
        begun = (started.ns, started.wall) if started else (0, "")
        return cls(listed[-1].rows if listed else (), *begun)

    def names(self, run: Run, units: list[Unit], lists: Mapping[str, list[str]]) -> Names:
        """The content of `names.json`."""
        return Names(
            format=FORMAT,
            run=run.name,
            start_ns=self.start_ns,
            start_wall=self.start_wall,
            units=units,
            **{name: lists[name] for name in NAMES},
        )


def journals(run: Run) -> list[Path]:
    """The journals of a run, in the order of processes.

    Raises: HistoryError (a file that is not the journal of a process), OSError.
    """
    with storage.file_errors():
        return by_process(run.journal.glob("*.jsonl"))


def journals_listed(run: Run, ns: int) -> ev.JournalsListed:
    """The event that says which journals there are at the end of a run. Raises: see `journals`."""
    return ev.JournalsListed(ns=ns, processes=tuple(int(path.stem) for path in journals(run)))


def is_sealed(run: Run) -> bool:
    """Whether a run has its history; if not, its journals can be sealed. Tables of an older format are none
    where the journals are there.

    Raises: HistoryError (no such folder; a history that lost its names, and no journal to make it from),
    OSError.
    """
    with storage.file_errors():
        if not run.folder.is_dir():
            raise HistoryError(f"{run.folder}: no such run folder")
        if storage.is_there(run.names):
            return format_of(run) >= FORMAT or not journals(run)
        if run.history.is_dir() and not journals(run):
            raise HistoryError(f"{run.names}: No such file; without it {run.history} cannot be read")
    return False


def recorded(folder: Path) -> Run:
    """The run in a folder that nothing records any more.

    Raises: UsageError (not a run folder, one that is still being recorded or not yet, one that a soak
    reduced), HistoryError (it holds a link or a pipe), OSError.
    """
    found = Run(folder)
    if not storage.is_there(found.config):
        raise UsageError(f"{folder} is not a run folder (no config.json)")
    refuse_special(folder)
    refuse_reduced(found)
    if not storage.is_there(found.events):
        raise UsageError(f"{found.events}: No such file; nothing is recorded there, or not yet")
    # Journals that still grow do not fit together; a client may outlive its run (it stands still, say).
    if being_written(found.events) or any(map(being_written, journals(found))):
        raise UsageError(f"{folder} is still being recorded")
    return found


def sealed(folder: Path) -> Run:
    """The run in a folder; seals it, if nothing has yet.

    Raises: UsageError (not a run folder, or one that is still being recorded), HistoryError, OSError.
    """
    found = recorded(folder)
    seal(found)
    return found


def write_history(
    run: Run, tables: Mapping[str, pa.Table], *, names: dict[str, list[str]], start_ns: int, start_wall: str
) -> None:
    """Write sealed tables (any row order) as the files that `history.tables` describes.

    tables: one for each name of `TABLES`, with its schema. Replaces an existing history.
    """
    scratch = Memory()
    with published(run) as folder:
        units = write_units(given(tables, scratch), folder, Here(), scratch)
        write_others(folder, tables, SealedEvents((), start_ns, start_wall).names(run, units, names))


@contextmanager
def published(run: Run) -> Iterator[Path]:
    """A folder to write a history into: it appears as `history/` at the end, or not at all.

    Raises: OSError.
    """
    temporary = storage.beside(run.history)
    try:
        yield temporary
        storage.publish(temporary, run.history)
        if storage.remote(run.history) is None:  # late attempts know another path
            storage.remove_unfinished(run.history)
    except BaseException:
        storage.remove(temporary)
        raise


def write_others(folder: Path, tables: Mapping[str, pa.Table], names: Names) -> None:
    """Write the tables that are not clustered, and then `names.json`."""
    for name, schema in TABLES.items():
        if name not in CLUSTERED:
            write_table(tables[name].cast(schema), folder / f"{name}.parquet")
    write_atomically(folder / "names.json", msgspec.json.encode(names))
