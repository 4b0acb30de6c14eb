"""Sealed histories made by code, as small as the reports of `report_runs` need them.

Not here: ops, events and verdicts (`report_runs`).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from core.op import End, Isolation, Outcome, Phase
from history.reader import unit_name
from history.tables import TABLES

TPS = {f"queue-{number}": number for number in range(6)}
TXN_IDS = ("inquest-0", "inquest-1", "inquest-2")
START_NS = 5_000_000_000_000
DEFAULTS = {
    "sends": {"op_sends": 1, "outcome": Outcome.OK, "op_outcome": Outcome.OK, "txn": 0, "pos": 0},
    "reads": {"op_outcome": Outcome.OK, "phase": Phase.FAULTS, "pos": 0, "assignment": 0, "leader_epoch": 4},
    "processes": {"acks": -2, "idempotent": 0, "auto_commit": 0},
}
Rows = list[dict[str, Any]]


def ns(seconds: float) -> int:
    """Time of the history from seconds since the start of the run."""
    return START_NS + int(seconds * 1e9)


def table(name: str, rows: Iterable[dict[str, Any]]) -> pa.Table:
    """A table of the history; columns that a row lacks hold their default, else -1."""
    schema = TABLES[name]
    known = DEFAULTS.get(name, {})
    filled = [{f.name: row.get(f.name, known.get(f.name, -1)) for f in schema} for row in rows]
    return pa.Table.from_pylist(filled, schema=schema)


def changed(ops: pa.Table, rows: dict[int, dict[str, int]]) -> pa.Table:
    """The ops with some rows changed."""
    columns = {name: np.array(ops[name].to_pylist()) for name in ops.column_names}
    for op, values in rows.items():
        for name, value in values.items():
            columns[name][op] = value
    arrays = [pa.array(columns[field.name].tolist(), field.type) for field in ops.schema]
    return pa.Table.from_arrays(arrays, schema=ops.schema)


def processes() -> pa.Table:
    """Clients 0 to 3 write (client 2 under two processes, client 3 crashed), 5 and 6 read, 9 and 10
    read to the end."""
    rc, ru, none = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED, Isolation.NONE
    rows = [
        (2, 0, none, 0, 13.0, 81.9, End.CLOSED),
        (3, 1, none, 1, 13.0, 81.9, End.CLOSED),
        (4, 2, none, 2, 13.0, 59.1, End.REPLACED),
        (36, 2, none, 2, 59.4, 81.9, End.CLOSED),
        (7, 3, none, -1, 13.0, 70.1, End.CRASHED),
        (12, 5, rc, -1, 13.1, 82.0, End.CLOSED),
        (13, 6, ru, -1, 13.1, 82.0, End.CLOSED),
        (31, 9, rc, -1, 84.0, 88.0, End.CLOSED),
        (32, 10, ru, -1, 84.0, 88.0, End.CLOSED),
    ]
    return table(
        "processes",
        (
            {
                "process": process,
                "slot": slot,
                "group": -1,
                "isolation": level,
                "txn_id": txn,
                "start_ns": ns(begin),
                "end_ns": ns(stop),
                "end": end,
            }
            for process, slot, level, txn, begin, stop, end in rows
        ),
    )


def small(ends: dict[str, tuple[int, int]]) -> dict[str, pa.Table]:
    """Partitions, clients and bounds. ends: last stable offset and high watermark by partition."""
    bounds = [
        {"tp": TPS[name], "isolation": level, "start": 0, "end": end, "read_to": end, "complete": True}
        for name, (lso, hw) in ends.items()
        for level, end in ((Isolation.READ_UNCOMMITTED, hw), (Isolation.READ_COMMITTED, lso))
    ]
    rows = [{"tp": tp, "topic": "queue", "partition": tp} for tp in TPS.values()]
    return {"tps": table("tps", rows), "processes": processes(), "bounds": table("bounds", bounds)}


class History:
    """Sends and reads, added one by one."""

    def __init__(self, ends: dict[str, tuple[int, int]]) -> None:
        self.ends = ends
        self.sends: Rows = []
        self.reads: Rows = []

    def send(self, partition: str, value: int, offset: int, op: int, at: float, **more: Any) -> None:
        """A record, acknowledged 5 ms later unless `more` says otherwise."""
        acked = more.get("outcome", Outcome.OK) == Outcome.OK
        self.sends.append(
            {
                "tp": TPS[partition],
                "op": op,
                "process": value >> 32,
                "value": value,
                "offset": offset,
                "place": offset,
                "invoke_ns": ns(at),
                "ack_ns": ns(at + 0.005) if acked else -1,
                **more,
            }
        )

    def read(
        self, partition: str, value: int, offset: int, process: int, op: int, at: float, **more: Any
    ) -> None:
        """A record that a poll returned."""
        level = Isolation.READ_UNCOMMITTED if process in (13, 32) else Isolation.READ_COMMITTED
        self.reads.append(
            {
                "tp": TPS[partition],
                "op": op,
                "process": process,
                "isolation": level,
                "offset": offset,
                "value": value,
                "invoke_ns": ns(at - 0.01),
                "complete_ns": ns(at),
                "phase": Phase.FINAL if process in (31, 32) else Phase.FAULTS,
                **more,
            }
        )

    def read_by_all(self, partition: str, value: int, offset: int, at: float) -> None:
        """A record that both readers and both final readers were given."""
        for process, op in ((12, 5000), (13, 5001), (31, 5990), (32, 5991)):
            when = 86.0 if process > 30 else at + 0.02
            self.read(partition, value, offset, process, op, when)

    def tables(self) -> dict[str, pa.Table]:
        """All tables but ops; sends and reads of one unit."""
        sends = sorted(self.sends, key=lambda row: (row["tp"], row["op"]))
        reads = sorted(self.reads, key=lambda row: (row["tp"], row["process"], row["op"]))
        unit = {f"sends/{UNIT}": table("sends", sends), f"reads/{UNIT}": table("reads", reads)}
        return small(self.ends) | unit


UNIT = unit_name(sorted(TPS.values()))
UNITS = [{"name": UNIT, "tps": sorted(TPS.values()), "sends": 0, "reads": 0}]


def quiet() -> History:
    """A few records of one partition, all well."""
    history = History(dict.fromkeys(TPS, (60, 60)))
    for offset in range(40):
        history.send("queue-0", 3 << 32 | offset, offset, 100 + offset, 20 + offset)
        history.read_by_all("queue-0", 3 << 32 | offset, offset, 20 + offset)
    return history


def lossy() -> History:
    """queue-3 lost its offsets 5512 to 5523, which hold others now; a transaction of queue-1 and
    queue-4 was torn; queue-2 is whole, and process 12 skipped a part of it."""
    history = History(
        {
            "queue-1": (84, 84),
            "queue-2": (430, 430),
            "queue-3": (5540, 5540),
            "queue-4": (910, 910),
            "queue-0": (60, 60),
            "queue-5": (1344, 1344),
        }
    )
    for offset in range(5500, 5512):
        history.send("queue-3", 3 << 32 | offset, offset, 1830, 20.1)
        history.read_by_all("queue-3", 3 << 32 | offset, offset, 20.1)
    for number in range(12):
        history.send("queue-3", 4 << 32 | 1207 + number, 5512 + number, 1840, 20.212)
    for number in range(20):
        history.send("queue-3", 7 << 32 | 88 + number, 5512 + number, 1902, 21.91)
        history.read_by_all("queue-3", 7 << 32 | 88 + number, 5512 + number, 21.91)
    txn = {"txn": 1}
    history.send("queue-1", 4 << 32 | 1216 + 100, 77, 2210, 48.2, **txn)
    history.read_by_all("queue-1", 4 << 32 | 1216 + 100, 77, 48.95)
    history.send("queue-4", 4 << 32 | 1217 + 100, 901, 2210, 48.3, **txn)
    history.send(
        "queue-4", 4 << 32 | 1218 + 100, -1, 2214, 49.1, txn=1, op_outcome=Outcome.INFO, outcome=Outcome.INFO
    )
    for offset in (896, 897, 898, 904, 905):
        history.send("queue-4", 2 << 32 | offset, offset, 2200 + offset - 896, 47.5 + offset / 1e3, **txn)
        history.read_by_all("queue-4", 2 << 32 | offset, offset, 48.1)
    for offset in range(400, 430):
        history.send("queue-2", 2 << 32 | offset, offset, 2290, 32.5)
        for process, op in ((12, 2301), (13, 2302), (31, 5990), (32, 5991)):
            if process != 12 or not 410 < offset < 418:
                history.read("queue-2", 2 << 32 | offset, offset, process, op, 32.95)
    return history


def hanging() -> History:
    """queue-5 hangs at offset 20: a transaction of client 2 was never ended. In queue-0 a value stands
    twice, and one that was aborted was read; in queue-1 a zombie wrote, and an input was copied twice."""
    history = History({"queue-5": (20, 26), "queue-0": (60, 60), "queue-1": (40, 40)})
    for offset in range(12, 26):
        own = offset in (20, 21)
        if offset != 19:
            more = {"txn": 1} | ({"op_outcome": Outcome.INFO} if own else {})
            process, op = (4, 2214) if own else (2, 2100 + offset)
            history.send("queue-5", process << 32 | 500 + offset, offset, op, 48.0 + offset / 100, **more)
            seen = (13, 32) if offset >= 20 else (12, 13, 31, 32)
            for reader in seen:
                history.read(
                    "queue-5",
                    process << 32 | 500 + offset,
                    offset,
                    reader,
                    5990 if reader > 30 else 2301,
                    49.0,
                )
    for offset in range(4, 24):
        value = 3 << 32 | (9 if offset in (8, 15) else 1000 + offset)
        aborted = offset == 11
        if offset != 15:
            more = {"txn": 1, "op_outcome": Outcome.FAIL} if aborted else {}
            history.send("queue-0", value, offset, 2212 if aborted else 2000 + offset, 40.0, **more)
        history.read_by_all("queue-0", value, offset, 40.2)
    for offset, process, op in ((30, 36, 2230), (31, 4, 2231), (32, 36, 2232)):
        more = {"txn": 1, "src_tp": 2, "src_offset": 55 if offset != 31 else 7}
        history.send("queue-1", process << 32 | 700 + offset, offset, op, 60.0 + offset / 100, **more)
        history.read_by_all("queue-1", process << 32 | 700 + offset, offset, 60.5)
    return history
