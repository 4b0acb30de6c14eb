"""stability: what keeps read_committed consumers waiting once all clients are gone (docs/checks.md,
"Groups, LSO, recovery")."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from checkers.allowed import Answer, Ground, not_fetched, truncation
from checkers.engine.check import AnomalyClass, Check, Tally, WholeRun
from checkers.engine.findings import INFO, RC, RU, Finding, OfTransaction, PartitionResult
from checkers.engine.kernel_input import KernelInput
from checkers.engine.partition_view import KernelView
from checkers.windows import FOREVER
from core.cluster import OpenTransaction
from core.op import GONE_MARK
from history.columns import columns
from history.events import BoundsListed, Event, Recovered, TransactionsOpen, incomplete
from history.reader import Bound, History

STUCK = "stuck-lso"
HANGING = "hanging-txn"
PROMISE = "every transaction ends, at the latest by its time-out"


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckLso(Finding):
    """A partition whose last stable offset `lso` stays below its high watermark `hw`.

    opened: the transactions that the last listing shows open from there on, the lowest first.
    """

    lso: int
    hw: int
    opened: tuple[OpenTransaction, ...]

    def sentence(self, history: History) -> str:
        """Both ends, and who holds the partition."""
        name = history.tp(self.tp)
        held = "; ".join(map(_open, self.opened[:4]))
        return (
            f"After all clients were gone and every transaction past its time-out, the last stable"
            f" offset of {name} stayed at {self.lso}, its high watermark at {self.hw}"
            + (f": {held}." if held else ".")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction(OfTransaction):
    """A transaction that a partition holds open; `ops`: the last transaction of its producer, if known."""

    opened: OpenTransaction

    def sentence(self, history: History) -> str:
        """What the listing shows, and what the client saw."""
        last = ""
        if self.ops:
            op = history.op(self.ops[0])
            ended = f"ended {op.outcome.name.lower()}" if op.completed else "never ended"
            last = (
                f"; the last transaction of {history.client(self.process)} with that id, op {op.op}, {ended}"
            )
        return (
            f"With all clients gone and all transactions past their time-out, {history.tp(self.tp)}"
            f" holds a transaction open: {_open(self.opened)}{last}."
        )


def _open(row: OpenTransaction) -> str:
    held = f"producer id {row.producer_id}, epoch {row.producer_epoch}, since offset {row.start}"
    if not row.transactional_id:
        silent = ", ".join(map(str, row.silent))
        answered = f" that answered claims it (node {silent} did not)" if silent else " claims it"
        return f"{held}; no coordinator{answered}"
    node = f", coordinated by node {row.coordinator}" if row.coordinator >= 0 else ""
    return f"{held}, transactional id {row.transactional_id}{node}"


def _kernel(p: KernelView, result: PartitionResult) -> None:
    """Of compacted partitions that are held: place of each record of a transaction at or above the last
    stable offset -> when the first record of its transaction here was sent."""
    ru, rc = map(_listed, p.bounds)
    if p.compacted is None or ru is None or rc is None or rc.end >= ru.end:
        return
    held = np.flatnonzero((p.sends["place"] >= rc.end) & (p.sends["txn"] == 1))
    begun: dict[int, int] = {}
    for place, ns in zip(p.sends["place"][held].tolist(), p.first_sent[held].tolist(), strict=True):
        begun[place] = min(ns, begun.get(place, ns))
    result.parts[NAME] = begun


def _join(run: WholeRun, tally: Tally) -> None:
    if not run.known.on_record.final_reads:
        return
    # Cut short, never recovered, or listed while ends still moved: open transactions had no time to end, or
    # no coordinator to end them.
    early = any(map(incomplete, run.events))
    early |= any(isinstance(e, BoundsListed) and bool(e.moving) for e in run.events)
    early |= any(isinstance(e, Recovered) and not e.recovered for e in run.events)
    early |= not run.known.on_record.recovery and _in_doubt(run.tables)
    opened, begun = _last_listing(run.events), dict(tally.parts_of(NAME, dict))
    unlisted: list[int] = []
    for row in run.tables["tps"].to_pylist():
        if GONE_MARK in row["topic"]:
            continue  # a deleted topic has no end
        tp, levels = row["tp"], run.known.bounds.get(row["tp"], {})
        ru, rc = _listed(levels.get(RU)), _listed(levels.get(RC))
        if ru is None or rc is None or (rc.end < ru.end and early):
            unlisted.append(tp)
        elif rc.end < ru.end:
            own = [o for o in opened if (o.topic, o.partition) == (row["topic"], row["partition"])]
            # one that begins below has ended since, or what it began with was deleted
            own = sorted((o for o in own if max(o.start, rc.start) >= rc.end), key=lambda o: o.start)
            stuck = StuckLso(key=(tp,), lso=rc.end, hw=ru.end, opened=tuple(own))
            tally.add(STUCK, [stuck], _excuse(run.known, tp, begun.get(tp, {}).get(rc.end)))
            for hanging in _hanging(run.tables, tp, own):
                start = begun.get(tp, {}).get(hanging.opened.start)
                tally.add(HANGING, [hanging], _excuse(run.known, tp, start))
    why = "where the logs of {where} end with all transactions over is not known"
    tally.doubt(NAME, len(unlisted), why, tps=unlisted)


def _excuse(known: KernelInput, tp: int, begun: int | None) -> int:
    """The code of what may have kept a marker from a partition. begun: when the first record of its
    transaction there was sent, None = not known."""
    since, ever = np.full(1, known.transactions), np.full(1, FOREVER)
    first = since if begun is None else np.full(1, begun)
    return int(known.windows.excuses_of_markers(tp, since, ever, begun=first)[0])


def _in_doubt(tables: Mapping[str, pa.Table]) -> bool:
    """Some transaction may not have ended. Whether an import's ends were listed after its time-out is not
    on record."""
    ops = columns(tables["ops"], ("txn", "outcome"))
    return bool(((ops["txn"] == 1) & (ops["outcome"] == INFO)).any())


def _last_listing(events: Iterable[Event]) -> Sequence[OpenTransaction]:
    """What the last listing of open transactions showed; nothing where there was none."""
    listed = [event for event in events if isinstance(event, TransactionsOpen)]
    return listed[-1].rows if listed else ()


def _listed(bound: Bound | None) -> Bound | None:
    return bound if bound is not None and bound.end >= 0 else None


def _hanging(
    tables: Mapping[str, pa.Table], tp: int, rows: Sequence[OpenTransaction]
) -> list[HangingTransaction]:
    """One finding for each producer: its lowest transaction (rows are sorted so)."""
    found: dict[int, HangingTransaction] = {}
    for row in rows:
        if row.producer_id not in found:
            process, ops = _last_transaction(tables, row)
            key = (tp, row.producer_id)
            found[row.producer_id] = HangingTransaction(key=key, process=process, ops=ops, opened=row)
    return list(found.values())


def _last_transaction(tables: Mapping[str, pa.Table], row: OpenTransaction) -> tuple[int, tuple[int, ...]]:
    """The last process whose client gave this producer id as its own, and its last transaction; -1 and
    none where no client did."""
    identities = columns(tables["producers"], ("process", "producer_id", "ns"))
    mine = np.flatnonzero(identities["producer_id"] == row.producer_id)
    if not len(mine):
        return -1, ()
    process = int(identities["process"][mine[np.argmax(identities["ns"][mine])]])
    ops = columns(tables["ops"], ("op", "process", "txn", "invoke_ns"))
    own = np.flatnonzero((ops["process"] == process) & (ops["txn"] == 1))
    if not len(own):
        return process, ()
    return process, (int(ops["op"][own[np.argmax(ops["invoke_ns"][own])]]),)


def _held_back(ground: Ground, _: str) -> Answer:
    """A transaction stays open in a partition."""
    reason = truncation(ground) or not_fetched(ground, "the marker")
    return (True, reason) if reason else (False, PROMISE)


NAME = "stability"
CHECK = Check(
    claim="Every transaction ends: the last stable offset reaches the end of the log once all clients"
    " are gone.",
    anomalies={
        STUCK: AnomalyClass(
            title="Last stable offset stuck",
            meaning="With all clients gone and all transactions past their time-out, the last stable"
            " offset stays below the high watermark: read_committed consumers wait for ever.",
            literature="hanging transaction",
            half=True,
            rule=_held_back,
        ),
        HANGING: AnomalyClass(
            title="Hanging transaction",
            meaning="With all clients gone and all transactions past their time-out, a partition still"
            " holds a transaction open: nothing behind it reaches a read_committed consumer.",
            literature="hanging transaction",
            half=True,
            rule=_held_back,
        ),
    },
    kernel=_kernel,
    join=_join,
    needs="final_reads",
    subject="sends",
)
