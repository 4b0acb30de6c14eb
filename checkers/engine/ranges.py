"""Large partitions in ranges of offsets: which rows a range owns, and which rows of others it needs.

A range owns the reads at its offsets and the sends whose place lies there. (A send without a place was never
acknowledged with an offset, nor read; it belongs to some range.) Kernels run on a range as they run on a
partition: they see its own rows and *guests*, and report what own rows show. A range has these guests:

- the row before each of its own in program order, by the same process; of reads as many as were undone, too;
- all rows of a value that has rows in several ranges: a record that was written twice, or read elsewhere;
- sends that were acknowledged before a send to a lower range began;
- several copies of one input, where they lie in several ranges;
- the lowest send of each process, where transactional ids had several holders.

What a range alone cannot decide it leaves to the merge (`PartitionResult.pending`). Finding guests takes two
scans of a few columns: `scout` sees one range, `meet` puts the ranges of a partition together, `find` reads
the rows. Parquet's statistics show which row groups may hold rows of a range, and only these are read.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from checkers.engine.acknowledged import Acknowledged, above_each, acknowledged
from checkers.engine.findings import FINAL, NEVER, OK, Runs, offsets_of, runs
from checkers.engine.kernel_input import READS, SENDS, KernelInput
from checkers.engine.partition_view import Piece, Slots, among, distinct
from core.errors import HistoryError
from core.op import AssignmentKind
from history import storage
from history.columns import Array, Columns, columns
from history.run_folder import Run
from history.tables import TABLES
from history.unit_files import columns_of_groups

RANGE_ROWS: Final = 1 << 21
"""A partition with more rows is cut into ranges of about this number of rows."""
PLACE: Final = {"sends": "place", "reads": "offset"}


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets from `low` up to `high` (not included) of a partition: number `number` of `count`."""

    tp: int
    number: int
    count: int
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scouted:
    """What one range tells of itself. Rows are counted within the file of the unit.

    homeless: values that were read here, and not sent here. first, lowest: of each process (its position in
    the kernel input) its first send with a place here, and its lowest place (NEVER: none). values: its lowest
    value in the log here. first_ack: the earliest acknowledgement; first_placed: the earliest of a record
    that has a place; kept: the earliest of one that final reads showed here; invoked: the latest send with a
    place. acked: of the records that all in-sync replicas acknowledged here, where brokers flush by number.
    sources: inputs of copies made here, by partition.
    """

    homeless: Array
    first: Array
    lowest: Array
    values: Array
    first_ack: int
    first_placed: int
    kept: int
    invoked: int
    acked: Acknowledged
    sources: Mapping[int, Runs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """What a range learns from all ranges of its partition. rows: of guests, by table (`find`).

    values, sources: values, and inputs of copies, whose rows are guests; places: of sends that are guests.
    limit: sends here that were acknowledged before this moment are guests of lower ranges. older: of each
    process, whether it sent something before its first send here. lowest_values, first_ack: of the partition.
    kept_above: the earliest acknowledgement of a record that final reads showed in a higher range.
    acked_above: see `Piece`.
    """

    values: Array
    sources: Mapping[int, Array]
    places: Array
    limit: int
    older: Array
    lowest_values: Array
    first_ack: int
    kept_above: int
    acked_above: Acknowledged
    rows: Mapping[str, Columns] = field(default_factory=dict)


class UnitFile:
    """One table of a unit, by row groups. Raises: HistoryError."""

    def __init__(self, folder: Run, unit: str, table: str) -> None:
        self.table, self.path = table, folder.table(table) / f"{unit}.parquet"
        self.place = PLACE[table]
        with _refusing(self.path):
            self._file = storage.parquet_file(self.path)
        meta = self._file.metadata
        names = {name: n for n, name in enumerate(self._file.schema_arrow.names)}
        counts = [meta.row_group(n).num_rows for n in range(meta.num_row_groups)]
        self.starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        self._bounds = {name: _statistics(meta, names[name]) for name in ("tp", self.place)}
        self._unplaced = self._bounds[self.place][0] < 0
        self._hidden = self._unplaced.copy()

    def extent(self, tp: int) -> tuple[int, int]:
        """About the lowest and the highest place of a partition; -1 = none."""
        low, high = self._bounds[self.place][:, self._of(tp)]
        return int(low[low >= 0].min(initial=high.max(initial=-1))), int(high.max(initial=-1))

    def _of(self, tp: int) -> Array:
        low, high = self._bounds["tp"]
        return np.flatnonzero((low <= tp) & (high >= tp))

    def groups(self, of: Range) -> list[int]:
        """Row groups that may hold rows of a range."""
        mine = self._of(of.tp)
        low, high = self._extents(mine, of.low)
        may = (high >= of.low) & (low < of.high)
        unplaced = self._unplaced[mine] & (self._share(self.starts[mine], of) <= of.number)
        may |= unplaced & (self._share(self.starts[mine + 1] - 1, of) >= of.number)
        return list(mine[may].tolist())

    def _extents(self, groups: Array, above: int) -> Array:
        """The lowest and the highest place in each of these row groups, shape (2, n).

        A row without a place (-1) hides the lowest one from the statistics. Such a row group is looked into,
        if it has a place of `above` or more.
        """
        bounds = self._bounds[self.place]
        for group in groups[self._hidden[groups] & (bounds[1, groups] >= above)].tolist():
            place = self.read(group, (self.place,))[self.place]
            place = place[place >= 0]
            bounds[:, group] = place.min(initial=NEVER), place.max(initial=-1)
            self._hidden[group] = False
        return bounds[:, groups]

    def _share(self, rows: Array, of: Range) -> Array:
        """The range that each of these rows belongs to, where it has no place."""
        return rows * of.count // max(int(self.starts[-1]), 1)

    def read(self, group: int, names: Sequence[str]) -> dict[str, Array]:
        """Columns of a row group, and `row`."""
        with _refusing(self.path):
            rows = columns_of_groups(self._file, names, [group])
        return {**rows, "row": np.arange(*self.starts[group : group + 2])}

    def own(self, rows: Columns, of: Range) -> Array:
        """Which of these rows (columns tp, place, row) a range owns."""
        place = rows[self.place]
        mine = (place >= of.low) & (place < of.high)
        unplaced = self._share(rows["row"], of) == of.number
        return np.asarray((rows["tp"] == of.tp) & np.where(place >= 0, mine, unplaced))

    def rows(self, of: Range, names: Sequence[str]) -> dict[str, Array]:
        """Own rows, in the order of the file; and `row`."""
        wanted = tuple(dict.fromkeys(("tp", self.place, *names)))
        parts = []
        for group in self.groups(of):
            rows = self.read(group, wanted)
            parts.append(_some(rows, self.own(rows, of)))
        return self._together(parts, wanted)

    def at(self, numbers: Array, names: Sequence[str]) -> dict[str, Array]:
        """The rows with these numbers, which are sorted; and `row`."""
        groups = np.searchsorted(self.starts, numbers, side="right") - 1
        parts = []
        for group in distinct(groups).tolist():
            rows = self.read(group, names)
            parts.append(_some(rows, numbers[groups == group] - self.starts[group]))
        return self._together(parts, names)

    def _together(self, parts: list[dict[str, Array]], names: Sequence[str]) -> dict[str, Array]:
        """Parts one after the other; each column goes from the parts as it is put together."""
        empty = columns(TABLES[self.table].empty_table(), tuple(names)) | {"row": np.zeros(0, np.int64)}
        return {name: np.concatenate([empty[name], *(part.pop(name) for part in parts)]) for name in empty}


def _some(rows: Columns, which: Array) -> dict[str, Array]:
    """Some of these rows: flags, or positions."""
    return {name: column[which] for name, column in rows.items()}


@contextlib.contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """A damaged file becomes one error that names it."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"{path}: {storage.line(error)}") from None


def _statistics(meta: pq.FileMetaData, column: int) -> Array:
    """Lowest and highest value of a column in each row group, shape (2, n); any where none are on record."""
    found = np.empty((2, meta.num_row_groups), np.int64)
    for n in range(meta.num_row_groups):
        known = meta.row_group(n).column(column).statistics
        whole = known is None or not known.has_min_max
        found[:, n] = (-1, NEVER - 1) if whole else (known.min, known.max)
    return found


def cut(folder: Run, unit: str, tps: Iterable[int], rows: int) -> list[Range]:
    """The ranges of the partitions of a unit, of about equal numbers of offsets. rows: of the unit."""
    sends, reads = UnitFile(folder, unit, "sends"), UnitFile(folder, unit, "reads")
    found = []
    for tp in tps:
        extents = [file.extent(tp) for file in (sends, reads)]
        high = max(high for _, high in extents)
        low = min((low for low, _ in extents if low >= 0), default=-1)
        count = max(1, min(-(-rows // RANGE_ROWS), high - low + 1))
        inner = [low + (high - low + 1) * n // count for n in range(1, count)]
        for n, (begin, end) in enumerate(zip([0, *inner], [*inner, NEVER], strict=True)):
            found.append(Range(tp, n, count, begin, end))
    return found


def scout(folder: Run, unit: str, of: Range, known: KernelInput) -> Scouted:
    """What a range tells of itself. Raises: HistoryError."""
    names = ("process", "value", "offset", "invoke_ns", "ack_ns", "src_tp", "src_offset")
    sends = UnitFile(folder, unit, "sends").rows(of, names)
    reads = UnitFile(folder, unit, "reads").rows(of, ("value", "phase"))
    placed = np.flatnonzero(sends["place"] >= 0)
    slots = Slots(np.concatenate((sends["place"][placed], reads["offset"])))
    at = np.full(slots.size + 1, -1, np.int64)
    at[slots(sends["place"][placed])] = placed
    writer = at[slots(reads["offset"])]
    fits = (writer >= 0) & (np.append(sends["value"], -1)[writer] == reads["value"])
    odd = distinct(reads["value"][~fits])
    here = np.isin(sends["value"], odd)
    written = np.append(distinct(writer[fits]), np.flatnonzero(here))
    size, owner = len(known.processes), known.positions(sends["process"])
    first, lowest, values = (np.full(size, NEVER) for _ in range(3))
    np.minimum.at(first, owner[placed], sends["row"][placed])
    np.minimum.at(lowest, owner[placed], sends["place"][placed])
    np.minimum.at(values, owner[written], sends["value"][written])
    acks = sends["ack_ns"]
    copies = sends["src_offset"] >= 0
    return Scouted(
        homeless=odd[~np.isin(odd, sends["value"][here])],
        first=first,
        lowest=lowest,
        values=values,
        first_ack=int(acks[acks >= 0].min(initial=NEVER)),
        first_placed=int(acks[(acks >= 0) & (sends["place"] >= 0)].min(initial=NEVER)),
        kept=_kept(sends, reads, writer, fits),
        invoked=int(sends["invoke_ns"][placed].max(initial=-1)),
        acked=_acked(sends, of, known),
        sources={
            tp: runs(distinct(sends["src_offset"][copies & (sends["src_tp"] == tp)]))
            for tp in distinct(sends["src_tp"][copies]).tolist()
        },
    )


def _kept(sends: Columns, reads: Columns, writer: Array, fits: Array) -> int:
    """The earliest acknowledgement of a record that a final read returned at its place. writer, fits: of each
    read, a send with that place, and whether it is the one that was read."""
    final = reads["phase"] == FINAL
    acks = sends["ack_ns"][writer[final & fits]]
    earliest = int(acks[acks >= 0].min(initial=NEVER))
    for read in np.flatnonzero(final & ~fits).tolist():  # several sends claim its offset, or none: few
        same = (sends["place"] == reads["offset"][read]) & (sends["value"] == reads["value"][read])
        acks = sends["ack_ns"][same]
        earliest = min(earliest, int(acks[acks >= 0].min(initial=NEVER)))
    return earliest


def _acked(sends: Columns, of: Range, known: KernelInput) -> Acknowledged:
    """What lower ranges have to know of the records that all in-sync replicas acknowledged here."""
    windows = known.windows[of.tp]
    if not (windows.flushed_records and windows.any_power):
        return Acknowledged()
    every = acknowledged(sends, known.acks[known.positions(sends["process"])], windows)
    return every.some(of.low, windows.flushed_records)


def meet(tp: int, scouted: Sequence[Scouted], known: KernelInput) -> list[Met]:
    """What each range of a partition learns from all of them; given in order, and returned so."""
    values = distinct(np.concatenate([each.homeless for each in scouted]))
    seen: dict[int, list[Array]] = defaultdict(list)
    for each in scouted:
        for tp, found in each.sources.items():
            seen[tp].append(offsets_of(found))
    shared = {tp: _repeated(np.concatenate(parts)) for tp, parts in seen.items()}
    lowest = np.min([each.lowest for each in scouted], axis=0)
    lowest_values = np.min([each.values for each in scouted], axis=0)
    firsts = np.stack([each.first for each in scouted])
    above = np.minimum.accumulate([NEVER, *(each.kept for each in reversed(scouted))])[::-1][1:]
    acked = above_each([each.acked for each in scouted], known.windows[tp].flushed_records)
    met, limit = [], -1
    for number, each in enumerate(scouted):
        met.append(
            Met(
                values=values,
                sources={tp: offsets for tp, offsets in shared.items() if len(offsets)},
                places=np.zeros(0, np.int64) if known.tenure is None else distinct(lowest[lowest < NEVER]),
                limit=limit if each.first_placed < limit else -1,
                older=np.delete(firsts, number, axis=0).min(axis=0, initial=NEVER) < firsts[number],
                lowest_values=lowest_values,
                first_ack=min(each.first_ack for each in scouted),
                kept_above=int(above[number]),
                acked_above=acked[number],
            )
        )
        limit = max(limit, each.invoked)
    return met


def _repeated(values: Array) -> Array:
    ordered = np.sort(values)
    return distinct(ordered[1:][ordered[1:] == ordered[:-1]])


def guests_named(met: Met) -> bool:
    """Whether a range may have rows that are guests of others."""
    return bool(len(met.values) or met.sources or len(met.places) or met.limit >= 0)


def find(folder: Run, unit: str, of: Range, met: Met) -> dict[str, Columns]:
    """Rows of a range that are guests of others, by table: what kernels use, and `row`.

    Raises: HistoryError.
    """
    files = {name: UnitFile(folder, unit, name) for name in PLACE}
    sends = files["sends"].rows(of, ("value", "ack_ns", "src_tp", "src_offset"))
    wanted = np.isin(sends["value"], met.values) | np.isin(sends["place"], met.places)
    for tp, offsets in met.sources.items():
        wanted |= (sends["src_tp"] == tp) & np.isin(sends["src_offset"], offsets)
    early = np.flatnonzero((sends["place"] >= 0) & (sends["ack_ns"] >= 0) & (sends["ack_ns"] < met.limit))
    early = early[np.argsort(sends["ack_ns"][early], kind="stable")]
    highest = np.maximum.accumulate(sends["place"][early])
    wanted[early[np.append(True, highest[1:] > highest[:-1])[: len(early)]]] = True
    values = distinct(np.append(met.values, sends["value"][wanted]))
    reads = files["reads"].rows(of, ("value",))
    found = files["reads"].at(reads["row"][among(reads["value"], values)], READS)
    return {"sends": files["sends"].at(sends["row"][wanted], SENDS), "reads": found}


def piece(
    folder: Run, unit: str, of: Range, met: Met, known: KernelInput
) -> tuple[dict[str, Array], dict[str, Array], Piece]:
    """Sends and reads of a range with its guests, in the order of the tables. Raises: HistoryError."""
    files = {name: UnitFile(folder, unit, name) for name in PLACE}
    before = {
        "sends": files["sends"].at(_sends_before(files["sends"], of, met, known), SENDS),
        "reads": files["reads"].at(_reads_before(files["reads"], of, known), READS),
    }
    sends, own_sends = _with_guests(files["sends"].rows(of, SENDS), before["sends"], met.rows.get("sends"))
    reads, own_reads = _with_guests(files["reads"].rows(of, READS), before["reads"], met.rows.get("reads"))
    return (
        sends,
        reads,
        Piece(
            low=of.low,
            high=of.high,
            own_sends=own_sends,
            own_reads=own_reads,
            lowest_values=met.lowest_values,
            first_ack=met.first_ack,
            kept_above=met.kept_above,
            acked_above=met.acked_above,
        ),
    )


def _with_guests(own: dict[str, Array], *guests: Columns | None) -> tuple[dict[str, Array], Array]:
    """Own rows and guests in the order of the file, each once; flags: which are own."""
    parts = [own, *(some for some in guests if some is not None)]
    row = np.concatenate([part["row"] for part in parts])
    order = np.argsort(row, kind="stable")  # of several, an own one is first
    order = order[np.append(True, row[order[1:]] != row[order[:-1]])[: len(order)]]
    flags, names = order < len(own.pop("row")), tuple(own)
    further = parts[1:]  # and each own column goes as it is put together
    return {
        name: np.concatenate([own.pop(name), *(part[name] for part in further)])[order] for name in names
    }, flags


def _sends_before(file: UnitFile, of: Range, met: Met, known: KernelInput) -> Array:
    """The send with a place before each own one, by the same process: those that are not own. Sorted."""
    groups = file.groups(of)
    last, earlier = (np.full(len(known.processes), -1) for _ in range(2))
    last_own, missing = (np.zeros(len(known.processes), bool) for _ in range(2))
    found = []
    for group in range(groups[0], groups[-1] + 1) if groups else ():
        owner, row, own = _placed(file, group, of, known)
        order = np.argsort(owner, kind="stable")
        owner, row, own = owner[order], row[order], own[order]
        first = np.append(True, owner[1:] != owner[:-1])[: len(owner)]
        end = np.append(first[1:], True)[: len(owner)]
        before, before_own = np.append(-1, row)[:-1], np.append(False, own)[:-1]
        before[first], before_own[first] = last[owner[first]], last_own[owner[first]]
        found.append(before[own & ~before_own & (before >= 0)])
        missing[owner[own & (before < 0)]] = True
        last[owner[end]], last_own[owner[end]] = row[end], own[end]
    missing &= met.older
    for group in reversed(range(groups[0] if groups else 0)):
        if not missing.any():
            break
        owner, row, _ = _placed(file, group, of, known)
        there = missing[owner]
        earlier[owner[there]] = row[there]  # of several, the last one
        missing[owner[there]] = False
    return distinct(np.concatenate([*found, earlier[earlier >= 0]]))


def _placed(file: UnitFile, group: int, of: Range, known: KernelInput) -> tuple[Array, Array, Array]:
    """Sends of a row group that have a place in the partition of a range: the position of their process in
    the kernel input, their row, and whether they are own."""
    rows = file.read(group, ("tp", "process", "place"))
    kept = (rows["tp"] == of.tp) & (rows["place"] >= 0)
    return known.positions(rows["process"][kept]), rows["row"][kept], file.own(rows, of)[kept]


def _reads_before(file: UnitFile, of: Range, known: KernelInput) -> Array:
    """Before each run of own reads: the last read of the same process that stands, and those after it."""
    names = ("tp", "process", "op", "op_outcome")
    own = file.rows(of, ())["row"]
    entries = own[np.append(True, own[1:] != own[:-1] + 1)[: len(own)]]
    changes = known.assignments.get(of.tp)
    rewound = set()
    if changes is not None:
        rewound = set(changes["op"][changes["kind"] == AssignmentKind.REWIND].tolist())
    cached: dict[int, dict[str, Array]] = {}

    def at(number: int) -> tuple[tuple[int, int], bool]:
        group = int(np.searchsorted(file.starts, number, side="right")) - 1
        if group not in cached:
            if len(cached) > 8:
                cached.clear()
            cached[group] = file.read(group, names)
        tp, process, op, outcome = (int(cached[group][n][number - file.starts[group]]) for n in names)
        return (tp, process), outcome != OK and op in rewound

    found: list[int] = []
    for entry in entries.tolist():
        mine, undone = at(entry)[0], True
        while undone and entry > 0:
            entry -= 1
            whose, undone = at(entry)
            if whose != mine:
                break
            found.append(entry)
    return distinct(np.array(found, np.int64))


def merged_guests(found: Iterator[Mapping[str, Columns]]) -> dict[str, Columns]:
    """The guests that the ranges of a partition found, by table."""
    parts = list(found)
    return {
        table: {name: np.concatenate([part[table][name] for part in parts]) for name in parts[0][table]}
        for table in PLACE
    }
