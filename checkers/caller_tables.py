"""Tables of a caller → a sealed run folder, which the checks read as any other.

Not here: the schemas (`history.tables`).
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from core.config import RunConfig
from core.errors import HistoryError
from history import jsonl, values
from history.columns import columns, numbers
from history.events import Event, EvidenceTaken, RunStarted
from history.run_folder import Run, write_atomically
from history.seal import write_history
from history.tables import CLUSTERED, NAMES, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Tables = Mapping[str, "pa.Table | DataFrame"]
"""Table by its name in `history.tables.TABLES`."""

NEEDED: Final = ("tps", "processes", "ops", "sends", "reads")
"""Tables without which nothing can be judged. Of a table that is left out nothing is on record."""


@contextmanager
def run_of(
    tables: Tables,
    *,
    config: RunConfig | None = None,
    events: Sequence[Event] = (),
    names: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[Run]:
    """A temporary run folder with these tables as its history.

    tables: integer columns of any width that their values fit; further columns are left out. `ops`, `sends`
    and `reads` may have any row order, the others have the order of sealed ones. config: of the run; what
    Kafka permits depends on it. events: phases, faults, recovery, in order of time; what they do not say is
    unknown. names: the lists that codes in `f`, `error`, `group` and `txn_id` point into (none given:
    messages show the codes).

    Raises: HistoryError, where a needed table or column is missing, or a value does not fit its column, the
    other tables or `names`; OSError.
    """
    arrow = {name: _table(name, tables.get(name)) for name in TABLES}
    arrow["ops"] = _by_number(arrow["ops"])
    if unknown := sorted(tables.keys() - TABLES.keys()):
        raise HistoryError(f"unknown table {unknown[0]!r}; known: {', '.join(TABLES)}")
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    lists = {name: list((names or {}).get(name, ())) for name in NAMES}
    values.refuse(_odd(arrow, {name: known for name, known in lists.items() if known}))
    with tempfile.TemporaryDirectory(prefix="inquest-tables-") as folder:
        run = Run(Path(folder) / "tables")
        run.folder.mkdir()
        write_atomically(run.config, (config or RunConfig(seed=0)).model_dump_json())
        # no caller gives evidence
        theirs = [event for event in events if not isinstance(event, EvidenceTaken)]
        write_atomically(run.events, jsonl.encode(theirs))
        start_ns, start_wall = (started.ns, started.wall) if started else (0, "")
        write_history(run, arrow, names=lists, start_ns=start_ns, start_wall=start_wall)
        yield run


def _odd(tables: Mapping[str, pa.Table], names: Mapping[str, Sequence[str]]) -> Iterator[values.Bad]:
    """Values that contradict their schemas or each other, those first that others rely on."""
    yield from values.of_small(tables, names)
    limits = values.limits(tables["tps"].num_rows, tables["ops"].num_rows)
    ops = values.OpsOnRecord.of(tables)
    for table in CLUSTERED:
        rows = tables[table]
        yield from values.within(table, rows, limits[table])
        yield values.of_counts(tables, table, numbers(rows, "op"))
        yield from values.of_rows(table, columns(rows), ops)


def _table(name: str, given: "pa.Table | DataFrame | None") -> pa.Table:
    """A table with exactly the columns of its schema. Raises: HistoryError."""
    schema = TABLES[name]
    if given is None:
        if name in NEEDED:
            raise HistoryError(f"the table {name} is missing; needed: {', '.join(NEEDED)}")
        return schema.empty_table()
    if not isinstance(given, pa.Table) and not hasattr(given, "toArrow"):
        raise HistoryError(
            f"the table {name} is a {type(given).__name__}: an Arrow table, or a DataFrame of Spark"
        )
    table: pa.Table = given if isinstance(given, pa.Table) else given.toArrow()
    if doubled := [column for column in schema.names if table.column_names.count(column) > 1]:
        raise HistoryError(f"the table {name} has more than one column {doubled[0]}")
    if missing := [column for column in schema.names if column not in table.column_names]:
        kind = schema.field(missing[0]).type
        raise HistoryError(f"the table {name} lacks the column {missing[0]} ({kind})")
    for column in schema.names:
        if table.column(column).null_count:
            raise HistoryError(f"the table {name} has nulls in the column {column}; -1 stands for none")
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise HistoryError(f"the table {name}: {error}") from None


def _by_number(ops: pa.Table) -> pa.Table:
    """The ops in order of their numbers. Raises: HistoryError, where these are not 0, 1, 2 …"""
    ops = ops.sort_by("op")
    if not np.array_equal(numbers(ops, "op"), np.arange(ops.num_rows)):
        raise HistoryError("the table ops must number its ops 0, 1, 2 … by completion (history.tables)")
    return ops
