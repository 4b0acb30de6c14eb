"""atomicity: transactions with some records visible while others never will be (docs/checks.md,
"Delivery").

The kernel finds what no counting read showed; the join puts the records of one op together.
"""

from dataclasses import dataclass

import numpy as np

from checkers.allowed import unless_truncated
from checkers.checks.durability import passed_over
from checkers.engine.check import AnomalyClass, Check, Tally, WholeRun
from checkers.engine.findings import FAIL, NEVER, OK, Finding, OfTransaction, PartitionResult
from checkers.engine.partition_view import KernelView
from core.internal_topics import TRANSACTION_TOPIC
from history.columns import Array
from history.reader import History, value_text

TORN = "torn-txn"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenRecords:
    """Records of transactions (OK or INFO) that no counting read showed, one entry each. missing, undecided:
    flags; a record with neither need not be there. excuse: a key of `EXCUSES`."""

    op: Array
    op_sends: Array
    value: Array
    missing: Array
    undecided: Array
    excuse: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class TornTransaction(OfTransaction):
    """A transaction with `seen` visible and `missing` invisible records; the first of these is
    `first_missing`, a partition and a value."""

    seen: int
    missing: int
    first_missing: tuple[int, int]

    def sentence(self, history: History) -> str:
        """How many of its records became visible."""
        op = history.op(self.ops[0])
        tp, value = self.first_missing
        ended = "committed" if op.outcome == OK else "ended indeterminate"
        return (
            f"Transaction op {op.op} of {history.client(op.process)} {ended}; {self.seen} of its"
            f" records became visible to read_committed consumers, {self.missing} never did"
            f" (first of them: record {value_text(value)} of {history.tp(tp)})."
        )


def _kernel(p: KernelView, result: PartitionResult) -> None:
    sends = p.sends
    maybe = (sends["txn"] == 1) & (sends["op_outcome"] != FAIL)
    rows = np.flatnonzero(maybe & (~p.seen | (sends["outcome"] == FAIL)))
    expected = sends["outcome"][rows] != FAIL
    if p.known.on_record.final_reads:
        missing, undecided = (np.isin(rows, some) for some in p.fates(rows[expected & ~p.shown_rc[rows]]))
        cut = missing & np.isin(sends["op"][rows], p.known.cut_ops)
        missing, undecided = missing & ~cut, undecided | cut
    elif p.known.on_record.exhausted:
        missing, undecided = expected, np.zeros(len(rows), bool)
    else:
        missing = np.isin(rows, passed_over(p))
        undecided = expected & ~missing
    if len(rows):
        since = np.where(p.may_be_hidden(rows), p.first_sent[rows], sends["invoke_ns"][rows])
        result.parts[NAME] = UnseenRecords(
            op=sends["op"][rows],
            op_sends=sends["op_sends"][rows],
            value=sends["value"][rows],
            missing=missing,
            undecided=undecided,
            excuse=p.excuses_with(since, np.full(len(rows), NEVER), TRANSACTION_TOPIC),
        )


def _join(run: WholeRun, tally: Tally) -> None:
    parts = tally.parts_of(NAME, UnseenRecords)
    if not parts:
        return
    unseen = [part for _, part in parts]
    op, gone, unsure, value, op_sends, excuse = (
        np.concatenate([getattr(each, name) for each in unseen])
        for name in ("op", "missing", "undecided", "value", "op_sends", "excuse")
    )
    tp = np.repeat([tp for tp, _ in parts], [len(each.op) for each in unseen])
    ops, first, which = np.unique(op, return_index=True, return_inverse=True)
    seen = op_sends[first] - np.bincount(which)
    missing = np.bincount(which[gone], minlength=len(ops))
    undecided = np.bincount(which[unsure], minlength=len(ops))
    torn = np.flatnonzero((seen > 0) & (missing > 0))
    excused = np.full(len(ops), np.iinfo(np.int64).max)  # by what excuses each of its missing records
    np.minimum.at(excused, which[gone], excuse[gone])
    tally.doubt(
        NAME,
        int(((seen > 0) & (missing == 0) & (undecided > 0)).sum()),
        "{number} transactions are partly visible, and nothing on record decides of the rest",
    )

    def torn_transaction(at: int) -> Finding:
        lost = int(np.flatnonzero((which == at) & gone)[0])
        return TornTransaction(
            key=(-1, int(ops[at])),
            ops=(int(ops[at]),),
            seen=int(seen[at]),
            missing=int(missing[at]),
            first_missing=(int(tp[lost]), int(value[lost])),
        )

    tally.report(TORN, torn, torn_transaction, excuses=excused[torn])


NAME = "atomicity"
CHECK = Check(
    claim="A transaction is visible as a whole or not at all.",
    anomalies={
        TORN: AnomalyClass(
            title="Transaction torn apart",
            absence=True,
            meaning="Of the records of one transaction some are visible to read_committed consumers and"
            " others never will be.",
            literature="atomicity violation; fractured write",
            half=True,
            rule=unless_truncated("a transaction is visible as a whole or not at all"),
        )
    },
    kernel=_kernel,
    join=_join,
    content=True,
    subject="transactions",
)
