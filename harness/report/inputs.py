"""What a report is made from: the files of one run folder, as far as they can be read.

Only the verdict is indispensable. Each file that is missing or damaged becomes a sentence in `gaps`,
which the report shows; everything that the other files allow is still drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from core.errors import HistoryError
from core.systems import SYSTEMS
from history import storage
from history.columns import numbers
from history.events import Event, RunStarted
from history.evidence import Evidence
from history.reader import History, Names, read_events, read_names
from history.recorded_files import regular
from history.run_folder import Run
from history.tables import OPEN
from history.trace import Trace
from history.trace import decode as decode_trace
from history.unit_files import read_table
from history.verdict import VERDICT_FORMAT, Verdict

T = TypeVar("T")
Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
CLIENTS = ("tps", "processes", "bounds")
"""Tables that logs, transactions and clients need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpColumns:
    """The ops of the run by column; an op's number is its row.

    invoke, complete: seconds since the start of the run; `complete` is infinite for an op that never
    completed. error: position in `errors`, -1 = none.
    """

    f: Ints
    process: Ints
    txn: Ints
    outcome: Ints
    deliberate: Ints
    error: Ints
    n_sends: Ints
    n_reads: Ints
    invoke: Floats
    complete: Floats
    names: list[str]
    errors: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Everything that could be read.

    start_ns: zero of all times, -1 unknown. gaps: what could not be read, one sentence each. ops,
    history: None where the tables cannot be read. trace: of simulated runs only. evidence: None where it
    cannot be read.
    """

    run: Run
    verdict: Verdict
    events: list[Event]
    ops: OpColumns | None
    history: History | None
    start_ns: int
    start_wall: str
    versions: dict[str, str]
    gaps: list[str]
    trace: Trace | None = None
    evidence: Evidence | None = None

    def seconds(self, ns: int) -> float:
        """Seconds since the start of the run."""
        return (ns - self.start_ns) / 1e9

    def seconds_of_clock(self, ms: float) -> float:
        """Seconds since the start of the run, of a time by the clock of its brokers."""
        return (ms - self.start_ms) / 1e3

    @property
    def start_ms(self) -> float:
        """The start of the run by the clock of its brokers, in ms: that of the wall, or of the simulation."""
        return self.wall_ms if self.wall_ms is not None else self.start_ns / 1e6

    @property
    def wall_ms(self) -> float | None:
        """The start of the run by the wall clock, in ms since 1970; None where it is not on record."""
        try:
            return datetime.fromisoformat(self.start_wall).timestamp() * 1e3 if self.start_wall else None
        except ValueError:
            return None


def read(run: Run) -> Inputs:
    """Read the run folder.

    Raises: HistoryError where the verdict cannot be read.
    """
    verdict = read_verdict(run)
    gaps: list[str] = []

    def tried(reader: Callable[[], T], lost: str) -> T | None:
        """What a file holds; None, and a sentence with what the report lacks then, if it cannot be read."""
        try:
            return reader()
        except HistoryError as error:
            why = str(error).replace(f"{run.folder}/", "").removeprefix(f"{run.folder}: ")
            gaps.append(f"{why}; {lost} shown.")
            return None

    events = tried(lambda: read_events(run), "phases, roles and notes are not") or []
    names = tried(lambda: read_names(run), "nothing of the history is")
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    first = started.ns if started else min((event.ns for event in events), default=-1)
    tables: dict[str, pa.Table] = {}
    for name in (*CLIENTS, "ops") if names else ():
        lost = "throughput, latency, errors" if name == "ops" else "clients, logs, transactions"
        table = tried(partial(read_table, run.table(name), name), f"{lost} are not")
        if table is not None:
            tables[name] = table
    history = _history(run, names, tables, events, first) if names else None
    system = SYSTEMS.get(str(verdict.config.get("sut")))
    traced = system is not None and system.repeatable
    return Inputs(
        run=run,
        verdict=verdict,
        events=events,
        ops=op_columns(history) if history and "ops" in tables else None,
        history=history if tables.keys() >= set(CLIENTS) else None,
        start_ns=history.names.start_ns if history else first,
        start_wall=(names.start_wall if names else "") or (started.wall if started else ""),
        versions=dict(started.versions) if started else {},
        gaps=gaps,
        trace=tried(lambda: _trace(run), "messages and states of the nodes are not") if traced else None,
        evidence=tried(lambda: _evidence(run, events), "the brokers' logs around refused places are not"),
    )


def _evidence(run: Run, events: Sequence[Event]) -> Evidence:
    found = Evidence.recorded(run.evidence, events)
    if found.lacks:
        raise HistoryError(found.lacks)
    return found


def read_verdict(run: Run) -> Verdict:
    """The verdict of a checked run. Raises: HistoryError, with what to do."""
    if not storage.is_there(run.folder):
        raise HistoryError(f"{run.folder}: no such run folder; `inquest run` makes one")
    check = f"inquest check {run.folder}"
    try:
        data = regular(run.verdict).read_bytes()
    except FileNotFoundError:
        raise HistoryError(f"{run.folder}: no verdict.json, {_progress(run, check)}") from None
    except OSError as error:
        raise HistoryError(f"{run.verdict}: cannot be read ({error.strerror})") from None
    try:
        verdict = msgspec.json.decode(data, type=Verdict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        raise HistoryError(f"{run.verdict}: not a verdict ({why}); `{check}` writes it again") from None
    if verdict.format > VERDICT_FORMAT:
        raise HistoryError(
            f"{run.verdict}: format {verdict.format} is newer than this program "
            f"(format {VERDICT_FORMAT}); use the version that wrote it"
        )
    return verdict


def _progress(run: Run, check: str) -> str:
    """How far an unchecked run got, and the next step."""
    if run.names.is_file():
        return f"the run was recorded but not checked: `{check}` does it"
    if run.journal.is_dir() and any(run.journal.iterdir()):
        return f"the run was cut short before its history was sealed: `{check}` seals and checks it"
    if run.config.is_file():
        return "and nothing was recorded: the run ended before its first op; run it again"
    return "and none of the other files of a run: is this a run folder?"


def _trace(run: Run) -> Trace:
    try:
        return decode_trace(run.trace.read_bytes())
    except FileNotFoundError:
        raise HistoryError("trace.jsonl is missing") from None
    except OSError as error:
        raise HistoryError(f"trace.jsonl cannot be read ({error.strerror})") from None


def _history(run: Run, names: Names, tables: dict[str, pa.Table], events: list[Event], first: int) -> History:
    """The history with the tables that could be read. first: the first event, -1 unknown."""
    start_ns = names.start_ns if names.start_ns >= 0 else first
    if start_ns < 0 and "ops" in tables and tables["ops"].num_rows:
        start_ns = int(numbers(tables["ops"], "invoke_ns").min())
    names = msgspec.structs.replace(names, start_ns=start_ns)
    return History(run=run, names=names, tables=tables, events=events)


def op_columns(history: History) -> OpColumns:
    """The ops of a history; its table `ops` must be there."""
    table, since = history.tables["ops"], history.names.start_ns
    complete = numbers(table, "complete_ns")
    plain = ("f", "process", "txn", "outcome", "deliberate", "error", "n_sends", "n_reads")
    return OpColumns(
        **{name: numbers(table, name) for name in plain},
        invoke=(numbers(table, "invoke_ns") - since) / 1e9,
        complete=np.where(complete == OPEN, np.inf, (complete - since) / 1e9),
        names=history.names.f,
        errors=history.names.error,
    )
