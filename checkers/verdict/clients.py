"""The clients of a run as its history has them: how many of each kind there were."""

from collections.abc import Sequence

import numpy as np

from core.op import Isolation, Phase
from history.columns import numbers
from history.reader import History
from history.tables import NO_PRODUCER
from history.verdict import RecordedClients

NONE = -1


def clients(history: History) -> list[RecordedClients]:
    """Kinds of clients that loaded the cluster, the most frequent first; final readers are none of them.

    A client that was ended and started again counts once: what counts is its slot. Who produces and who
    consumes, settings say; of a recording of another program, which seldom has them, what its clients did.
    """
    table, ops = history.tables["processes"], history.tables["ops"]
    process, phase = numbers(ops, "process"), numbers(ops, "phase")
    final = np.setdiff1d(process[phase == Phase.FINAL], process[phase != Phase.FINAL])
    names = ("process", "slot", "acks", "idempotent", "txn_id", "isolation", "group")
    columns = {name: numbers(table, name).astype(np.int64) for name in names}
    if history.config.get("imported") is not None:
        polls = [code for code, name in enumerate(history.names.f) if name == "poll"]
        sent = np.isin(columns["process"], process[numbers(ops, "n_sends") > 0])
        polled = np.isin(
            columns["process"], process[(numbers(ops, "n_reads") > 0) | np.isin(numbers(ops, "f"), polls)]
        )
        columns["acks"] = np.where(sent, columns["acks"], NO_PRODUCER)
        columns["isolation"] = np.where(polled, columns["isolation"], NONE)
    loading = ~np.isin(columns["process"], final)
    kinds = np.column_stack(
        [
            columns["slot"],
            columns["acks"],
            columns["idempotent"] == 1,
            columns["txn_id"] >= 0,
            columns["isolation"],
            columns["group"] >= 0,
        ]
    )[loading]
    one_each = np.unique(kinds, axis=0)[:, 1:]
    different, counts = np.unique(one_each, axis=0, return_counts=True)
    found = [_kind(row, count) for row, count in zip(different.tolist(), counts.tolist(), strict=True)]
    return sorted(found, key=lambda kind: (-kind.count, not kind.produces))


def _kind(row: Sequence[int], count: int) -> RecordedClients:
    acks, idempotent, transactional, isolation, group = row
    produces = acks != NO_PRODUCER
    return RecordedClients(
        count=count,
        produces=produces,
        acks=acks if produces else None,
        idempotent=produces and bool(idempotent),
        transactional=produces and bool(transactional),
        isolation="" if isolation == NONE else Isolation(isolation).name.lower(),
        group=bool(group),
    )
