"""stuck-lso and hanging-txn: what keeps read_committed consumers waiting once all clients are gone
(docs/checks.md, "Groups, LSO, recovery").

Not here: the labels of known bugs that leave transactions open (`checkers.known_bugs`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.kernel_types import RC, RU, Bound, Context, Finding
from checkers.sealed import columns, rows_where
from harness.events import Event, Note, OpenTransaction, Recovered, TransactionsOpen


def stability(
    tables: Mapping[str, pa.Table], context: Context, events: Sequence[Event]
) -> tuple[list[Finding], list[int]]:
    """All findings; partitions of which it is not known where their logs ended, all transactions
    over."""
    # Cut short, or never recovered: open transactions had not the time, or nobody, to be ended.
    early = any(isinstance(e, Note) and e.incomplete for e in events)
    early |= any(isinstance(e, Recovered) and not e.recovered for e in events)
    opened = open_transactions(events)
    findings: list[Finding] = []
    unlisted: list[int] = []
    for row in tables["tps"].to_pylist():
        tp, levels = row["tp"], context.bounds.get(row["tp"], {})
        ru, rc = levels.get(RU), levels.get(RC)
        if not _listed(ru) or not _listed(rc):
            unlisted.append(tp)
            continue
        assert ru is not None
        assert rc is not None
        if rc.end < ru.end and early:
            unlisted.append(tp)
        elif rc.end < ru.end:
            findings.append(
                Finding(
                    name="stuck-lso", key=(tp,), tp=tp, detail={"lso": rc.end, "hw": ru.end}
                )
            )  # fmt: skip
            mine = [o for o in opened if (o.topic, o.partition) == (row["topic"], row["partition"])]
            findings += _hanging(tables, tp, [one for one in mine if one.start >= rc.end])
    return findings, unlisted


def open_transactions(events: Sequence[Event]) -> Sequence[OpenTransaction]:
    """What the last listing of open transactions said; nothing where there was none."""
    listed = [event for event in events if isinstance(event, TransactionsOpen)]
    return listed[-1].rows if listed else ()


def _listed(bound: Bound | None) -> bool:
    return bound is not None and bound.end >= 0


def _hanging(
    tables: Mapping[str, pa.Table], tp: int, rows: Sequence[OpenTransaction]
) -> list[Finding]:
    """One finding for each producer."""
    found = {}
    for row in rows:
        process, ops = _last_transaction(tables, row)
        found[row.producer_id] = Finding(
            name="hanging-txn",
            key=(tp, row.producer_id),
            tp=tp,
            process=process,
            ops=ops,
            detail={"epoch": row.producer_epoch, "start": row.start, "node": row.coordinator},
        )
    return list(found.values())


def _last_transaction(
    tables: Mapping[str, pa.Table], row: OpenTransaction
) -> tuple[int, tuple[int, ...]]:
    """The last process whose client said that this producer id was its own, and its last transaction;
    -1 and none where no client said so."""
    identities = columns(tables["producers"])
    mine = np.flatnonzero(identities["producer_id"] == row.producer_id)
    if not len(mine):
        return -1, ()
    process = int(identities["process"][mine[np.argmax(identities["ns"][mine])]])
    own = rows_where(tables["ops"], "process", np.array([process], np.int32))
    ops: list[dict[str, Any]] = [op for op in own.to_pylist() if op["txn"]]
    last = max(ops, key=lambda op: int(op["invoke_ns"]), default=None)
    return process, () if last is None else (int(last["op"]),)
