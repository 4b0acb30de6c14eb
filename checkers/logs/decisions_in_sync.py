"""Ring 3, transactions: a coordinator decides with enough replicas in sync beside it.

Clients hear nothing of the records of `__transaction_state`: with how many replicas in sync a coordinator may
append there, the topic's min.insync.replicas says (transaction.state.log.min.isr).
"""

from collections.abc import Iterator
from math import inf
from typing import Final

from checkers.engine.check import Tally, WholeRun
from checkers.engine.findings import LogFinding
from checkers.logs.clocks import nodes_apart_ms
from checkers.logs.elections import Elections
from checkers.logs.rule import Rule, checks_of
from checkers.logs.transactions import Decision, Transaction, transaction_logs
from history.evidence import Evidence

IN_SYNC: Final = "decided-in-sync"
RULES: Final = {
    IN_SYNC: Rule(
        "A PrepareCommit or PrepareAbort stands in `__transaction_state` under a leader epoch in which its"
        " leader had as many replicas in sync as the topic's min.insync.replicas asks for (the lowest value"
        " that it had), before the transaction was completed.",
        "KIP-98; Partition.appendRecordsToLeader; transaction.state.log.min.isr",
    )
}


def join(run: WholeRun, result: Tally) -> None:
    """Apply the rule to each decision that the log has at the end. Of the history, only clocks count."""
    logs = run.evidence.once(transaction_logs)
    since = {tp: logs.elections[tp].in_sync_since() for tp in logs.logs if tp in logs.elections}
    apart_ms = nodes_apart_ms(run.history)
    for one, decision in _decisions(run.evidence):
        enough_ms = since.get(decision.log, {}).get(decision.leader_epoch)
        if enough_ms is None:
            continue
        result.asked[IN_SYNC] += 1
        known_ms = one.completed_ms + apart_ms if one.completed >= 0 else inf
        if enough_ms == inf or enough_ms > known_ms:
            _refuse(one, decision, logs.elections[decision.log], result)


CHECKS: Final = checks_of(RULES, ring=3, join=join)


def _decisions(evidence: Evidence) -> Iterator[tuple[Transaction, Decision]]:
    for every in evidence.once(transaction_logs).of.values():
        for one in every:
            for decision in one.decisions:
                yield one, decision


def _refuse(one: Transaction, decision: Decision, lineage: Elections, result: Tally) -> None:
    by_then = " by then" if one.completed >= 0 else ""
    completed = f", completed at {one.completed_ms} ms" if one.completed >= 0 else ""
    text = (
        f"{decision.log}: {one.text} has {decision.text}{completed}; in this leader epoch there had not been"
        f" {lineage.least} replicas in sync{by_then}"
    )
    result.refuse(
        LogFinding(
            check=IN_SYNC,
            log=decision.log,
            offset=decision.offset,
            take=-1,
            nodes=(),
            text=f"{text}.",
            producer_id=one.producer_id,
            producer_epoch=decision.epoch,
            transactional_id=one.transactional_id,
            ms=decision.ms,
        )
    )
