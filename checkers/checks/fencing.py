"""fencing: what a process wrote or committed after another had taken its transactional id over
(docs/checks.md, "zombie-write").

The kernel finds records behind those of a successor; the join finds transactions that were committed
although they wrote something after a successor had begun.
"""

from dataclasses import dataclass

import numpy as np

from checkers.allowed import unless_truncated
from checkers.engine.check import AnomalyClass, Check, Early, Tally, WholeRun
from checkers.engine.findings import (
    FAIL,
    INFO,
    NEVER,
    OK,
    Finding,
    OfTransaction,
    PartitionResult,
    Variant,
    at,
)
from checkers.engine.partition_view import KernelView
from checkers.engine.slots import distinct
from core.internal_topics import TRANSACTION_TOPIC
from core.op import CommitKind
from history.columns import columns
from history.reader import History

ZOMBIE = "zombie-write"


class Zombie(Variant):
    """A record, committed or not; or the commit of a transaction."""

    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZombieRecord(Finding):
    """A record behind one of a successor: the successor's record (by `heir`), and the zombie's."""

    heir: int

    def sentence(self, history: History) -> str:
        """Both records."""
        before, after = self.records
        fate = "it is committed" if self.variant is Zombie.COMMITTED else "it is not committed"
        return (
            f"{after.text(history)}, by {history.client(self.process)}, stands at offset"
            f" {after.offset}, behind record {before.name} at offset {before.offset} by"
            f" {history.client(self.heir)}, which had taken its transactional id over; {fate}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZombieCommit(OfTransaction):
    """A transaction that wrote after `heir` had its transactional id, and committed. fenced_ns: when a
    successor had it for certain."""

    heir: int
    fenced_ns: int

    def sentence(self, history: History) -> str:
        """Who committed after whom."""
        return (
            f"{history.client(self.process)} committed the transaction op {self.ops[0]}"
            f" {at(history, self.at_ns)}, and had written a part of it after"
            f" {history.client(self.heir)} had taken its transactional id over, {at(history, self.fenced_ns)}"
            " at the latest."
        )


def _kernel(p: KernelView, result: PartitionResult) -> None:
    tenure = p.known.tenure
    if tenure is None or not len(p.sends["op"]):
        return
    sends = p.sends
    late = (sends["invoke_ns"] > tenure.fenced[p.owner]) & (sends["outcome"] != FAIL)
    late &= (sends["txn"] == 1) & (sends["op_outcome"] != FAIL)
    result.parts[NAME] = distinct(sends["op"][late])
    lowest = np.full(len(p.known.processes), NEVER)
    rows = np.flatnonzero(sends["place"] >= 0)
    np.minimum.at(lowest, p.owner[rows], sends["place"][rows])
    bound = tenure.lowest_of_successors(lowest)[p.owner]
    hits = rows[bound[rows] < sends["place"][rows]]

    def zombie(row: int) -> Finding:
        heirs = np.isin(p.owner, tenure.successors(int(p.owner[row])))
        first = p.placed(int(np.flatnonzero((sends["place"] == bound[row]) & heirs)[0]))
        own = p.placed(row)
        key, shown = (p.tp, own.value), (first, own)
        return ZombieRecord(
            key=key, process=own.process, records=shown, at_ns=own.done_ns, heir=first.process
        )

    fates = {1: Zombie.COMMITTED, 0: Zombie.UNCOMMITTED}
    # a log that lost its end has room for the successor's record below, long after the zombie's answer
    excuses = p.excuses_with(tenure.since[p.owner[hits]], np.full(len(hits), NEVER), TRANSACTION_TOPIC)
    result.report(ZOMBIE, hits, zombie, p.committed[hits], fates, excuses=excuses)


def _join(run: WholeRun, tally: Tally) -> None:
    tenure = run.known.tenure
    if tenure is None:
        return
    late = tally.parts_of(NAME, np.ndarray)
    names = ("op", "process", "outcome", "txn", "invoke_ns", "complete_ns")
    ops = columns(run.tables["ops"], names)
    commits = columns(run.tables["commits"], ("op", "process", "kind", "invoke_ns"))
    fenced = tenure.fenced[run.known.positions(commits["process"])]
    too_late = (commits["kind"] == CommitKind.TXN) & (commits["invoke_ns"] > fenced)
    suspects = distinct(np.concatenate([*(ops for _, ops in late), commits["op"][too_late]]))
    rows = np.flatnonzero(np.isin(ops["op"], suspects) & (ops["txn"] == 1))
    outcome = ops["outcome"][rows]
    proven = (outcome == INFO) & np.isin(ops["op"][rows], run.known.proven)
    hits = rows[(outcome == OK) | proven]

    def zombie(row: int) -> Finding:
        op, process, done = (int(ops[name][row]) for name in ("op", "process", "complete_ns"))
        own = int(np.searchsorted(run.known.processes, process))
        heirs = tenure.successors(own)
        return ZombieCommit(
            key=(-1, op),
            process=process,
            ops=(op,),
            at_ns=done,
            heir=int(run.known.processes[heirs[np.argmin(tenure.begun[heirs])]]),  # the first to begin
            fenced_ns=int(tenure.fenced[own]),
        )

    since = tenure.since[run.known.positions(ops["process"][hits])]
    logs = (*run.known.windows.partitions, TRANSACTION_TOPIC)
    excuses = run.known.windows.excuses(logs, since, np.full(len(hits), NEVER))
    tally.report(ZOMBIE, hits, zombie, np.zeros(len(hits)), {0: Zombie.COMMIT}, excuses=excuses)


NAME = "fencing"
CHECK = Check(
    claim="Once a producer has taken a transactional id over, nothing of its predecessor is written or"
    " committed any more.",
    anomalies={
        ZOMBIE: AnomalyClass(
            title="Fenced producer still writes",
            meaning="A producer wrote, or committed, after another had taken over its transactional id.",
            literature="fencing violation; zombie instance",
            early=Early(("tp", "value")),
            rule=unless_truncated("the last InitProducerId of a transactional id fences all before it"),
        )
    },
    kernel=_kernel,
    join=_join,
    needs="recovery",
    subject="successors",
)
