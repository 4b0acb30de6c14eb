"""A replica that had lost its power led alone: acknowledged records that others had were cut off."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from checkers.checks.durability import LOST
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.known_bugs.short_leaders import CUT, IN_LOGS, LACKED, ShortLeader, cut_off, cut_off_log, wanted
from checkers.logs.elections import elections, newest_log
from checkers.logs.power_losses import power_losses, registered_again
from core.op import TopicPartition
from history.evidence import Evidence
from model.accepting.partition_state import ElectionKind, election


def _leaders(run: LabelledRun, tp: TopicPartition) -> Sequence[ShortLeader]:
    return run.evidence.once(short_leaders).get(tp, ())


def short_leaders(evidence: Evidence) -> Mapping[TopicPartition, Sequence[ShortLeader]]:
    """Those of each partition, where nodes lost their power; findings by the thousand ask for them."""
    if not power_losses(evidence):
        return {}
    return {tp: [*_short_leaders(evidence, tp)] for tp in evidence.partitions()}


def _short_leaders(evidence: Evidence, tp: TopicPartition) -> Iterator[ShortLeader]:
    """Of each replica that lost its power and registered again: its first election, where no leader had let
    it into the in-sync replicas before, and no other replica was in sync or eligible."""
    lineage, log = elections(evidence, tp), evidence.once(newest_log)
    if lineage.unknown or log is None:
        return
    looked_ns = {(row["take"], row["node"]): row["at_ns"] for row in evidence.table("takes").to_pylist()}
    states = [one for _, one in lineage.states]
    for loss in lineage.losses:
        again = registered_again(log, loss.node, loss.since)
        for at, (old, new) in zip(lineage.offsets[1:], pairwise(states), strict=True):
            if at <= again:
                continue
            if new.leader == loss.node != old.leader:
                if old.isr == (loss.node,) or election(old, new) is ElectionKind.LAST_KNOWN:
                    yield ShortLeader(looked_ns[loss.take, loss.node], new.leader_epoch)
                break
            if loss.node in new.isr and loss.node not in old.isr:
                break  # a leader let it in: it had fetched all


BUG: Final = KnownBug(
    title="Acknowledged records lost with the last replica that may lead",
    page="https://cwiki.apache.org/confluence/display/KAFKA/KIP-966%3A+Eligible+Leader+Replicas",
    link="KIP-966",
    versions="all brokers; since 4.1 (`eligible.leader.replicas.version` 1) after a second failure"
    " that the controller takes for a loss of power",
    doc="""\
Before KIP-966: two of three replicas are shut down in order, or fenced; the last one is in sync alone, below
`min.insync.replicas`. It loses power, and what it had not flushed. It returns first and is elected, since it
is in sync; the others, which have every record, cut their logs off when they follow. Since KIP-966 a replica
that was not shut down in order is not in sync when it returns, and those that left when the set became too
small stay eligible.

What is left since then: the leader loses power, and the other brokers are killed before its session ends.
A broker that was killed lost nothing, yet the controller cannot tell that from a loss of power. So no replica
is in sync or eligible any more, and the last known leader is elected when it returns
(`PartitionChangeBuilder.canElectLastKnownLeader`): the one replica that lacks records. A simulated run
(`queue`, `power:one,kill:all`, seed 56, 60 s) lost all that two partitions had so.""",
    evidence="A replica lost its power, and registered again. The metadata log elects it after that as the"
    " leader of the partition, before any leader let it into the in-sync replicas again; it was the only one"
    " in sync, or none was in sync or eligible and it was the last known leader. The record, or the one"
    " right below an offset that a group committed, was acknowledged before the loss of power. The log that"
    " the partition has at the end ends below its place, or has there what was written in that leader epoch"
    f" or a later one.{LACKED}{IN_LOGS}",
    anomalies=CUT,
    match=partial(cut_off, _leaders),
    wanted=partial(wanted, _leaders),
    in_logs={LOST: partial(cut_off_log, _leaders)},
)
