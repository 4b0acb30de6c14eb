"""How fast the acceptors of ring 1 read logs: python -m benchmarks.accept_logs [BATCHES].

A log of idempotent and transactional producers, from the columns of evidence through the kernel of
`accept_data`, and as many records of `__transaction_state` through the acceptor of that log. Seconds are of
the processor.
"""

import resource
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from checkers.engine.findings import LogGround
from checkers.engine.log_tasks import LogTask, LogWork
from checkers.engine.pipeline import kernels_over_logs, kinds_of
from checkers.logs.accept_data import CHECKS
from core.op import TopicPartition
from history.evidence import END, Evidence, schema, table
from model.accepting.transaction_log import TransactionLog
from model.coordinator.transaction_metadata import (
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    TransactionRecord,
)

TP = TopicPartition("t", 0)
PRODUCERS, IN_TRANSACTION = 50, 4
"""Producers of the log, in turn; each third is transactional, with a commit after this number of batches."""


def data(count: int) -> Evidence:
    """A log of `count` batches."""
    number = np.arange(count)
    producer, turn = number % PRODUCERS, number // PRODUCERS
    transactional = producer % 3 == 0
    control = transactional & (turn % (IN_TRANSACTION + 1) == IN_TRANSACTION)
    sent = np.where(transactional, turn - turn // (IN_TRANSACTION + 1), turn)
    columns = {
        "base": number,
        "last": number,
        "position": number * 100,
        "producer_id": producer,
        "base_sequence": np.where(control, -1, sent),
        "records": np.ones(count),
        "transactional": transactional,
        "control": control,
        "intact": np.ones(count),
        "max_timestamp": number,
        "crc": number,
    }
    where = {"topic": TP.topic, "partition": TP.partition}
    markers = number[control]
    offsets = {"offset": markers, "coordinator_epoch": np.zeros(len(markers))}
    return Evidence(
        {
            "batches": _table("batches", count, columns | where),
            "control": _table("control", len(markers), offsets | where | {"name": "COMMIT"}),
            "partitions": _table("partitions", 1, where),
            "takes": table(schema("takes"), [(0, 0, 0, END)]),
        }
    )


def _table(name: str, count: int, columns: dict[str, object]) -> pa.Table:
    """Columns that are left out are 0, "" or null."""
    arrays = []
    for one in schema(name):
        value = columns.get(one.name)
        if isinstance(value, np.ndarray):
            arrays.append(pa.array(value).cast(one.type, safe=False))
        elif value is None and one.nullable:
            arrays.append(pa.nulls(count, one.type))
        else:
            text = one.type == pa.string() or pa.types.is_dictionary(one.type)
            plain = pa.array([value or ("" if text else 0)] * count)
            arrays.append(plain.cast(one.type))
    return pa.table(arrays, schema=schema(name))


def transactions(count: int) -> None:
    """`count` records through the acceptor of the transaction log."""
    log = TransactionLog()
    states = (EMPTY, *(ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT) * (count // 150 + 1))
    ids = [TransactionRecord(f"id-{number}", number, 1000, 0) for number in range(PRODUCERS)]
    partitions = (("t", 0), ("t", 1))
    for offset in range(count):
        record = ids[offset % PRODUCERS]
        state = states[offset // PRODUCERS]
        record = record._replace(
            state=state, partitions=partitions if state in (ONGOING, PREPARE_COMMIT) else ()
        )
        assert not [*log.add(offset, 0, record)]


def _timed(name: str, count: int, work: Callable[[], object]) -> None:
    begin = time.process_time()
    work()
    took = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name}: {count} in {took:.1f} s, {count / took:,.0f} a second; at most {peak:.0f} MB so far")


def main() -> None:
    """Measure."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    evidence = data(count)

    def judged() -> None:
        (found,) = LogTask(source=evidence, job="", partitions=(TP,)).run(
            LogWork(LogGround(kinds_of(CHECKS)), kernels_over_logs(CHECKS))
        )
        assert not found.findings, found.findings[0]
        assert sum(found.asked.values()) > count

    _timed("batches of a data partition", count, judged)
    _timed("records of the transaction log", count, lambda: transactions(count))


if __name__ == "__main__":
    main()
