"""compaction: keys of compacted topics that were deleted and are back (docs/checks.md, "Delivery").

That each key keeps its newest record is durability's claim: the loss of a record that no later one of its key
accounts for is a lost write.
"""

from dataclasses import dataclass

import numpy as np

from checkers.allowed import Answer, Ground, not_fetched
from checkers.checks.durability import loss, promised
from checkers.engine.check import AnomalyClass, Check
from checkers.engine.compaction import keys_of
from checkers.engine.findings import ACKS, FINAL, NEVER, Finding, PartitionResult, What, at
from checkers.engine.partition_view import KernelView
from core.keys import key_of
from history.columns import Array
from history.reader import History

RESURRECTED = "resurrected-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResurrectedKey(Finding):
    """A tombstone that is gone, while an older record of its key is in the log."""

    def sentence(self, history: History) -> str:
        """The tombstone, and what is read in its place."""
        tombstone = self.only(What.SEND)[0]
        older = self.only(What.READ)
        shown = f": {older[0].text(history)} at offset {older[0].offset}" if older else ""
        return (
            f"{tombstone.text(history)}, sent by {history.client(self.process)}, deleted key"
            f" {key_of(tombstone.value)} at offset {tombstone.offset} {at(history, self.at_ns)}; the final"
            f" reads did not return it, nor a later record of the key, but an older one{shown}."
        )


def _kernel(p: KernelView, result: PartitionResult) -> None:
    gone = p.compacted
    if gone is None:
        return
    absent = p.absent(np.flatnonzero(p.committed & ~p.shown_rc))
    result.parts[NAME] = int(np.count_nonzero(gone.removable[absent]))
    back = absent[gone.expired[absent] & ~gone.replaced[absent] & gone.older[absent]]
    back = back[~p.shown_any[back]]

    def resurrected(row: int) -> Finding:
        s = p.placed(row)
        older = (p.reads["phase"] == FINAL) & (p.reads["offset"] < s.offset)
        older &= keys_of(p.reads["value"]) == key_of(s.value)
        shown = np.flatnonzero(older & (p.writer >= 0))[-1:]
        return ResurrectedKey(
            key=(p.tp, s.value),
            process=s.process,
            ops=(s.op,),
            records=(s, *map(p.got, shown.tolist())),
            at_ns=s.done_ns,
        )

    since, until = p.sends["invoke_ns"][back], np.full(len(back), NEVER)
    excuses = p.excuses(back, since, until, read=p.read_before[back])
    excuses = p.windows.or_away(excuses, since, _missed_until(p, back))
    result.report(RESURRECTED, back, resurrected, promised(p, back), ACKS, excuses=excuses)


def _missed_until(p: KernelView, rows: Array) -> Array:
    """Of each of these tombstones: until when a replica that was away may have missed it, NEVER = for ever.
    Each one in sync had it when it was acknowledged to a producer that waits for all; unless it lost its
    power since, or misses what decides the transaction, it has it when it comes back."""
    acked, ever = p.sends["ack_ns"][rows], np.full(len(rows), NEVER)
    by_all = ~p.known.weak[p.owner[rows]] & (acked >= 0) & (p.sends["txn"][rows] == 0)
    by_all &= ~p.windows.any_power.every.between(p.sends["invoke_ns"][rows], ever)
    return np.where(by_all, acked, ever)


def back_again(ground: Ground, variant: str) -> Answer:
    """A deleted key has an older record again: the log lost the tombstone, or removed it too early."""
    if reason := not_fetched(ground, "the tombstone"):
        return True, reason
    lost, why = loss(ground, variant)
    removed = "the cleaner removes a tombstone only when no older record of its key is left"
    return lost, why if lost else removed


NAME = "compaction"
CHECK = Check(
    claim="A deleted key of a compacted topic stays deleted.",
    anomalies={
        RESURRECTED: AnomalyClass(
            title="Deleted key back",
            absence=True,
            meaning="A key was deleted, and nothing was sent for it since; the log has lost the tombstone,"
            " and has an older record of the key.",
            literature="resurrected deletes; zombie records",
            rule=back_again,
        )
    },
    kernel=_kernel,
    content=True,
    needs="final_reads",
    subject="compaction",
)
