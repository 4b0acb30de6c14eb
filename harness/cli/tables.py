"""`inquest sql`: questions about recorded runs, over one or over a year of nights."""

import csv
import io
import json
import sys
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from core.errors import UsageError
from core.terminal import printable, say, show, show_whole
from harness.cli.verdict import Master
from history.run_folder import RESULTS

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 200
WIDE: Final = 100_000
"""Columns of a file or a pipe: a number is not broken over two lines there."""


def sql(
    query: Annotated[
        str | None, typer.Argument(help="A query over tables such as ops, sends, runs, faults, findings.")
    ] = None,
    results: Annotated[
        str, typer.Option(help="A run folder, a folder of them, a pattern of them in quotes, or their URL.")
    ] = f"{RESULTS}/*",
    rows: Annotated[int, typer.Option(min=1, help="Most rows that are shown.")] = ROWS,
    form: Annotated[
        Literal["table", "csv", "json"],
        typer.Option("--format", help="Of the answer; json: one object a row, on a line of its own."),
    ] = "table",
    master: Master = None,
) -> None:
    """Ask recorded runs with Spark SQL (docs/library.md); without a query, list tables and columns."""
    from checkers.run_tables import SCHEMAS

    if query is None:
        for name, schema in SCHEMAS.items():
            show(f"{name}: {', '.join(schema.names)}")
        return
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger

    from checkers.engine.spark import spark
    from checkers.engine.spark_workers import interrupted, telling
    from checkers.run_source import some_folders, tables

    # It writes the stack of Java for a typing error, in JSON; what was wrong is said below.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel("CRITICAL")
    some_folders(results)  # what cannot be answered is refused before Spark starts
    with spark(master) as session:
        tables(session, results, say).views()
        try:
            found = session.sql(query).limit(rows + 1).toArrow()
        except PySparkException as error:
            if interrupted(error):
                raise KeyboardInterrupt from None
            raise UsageError(telling(str(error))) from None
    FORMATS[form](found.slice(0, rows))
    if found.num_rows > rows:
        (show if form == "table" else say)(f"the first {rows} rows; --rows shows more")


def show_rows(found: "pa.Table") -> None:
    """An answer as a table on stdout. Its columns may share a name, and all of it is text."""
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    headings = (Text(printable(name)) for name in found.column_names)
    shown = Table(*(Column(heading, overflow="fold") for heading in headings))  # whole, however narrow
    for row in zip(*(column.to_pylist() for column in found.columns), strict=True):
        shown.add_row(*(Text(printable("" if value is None else str(value))) for value in row))
    Console(width=None if sys.stdout.isatty() else WIDE).print(shown)


def show_csv(found: "pa.Table") -> None:
    """An answer as CSV on stdout, the headings first; null is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(printable, found.column_names))
    for row in zip(*(column.to_pylist() for column in found.columns), strict=True):
        writer.writerow("" if value is None else printable(str(value)) for value in row)
    show_whole(text.getvalue().splitlines())


def show_json(found: "pa.Table") -> None:
    """An answer as lines of JSON on stdout. Of columns that share a name the last one is shown."""
    for row in zip(*(column.to_pylist() for column in found.columns), strict=True):
        show(json.dumps(dict(zip(found.column_names, row, strict=True)), default=str))


FORMATS: Final = {"table": show_rows, "csv": show_csv, "json": show_json}
