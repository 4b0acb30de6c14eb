"""Ten checks in DuckDB's SQL beside the checker, on the same sealed files: equal counts, and their costs.

    python -m benchmarks.duckdb_checks RUN        a run of `benchmarks.make_history`

Each works in this process on one processor, one after the other: the checker with all of its checks, DuckDB
with ten of them (`benchmarks/duckdb_checks.sql`). Printed: CPU seconds and wall time of each, the ratio, and
every count that differs. Exits 1 if one does.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import duckdb

from checkers.api import check_history
from checkers.engine.findings import Level
from history.reader import load
from history.run_folder import Run

T = TypeVar("T")
QUERIES = Path(__file__).with_suffix(".sql")


def by_duckdb(run: Run) -> Counter[str]:
    """Number of findings by class, without classes that have none."""
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for table in ("sends", "reads"):
            files = str(run.table(table) / "*.parquet")
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{files}')")
        foreign = run.table("foreign")
        connection.execute(f"CREATE VIEW foreign_rows AS SELECT * FROM read_parquet('{foreign}')")
        rows = connection.execute(QUERIES.read_text()).fetchall()
    return Counter({name: number for name, number in rows if number})


def by_checker(run: Run) -> Counter[str]:
    """The same of all checks. What final reads show of the log's content counts nowhere."""
    found: Counter[str] = Counter()
    for (name, variant), number in check_history(load(run)).counts.items():
        if variant is not Level.LOG:
            found[name] += number
    return found


def timed(name: str, work: Callable[[], T]) -> tuple[T, float]:
    """The result, and the CPU seconds."""
    cpu, wall = time.process_time(), time.monotonic()
    result = work()
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    print(f"{name:>12}: {cpu:8.2f} CPU s, {wall:8.2f} s")
    return result, cpu


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("run", type=Path)
    run = Run(parser.parse_args().run)
    wanted, slow = timed("DuckDB", lambda: by_duckdb(run))
    found, fast = timed("the checker", lambda: by_checker(run))
    print(f"ratio: {fast / slow:.2f}")
    differing = {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]}
    print(f"counts that differ (the checker, DuckDB): {differing or 'none'}")
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
