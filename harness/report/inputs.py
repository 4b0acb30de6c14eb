"""What a report is made from: the files of one run folder, as far as they are there.

Only the verdict is indispensable. Everything else that is missing or damaged becomes a sentence in
`gaps`, which the report shows, and what can be built is built.

Not here: what the numbers mean (`timeline`), how they look (`page`).
"""

from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from harness.events import Event, RunStarted, decode
from harness.history import OPEN, TABLES
from harness.report.records import Names, Sealed, sealed
from harness.store import Run
from harness.trace import Trace, TraceError
from harness.trace import decode as decode_trace
from harness.verdict import Verdict

VERDICT_FORMAT = 1
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class ReportError(Exception):
    """The report cannot be built. The message says what is missing and how to get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ops:
    """The ops of the run by column, one row an op. Times are seconds since the start of the run.

    The number of an op is its row. complete: infinite for an op that never completed. error: position
    in `errors`, -1 = none.
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
    """Everything that was read. `start_ns`: zero of all times (-1 unknown); `gaps`: what is not
    there, one sentence each; `ops`, `sealed` None: no history; `trace` None: not a simulated run."""

    verdict: Verdict
    events: list[Event]
    ops: Ops | None
    sealed: Sealed | None
    start_ns: int
    start_wall: str
    versions: dict[str, str]
    gaps: list[str]
    trace: Trace | None = None

    def seconds(self, ns: int) -> float:
        """Seconds since the start of the run."""
        return (ns - self.start_ns) / 1e9


def read(run: Run) -> Inputs:
    """Read the run folder.

    Raises: ReportError, where there is no verdict that can be read.
    """
    verdict = _verdict(run)
    gaps: list[str] = []
    events = _events(run, gaps)
    names = _names(run, gaps)
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    table = _ops_table(run, gaps)
    start_ns = names.start_ns if names else -1
    if start_ns < 0:
        start_ns = _start(started, events, table)
    return Inputs(
        verdict=verdict,
        events=events,
        ops=_ops(table, names, start_ns) if table is not None and names else None,
        sealed=sealed(run, names, start_ns, gaps) if names else None,
        start_ns=start_ns,
        start_wall=(names.start_wall if names else "") or (started.wall if started else ""),
        versions=dict(started.versions) if started else {},
        gaps=gaps,
        trace=_trace(run, verdict, gaps),
    )


def _verdict(run: Run) -> Verdict:
    if not run.folder.is_dir():
        raise ReportError(f"{run.folder}: no such run folder; `inquest run` makes one")
    check = f"inquest check {run.folder}"
    try:
        data = run.verdict.read_bytes()
    except FileNotFoundError:
        raise ReportError(f"{run.folder}: no verdict.json, {_progress(run, check)}") from None
    except OSError as error:
        raise ReportError(f"{run.verdict}: cannot be read ({error.strerror})") from None
    try:
        verdict = msgspec.json.decode(data, type=Verdict)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ReportError(
            f"{run.verdict}: not a verdict ({error}); `{check}` writes it again"
        ) from None
    if verdict.format > VERDICT_FORMAT:
        raise ReportError(
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


def _events(run: Run, gaps: list[str]) -> list[Event]:
    try:
        return decode(run.events.read_bytes())
    except FileNotFoundError:
        gaps.append("events.jsonl is missing: phases, roles and notes are not shown.")
    except OSError as error:
        gaps.append(f"events.jsonl cannot be read ({error.strerror}): phases, roles not shown.")
    except ValueError as error:
        gaps.append(f"{error}: phases, roles and notes are not shown.")
    return []


def _trace(run: Run, verdict: Verdict, gaps: list[str]) -> Trace | None:
    """The trace of a simulated run; other runs have none."""
    if verdict.config.get("sut") != "simulated":
        return None
    try:
        return decode_trace(run.trace.read_bytes())
    except FileNotFoundError:
        gaps.append("trace.jsonl is missing: messages and states of the nodes are not shown.")
    except OSError as error:
        gaps.append(f"trace.jsonl cannot be read ({error.strerror}): messages are not shown.")
    except TraceError as error:
        gaps.append(f"{error}: messages and states of the nodes are not shown.")
    return None


def _names(run: Run, gaps: list[str]) -> Names | None:
    try:
        return msgspec.json.decode(run.names.read_bytes(), type=Names)
    except FileNotFoundError:
        gaps.append("history/names.json is missing: nothing of the history is shown.")
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        gaps.append(
            f"history/names.json cannot be read ({error}): nothing of the history is shown."
        )
    return None


def _ops_table(run: Run, gaps: list[str]) -> pa.Table | None:
    path = run.table("ops")
    try:
        table = pq.read_table(path, columns=TABLES["ops"].names)
    except FileNotFoundError:
        gaps.append("history/ops.parquet is missing: throughput, latency, errors are not shown.")
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        gaps.append(
            f"history/ops.parquet cannot be read ({reason}): "
            "throughput, latency, errors are not shown."
        )
    else:
        if table.schema.equals(TABLES["ops"], check_metadata=False):
            return table
        gaps.append(
            "history/ops.parquet has other columns than this version writes: "
            "throughput, latency and errors are not shown."
        )
    return None


def _start(started: RunStarted | None, events: list[Event], table: pa.Table | None) -> int:
    if started:
        return started.ns
    if events:
        return min(event.ns for event in events)
    if table is not None and table.num_rows:
        return int(table["invoke_ns"].to_numpy().min())
    return -1


def _ops(table: pa.Table, names: Names, start_ns: int) -> Ops:
    def ints(column: str) -> Ints:
        return np.asarray(table[column].to_numpy(), dtype=np.int64)

    complete = ints("complete_ns")
    return Ops(
        f=ints("f"),
        process=ints("process"),
        txn=ints("txn"),
        outcome=ints("outcome"),
        deliberate=ints("deliberate"),
        error=ints("error"),
        n_sends=ints("n_sends"),
        n_reads=ints("n_reads"),
        invoke=(ints("invoke_ns") - start_ns) / 1e9,
        complete=np.where(complete == OPEN, np.inf, (complete - start_ns) / 1e9),
        names=names.f,
        errors=names.error,
    )
