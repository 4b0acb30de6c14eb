"""Sealing: journals and events of a run → the tables of its history, once.

Idempotent: a sealed run is left as it is. The tables appear as a whole or not at all: they are
written beside and renamed. Whatever was recorded is sealed, also of a run that was cut short:
an op without completion is indefinite, a final read that was never made is an incomplete one.

Not here: what the tables mean (`harness.history`), checking them (`checkers`).
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness import events as ev
from harness.history import CLUSTERED, TABLES
from harness.journal import JournalError
from harness.process_rows import read_journals
from harness.store import FORMAT, Run, write_atomically

UNIT_ROWS = 250_000
"""Partitions are put together into one unit until it has this many rows."""
ROW_GROUP = 1 << 20


class SealError(Exception):
    """The recording cannot be sealed; the message names the file and what is wrong with it."""


def seal(run: Run) -> None:
    """Write `history/` from `journal/` and `events.jsonl`.

    Raises: SealError (damaged recording), OSError (full disk); nothing is left half-written.
    """
    if run.names.exists():
        return
    try:
        events = ev.decode(run.events.read_bytes()) if run.events.exists() else []
    except ValueError as error:
        raise SealError(f"{run.events}: {error}") from None
    try:
        rows = read_journals(sorted(run.journal.glob("*.jsonl"), key=lambda p: int(p.stem)))
    except JournalError as error:
        raise SealError(str(error)) from None
    listed = [event for event in events if isinstance(event, ev.BoundsListed)]
    rows.add_bounds(listed[-1].rows if listed else ())
    started = next((event for event in events if isinstance(event, ev.RunStarted)), None)
    write_history(
        run,
        rows.tables(),
        names=rows.names(),
        start_ns=started.ns if started else 0,
        start_wall=started.wall if started else "",
    )


def write_history(
    run: Run,
    tables: dict[str, pa.Table],
    *,
    names: dict[str, list[str]],
    start_ns: int,
    start_wall: str,
) -> None:
    """Write sealed tables (any row order) as the files that `harness.history` describes.

    tables: one for each name of `TABLES`, with its schema. Replaces an existing history.
    """
    temporary = run.history.with_name(f".history-{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        units = write_clustered(temporary, tables["sends"], tables["reads"])
        for name, schema in TABLES.items():
            if name not in CLUSTERED:
                write_table(tables[name].cast(schema), temporary / f"{name}.parquet")
        meta: dict[str, Any] = {
            "format": FORMAT,
            "run": run.name,
            "start_ns": start_ns,
            "start_wall": start_wall,
            "units": units,
            **names,
        }
        write_atomically(temporary / "names.json", msgspec.json.encode(meta))
        shutil.rmtree(run.history, ignore_errors=True)
        os.replace(temporary, run.history)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_clustered(folder: Path, sends: pa.Table, reads: pa.Table) -> list[dict[str, Any]]:
    """Write sends and reads as units of whole partitions; the list of units, largest first."""
    for name in CLUSTERED:
        (folder / name).mkdir()
    sends = _sorted(sends, ("tp", "op", "pos")).cast(TABLES["sends"])
    reads = _sorted(reads, ("tp", "process", "op", "pos")).cast(TABLES["reads"])
    send_tp, read_tp = (t.column("tp").to_numpy() for t in (sends, reads))
    tps = np.union1d(send_tp, read_tp)
    counts = [
        (int(tp), *np.searchsorted(send_tp, (tp, tp + 1)), *np.searchsorted(read_tp, (tp, tp + 1)))
        for tp in tps
    ]
    units: list[dict[str, Any]] = []
    for group in _grouped(counts):
        name = f"{group[0][0]:05d}-{group[-1][0]:05d}"
        s0, s1, r0, r1 = group[0][1], group[-1][2], group[0][3], group[-1][4]
        write_table(sends.slice(s0, s1 - s0), folder / "sends" / f"{name}.parquet")
        write_table(reads.slice(r0, r1 - r0), folder / "reads" / f"{name}.parquet")
        unit = {"name": name, "tps": [g[0] for g in group]}
        units.append(unit | {"sends": int(s1 - s0), "reads": int(r1 - r0)})
    return sorted(units, key=lambda u: (-(u["sends"] + u["reads"]), u["name"]))


def _grouped(counts: Sequence[tuple[Any, ...]]) -> Iterable[list[tuple[Any, ...]]]:
    group: list[tuple[Any, ...]] = []
    size = 0
    for entry in counts:
        group.append(entry)
        size += int(entry[2] - entry[1] + entry[4] - entry[3])
        if size >= UNIT_ROWS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _sorted(table: pa.Table, keys: tuple[str, ...]) -> pa.Table:
    columns = [table.column(key).to_numpy() for key in reversed(keys)]
    order = np.lexsort(columns)
    if bool((order[1:] > order[:-1]).all()):
        return table.combine_chunks()
    return table.take(pa.array(order)).combine_chunks()


def write_table(table: pa.Table, path: Path) -> None:
    """One Parquet file: zstd, DELTA_BINARY_PACKED on int32 and int64 columns."""
    delta = {
        field.name: "DELTA_BINARY_PACKED"
        for field in table.schema
        if field.type in (pa.int32(), pa.int64())
    }
    others = [field.name for field in table.schema if field.name not in delta]
    pq.write_table(
        table,
        path,
        compression="zstd",
        use_dictionary=others or False,
        column_encoding=delta or None,
        row_group_size=ROW_GROUP,
    )
