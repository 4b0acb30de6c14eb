"""The name under which other programs use Inquest: `from inquest import check` (docs/library.md).

In the repository the rooms lie beside this package; a wheel has them inside it, as `inquest.checkers`,
`inquest.history` … (hatch_build.py), so that no other package's import names are taken.

A cluster for tests: `from inquest import cluster`, and the pytest plugin (docs/pytest.md).

The checker is imported when it is asked for: the command `inquest` names extensions first
(`core.extensions`).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from checkers import Result, check
    from checkers.recordings.formats import record_lines
    from checkers.run_source import RunTables
    from harness.guided.cluster import Anomaly, GuidedCluster, NotRecovered, NotValid, Unknown, Unmet, cluster

_OF_CHECKER = ("Result", "check")
_OF_CLUSTER = ("Anomaly", "GuidedCluster", "NotRecovered", "NotValid", "Unknown", "Unmet", "cluster")
__all__ = [
    "Anomaly",
    "GuidedCluster",
    "NotRecovered",
    "NotValid",
    "Result",
    "Unknown",
    "Unmet",
    "check",
    "cluster",
    "record_lines",
    "tables",
]


def __getattr__(name: str) -> object:
    if name in _OF_CHECKER:
        from checkers import api

        return getattr(api, name)
    if name == "record_lines":
        from checkers.recordings import formats

        return formats.record_lines
    if name in _OF_CLUSTER:
        from harness.guided import cluster as guided

        return getattr(guided, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def tables(session: "SparkSession", results: str = "results/*") -> "RunTables":
    """The tables of recorded runs as Spark DataFrames. See `checkers.run_source.tables`."""
    from checkers.run_source import tables as of  # it imports PySpark, which `check` alone need not

    return of(session, results)
