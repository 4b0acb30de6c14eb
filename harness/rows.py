"""Journals → rows of the history's tables.

One pass over each journal; columns grow as typed arrays (a run has millions of rows). Afterwards the
ops get their dense rank and the sends their `place`.

Not here: reading one journal (`harness.process_rows`), files (`harness.seal`), the meaning of the
columns (`harness.history`).
"""

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from harness.history import TABLES
from harness.op import Isolation

_CODES = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "bool": "b"}


class Columns:
    """Rows of one table, column by column."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.columns: dict[str, Any] = {
            f.name: array(_CODES[str(f.type)]) if str(f.type) in _CODES else [] for f in schema
        }
        self.rows = 0

    def add(self, count: int, **values: Any) -> None:
        """Append `count` rows; each value is a sequence of that length or one for all of them."""
        for name, column in self.columns.items():
            value = values[name]
            if isinstance(value, int | str | bytes):
                column.extend([value] * count)
            else:
                column.extend(value)
        self.rows += count

    def numpy(self, name: str) -> np.ndarray[Any, Any]:
        """One column."""
        return np.array(self.columns[name], dtype=self.schema.field(name).type.to_pandas_dtype())

    def table(self, **replaced: np.ndarray[Any, Any]) -> pa.Table:
        """The table; `replaced` columns stand for the recorded ones."""
        arrays = []
        for f in self.schema:
            if f.name in replaced:
                arrays.append(pa.array(replaced[f.name], type=f.type))
            elif str(f.type) in _CODES:
                arrays.append(pa.array(self.numpy(f.name), type=f.type))
            else:
                arrays.append(pa.array(self.columns[f.name], type=f.type))
        return pa.Table.from_arrays(arrays, schema=self.schema)


class Codes:
    """Strings → dense codes, in order of first use."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}

    def __call__(self, name: str | None) -> int:
        """The code of a string; -1 for None."""
        if name is None:
            return -1
        if name not in self._codes:
            self._codes[name] = len(self.names)
            self.names.append(name)
        return self._codes[name]


class Rows:
    """All tables of a history while they are built, with provisional numbers of ops and tps."""

    def __init__(self) -> None:
        self.columns = {name: Columns(schema) for name, schema in TABLES.items()}
        self.f, self.error, self.group, self.txn_id = Codes(), Codes(), Codes(), Codes()
        self.ops = 0
        self._tps: dict[tuple[str, int], int] = {}
        self._reached: dict[tuple[int, int], int] = {}

    def tp(self, topic: str, partition: int) -> int:
        """Provisional number of a partition (order of first use)."""
        return self._tps.setdefault((topic, partition), len(self._tps))

    def reached(self, tp: int, isolation: int, offset: int) -> None:
        """A final reader of this level has everything of `tp` below `offset`."""
        self._reached[tp, isolation] = max(offset, self._reached.get((tp, isolation), -1))

    def add_bounds(self, rows: Iterable[tuple[str, int, int, int, int]]) -> None:
        """Listed ends, and what the final readers reached. Partitions and levels that were not
        listed get an incomplete row: nothing is known of their end."""
        listed = {
            (self.tp(topic, p), isolation): (start, end) for topic, p, isolation, start, end in rows
        }
        for tp in range(len(self._tps)):
            for isolation in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
                start, end = listed.get((tp, int(isolation)), (-1, -1))
                reached = self._reached.get((tp, int(isolation)), -1)
                self.columns["bounds"].add(
                    1, tp=tp, isolation=int(isolation), start=start, end=end, read_to=reached,
                    complete=int(end >= 0 and reached >= end),
                )  # fmt: skip

    def names(self) -> dict[str, list[str]]:
        """The lists that codes point into."""
        return {
            "f": self.f.names,
            "error": self.error.names,
            "group": self.group.names,
            "txn_id": self.txn_id.names,
        }

    def tables(self) -> dict[str, pa.Table]:
        """All tables, ops ranked, partitions in order of their names, sends placed."""
        ranks = self._ranks()
        order = {tp: n for n, tp in enumerate(sorted(self._tps))}
        tp_map = np.array([order[tp] for tp in self._tps] or [0], dtype=np.int32)
        made = {}
        for name, columns in self.columns.items():
            replaced: dict[str, np.ndarray[Any, Any]] = {}
            if "tp" in columns.columns:
                replaced["tp"] = tp_map[columns.numpy("tp")]
            if "op" in columns.columns:
                ops = columns.numpy("op")
                replaced["op"] = np.where(ops >= 0, ranks[np.maximum(ops, 0)], -1).astype(np.int32)
            if name == "sends":
                replaced["place"] = self._places()
                sources = columns.numpy("src_tp")
                replaced["src_tp"] = np.where(sources >= 0, tp_map[np.maximum(sources, 0)], -1)
            made[name] = columns.table(**replaced)
        made["ops"] = made["ops"].sort_by("op")
        made["tps"] = pa.table(
            {
                "tp": pa.array(range(len(order)), pa.int32()),
                "topic": pa.array([topic for topic, _ in order], pa.string()),
                "partition": pa.array([partition for _, partition in order], pa.int32()),
            },
            schema=TABLES["tps"],
        )
        return made

    def _ranks(self) -> np.ndarray[Any, Any]:
        """Provisional op number → dense rank by completion, open ops last."""
        ops = self.columns["ops"]
        order = np.lexsort((ops.numpy("invoke_ns"), ops.numpy("complete_ns")))
        ranks = np.zeros(max(len(order), 1), dtype=np.int32)
        ranks[ops.numpy("op")[order]] = np.arange(len(order), dtype=np.int32)
        return ranks

    def _places(self) -> np.ndarray[Any, Any]:
        """Acknowledged offset, else lowest offset at which the value was read, else -1."""
        sends, reads = self.columns["sends"], self.columns["reads"]
        place = sends.numpy("offset").copy()
        missing = np.flatnonzero(place < 0)
        if not len(missing) or not reads.rows:
            return place
        order = np.lexsort((reads.numpy("offset"), reads.numpy("value"), reads.numpy("tp")))
        tps, values = reads.numpy("tp")[order], reads.numpy("value")[order]
        first = np.r_[True, (tps[1:] != tps[:-1]) | (values[1:] != values[:-1])]
        keys = zip(tps[first].tolist(), values[first].tolist(), strict=True)
        found = dict(zip(keys, reads.numpy("offset")[order][first].tolist(), strict=True))
        wanted = zip(
            sends.numpy("tp")[missing].tolist(), sends.numpy("value")[missing].tolist(), strict=True
        )
        place[missing] = [found.get(key, -1) for key in wanted]
        return place
