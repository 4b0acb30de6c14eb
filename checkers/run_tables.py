"""The tables of recorded runs as people ask them: words for codes, null for what is not known, seconds.

    for table in read("ops", Run(Path("results/latest"))): ...      # Arrow

Every row names its run. Times (`…_s`) are seconds since the run started. Of histories (`ops`, `sends`,
`reads`, …: `history.tables`) codes are the words that `names.json` and the enums of `core.op` have for them;
-1, an op that never completed and the start of a log that was deleted are null. `findings` are those that
were kept, `anomalies` the exact counts, `runs` one row a run with what its verdict and its configuration say;
`faults`, `events`. What brokers left on disk at the last look (`history.evidence`): `batches`, `markers`,
`transactions`, `log_offsets`.

Not here: Spark (`checkers.run_source`).
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.api import FINDINGS
from core.errors import HistoryError
from core.files import read_small
from core.op import Acknowledgement, AssignmentKind, CommitKind, End, Isolation, Outcome, Phase
from core.systems import UNRECORDED, UNTIMED, versions
from history import evidence_tables, storage
from history.reader import History, load
from history.run_folder import Run
from history.tables import FOREIGN_REASONS, GONE, NAMES, NO_PRODUCER, OPEN, TABLES, TableRow
from history.values import OUTSIDE
from history.verdict import Verdict

ENUMS: Final[Mapping[str, type[IntEnum]]] = {
    "outcome": Outcome,
    "op_outcome": Outcome,
    "phase": Phase,
    "isolation": Isolation,
}
"""Columns of histories -> the words for their codes."""
OF_TABLE: Final[Mapping[tuple[str, str], type[IntEnum]]] = {
    ("processes", "end"): End,
    ("commits", "kind"): CommitKind,
    ("acknowledgements", "kind"): Acknowledgement,
    ("assignments", "kind"): AssignmentKind,
}
"""The same, of columns of one table."""
ACKS: Final = {NO_PRODUCER: None, -1: "all", 0: "0", 1: "1"}
PLAIN_NUMBERS: Final = frozenset({"value", "op", "tp", "process"})
"""Columns in which a number is that number."""
TRUTHS: Final = frozenset({"txn", "deliberate", "idempotent", "auto_commit"})
TIME: Final = "_ns"
RUN: Final = pa.field("run", pa.string())

RUNS: Final = pa.schema(
    [
        RUN,
        *(pa.field(name, pa.string()) for name in (
            "started", "system", "version", "mutant", "workload", "nemesis", "preset", "valid", "result",
            "summary", "engine",
        )),
        *(pa.field(name, pa.int64()) for name in ("seed", "exit_code", "brokers")),
        pa.field("recovered", pa.bool_()),
        *(pa.field(name, pa.float64()) for name in ("duration_s", "recovery_s", "available", "under_faults")),
        *(pa.field(name, pa.int64()) for name in (
            "ops", "ok", "fail", "info", "sent", "acknowledged", "read",
        )),
    ]
)  # fmt: skip
ANOMALIES: Final = pa.schema(
    [
        RUN, pa.field("anomaly", pa.string()), pa.field("count", pa.int64()),
        pa.field("forbidden", pa.int64()), pa.field("known_bug", pa.string()), pa.field("why", pa.string()),
    ]
)  # fmt: skip
FAULTS: Final = pa.schema(
    [
        RUN, pa.field("fault", pa.int64()), pa.field("name", pa.string()), pa.field("family", pa.string()),
        pa.field("text", pa.string()), pa.field("nodes", pa.list_(pa.field("element", pa.int64()))),
        *(pa.field(name, pa.float64()) for name in (
            "begin_s", "end_s", "stalled_s", "recovered_s", "served",
        )),
        *(pa.field(name, pa.int64()) for name in ("records_hit", "transactions_hit", "failed", "in_doubt")),
    ]
)  # fmt: skip
EVENTS: Final = pa.schema(
    [RUN, pa.field("event", pa.string()), pa.field("at_s", pa.float64()), pa.field("body", pa.string())]
)
LOGS: Final = {
    "batches": "batches",
    "markers": "control",
    "transactions": "transaction_log",
    "log_offsets": "offset_log",
}
"""Table -> that of the evidence."""


def _history_schema(name: str) -> pa.Schema:
    fields = [RUN]
    if name != "tps" and "tp" in TABLES[name].names:
        fields += [pa.field("topic", pa.string()), pa.field("partition", pa.int32())]
    for field in TABLES[name]:
        column, kind = field.name, field.type
        words = _enum(name, column) or column in NAMES or column in ("acks", "reason")
        if column.endswith(TIME) or column == "ns":
            fields.append(pa.field(_time(column), pa.float64()))
        elif words:
            fields.append(pa.field(column, pa.string()))
        elif column in TRUTHS:
            fields.append(pa.field(column, pa.bool_()))
        else:
            fields.append(pa.field(column, kind))
        if column == "complete_ns" or column == "ack_ns":
            fields.append(pa.field("latency_s", pa.float64()))
    return pa.schema(fields)


def _enum(name: str, column: str) -> type[IntEnum] | None:
    return OF_TABLE.get((name, column)) or ENUMS.get(column)


def _time(column: str) -> str:
    return "at_s" if column == "ns" else f"{column.removesuffix(TIME)}_s"


def read(name: str, run: Run) -> Iterator[pa.Table]:
    """The rows of a table of one run, in some pieces; none where the run has no such file.

    Raises: HistoryError, where a file cannot be read.
    """
    yield from SOURCES[name](run, name)


# Histories --------------------------------------------------------------------------------------


def _of_history(run: Run, name: str) -> Iterator[pa.Table]:
    if not storage.is_there(run.names):
        return
    history, untimed = load(run), _imported(run) in UNTIMED
    if name in history.tables:
        yield _in_words(history, name, history.tables[name], untimed=untimed)
        return
    for unit in history.names.units:
        yield _in_words(history, name, history.of_unit(name, unit.name), untimed=untimed)


class _Imported(msgspec.Struct, frozen=True):
    format: str = ""


class _Kafka(msgspec.Struct, frozen=True):
    version: str = ""
    upgrade: str = ""


class _Model(msgspec.Struct, frozen=True):
    era: str = ""
    mutant: str = ""


class _Config(msgspec.Struct, frozen=True):
    """What these tables say of a config; settings of any version stand beside it."""

    sut: str | None = None
    workload: str | None = None
    nemesis: str | None = None
    preset: str | None = None
    seed: int | None = None
    brokers: int | None = None
    duration_s: float | None = None
    kafka: _Kafka | None = None
    simulated: _Model | None = None
    model: _Model | None = None
    imported: _Imported | None = None

    @property
    def version(self) -> str | None:
        """The versions of its brokers, where it had some that it started; of the model its era."""
        if (modelled := self.modelled) is not None:
            return modelled.era or None
        if self.sut != "kafka" or self.kafka is None or not self.kafka.version:
            return None
        return versions(self.kafka.version, self.kafka.upgrade)

    @property
    def modelled(self) -> _Model | None:
        """What the model of its system was; None = it was of no model."""
        return {"simulated": self.simulated, "model": self.model}.get(self.sut or "")


def _config(run: Run) -> _Config:
    """Of runs of other versions, too, whose settings this one does not know; empty where none can be read.
    Raises: HistoryError, where there is no config."""
    try:
        return msgspec.json.decode(read_small(run.config), type=_Config)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        _warn(f"{run.config}: {storage.line(error)}")
        return _Config()


def _imported(run: Run) -> str:
    """The format that the run was imported from; "" = it was not."""
    found = _config(run).imported
    return found.format if found is not None else ""


def _warn(why: str) -> None:
    """Say what cannot be read of one run, so that it has nulls or no rows where the others have theirs."""
    warnings.warn(f"not read: {why}", stacklevel=2)


def _in_words(history: History, name: str, rows: pa.Table, *, untimed: bool) -> pa.Table:
    columns: dict[str, pa.Array] = {"run": pa.array([history.run.name] * rows.num_rows, pa.string())}
    if name != "tps" and "tp" in rows.column_names:
        tps = history.tables["tps"]
        at = rows.column("tp").to_numpy()
        for each in ("topic", "partition"):
            columns[each] = _taken(tps.column(each).combine_chunks(), at)
    for column in TABLES[name].names:
        values = rows.column(column).combine_chunks()
        if column.endswith(TIME) or column == "ns":
            columns[_time(column)] = _seconds(values, history.names.start_ns)
            if untimed and column == "invoke_ns":
                columns["invoke_s"] = pa.nulls(rows.num_rows, pa.float64())
            if column in ("complete_ns", "ack_ns"):
                columns["latency_s"] = pc.subtract(columns[_time(column)], columns["invoke_s"])
        elif column in NAMES:
            columns[column] = _taken(pa.array(getattr(history.names, column), pa.string()), values.to_numpy())
        elif column == "acks":
            columns[column] = pa.array([ACKS.get(each) for each in values.to_pylist()], pa.string())
        elif column == "reason":
            columns[column] = _taken(pa.array(FOREIGN_REASONS), values.to_numpy())
        elif (kind := _enum(name, column)) is not None:
            columns[column] = _words(kind, values)
        elif column in TRUTHS:
            columns[column] = pc.equal(values, 1)
        elif (name, column) == ("bounds", "start"):
            columns[column] = _known(values, GONE)
        elif not pa.types.is_integer(values.type) or (
            column in PLAIN_NUMBERS and (name, column) not in OUTSIDE
        ):
            columns[column] = values
        else:
            columns[column] = _known(values)
    schema = SCHEMAS[name]
    return pa.Table.from_arrays([columns[each] for each in schema.names], schema=schema)


def _taken(words: pa.Array, codes: pa.ChunkedArray) -> pa.Array:
    known = np.asarray(codes) >= 0
    return words.take(pa.array(np.where(known, codes, 0), pa.int64(), mask=~known))


def _words(kind: type[IntEnum], values: pa.Array) -> pa.Array:
    words = {int(each): each.name.lower().replace("_", "-") for each in kind}
    codes, at = np.unique(values.to_numpy(), return_inverse=True)
    return pa.array([words[code] for code in codes.tolist()], pa.string()).take(pa.array(at))


def _known(values: pa.Array, *unknown: int) -> pa.Array:
    nothing = "" if pa.types.is_string(values.type) else -1
    missing = pc.is_in(values, pa.array([nothing, *unknown], values.type))
    return pc.if_else(missing, pa.scalar(None, values.type), values)


def _seconds(values: pa.Array, start_ns: int) -> pa.Array:
    ns = values.to_numpy()
    return pa.array((ns - start_ns) / 1e9, pa.float64(), mask=(ns < 0) | (ns == OPEN))


# Verdicts, events, logs -------------------------------------------------------------------------


def _verdict(run: Run) -> Verdict | None:
    if not storage.is_there(run.verdict):
        return None
    try:
        return msgspec.json.decode(storage.read_bytes(run.verdict), type=Verdict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        _warn(f"{run.verdict}: {storage.line(error)}")
        return None


def _runs(run: Run, _: str) -> Iterator[pa.Table]:
    config, verdict = _config(run), _verdict(run)
    started = next((event for event in _events(run) if event.get("event") == "run"), {})
    row: TableRow = {
        "run": run.name,
        "started": started.get("wall") or None,
        "system": config.sut,
        "version": config.version,
        "mutant": (config.modelled.mutant or None) if config.modelled is not None else None,
        "workload": config.workload,
        "nemesis": config.nemesis,
        "preset": config.preset,
        "seed": config.seed,
        "brokers": config.brokers,
        "duration_s": config.duration_s,
    }
    if config.imported is not None:
        row |= dict.fromkeys(UNRECORDED)
    if verdict is not None:
        stats = verdict.stats
        counts = {
            "ops": "ops", "ok": "ok", "fail": "fail", "info": "info", "sent": "records sent",
            "acknowledged": "records acknowledged", "read": "records read",
        }  # fmt: skip
        row |= {name: int(stats[of]) for name, of in counts.items() if of in stats}
        row |= {
            "valid": str(verdict.valid).lower(),
            "result": str(verdict.result),
            "exit_code": verdict.exit_code,
            "summary": verdict.summary,
            "engine": verdict.engine,
            "recovered": verdict.recovered,
            "recovery_s": verdict.recovery_s,
            "available": verdict.liveness.available,
            "under_faults": verdict.liveness.under_faults,
        }
    yield _table([row], RUNS)


def _anomalies(run: Run, _: str) -> Iterator[pa.Table]:
    verdict = _verdict(run)
    found = verdict.anomalies if verdict is not None else {}
    rows = [
        {
            "run": run.name, "anomaly": name, "count": one.count, "forbidden": one.disallowed,
            "known_bug": one.known_bug or None, "why": one.why,
        }
        for name, one in found.items()
    ]  # fmt: skip
    yield _table(rows, ANOMALIES)


def _faults(run: Run, _: str) -> Iterator[pa.Table]:
    verdict = _verdict(run)
    if verdict is None:
        return
    cost = {one.fault: one for one in verdict.liveness.faults}
    rows = []
    for fault in verdict.faults:
        row: TableRow = {
            "run": run.name, "fault": fault.fault, "name": fault.name, "family": fault.name.partition(":")[0],
            "text": fault.text, "nodes": fault.nodes, "begin_s": fault.begin_s, "end_s": fault.end_s,
        }  # fmt: skip
        if (lived := cost.get(fault.fault)) is not None:
            row |= {name: getattr(lived, name) for name in ("stalled_s", "recovered_s", "served")}
        if (hits := fault.hits) is not None:
            names = ("records_hit", "transactions_hit", "failed", "in_doubt")
            row |= {name: getattr(hits, name) for name in names}
        rows.append(row)
    yield _table(rows, FAULTS)


def _events(run: Run) -> list[TableRow]:
    if not storage.is_there(run.events):
        return []
    found = []
    for line in storage.read_bytes(run.events).splitlines():
        try:
            event = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            break  # the last line of a run that was cut short
        if isinstance(event, dict):
            found.append(event)
    return found


def _start_ns(events: Sequence[TableRow]) -> int:
    return next((event["ns"] for event in events if event.get("event") == "run"), 0)


def _event_rows(run: Run, _: str) -> Iterator[pa.Table]:
    events = _events(run)
    start = _start_ns(events)
    rows = [
        {
            "run": run.name,
            "event": str(event.get("event")),
            "at_s": (event["ns"] - start) / 1e9 if isinstance(event.get("ns"), int) else None,
            "body": msgspec.json.encode(event).decode(),
        }
        for event in events
    ]
    yield _table(rows, EVENTS)


def _findings(run: Run, _: str) -> Iterator[pa.Table]:
    if storage.is_there(run.anomalies):
        rows = _parquet(run.anomalies)
        if "found_by" not in rows.column_names:  # of an older version
            rows = rows.append_column("found_by", pa.nulls(rows.num_rows, pa.string()))
        columns = {name: rows.column(name).combine_chunks() for name in FINDINGS}
        made = {"at_s": _seconds(columns.pop("at_ns"), _start_ns(_events(run)))}
        for name, values in columns.items():
            plain = pa.types.is_string(values.type) or pa.types.is_integer(values.type)
            made[name] = _known(values) if plain else values
        yield _named(run, pa.table(made), SCHEMAS["findings"])


def _of_logs(run: Run, name: str) -> Iterator[pa.Table]:
    path = run.evidence / f"{LOGS[name]}.parquet"
    if storage.is_there(path):
        rows = _parquet(path)
        last = pc.equal(rows.column("take"), pc.max(rows.column("take"))) if rows.num_rows else None
        yield _named(run, rows.filter(last) if last is not None else rows, SCHEMAS[name])


def _parquet(path: Path) -> pa.Table:
    try:
        return storage.parquet_file(path).read()
    except (pa.ArrowException, OSError) as error:
        raise HistoryError(f"{path}: {storage.line(error)}") from None


def _named(run: Run, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    names = pa.array([run.name] * rows.num_rows, pa.string())
    return rows.add_column(0, RUN, names).select(schema.names).cast(schema)


def _table(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)


Source = Callable[[Run, str], Iterator[pa.Table]]
SOURCES: Final[Mapping[str, Source]] = {
    "runs": _runs,
    "anomalies": _anomalies,
    "findings": _findings,
    "faults": _faults,
    "events": _event_rows,
    **dict.fromkeys(TABLES, _of_history),
    **dict.fromkeys(LOGS, _of_logs),
}
"""Table -> what reads it of a run."""


def _log_schema(name: str) -> pa.Schema:
    fields = (field for field in evidence_tables.schema(LOGS[name]) if field.name != "take")
    return pa.schema([RUN, *(pa.field(field.name, _plain(field.type)) for field in fields)])


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type that other programs know: no dictionary, no unsigned number, lists as Spark names them."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type)))
    return pa.int64() if kind == pa.uint32() else kind


SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "runs": RUNS,
    "anomalies": ANOMALIES,
    "findings": pa.schema(
        [
            RUN,
            *(
                pa.field("at_s", pa.float64()) if name == "at_ns" else pa.field(name, _plain(kind))
                for name, (kind, _) in FINDINGS.items()
            ),
        ]
    ),
    "faults": FAULTS,
    "events": EVENTS,
    **{name: _history_schema(name) for name in TABLES},
    **{name: _log_schema(name) for name in LOGS},
}
"""Table -> its columns."""
