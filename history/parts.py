"""The tables of a run in tasks: journals in, units out.

    rows, placed = read_parts(journals, bounds, workers, scratch)
    units = write_units(placed, folder, workers, scratch)

First one task for each journal: it reads the journal, leaves its sends and reads in the scratch, by
partition, and hands back the rest. The caller puts the rest together: that decides the final numbers of ops
and partitions, and which partitions make a unit. Then one task for each unit: it collects the rows of its
partitions from what all journals left, and writes the unit. No message passes through the caller.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from core.errors import HistoryError
from core.progress import ProgressStage
from history import storage
from history.columns import Array, arrow_array, numbers
from history.journal_rows import read_journals
from history.reader import Unit
from history.rows import PLACED_BY, Appended, Misfit, Numbers, Rows, places
from history.tables import CLUSTERED, TABLES
from history.tasks import Kept, Scratch, Workers
from history.units import grouped, largest_first, write_unit

PIECE_ROWS: Final = 1_000_000
"""Sends and reads of a journal that its task has in memory, about."""
RENUMBERED: Final = ("op", "tp", "src_tp")
"""Columns with numbers of ops or partitions."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a table, in the scratch (`Scratch.write_rows`), one piece there a partition. tps: the
    partitions, in the numbers of its journal; counts: how many rows of each."""

    table: str
    kept: Kept
    tps: Sequence[int]
    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class Part:
    """A journal that was read. rows: its `Rows` without sends and reads, in the scratch: a run of millions
    of ops is too large for the answer of a task. pieces: sends and reads."""

    rows: Kept
    pieces: Sequence[Piece]


@dataclass(frozen=True, slots=True)
class Placed:
    """A piece among those of all journals. tps: final numbers of its partitions; numbers: of its rows; None =
    the rows have them."""

    piece: Piece
    tps: Sequence[int]
    numbers: Numbers | None


def read_parts(
    journals: Sequence[Path],
    bounds: Iterable[tuple[str, int, int, int, int]],
    workers: Workers,
    scratch: Scratch,
) -> tuple[Rows, list[Placed]]:
    """The rows of all journals but sends and reads, and these. bounds: see `Rows.add_bounds`.

    Raises: HistoryError (a damaged journal), OSError, SparkError.
    """
    sizes = [path.stat().st_size for path in journals]
    stage = ProgressStage(name="reading", tasks="journals", sizes=sizes, measure="bytes")
    parts = workers.map(stage, ReadJournal([*map(storage.shared, journals)], scratch))
    rows = Rows()
    appended: list[tuple[Appended, Sequence[Piece]]] = []
    for path, part in zip(journals, parts, strict=True):
        of_journal: Rows = scratch.read(part.rows)
        try:
            appended.append((rows.append(of_journal), part.pieces))
        except Misfit as error:
            raise HistoryError(f"{path}: {error}") from None
    rows.add_bounds(bounds)
    final = rows.final()
    placed: list[Placed] = []
    for at, pieces in appended:
        its = Numbers(final.ops[at.first_op : at.first_op + at.ops], final.tps[at.tps])
        placed += [Placed(piece, its.tps[list(piece.tps)].tolist(), its) for piece in pieces]
    return rows, placed


def given(tables: Mapping[str, pa.Table], scratch: Scratch) -> list[Placed]:
    """The clustered ones of these tables, whose rows are in any order and have final numbers."""
    pieces = [piece for name in CLUSTERED for piece in _pieces(name, tables[name], scratch, "given")]
    return [Placed(piece, piece.tps, None) for piece in pieces]


def write_units(placed: Sequence[Placed], folder: Path, workers: Workers, scratch: Scratch) -> list[Unit]:
    """Write sends and reads as units of whole partitions; the list of units, largest first.

    Raises: HistoryError, OSError, SparkError.
    """
    for name in CLUSTERED:
        storage.make_folder(folder / name)
    counts = np.zeros(1 + max((tp for each in placed for tp in each.tps), default=-1), np.int64)
    for each in placed:
        np.add.at(counts, each.tps, each.piece.counts)
    units = list(grouped(counts))
    stage = ProgressStage(name="sealing", tasks="units", sizes=[int(counts[tps].sum()) for tps in units])
    return largest_first(workers.map(stage, WriteUnit(units, placed, storage.shared(folder), scratch)))


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
                for name in CLUSTERED:
                    where = f"{number}-{len(pieces)}"
                    pieces.extend(_pieces(name, rows.empty(name).table(), self.scratch, where))

        rows = read_journals([storage.location(self.journals[number])], spill)
        spill(rows, 1)
        return Part(self.scratch.write(f"{number}-rows", rows), pieces)


def _pieces(name: str, rows: pa.Table, scratch: Scratch, where: str) -> Iterable[Piece]:
    """The rows of a table as a piece; none where it has none."""
    if not rows.num_rows:
        return
    tps = numbers(rows, "tp")
    order = np.argsort(tps, kind="stable")
    found, counts = np.unique(tps[order], return_counts=True)
    ordered = rows.take(arrow_array(order, pa.int64()))
    kept = scratch.write_rows(f"{where}-{name}", ordered, counts.tolist())
    yield Piece(name, kept, found.tolist(), counts.tolist())


@dataclass(frozen=True, slots=True)
class WriteUnit:
    """Task: write one of these units. units: the partitions of each."""

    units: Sequence[list[int]]
    placed: Sequence[Placed]
    folder: str
    scratch: Scratch

    def __call__(self, number: int) -> Unit:
        """Raises: HistoryError, OSError."""
        wanted = set(self.units[number])
        rows = {name: self._rows(name, wanted) for name in CLUSTERED}
        if any(each.numbers for each in self.placed):
            by = [{each: numbers(rows[name], each) for each in PLACED_BY} for name in CLUSTERED]
            rows["sends"] = _with(rows["sends"], {"place": places(*by)})
        folder = storage.location(self.folder)
        return write_unit(folder, self.units[number], rows["sends"], rows["reads"])

    def _rows(self, name: str, wanted: set[int]) -> pa.Table:
        """The rows of some partitions, with final numbers."""
        found = [pa.Table.from_batches([], TABLES[name])]
        for each in self.placed:
            pieces = [at for at, tp in enumerate(each.tps) if tp in wanted]
            if each.piece.table == name and pieces:
                rows = self.scratch.read_rows(each.piece.kept, pieces)
                own = {one: numbers(rows, one) for one in RENUMBERED if one in rows.column_names}
                found.append(_with(rows, each.numbers.of(own)) if each.numbers else rows)
        return pa.concat_tables(found).combine_chunks()


def _with(table: pa.Table, columns: Mapping[str, Array]) -> pa.Table:
    """The table with these in the place of its columns."""
    for name, values in columns.items():
        at = table.schema.get_field_index(name)
        kind = table.schema.field(at)
        table = table.set_column(at, kind, arrow_array(values, kind.type))
    return table
