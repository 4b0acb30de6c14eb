"""The name under which other programs use Inquest: `from inquest import check` (docs/library.md).

In the repository the rooms lie beside this package; a wheel has them inside it, as `inquest.checkers`,
`inquest.history` … (hatch_build.py), so that no other package's import names are taken.
"""

from typing import TYPE_CHECKING

from checkers import Result, check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers.run_source import RunTables

__all__ = ["Result", "check", "tables"]


def tables(session: "SparkSession", results: str = "results/*") -> "RunTables":
    """The tables of recorded runs as Spark DataFrames. See `checkers.run_source.tables`."""
    from checkers.run_source import tables as of  # it imports PySpark, which `check` alone need not

    return of(session, results)
