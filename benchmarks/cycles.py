"""How long the search for dependency cycles takes among a million transactions of four writes and four reads.

    python -m benchmarks.cycles [--transactions 1000000] [--overlap 20]

The history is made in memory: each transaction writes four records to four of 32 partitions, and reads four
that were written shortly before it began; `overlap` transactions run at a time, so their writes interleave.
Ten pairs of transactions that read each other's records are planted. Only the check `cycles` runs, in this
process: kernels of all partitions, then the search. Printed: its CPU seconds and wall time, what joining rows
of sends and reads takes alone, and what it found. Exits 1 if that is not what is planted.
"""

import argparse
import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.checks import CHECKS
from checkers.checks.cycles import G1C
from checkers.engine.pipeline import check_tables
from core.op import Isolation, Outcome, Phase
from history.tables import TABLES

TPS = 32
EACH = 4
PLANTED = 10
STEP_NS = 1_000

Array = np.ndarray[Any, np.dtype[Any]]


def history(transactions: int, overlap: int) -> dict[str, pa.Table]:
    """The tables of the history."""
    rng = np.random.default_rng(1)
    op = np.repeat(np.arange(transactions), EACH)
    number = np.arange(transactions * EACH)
    tp = (op * 7 + number % EACH * 9 + rng.integers(0, 3, len(op)) * 2) % TPS
    # records of transactions that run at a time stand in any order
    order = np.lexsort((op + rng.integers(0, max(overlap, 1), len(op)), tp))
    starts = np.searchsorted(tp[order], np.arange(TPS))
    offset = np.empty(len(op), np.int64)
    offset[order] = np.arange(len(op)) - starts[tp[order]]
    process = op % max(overlap, 1) + 1
    complete = np.arange(1, transactions + 1) * STEP_NS
    invoke = np.maximum(complete - max(overlap, 1) * STEP_NS + 1, 0)
    source = (op - overlap - 1 - rng.integers(0, 50, len(op))) * EACH + rng.integers(0, EACH, len(op))
    first = rng.choice(transactions // 100 - 1, PLANTED, replace=False) * 100 + 50
    a, b = first * EACH, (first + 1) * EACH  # each reads the other's first record
    source[a], source[b] = b, a
    read = np.flatnonzero(source >= 0)
    source = source[read]
    sends = {
        "tp": tp, "op": op, "process": process, "pos": number % EACH, "value": process << 32 | number,
        "offset": offset, "place": offset, "outcome": Outcome.OK, "op_outcome": Outcome.OK, "txn": 1,
        "op_sends": EACH, "invoke_ns": invoke[op], "ack_ns": complete[op] - 1, "src_tp": -1, "src_offset": -1,
    }  # fmt: skip
    reads = {
        "tp": tp[source], "op": op[read], "process": process[read], "pos": EACH + read % EACH,
        "isolation": Isolation.READ_COMMITTED, "op_outcome": Outcome.OK, "phase": Phase.FAULTS,
        "assignment": np.arange(len(read)), "leader_epoch": 0, "offset": offset[source],
        "value": (process << 32 | number)[source], "invoke_ns": invoke[op[read]],
        "complete_ns": complete[op[read]] - 1,
    }  # fmt: skip
    ops = {
        "op": np.arange(transactions), "process": process[::EACH], "f": 0, "outcome": Outcome.OK,
        "phase": Phase.FAULTS, "txn": 1, "deliberate": 0, "error": -1, "n_sends": EACH,
        "n_reads": np.bincount(op[read], minlength=transactions), "invoke_ns": invoke,
        "complete_ns": complete,
    }  # fmt: skip
    made = {name: TABLES[name].empty_table() for name in TABLES}
    made["ops"] = _table("ops", ops, ("op",))
    made["sends"] = _table("sends", sends, ("tp", "op", "pos"))
    made["reads"] = _table("reads", reads, ("tp", "process", "op", "pos"))
    made["processes"] = _table(
        "processes",
        {
            "process": np.arange(1, max(overlap, 1) + 1), "slot": 0, "group": -1,
            "isolation": Isolation.READ_COMMITTED, "txn_id": -1, "acks": -1, "idempotent": 1,
            "auto_commit": 0, "retries": -1, "in_flight": -1, "socket_timeout_ms": -1, "start_ns": 0,
            "end_ns": 0, "end": 0,
        },
        ("process",),
    )  # fmt: skip
    return made


def _table(name: str, rows: dict[str, Any], order: tuple[str, ...]) -> pa.Table:
    """A table of the right schema, sorted."""
    size = len(rows[order[0]])
    by = np.lexsort([rows[column] for column in reversed(order)])
    arrays = [
        pa.array(np.broadcast_to(rows[field.name], size)[by].astype(field.type.to_pandas_dtype()), field.type)
        for field in TABLES[name]
    ]
    return pa.Table.from_arrays(arrays, schema=TABLES[name])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--transactions", type=int, default=1_000_000)
    parser.add_argument("--overlap", type=int, default=20)
    options = parser.parse_args()
    tables = history(options.transactions, options.overlap)
    begin = time.process_time()
    check_tables(tables, {}, recorded=False)
    joined, wall = time.process_time(), time.perf_counter()
    tally = check_tables(tables, {"cycles": CHECKS["cycles"]}, recorded=False)
    took, wall = time.process_time() - joined, time.perf_counter() - wall
    found = {name: number for (name, *_), number in sorted(tally.counts.items())}
    rows = tables["sends"].num_rows + tables["reads"].num_rows
    print(
        f"{options.transactions:,} transactions, {rows:,} rows: CPU {took:.2f} s, wall {wall:.2f} s (joining"
        f" rows alone: CPU {joined - begin:.2f} s); found {found}"
    )
    if tally.crashed or found.get(G1C, 0) != PLANTED:
        sys.exit(f"not as planted: {tally.crashed or found}")


if __name__ == "__main__":
    main()
