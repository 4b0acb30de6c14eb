"""A leader forgets the replica that it has asked for, and acknowledges what that one lacks."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from checkers.checks.durability import LOST
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import SLACK_MS, LabelledRun
from checkers.known_bugs.short_leaders import CUT, LACKED, ShortLeader, cut_off, cut_off_log, wanted
from checkers.logs.elections import Elections, elections
from checkers.logs.transactions import NEVER
from core.op import TopicPartition
from history.evidence import Evidence
from history.evidence_tables import END
from history.replica_lines import LearntLine
from model.accepting.partition_state import ElectionKind, election
from model.protocol.messages import PartitionState

UNDER_WAY_NS: Final = 1_000_000_000
"""An acknowledgement may be on its way for so long, and a fetch that began before it."""


class Granted(NamedTuple):
    """A change that took further replicas into the in-sync set of a leader, and the election of one of them
    in the next leader epoch. known: the leader's partition epoch before. members: the replicas that it
    counts with where it has forgotten the others. elected, ms: partition epoch and time of the election."""

    leader: int
    known: int
    epoch: int
    members: frozenset[int]
    elected: int
    ms: int


def _leaders(run: LabelledRun, tp: TopicPartition) -> list[ShortLeader]:
    """Where the leader had the metadata record of its change before after the controller's answer, and did
    not learn meanwhile that it was granted more: from the record on it may have forgotten that request. What
    it no longer acknowledges the new leader does, and loses by another bug."""
    found = []
    for one in run.evidence.once(_granted).get(tp, ()):
        lines = run.learnt.get((one.leader, str(tp)), ())
        if unaware := _unaware(run, lines, one.known):
            forgot_ns, learnt_ns = unaware
            until_ns = min(learnt_ns, _leads_until_ns(run, tp, one, forgot_ns))
            found.append(ShortLeader(until_ns, one.epoch, forgot_ns))
    return found


def _leads_until_ns(run: LabelledRun, tp: TopicPartition, one: Granted, since_ns: int) -> int:
    """Until when the old leader may have acknowledged records: its process ended, or one that it counts with
    heard of the new leader and fetched from it no more. Where none says so, it was when that was elected."""
    ended = (
        row["at_ns"]
        for row in run.evidence.table("takes").to_pylist()
        if row["node"] == one.leader and row["why"] != END and row["at_ns"] >= since_ns
    )
    heard = [
        run.history.wall_ns(line.wall)
        for node in one.members
        for line in run.learnt.get((node, str(tp)), ())
        if line.partition_epoch >= one.elected
    ]
    elected = [run.ns_of(one.ms)] if one.ms > 0 and not heard else []  # controllers of the model tell no time
    return min([*ended, *heard, *elected], default=NEVER - UNDER_WAY_NS) + UNDER_WAY_NS


def _unaware(run: LabelledRun, lines: Sequence[LearntLine], known: int) -> tuple[int, int] | None:
    """From when to when a leader that knew a partition epoch by an answer had its record, and no newer one;
    None = it never had."""
    answered, forgot_ns = False, -1
    for line in lines:
        ns = run.history.wall_ns(line.wall)
        if line.partition_epoch > known:
            return (forgot_ns, ns + SLACK_MS * 1_000_000) if forgot_ns >= 0 else None
        if line.partition_epoch == known and line.answered:
            answered = True
        elif line.partition_epoch == known and answered and forgot_ns < 0:
            forgot_ns = ns
    return (forgot_ns, NEVER) if forgot_ns >= 0 else None


def _granted(evidence: Evidence) -> Mapping[TopicPartition, Sequence[Granted]]:
    """Those of each partition; findings by the thousand ask for them."""
    found = {tp: [*_of(elections(evidence, tp))] for tp in evidence.partitions()}
    return {tp: some for tp, some in found.items() if some}


def _of(lineage: Elections) -> Iterator[Granted]:
    if lineage.unknown or lineage.by_zookeeper:
        return
    for at, ((_, old), (_, new)) in enumerate(pairwise(lineage.states)):
        found = _elected_next(lineage.states[at + 1 :]) if _grows(old, new) else None
        if found is None:
            continue
        ms, elected = found
        if elected.leader in {*new.isr} - {*old.isr}:
            yield Granted(
                leader=old.leader,
                known=old.partition_epoch,
                epoch=elected.leader_epoch,
                members=frozenset(old.isr) - {old.leader},
                elected=elected.partition_epoch,
                ms=ms,
            )


def _grows(old: PartitionState, new: PartitionState) -> bool:
    same = (old.leader, old.leader_epoch) == (new.leader, new.leader_epoch)
    return same and old.leader >= 0 and {*old.isr} < {*new.isr}


def _elected_next(states: Sequence[tuple[int, PartitionState]]) -> tuple[int, PartitionState] | None:
    """When the next leader is elected (ms), and the state with it, where that is clean; None = there is
    none."""
    for (_, old), (ms, new) in pairwise(states):
        if new.leader_epoch > old.leader_epoch and new.leader >= 0:
            return (ms, new) if election(old, new) is ElectionKind.CLEAN else None
    return None


BUG: Final = KnownBug(
    title="A leader forgets the replica that it has asked for: acknowledged records lost by a clean election",
    page="findings/pending-expansion-reset.md",
    link="the report",
    versions="brokers 3.3 to 4.4 in KRaft mode; shown on 3.9.1, 4.1.2 and 4.4.0",
    doc="""\
A leader asks the controller to take a replica into the in-sync set (AlterPartition), and counts with it from
then on. While the request is on its way, the leader reads the metadata record of its last change, which it
has had by the answer: same partition epoch. It applies that record, and counts without the replica. The
controller grants the request. Where the replica has not fetched for `replica.lag.time.max.ms`, the leader
acknowledges what it lacks, and it may be elected: it is in sync. All elections are clean, and no node fails.

A run met it by chance: `queue` under `power:all`, preset `flush-each`, 4.4.0, with controllers that were
slow. The nemeses `wire:alter-partition` and `wire:fetch-metadata` hold what has to be late. The model keeps
the request ([table](model/isr.md#isr-request-outlives)); with the planted bug `old-news-end-a-request` it
does this.""",
    evidence="The metadata log takes further replicas into the in-sync set of a leader, and the next"
    " leader is one of these, elected cleanly. The log of the leader before says that it had the partition"
    " epoch before that change by the controller's answer (`ISR updated to … and version updated to N`),"
    " then the metadata record of the same (`Skipped the become-leader state change … partitionEpoch=N`),"
    " and that it knew of no newer one until later. The record was acknowledged in between, and at most a"
    " second after the old leader can have acknowledged anything: until its files were read after its death;"
    " until a replica that it counts with says that it has the election; where none says so, until the"
    " election itself, if the metadata log has its time. (That it forgot a request then, no line says.) The"
    " log that the partition has at the end ends below its place, or has there what was written in the new"
    f" leader's epoch or a later one.{LACKED} In brokers' logs only `acknowledged-held` knows when that was:"
    " the others of its class get no label.",
    anomalies=CUT,
    match=partial(cut_off, _leaders),
    wanted=partial(wanted, _leaders),
    in_logs={LOST: partial(cut_off_log, _leaders)},
)
