"""Sealing in tasks: the tables of a large run, made in many processes.

    seal_in_tasks(run, workers)        # writes the files that `history.seal.seal` writes

First one task for each journal: it reads the journal, writes its sends and reads into scratch files, by
partition, and hands back the rest. The caller puts the rest together: that decides the final numbers of ops
and partitions, and which partitions make a unit. Then one task for each unit: it collects the rows of its
partitions from all scratch files and writes the unit. No message passes through the caller.

Tasks reach the run folder by its path or URL, and keep their scratch files in it until it is sealed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from core.errors import HistoryError
from core.progress import Stage
from history import storage
from history.reader import Unit
from history.rows import PLACED_BY, Appended, Numbers, Rows, Values, places, read_journals
from history.run_folder import Run
from history.seal import (
    Recorded,
    grouped,
    is_sealed,
    journals,
    largest_first,
    make_folders,
    published,
    write_others,
    write_unit,
)
from history.tables import CLUSTERED, TABLES
from history.tasks import Scratch, Workers, scratch_in

PIECE_ROWS: Final = 1_000_000
"""Sends and reads of a journal that its task has in memory, about."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One scratch file: rows of a table by partition. tps: the partition (in the numbers of its journal) of
    each batch of rows; counts: how many rows."""

    table: str
    path: str
    tps: Sequence[int]
    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class Part:
    """A journal that was read. rows: the file of its pickled `Rows`, without sends and reads, which are in
    pieces: a run of millions of ops is too large for the answer of a task."""

    rows: str
    pieces: Sequence[Piece]


@dataclass(frozen=True, slots=True)
class Placed:
    """A piece among those of all journals. tps: final numbers of its partitions; numbers: of its rows."""

    piece: Piece
    tps: Sequence[int]
    numbers: Numbers


def seal_in_tasks(run: Run, workers: Workers) -> None:
    """Seal a run with these workers. The caller has the rows of all tables but sends and reads in memory.

    Raises: HistoryError (damaged recording), OSError; nothing is left half-written.
    """
    if is_sealed(run):
        return
    recorded = Recorded.of(run)
    with published(run) as folder:
        make_folders(folder)
        with scratch_in(folder / "parts") as scratch:
            paths = journals(run)
            sizes = [path.stat().st_size for path in paths]
            reading = Stage(name="reading", tasks="journals", sizes=sizes, measure="bytes")
            parts = workers.map(reading, ReadJournal([*map(storage.shared, paths)], scratch))
            rows, placed = _joined(parts, recorded, scratch)
            counts = np.zeros(1 + max((tp for each in placed for tp in each.tps), default=-1), np.int64)
            for each in placed:
                np.add.at(counts, each.tps, each.piece.counts)
            made = list(grouped(counts))
            writing = Stage(name="sealing", tasks="units", sizes=[int(counts[tps].sum()) for tps in made])
            units = workers.map(writing, WriteUnit(made, placed, storage.shared(folder)))
        write_others(folder, rows.tables(), recorded.names(run, largest_first(units), rows.names()))


@dataclass(frozen=True, slots=True)
class ReadJournal:
    """Task: read one of these journals."""

    journals: Sequence[str]
    scratch: Scratch

    def __call__(self, number: int) -> Part:
        """Raises: HistoryError, OSError."""
        pieces: list[Piece] = []

        def spill(rows: Rows, least: int = 0) -> None:
            if rows.clustered >= (least or PIECE_ROWS):
                pieces.extend(self._written(rows, f"{number}-{len(pieces)}"))

        rows = read_journals([storage.location(self.journals[number])], spill)
        spill(rows, 1)
        return Part(self.scratch.write(f"{number}-rows", rows), pieces)

    def _written(self, rows: Rows, name: str) -> Iterable[Piece]:
        for table in CLUSTERED:
            taken = rows.empty(table)
            if not taken.rows:
                continue
            tps = taken.numpy("tp")
            order = np.argsort(tps, kind="stable")
            found, starts, counts = np.unique(tps[order], return_index=True, return_counts=True)
            path = storage.location(self.scratch.folder) / f"{name}-{table}.arrow"
            ordered = taken.table().take(pa.array(order)).combine_chunks()
            _write(
                path, [ordered.slice(*each) for each in zip(starts.tolist(), counts.tolist(), strict=True)]
            )
            yield Piece(table, storage.shared(path), found.tolist(), counts.tolist())


def _joined(parts: Sequence[Part], recorded: Recorded, scratch: Scratch) -> tuple[Rows, list[Placed]]:
    """The rows of all journals, and the pieces with final numbers."""
    rows = Rows()
    appended: list[tuple[Appended, Sequence[Piece]]] = []
    for part in parts:
        of_journal: Rows = scratch.read(part.rows)
        appended.append((rows.append(of_journal), part.pieces))
    rows.add_bounds(recorded.bounds)
    final = rows.final()
    placed: list[Placed] = []
    for at, pieces in appended:
        numbers = Numbers(final.ops[at.first_op : at.first_op + at.ops], final.tps[at.tps])
        placed += [Placed(piece, numbers.tps[list(piece.tps)].tolist(), numbers) for piece in pieces]
    return rows, placed


@dataclass(frozen=True, slots=True)
class WriteUnit:
    """Task: write one of these units. units: the partitions of each."""

    units: Sequence[list[int]]
    placed: Sequence[Placed]
    folder: str

    def __call__(self, number: int) -> Unit:
        """Raises: HistoryError, OSError."""
        wanted = set(self.units[number])
        rows = {name: self._rows(name, wanted) for name in CLUSTERED}
        by = {name: {each: _numpy(table, each) for each in PLACED_BY} for name, table in rows.items()}
        at = rows["sends"].schema.get_field_index("place")
        kind = rows["sends"].schema.field(at)
        placed = pa.array(places(by["sends"], by["reads"]), kind.type)
        sends = rows["sends"].set_column(at, kind, placed)
        return write_unit(storage.location(self.folder), self.units[number], sends, rows["reads"])

    def _rows(self, name: str, wanted: set[int]) -> pa.Table:
        """The rows of some partitions, with final numbers."""
        found = [TABLES[name].empty_table()]
        for each in self.placed:
            batches = [n for n, tp in enumerate(each.tps) if tp in wanted]
            if each.piece.table == name and batches:
                found.append(_renumbered(_read(each.piece.path, batches), each.numbers))
        return pa.concat_tables(found).combine_chunks()


def _renumbered(table: pa.Table, numbers: Numbers) -> pa.Table:
    given = {name: _numpy(table, name) for name in ("op", "tp", "src_tp") if name in table.column_names}
    for name, values in numbers.of(given).items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(values))
    return table


def _numpy(table: pa.Table, name: str) -> Values:
    column: Values = table.column(name).to_numpy()
    return column


def _write(path: Path, batches: Iterable[pa.Table]) -> None:
    """A scratch file with one batch for each table. Raises: OSError."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    writer: Any = None
    for table in batches:
        writer = writer or pa.ipc.new_file(sink, table.schema, options=options)
        for batch in table.to_batches():
            writer.write_batch(batch)
    writer.close()
    storage.write_whole(path, sink.getvalue().to_pybytes())


def _read(path: str, batches: Iterable[int]) -> pa.Table:
    """Some batches of a scratch file. Raises: HistoryError, OSError."""
    try:
        with storage.arrow_source(storage.location(path)) as source:
            reader = pa.ipc.open_file(source)
            return pa.Table.from_batches([reader.get_batch(number) for number in batches])
    except pa.ArrowException as error:
        raise HistoryError(f"{path}: {storage.line(error)}") from None
