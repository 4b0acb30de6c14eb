"""Portable histories (`checkers.recordings.portable`) as the tables of a sealed history.

An op becomes what an imported one becomes (`checkers.recordings.ops`), in memory. The n-th event happens at n
microseconds. There are no final reads (`bounds` is empty), commits or producer identities.

Not here: the verdict of a case (`checkers.api`), and recorded runs (`history.seal`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final

import pyarrow as pa

from checkers.recordings.cases import read
from checkers.recordings.ops import OpWriter
from checkers.recordings.portable import Name, PollMop, PortableOp
from checkers.recordings.recording import header, value_id
from core.client_settings import SessionSpec
from core.errors import HistoryError
from core.op import End, Isolation
from history import journal as j
from history.journal_rows import rows_of
from history.rows import Rows
from history.tables import ORDER

ALL: Final = -1
"""acks=all."""
TICK_NS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PortableTables:
    """One history. `ops[n]` is the op that the tables number n; `values` names the value ids.

    tables: as `history.tables` describes them, f: the names of kinds of ops in them; none where the case is
    of the kind `unit`, or cannot be judged: `error` says why.
    """

    name: str
    kind: str
    ops: tuple[PortableOp, ...]
    tables: dict[str, pa.Table]
    values: dict[int, Name]
    f: tuple[str, ...] = ()
    error: str = ""


def cases(path: Path) -> Iterator[PortableTables]:
    """The cases of a file, in order; those that cannot be judged have an `error`.

    Raises: HistoryError, where the file cannot be read or holds nothing.
    """
    for case in read(path):
        tables: dict[str, pa.Table] = {}
        values: dict[int, Name] = {}
        f: tuple[str, ...] = ()
        error = case.error
        if case.kind != "unit" and not error:
            try:
                values = _values(f"{path}: case {case.name!r}", case.ops)
                tables, f = _tables(case.ops)
            except HistoryError as refused:
                error = str(refused)
        yield PortableTables(
            name=case.name, kind=case.kind, ops=case.ops, tables=tables, values=values, f=f, error=error
        )


def _tables(ops: Sequence[PortableOp]) -> tuple[dict[str, pa.Table], tuple[str, ...]]:
    """The tables of a history without final reads, and the names of kinds of ops."""
    journals = _Journals()
    writer = OpWriter(journals, moved_by_groups=False)
    for op in sorted(ops, key=attrgetter("invoked_at")):
        ended = op.invoked_at if op.completed_at is None else op.completed_at
        writer.write(op, op.invoked_at * TICK_NS, ended * TICK_NS)
    rows = journals.rows()
    tables = rows.tables()
    in_order = {name: [(column, "ascending") for column in columns] for name, columns in ORDER.items()}
    in_place = {name: of.sort_by(in_order[name]) if name in in_order else of for name, of in tables.items()}
    return in_place, tuple(rows.f.names)


class _Journals:
    """Journals in memory, of processes that produce with acks=all and read committed."""

    def __init__(self) -> None:
        self.ops = 0
        self._lines: dict[int, list[j.Line]] = {}
        self._ends: dict[int, End] = {}

    def known(self, process: int) -> bool:
        """Whether it has a journal."""
        return process in self._lines

    def process(self, process: int, *, ns: int) -> None:
        """Begin the journal of a process."""
        spec = SessionSpec(
            slot=0, process=process, acks=ALL, idempotent=True, isolation=Isolation.READ_COMMITTED
        )
        self._lines[process] = [header("", spec, ns)]

    def write(self, process: int, *lines: j.Line) -> None:
        """Lines of a process, in order of time."""
        self._lines[process] += lines
        self.ops += sum(isinstance(line, j.Invoked) for line in lines)

    def ended(self, process: int, end: End) -> None:
        """How the process ended."""
        self._ends[process] = end

    def rows(self) -> Rows:
        """Of all of them."""
        return rows_of(
            (f"process {process}", [*lines, j.Closed(ns=lines[-1].ns, end=self._ends[process])])
            for process, lines in sorted(self._lines.items())
        )


def _values(where: str, ops: Iterable[PortableOp]) -> dict[int, Name]:
    """The values of a history by their numbers. Raises: HistoryError, where one is sent twice to a key."""
    values: dict[int, Name] = {}
    writer: dict[tuple[str, Name], PortableOp] = {}
    for op in ops:
        for mop in op.mops:
            if isinstance(mop, PollMop):
                values |= {value_id(name): name for some in mop.records.values() for _, name in some}
                continue
            key = (str(mop.key), mop.value[1] if isinstance(mop.value, tuple) else mop.value)
            if key in writer:
                raise HistoryError(
                    f"{where}: value {key[1]!r} of key {mop.key!r} is sent twice, by the ops invoked at "
                    f"history[{writer[key].invoked_at}] and history[{op.invoked_at}]; expected once"
                )
            writer[key] = op
            values[value_id(key[1])] = key[1]
    return values
