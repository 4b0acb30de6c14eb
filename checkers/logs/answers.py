"""Ring 3, clients: what they learned about transactions is in the coordinators' log.

Without a history of clients these rules are not asked.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from checkers.engine.check import Tally, WholeRun
from checkers.engine.findings import NOWHERE, Found, LogFinding
from checkers.logs.classes import LOST_DECISION
from checkers.logs.clocks import CLOCK_MS, jumped_ms, nodes_apart_ms, own_clocks
from checkers.logs.coordinator_log import Row
from checkers.logs.rule import Rule, checks_of
from checkers.logs.transactions import Transaction, TransactionLogs, transaction_logs
from core.internal_topics import TRANSACTION_TOPIC
from core.op import CommitKind, Outcome, TopicPartition
from history.columns import columns
from history.evidence import Evidence
from history.reader import History, Identity, OpRecord, Process
from history.unit_files import EVERYWHERE

ANSWERED: Final = "answers-decided"
IDENTITIES: Final = "identities-logged"
FENCED: Final = "fencing-logged"

RULES: Final = {
    ANSWERED: Rule(
        "A transaction that its client saw committed has a PrepareCommit of its own in `__transaction_state`"
        " while the client waited, of an epoch that no other process had, unless all its records and offsets"
        " failed; one that its client saw aborted has no PrepareCommit.",
        "KIP-98; TransactionCoordinator.endTransaction",
        LOST_DECISION,
        rests_on=(TRANSACTION_TOPIC,),
    ),
    IDENTITIES: Rule(
        "Each producer id and epoch that a transactional client received is in `__transaction_state` under"
        " its transactional id.",
        "KIP-98, KIP-360; TransactionCoordinator.initProducerId",
        rests_on=(TRANSACTION_TOPIC,),
    ),
    FENCED: Rule(
        "For a client that learns that it is fenced, `__transaction_state` has a later epoch or producer id"
        " of its transactional id.",
        "KIP-98, KIP-360; TransactionMetadata.prepareFenceProducerEpoch",
        rests_on=(TRANSACTION_TOPIC,),
    ),
}

FENCING: Final = frozenset({"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
"""Codes by which a client learns that another instance of its transactional id has begun."""


def join(run: WholeRun, result: Tally) -> None:
    """Apply the rules to each process with a transactional id."""
    if run.history is None:
        return
    found = _Answers(run.evidence, run.history, result)
    for process in run.history.processes.values():
        if process.transactional_id:
            found.answers(process)
            found.identities(process)
            found.fenced(process)
    found.without_decision()


CHECKS: Final = checks_of(RULES, ring=3, join=join)


class _Commit(NamedTuple):
    """A transaction that a client saw committed: from when to when, and its op."""

    since_ms: int
    until_ms: int
    op: int


class _Answers:
    def __init__(self, evidence: Evidence, history: History, result: Found) -> None:
        self.evidence = evidence
        self.history = history
        self.logs: TransactionLogs = evidence.once(transaction_logs)
        self.result = result
        self.apart_ms = CLOCK_MS + jumped_ms(history)
        self.nodes_apart_ms, self.own_clocks = nodes_apart_ms(history), own_clocks(history)
        self.suspects: list[tuple[Process, list[_Commit]]] = []
        """Of processes that saw more commits than there are decisions: all these."""
        self.owners: dict[tuple[int, int], set[int]] = {}
        """Producer id and epoch -> the processes that had them."""
        for process in history.processes.values():
            for known in history.identities(process.process):
                of = self.owners.setdefault((known.producer_id, known.producer_epoch), set())
                of.add(process.process)
        self.by_id: dict[str, list[Transaction]] = {}
        for every in self.logs.of.values():
            for one in every:
                self.by_id.setdefault(one.transactional_id, []).append(one)

    def answers(self, process: Process) -> None:
        """Transactions that its client saw committed or aborted."""
        committed = []
        for op in self._transactions(process):
            since, until = (self.history.wall_ms(ns) for ns in (op.invoke_ns, op.complete_ns))
            if op.outcome == Outcome.OK:
                self.result.asked[ANSWERED] += 1
                committed.append(_Commit(since, until, op.op))
            elif op.outcome == Outcome.FAIL:
                self._aborted(process, op, since, until)
        if self._undecided(process, committed):
            self.suspects.append((process, committed))

    def _undecided(self, process: Process, committed: Sequence["_Commit"]) -> list["_Commit"]:
        """Commits of a process that have no decision of their own. A process has one transaction at a time:
        each takes the first decision while it lasted that the one before left."""
        decided = np.array(self._decisions(process), np.int64)
        found, taken = [], 0
        for one in sorted(committed):
            at = max(taken, int(np.searchsorted(decided, one.since_ms - self.apart_ms)))
            if at < len(decided) and decided[at] <= one.until_ms + self.apart_ms:
                taken = at + 1
            else:
                found.append(one)
        return found

    def _decisions(self, process: Process) -> list[int]:
        """When commits of its transactional id were decided, of no epoch that another process had."""
        times = []
        for one in self.by_id.get(process.transactional_id, []):
            owners = self.owners.get((one.producer_id, one.epoch), ())
            if not owners or process.process in owners:
                times += [each.ms for each in one.decisions if each.commit]
        return sorted(times)

    def without_decision(self) -> None:
        """Refuse the commits without a decision. A transaction whose records all failed, and that has no
        offsets, has no partition, and a client ends it without its coordinator."""
        if not self.suspects:
            return
        ops = {one.op for _, committed in self.suspects for one in committed}
        sends = self.history.sends({EVERYWHERE: {"op": ops}})
        commits = columns(self.history.tables["commits"], ("op", "kind", "outcome"))
        taken = (commits["kind"] == CommitKind.TXN) & (commits["outcome"] != Outcome.FAIL)
        added = {row.op for row in sends if row.outcome != Outcome.FAIL}
        added.update(commits["op"][taken].tolist())
        for process, committed in self.suspects:
            # whenever it was decided, a commit needs a decision
            doubt = self.own_clocks if self._decisions(process) else ""
            for one in self._undecided(process, [each for each in committed if each.op in added]):
                text = (
                    f"op {one.op} of {process}, from {one.since_ms} to {one.until_ms} ms, was committed, as"
                )
                text += " its client saw; __transaction_state has no PrepareCommit of its own then"
                since_ns = self.history.op(one.op).invoke_ns
                self._tell(ANSWERED, process, -1, text, ms=one.since_ms, since_ns=since_ns, doubt=doubt)

    def _aborted(self, process: Process, op: OpRecord, since: int, until: int) -> None:
        """No commit of its producer begins and ends while an op ran that did not happen."""
        known = [one for one in self.history.identities(process.process) if one.ns <= op.complete_ns]
        if not known:
            return
        self.result.asked[ANSWERED] += not self.own_clocks
        for one in self.by_id.get(process.transactional_id, []):
            mine = (one.producer_id, one.epoch) == (known[-1].producer_id, known[-1].producer_epoch)
            if not mine or not one.decisions or not one.decisions[-1].commit:
                continue
            last = one.decisions[-1]
            within = one.began_ms >= since + self.apart_ms and last.ms <= until - self.apart_ms
            if within or self.own_clocks:
                text = f"op {op.op} of {process} was aborted, as its client saw; {one.text} was decided by"
                text += f" {last.text}"
                doubt = self.own_clocks
                self._tell(ANSWERED, process, last.offset, text, one.log, known[-1], ms=since, doubt=doubt)
            if self.own_clocks:
                return  # one doubt says as much as several

    def identities(self, process: Process) -> None:
        """Producer ids and epochs that it had."""
        rows = self.logs.rows.get(process.transactional_id, [])
        logged = {(row["producer_id"], row["producer_epoch"]) for row in rows}
        logged |= {(row["next_producer_id"], row["next_producer_epoch"]) for row in rows}
        for one in self.history.identities(process.process):
            if one.producer_id < 0 or one.producer_epoch < 0:
                continue
            self.result.asked[IDENTITIES] += 1
            if (one.producer_id, one.producer_epoch) not in logged:
                text = f"{process} was producer {one.producer_id}/{one.producer_epoch}, which"
                text += " __transaction_state does not have under its transactional id"
                self._tell(IDENTITIES, process, -1, text, None, one)

    def fenced(self, process: Process) -> None:
        """A later identity of its transactional id, where it was fenced."""
        rows = self.logs.rows.get(process.transactional_id, [])
        for op in self._ops(process):
            known = [one for one in self.history.identities(process.process) if one.ns <= op.ended_ns]
            if op.error not in FENCING or not known:
                continue
            self.result.asked[FENCED] += 1
            if _followed(rows, known[-1]):
                continue
            text = f"op {op.op} of {process}, producer {known[-1].producer_id}/{known[-1].producer_epoch},"
            text += f" was answered {op.error}; __transaction_state has no later epoch"
            if newer := self._other_coordinator(rows, process.transactional_id):
                place = self.logs.place(process.transactional_id)
                self.result.leave_open(FENCED, place or NOWHERE, f"{text}; {newer}")
            else:
                self._tell(FENCED, process, -1, text, None, known[-1])

    def _other_coordinator(self, rows: Sequence[Row], transactional_id: str) -> str:
        """Why an epoch that fenced a client may never have come into the log, "" = it must be there.

        A coordinator fences in memory first (`prepareFenceProducerEpoch`), also while its log accepts no
        record. It tries again as long as it leads; the next coordinator knows nothing of it.
        """
        place = self.logs.place(transactional_id)
        last = self.logs.elections[place].last if rows and place else None
        if last is None or last.epoch <= rows[-1]["leader_epoch"]:
            return ""
        return f"the coordinator of leader epoch {last.epoch} may not know what the one before did in memory"

    def _ops(self, process: Process) -> Iterator[OpRecord]:
        for number in self.history.ops_of(process.process).tolist():
            yield self.history.op(number)

    def _transactions(self, process: Process) -> Iterator[OpRecord]:
        """Its transactions that have an answer and records."""
        for op in self._ops(process):
            if op.txn and op.completed and op.n_sends:
                yield op

    def _tell(
        self,
        rule: str,
        process: Process,
        offset: int,
        text: str,
        log: TopicPartition | None = None,
        identity: Identity | None = None,
        *,
        ms: int = -1,
        since_ns: int = 0,
        doubt: str = "",
    ) -> None:
        """A finding, unless the log may lack something. doubt: why it may be none, "" = it is one."""
        place = log or self.logs.place(process.transactional_id)
        doubt = doubt or self.logs.doubt(place, since_ms=ms - max(self.apart_ms, self.nodes_apart_ms))
        if doubt or place is None:
            doubt = doubt or "the evidence does not say how many partitions __transaction_state has"
            self.result.leave_open(rule, place or NOWHERE, f"{text}; {doubt}")
            return
        replica = self.logs.logs[place]
        self.result.refuse(
            LogFinding(
                check=rule,
                log=place,
                offset=offset,
                take=replica.take,
                nodes=(replica.node,),
                text=f"{place}: {text}.",
                producer_id=identity.producer_id if identity else -1,
                producer_epoch=identity.producer_epoch if identity else -1,
                transactional_id=process.transactional_id,
                since_ns=since_ns,
                ms=ms,
            )
        )


def _followed(rows: Sequence[Row], identity: Identity) -> bool:
    """Whether a record has a later epoch of this producer id, or one behind all of this id another id. That
    one need not be greater: each broker has a block of ids to give."""
    ids = [row["producer_id"] for row in rows]
    own = max((at for at, one in enumerate(ids) if one == identity.producer_id), default=-1)
    if any(one is not None for one in ids[own + 1 :]):
        return True
    mine = (row for row in rows if row["producer_id"] == identity.producer_id)
    return any(row["producer_epoch"] > identity.producer_epoch for row in mine)
