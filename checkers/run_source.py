"""Recorded runs as Spark DataFrames: one run, or a year of nights.

    from inquest import tables

    t = tables(spark, "results/*")
    t.ops.groupBy("run", "outcome").count().show()

    spark.dataSource.register(RunSource)                        # the same as a data source
    spark.read.format("inquest").option("table", "faults").load("results/*")

Columns: `checkers.run_tables`. Folders without the file of a table have no rows in it; links are left out,
so that no run counts twice. Executors read the files where they lie: on this machine, on a shared file
system, or on a store.
"""

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from checkers.run_tables import SCHEMAS, read
from core.errors import HistoryError, UsageError
from history import storage
from history.reader import read_names
from history.run_folder import Run
from history.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT: Final = "inquest"
TASKS: Final = 64
"""A table is read in at most this many tasks."""


class RunTables:
    """The tables of some runs, each read when it is used: `tables.ops`, `tables["ops"]`."""

    def __init__(self, session: "SparkSession", where: str, without: Sequence[str] = ()) -> None:
        """without: folders whose histories have no rows here."""
        self._session, self._where, self._without = session, where, json.dumps(without)
        session.dataSource.register(RunSource)

    def __getitem__(self, name: str) -> "DataFrame":
        if name not in SCHEMAS:
            raise KeyError(f"{name}: there is no such table; {', '.join(SCHEMAS)}")
        source = self._session.read.format(FORMAT).option("table", name).option("without", self._without)
        return source.load(self._where)

    def __getattr__(self, name: str) -> "DataFrame":
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(str(error)) from None

    def __dir__(self) -> list[str]:
        return sorted(SCHEMAS)

    def views(self) -> None:
        """Make every table a temporary view, so that SQL knows it by its name."""
        for name in SCHEMAS:
            self[name].createOrReplaceTempView(name)


def tables(
    session: "SparkSession", results: str = "results/*", warn: Callable[[str], object] = warnings.warn
) -> RunTables:
    """The tables of the runs in these folders. results: see `folders`. warn: learns of each
    history that this version cannot read, as an older one's: it is left out. Where it can read none, none is,
    and a query of histories fails.

    Raises: UsageError, where there is no run folder.
    """
    found = some_folders(results)
    histories = dict(_histories(found))
    left_out = {folder: why for folder, why in histories.items() if why}
    if len(left_out) == len(histories):
        left_out = {}
    for folder, why in left_out.items():
        warn(f"the history of {storage.location(folder).name} is left out: {why}")
    return RunTables(session, storage.shared(storage.location(results)), list(left_out))


def _histories(found: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Folders with a history, and why this version cannot read it, by its names alone; "" = it can."""
    for folder in found:
        run = Run(storage.location(folder))
        if not storage.is_there(run.names):
            continue
        try:
            read_names(run)
            yield folder, ""
        except HistoryError as error:
            yield folder, str(error)


def some_folders(where: str) -> list[str]:
    """The run folders that are meant, see `folders`. Raises: UsageError, where there is none."""
    found = folders(where)
    if not found:
        raise UsageError(
            f"{where}: no run folder is there (one with a config.json); give a run folder, a folder of"
            " them, or a pattern in quotes"
        )
    return found


def folders(where: str) -> list[str]:
    """The run folders that are meant, sorted; each once. where: a run folder, a folder of them as `--results`
    of other commands takes it, a pattern, or the URL of one of these. The name of a folder that exists counts
    as such."""
    place = storage.location(where)
    fixed, pattern = place, ""
    while any(letter in str(fixed) for letter in "*?[") and fixed != fixed.parent:
        if storage.remote(fixed) is None and os.path.exists(fixed):
            break
        pattern, fixed = f"{fixed.name}/{pattern}".rstrip("/"), fixed.parent
    if not pattern and not storage.is_there(place / "config.json"):
        pattern = "*"
    found: Sequence[Path] = sorted(fixed.glob(pattern)) if pattern else [place]
    kept = (one for one in found if not (storage.remote(one) is None and one.is_symlink() and pattern))
    return [storage.shared(one) for one in kept if storage.is_there(one / "config.json")]


@dataclass
class _Runs(InputPartition):
    folders: list[str]


class RunSource(DataSource):
    """Spark's data source `inquest`. Options: `table`, and the path; `without`: a JSON list of folders, from
    whose histories nothing is read."""

    @classmethod
    def name(cls) -> str:
        """As `spark.read.format` knows it."""
        return FORMAT

    def schema(self) -> str:
        """Columns of the chosen table."""
        return ", ".join(f"`{field.name}` {ddl(field.type)}" for field in SCHEMAS[_table(self.options)])

    def reader(self, schema: object) -> "RunReader":
        """Of the chosen table."""
        table, where = _table(self.options), str(self.options.get("path", "results/*"))
        return RunReader(
            table, where, json.loads(self.options.get("without", "[]")) if table in TABLES else []
        )


class RunReader(DataSourceReader):
    """Reads a table of some runs, a share of them in each task."""

    def __init__(self, table: str, where: str, without: Sequence[str]) -> None:
        self.table, self.where, self.without = table, where, set(without)

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task."""
        found = [one for one in folders(self.where) if one not in self.without]
        return [_Runs(found[at::TASKS]) for at in range(min(TASKS, max(len(found), 1)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In an executor. Raises: HistoryError."""
        assert isinstance(partition, _Runs)
        for folder in partition.folders:
            for table in read(self.table, Run(storage.location(folder))):
                yield from table.combine_chunks().to_batches()


def _table(options: Mapping[str, str]) -> str:
    name = str(options.get("table", "runs"))
    if name not in SCHEMAS:
        raise UsageError(f"{name}: there is no such table; {', '.join(SCHEMAS)}")
    return name


NAMES: Final = {
    pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint",
    pa.float64(): "double", pa.string(): "string", pa.bool_(): "boolean", pa.binary(): "binary",
}  # fmt: skip


def ddl(kind: pa.DataType) -> str:
    """An Arrow type in Spark's words."""
    if pa.types.is_list(kind):
        return f"array<{ddl(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {ddl(field.type)}' for field in kind)}>"
    return NAMES[kind]
