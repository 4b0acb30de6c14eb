"""A replica that was taken off a partition stays eligible, comes back without its log, and is elected."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

import pyarrow.compute as pc

from checkers.checks.durability import LOST
from checkers.engine.findings import LogFinding
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.known_bugs.short_leaders import CUT, IN_LOGS, LACKED, ShortLeader, cut_off, cut_off_log, wanted
from checkers.logs.classes import VIOLATION
from checkers.logs.elections import Elections, elections, newest_log
from core.op import TopicPartition
from history.evidence import Evidence
from model.accepting.partition_state import strangers
from model.protocol.messages import PartitionState

RULE: Final = "eligible-are-replicas"


def _leaders(run: LabelledRun, tp: TopicPartition) -> list[ShortLeader]:
    found = run.evidence.once(_elected).get(tp, ())
    return [ShortLeader(run.ns_of(ms), epoch) for ms, epoch in found]


def _elected(evidence: Evidence) -> Mapping[TopicPartition, Sequence[tuple[int, int]]]:
    """Replicas of each partition that are elected as they are eligible, and that were no longer replicas in
    between: when (ms), and in which leader epoch. Findings by the thousand ask for them."""
    found = defaultdict[TopicPartition, list[tuple[int, int]]](list)
    for tp, lineage in evidence.once(_with_strangers).items():
        removed: set[int] = set()
        for (_, old), (ms, new) in pairwise(lineage.states):
            removed = (removed | strangers(old)) & set(old.elr)
            if new.leader in removed and new.leader != old.leader:
                found[tp].append((ms, new.leader_epoch))
    return found


def _with_strangers(evidence: Evidence) -> Mapping[TopicPartition, Elections]:
    """Partitions where some node that is not a replica was eligible."""
    log = evidence.once(newest_log)
    if log is None or not pc.any(pc.greater(pc.list_value_length(log["elr"]), 0)).as_py():
        return {}
    known = {tp: elections(evidence, tp) for tp in evidence.partitions()}
    return {tp: one for tp, one in known.items() if any(strangers(state) for _, state in one.states)}


def _stays(run: LabelledRun, finding: LogFinding) -> bool:
    """It is the change that takes off replicas which were in sync or eligible until then."""
    return finding.check == RULE and finding.offset in run.evidence.once(_removals)


def _removals(evidence: Evidence) -> set[int]:
    """Offsets of these changes in the metadata log."""
    return {
        offset
        for one in evidence.once(_with_strangers).values()
        for offset, ((_, old), (_, new)) in zip(one.offsets[1:], pairwise(one.states), strict=True)
        if _removes(old, new)
    }


def _removes(old: PartitionState, new: PartitionState) -> bool:
    stayed = strangers(new) - strangers(old)
    return bool(stayed) and stayed <= set(old.replicas) & {*old.isr, *old.elr}


BUG: Final = KnownBug(
    title="Acknowledged records lost: a replica that was taken off and added again is elected",
    page="findings/removed-replica-eligible.md",
    link="the report",
    versions="Kafka 4.1 to 4.4 with `eligible.leader.replicas.version` 1, as new clusters have it since 4.1",
    doc="""\
A partition is given fewer replicas than the minimum of its topic (`min.insync.replicas`, at most as many as
partition 0 has). Those that are taken off were in sync, and so they become eligible leader replicas, though
they are not among the replicas any more, and their brokers delete the logs. Later the partition gets them
back: each begins with an empty log, and is still eligible. Where the leader goes before one of them is in
sync, in order or not, that one is elected, cleanly; the old leader cuts its log off when it follows. A
reassignment that is cancelled leaves the replicas that it had added eligible, too.""",
    evidence="The metadata log has the replica among the eligible ones of the partition while it is none of"
    " its replicas, and elects it later without having had it in sync in between. The record, or the one"
    " right below an offset that a group committed, was acknowledged before that election. The log that the"
    " partition has at the end ends below its place, or has there what was written in that leader epoch or a"
    f" later one.{LACKED}{IN_LOGS} In the metadata log: the change that takes off a replica which was in"
    " sync or eligible until then.",
    anomalies=CUT,
    match=partial(cut_off, _leaders),
    wanted=partial(wanted, _leaders),
    in_logs={LOST: partial(cut_off_log, _leaders), VIOLATION: _stays},
)
