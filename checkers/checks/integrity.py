"""integrity: records that were not sent like this, or not here (docs/checks.md, "Isolation and
integrity")."""

from dataclasses import dataclass
from operator import itemgetter
from typing import Final

import numpy as np

from checkers.allowed import never, unless_truncated
from checkers.engine.check import AnomalyClass, Check, Early, Tally, WholeRun
from checkers.engine.findings import Finding, PartitionResult, at, reader
from checkers.engine.partition_view import KernelView
from checkers.windows import NO_EXCUSE, TRANSACTIONS
from history.reader import History
from history.tables import FOREIGN_REASONS

NAME = "integrity"
PHANTOM = "phantom-read"
CORRUPT = "corrupt-record"
MISDIRECTED = "misdirected-record"
UNCOMMITTED = "uncommitted"

FOREIGN: Final = {
    "unreadable": (CORRUPT, "a payload that cannot be read"),
    "corrupt": (CORRUPT, "a payload whose checksum is wrong"),
    "misdirected": (MISDIRECTED, "a record that was sent to another topic or partition"),
    "other-run": (PHANTOM, "a record of another run"),
    UNCOMMITTED: (PHANTOM, "a copy of a record that the committed input does not have"),
}
"""Reason of a row of `foreign` -> anomaly class, and what the consumer got."""


class PhantomRead(Finding):
    """A record that no process sent to this partition."""

    def sentence(self, history: History) -> str:
        """Who read it."""
        (r,) = self.records
        return (
            f"{reader(history, r.op)} got {r.text(history)} at offset {r.offset}"
            f" {at(history, self.at_ns)}; no client sent that record to this partition."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRecord(Finding):
    """A payload at `offset` that is not a record of this partition. reason: a key of `FOREIGN`."""

    reason: str
    offset: int

    def sentence(self, history: History) -> str:
        """Who got what."""
        return (
            f"{reader(history, self.ops[0])} got {FOREIGN[self.reason][1]} at offset"
            f" {self.offset} of {history.tp(self.tp)}."
        )


def _kernel(p: KernelView, result: PartitionResult) -> None:
    rows = p.odd[p.writer[p.odd] < 0]
    if (p.known.broke_off or len(p.known.cut)) and len(rows):
        process = p.reads["value"][rows] >> 32  # `core.op.process_of`
        unsure = np.isin(process, p.known.cut)
        if p.known.broke_off:
            unsure |= ~np.isin(process, p.known.processes)
        result.parts[NAME] = len(np.unique(p.reads["value"][rows[unsure]]))
        rows = rows[~unsure]
    if not len(rows):
        return
    pairs = np.stack((p.reads["offset"][rows], p.reads["value"][rows]), axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)

    def phantom(row: int) -> Finding:
        r = p.got(row)
        return PhantomRead(key=(p.tp, r.offset, r.value), records=(r,), at_ns=r.done_ns)

    result.report(PHANTOM, rows[first], phantom)


def _join(run: WholeRun, tally: Tally) -> None:
    found: dict[tuple[str, int, int], ForeignRecord] = {}
    for row in sorted(run.tables["foreign"].to_pylist(), key=itemgetter("reason")):
        tp, offset, reason = row["tp"], row["offset"], FOREIGN_REASONS[row["reason"]]
        name = FOREIGN[reason][0]
        value = (-1,) if name == PHANTOM else ()
        finding = ForeignRecord(key=(tp, offset, *value), ops=(row["op"],), reason=reason, offset=offset)
        found.setdefault((name, tp, offset), finding)
    lost = run.known.windows.anywhere(TRANSACTIONS)  # the input that an application copied, since
    for (name, _, _), foreign in found.items():
        tally.add(name, [foreign], lost if foreign.reason == UNCOMMITTED else NO_EXCUSE)
    parts = [(tp, number) for tp, number in tally.parts_of(NAME, int) if number]
    why = (
        "{number} records of {where} were read, and no journal says that they were sent; but the newest lines"
        " of journals may be gone"
    )
    tally.doubt(NAME, sum(number for _, number in parts), why, tps=sorted({tp for tp, _ in parts}))


CHECK = Check(
    claim="Consumers get what was sent to the partition, unchanged, and nothing else.",
    anomalies={
        PHANTOM: AnomalyClass(
            title="Record that no client sent",
            absence=True,
            meaning="A consumer was given a record that no producer of this run sent to this partition.",
            early=Early(("tp", "offset", "value")),
            rule=unless_truncated("a log holds what was sent to it, nothing else"),
        ),
        CORRUPT: AnomalyClass(
            title="Record damaged",
            meaning="A record came back with a payload that fails its checksum or cannot be read.",
            early=Early(("tp", "offset")),
            rule=never("payloads come back unchanged"),
        ),
        MISDIRECTED: AnomalyClass(
            title="Record in the wrong partition",
            meaning="A record was stored in, or served from, another topic or partition than it was sent to.",
            early=Early(("tp", "offset")),
            rule=never("a record stays where it was sent"),
        ),
    },
    kernel=_kernel,
    join=_join,
    content=True,
    subject="reads",
)
