"""Ten checks in DuckDB's SQL beside the checker, on the same rows: equal counts, and their costs.

    python -m benchmarks.duckdb_checks RUN        a run of `benchmarks.make_history`

Each works in this process with a thread for each processor, one after the other: DuckDB with ten checks
(`benchmarks/duckdb_checks.sql`), the checker with all of its checks. Both read the sealed files.
Printed: CPU seconds and wall time of each, the ratios, and every count that differs. Exits 1 if one does.
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
from checkers.engine.memory import keep_freed
from history.reader import load
from history.run_folder import Run
from history.tables import CLUSTERED

T = TypeVar("T")
QUERIES = Path(__file__).with_suffix(".sql")


def by_duckdb(run: Run) -> Counter[str]:
    """Number of findings by class, without classes that have none."""
    with duckdb.connect() as connection:
        for table in CLUSTERED:
            files = str(run.table(table) / "*.parquet")
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{files}')")
        foreign = run.table("foreign")
        connection.execute(f"CREATE VIEW foreign_rows AS SELECT * FROM read_parquet('{foreign}')")
        rows = connection.execute(QUERIES.read_text()).fetchall()
    return Counter({name: number for name, number in rows if number})


def by_checker(run: Run) -> Counter[str]:
    """The same of all checks. What final reads show of the log's content counts nowhere."""
    found: Counter[str] = Counter()
    for (name, variant, *_), number in check_history(load(run)).counts.items():
        if variant is not Level.LOG:
            found[name] += number
    return found


def timed(name: str, work: Callable[[], T]) -> tuple[T, float, float]:
    """The result, the CPU seconds, and the wall time."""
    cpu, wall = time.process_time(), time.monotonic()
    result = work()
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    print(f"{name:>12}: {cpu:8.2f} CPU s, {wall:8.2f} s")
    return result, cpu, wall


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("run", type=Path)
    run = Run(parser.parse_args().run)
    wanted, cpu, wall = timed("DuckDB", lambda: by_duckdb(run))
    keep_freed()
    found, own_cpu, own_wall = timed("the checker", lambda: by_checker(run))
    print(f"ratios: CPU {own_cpu / cpu:.2f}, wall {own_wall / wall:.2f}")
    differing = {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]}
    print(f"counts that differ (the checker, DuckDB): {differing or 'none'}")
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
