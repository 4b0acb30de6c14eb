"""The evidence of a run: what brokers left on disk, as Arrow tables (`evidence/<table>.parquet`).

A *take* is one look at nodes' files: when a node was killed, before it was started again, and of every node
at the end of the run. Takes are numbered from 0 in the order of time; the last one has all nodes. Simulated
clusters write the same tables.

Not here: what the tables are (`history.evidence_tables`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from core.errors import HistoryError
from core.op import TopicPartition
from history import storage
from history.events import Event, EvidenceTaken
from history.evidence_tables import END, LATER, ORDINALS, PER_NODE, PER_PARTITION, PER_RUN, WHEN, schema
from history.recorded_files import promises_too_much

T = TypeVar("T")


class Evidence:
    """The evidence of a run, table by table. A run without evidence has no takes."""

    def __init__(self, tables: Mapping[str, pa.Table], lacks: str = "", folder: Path | None = None) -> None:
        """Tables by name; missing ones are empty. Sorted by the way (`merged`). lacks: why there are none,
        where a run had some. folder: that they were read from, None = they never were in files."""
        self._tables = dict(tables)
        self.lacks = lacks
        self.folder = folder
        self._in_files = False
        self._held: dict[str, tuple[TopicPartition, pa.Table]] = {}
        self._places: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
        self._once: dict[Callable[[Evidence], Any], Any] = {}

    @classmethod
    def load(cls, folder: Path) -> "Evidence":
        """What `write` wrote into `Run.evidence`. Raises: HistoryError (it is gone, or not whole)."""
        if not folder.exists():
            raise HistoryError(f"{folder}: there is no such folder of evidence")
        try:
            return cls._whole(folder)
        except _NotWhole as error:
            raise HistoryError(str(error)) from None

    @classmethod
    def recorded(cls, folder: Path, events: Iterable[Event]) -> "Evidence":
        """The evidence of a run with these events. One without such a folder has none, unless an event says
        that it had; of a folder that is not whole nothing is taken (`lacks`): part would be judged as if it
        were all.

        Raises: HistoryError (tables that are none of evidence).
        """
        taken = [name for event in events if isinstance(event, EvidenceTaken) for name in event.tables]
        if not folder.exists():
            return cls({}, lacks=f"{folder} is gone; the run had it when it ended" if taken else "")
        try:
            for name in taken:
                if not storage.is_there(path := folder / f"{name}.parquet"):
                    raise _NotWhole(f"{path} is gone; the run had it when it ended")
            return cls._whole(folder)
        except _NotWhole as error:
            return cls({}, lacks=str(error))

    @classmethod
    def opened(cls, folder: Path) -> "Evidence":
        """What `load` finds in this folder, without messages, for one who needs a part: each look reads what
        it asks for. Kept are whole tables, and of each table the rows of the last partition. Looks raise
        HistoryError."""
        found = cls({}, folder=folder)
        found._in_files = True
        return found

    @classmethod
    def _whole(cls, folder: Path) -> "Evidence":
        seen = any(storage.is_there(folder / f"{name}.parquet") for name in PER_RUN)
        names = (*PER_PARTITION, *PER_NODE, *(PER_RUN if seen else ()))
        tables = {name: _read(folder / f"{name}.parquet", schema(name)) for name in names}
        return cls(tables, folder=folder)

    @property
    def captured(self) -> bool:
        """Whether messages were looked at."""
        return "frames" in self._tables

    @property
    def topics(self) -> dict[str, str]:
        """Names of topics by id, as brokers' directories have them."""
        rows = self.table("partitions").select(["topic_id", "topic"]).to_pylist()
        return {row["topic_id"]: row["topic"] for row in rows if row["topic_id"]}

    def table(self, name: str) -> pa.Table:
        """A table, with the columns of `schema`."""
        if self._in_files and name not in (*self._tables, *PER_RUN):
            self._tables[name] = self._part(name)
        # `empty_table` would do, but imports pandas (`history.columns.numbers`)
        found = self._tables.get(name)
        return pa.Table.from_batches([], schema=schema(name)) if found is None else found

    def columns(self, name: str, columns: Sequence[str]) -> pa.Table:
        """Some columns of a table."""
        if self._in_files and name not in self._tables:
            return self._part(name, columns=columns)
        return self.table(name).select(columns)

    def of(self, name: str, tp: TopicPartition) -> pa.Table:
        """The rows of one partition. Raises: HistoryError, where they do not stand together."""
        if self._in_files and name not in self._tables:
            if name not in self._held or self._held[name][0] != tp:
                self._held[name] = (tp, self._part(name, tp))
            return self._held[name][1]
        if name not in self._places:
            self._places[name] = _places(self.table(name))
        first, rows = self._places[name].get(tp, (0, 0))
        return self.table(name).slice(first, rows)

    def _part(
        self, name: str, tp: TopicPartition | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """A part of a table in the files. Raises: HistoryError."""
        assert self.folder is not None
        try:
            return _read(self.folder / f"{name}.parquet", schema(name), tp, columns)
        except _NotWhole as error:
            raise HistoryError(str(error)) from None

    def once(self, make: Callable[["Evidence"], T]) -> T:
        """What `make` says of this evidence as a whole: called once, for all partitions that need it."""
        if make not in self._once:
            self._once[make] = make(self)
        found: T = self._once[make]
        return found

    def moments(self) -> dict[tuple[int, int], str]:
        """(take, node) -> when the node's files were taken, in words: `at the end`, `when it was killed`;
        where that happened to it several times, `when it was killed (2nd time)`."""
        rows = sorted(self.table("takes").to_pylist(), key=itemgetter("take"))
        at_end = {(row["take"], row["node"]) for row in rows if row["why"] == END}
        before: dict[tuple[int, str], list[int]] = defaultdict(list)
        for row in rows:
            if row["why"] == END or (row["take"], row["node"]) not in at_end:
                before[row["node"], row["why"]].append(row["take"])
        found = {}
        for (node, why), takes in before.items():
            for number, take in enumerate(takes, 1):
                nth = f" ({ORDINALS.get(number, f'{number}th')} time)" if len(takes) > 1 else ""
                found[take, node] = WHEN.get(why, f"when it was {why or 'down'}") + nth
        return found

    def partitions(self) -> list[TopicPartition]:
        """All partitions that some node had a directory of, the internal topics' too."""
        rows = self.table("partitions").select(["topic", "partition"]).to_pylist()
        return sorted({TopicPartition(row["topic"], row["partition"]) for row in rows})


def _places(rows: pa.Table) -> dict[TopicPartition, tuple[int, int]]:
    """Of each partition of a table: its first row, and how many it has.

    Raises: HistoryError.
    """
    by = {
        "topic": rows["topic"].cast(pa.string()),  # Arrow groups by no dictionaries that differ by chunk
        "partition": rows["partition"],
        "row": pa.array(np.arange(rows.num_rows)),
    }
    found = pa.table(by).group_by(["topic", "partition"])
    places = {}
    for row in found.aggregate([("row", "min"), ("row", "max"), ("row", "count")]).to_pylist():
        tp = TopicPartition(row["topic"], row["partition"])
        places[tp] = (row["row_min"], row["row_count"])
        if row["row_max"] - row["row_min"] >= row["row_count"]:
            raise HistoryError(f"evidence: rows of {tp} do not stand together")
    return places


def merged(found: Iterable[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    """The tables of several nodes and takes as one set, in the order that the module says."""
    every = list(found)
    tables = {}
    for name in (*PER_PARTITION, *PER_NODE):
        table = pa.concat_tables([schema(name).empty_table(), *(one[name] for one in every if name in one)])
        order = ORDER if name in PER_PARTITION else ORDER[2:]  # metadata name topics
        by = table.select([key for key in order if key in table.column_names])
        if "topic" in by.column_names:  # Arrow sorts no dictionaries
            by = by.set_column(by.column_names.index("topic"), "topic", by["topic"].cast(pa.string()))
        places = pc.sort_indices(by, [(key, "ascending") for key in by.column_names])
        tables[name] = table.unify_dictionaries().take(places)
    for name in PER_RUN:
        if seen := [one[name] for one in every if name in one]:
            tables[name] = pa.concat_tables(seen)
    return tables


ORDER: Final = (
    "topic",
    "partition",
    "take",
    "node",
    "snapshot",
    "segment",
    "position",
    "offset",
    "epoch",
    "zxid",
)
"""Tables are sorted by those of these columns that they have."""


GROUP_ROWS: Final = 1 << 16
"""Rows of a row group: who needs one partition reads the groups that have some of it."""


def write(folder: Path, tables: Mapping[str, pa.Table]) -> None:
    """Write the tables of a run; all of them appear, or none. Raises: OSError."""
    made = storage.beside(folder)
    try:
        for name, table in tables.items():
            path = made / f"{name}.parquet"
            storage.write_parquet(table, path, compression="zstd", row_group_size=GROUP_ROWS)
        storage.publish(made, folder)
    except BaseException:
        storage.remove(made)
        raise


def evidence_taken(folder: Path, ns: int) -> list[EvidenceTaken]:
    """The event that says which tables there are at the end of a run; none, where there is no folder."""
    names = sorted(path.stem for path in folder.glob("*.parquet"))
    return [EvidenceTaken(ns=ns, tables=tuple(names))] if names else []


class _NotWhole(Exception):
    """A table of evidence is missing, or ends before its end."""


def _read(
    path: Path, wanted: pa.Schema, tp: TopicPartition | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """A table. tp: only the rows of this partition; columns: only these."""
    if path.stem in LATER and not storage.is_there(path):
        return pa.Table.from_batches(
            [], schema=pa.schema([wanted.field(one) for one in columns or wanted.names])
        )
    try:
        with storage.parquet_file(path) as file:
            if why := promises_too_much(file, storage.size(path)):
                raise HistoryError(f"{path}: no table of evidence: {why}")
            if not file.schema_arrow.equals(wanted):
                raise HistoryError(f"{path}: its columns are not those of this table of evidence")
            groups = [at for at in range(file.num_row_groups) if tp is None or _may_hold(file, at, tp)]
            found = file.read_row_groups(groups, columns=columns)
    except (OSError, pa.ArrowException) as error:
        raise _NotWhole(f"{path}: {storage.line(error)}") from None
    if tp is None:
        return found
    return found.filter(
        pc.and_(pc.equal(found["topic"], tp.topic), pc.equal(found["partition"], tp.partition))
    )


def _may_hold(file: pq.ParquetFile, group: int, tp: TopicPartition) -> bool:
    """Whether a row group may have rows of a partition, by its statistics."""
    for name, value in (("topic", tp.topic), ("partition", tp.partition)):
        told = file.metadata.row_group(group).column(file.schema_arrow.get_field_index(name)).statistics
        if told is not None and told.has_min_max and not told.min <= value <= told.max:
            return False
    return True
