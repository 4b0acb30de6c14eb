"""The log of ZooKeeper: the leaders that its controllers choose, by which brokers live.

A controller is free in what it may not have heard yet: HEARD_MS after a broker's znode came or went, unless
that was before it took office, for it reads all of them then. A broker that is shutting down keeps its znode,
and one whose log directory failed does, too: both leave the in-sync replicas as another one is chosen, so
that nothing is asked of who does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from checkers.engine.check import Tally, WholeRun
from checkers.logs.rule import Rule, checks_of
from checkers.logs.zookeeper_log import FOREVER, EphemeralZnode, StateZnode, ZooKeeperLog, refuse, whole_log
from checkers.logs.zookeeper_time import ZooKeeperTime, held_up_ms
from core.op import TopicPartition
from model.accepting import partition_state

GONE: Final = "gone-leads-nothing"
FIRST: Final = "first-live-in-sync-leads"
HEARD_MS: Final = 30_000
"""Watches fire at once; a session that is not heard of ends before, and a controller takes one event after
the other."""
RULES: Final = {
    GONE: Rule(
        f"A broker whose znode is gone for {HEARD_MS / 1000:g} s leads no partition, where one controller is"
        " in office all that time.",
        "KafkaController.onBrokerFailure; ReplicaStateMachine, OfflineReplica",
    ),
    FIRST: Rule(
        "The leader that a controller chooses has its znode, and no replica before it in the assignment does"
        " that was in sync and stays so.",
        "PartitionLeaderElectionAlgorithms",
    ),
}


def join(run: WholeRun, result: Tally) -> None:
    """The rules of this module; nothing where the evidence has no log of ZooKeeper."""
    log = whole_log(run.evidence, RULES, result, of_states=RULES)
    if log is None:
        return
    time = ZooKeeperTime(log, run.events)
    heard_ms = HEARD_MS + held_up_ms(run.history)
    partitions = {tp: states for tp, states in sorted(log.states.items()) if tp not in log.unread}
    for tp, states in partitions.items():
        for before, after in zip((None, *states), states, strict=False):
            _chosen(tp, before, after, _Heard(log, time, heard_ms), result)
    for absence in _absences(log, time, heard_ms):
        for tp, states in partitions.items():
            if tp.topic not in log.leaving | log.removed:  # its partitions stay as they are
                _left(tp, states, absence, log, result)


CHECKS: Final = checks_of(RULES, ring=1, join=join)


# ---- who is chosen


@dataclass(frozen=True, slots=True)
class _Heard:
    """What controllers know."""

    log: ZooKeeperLog
    time: ZooKeeperTime
    heard_ms: int

    def lives(self, broker: int, at: StateZnode, office: EphemeralZnode) -> bool | None:
        """Whether a broker has its znode, as the controller knows it; None = it may not have heard."""
        known = [one for one in self.log.brokers if one.broker == broker and one.since <= at.zxid]
        if not known:
            return False
        last = max(known, key=lambda one: one.since)
        lives = at.zxid < last.until
        zxid, ms = (last.since, last.since_ms) if lives else (last.until, last.until_ms)
        heard = zxid < office.since or self.time.passed(ms, at.ms) >= self.heard_ms
        return lives if heard else None


def _chosen(
    tp: TopicPartition, before: StateZnode | None, after: StateZnode, heard: _Heard, result: Tally
) -> None:
    """A state that names another leader than the one before, or the first one. As a reassignment ends its
    targets are asked alone, which come first in the assignment. Up to 2.3, where a znode asks for it, they
    need not: of more than four replicas the assignment has no order then."""
    new, old = after.state, None if before is None else before.state
    in_sync = new.replicas if old is None else old.isr
    office = heard.log.in_office(after.session, after.zxid)
    if not after.own or office is None or (old is not None and old.leader == new.leader):
        return
    if tp in heard.log.moved or new.leader not in in_sync or new.leader not in new.replicas:
        return  # or it is none, or of an unclean election
    result.asked[FIRST] += 1
    if heard.lives(new.leader, after, office) is False:
        why = f"{partition_state.described(new)}, and broker {new.leader} has no znode"
        _refuse(FIRST, tp, after, why, heard.log, result)
        return
    earlier = new.replicas[: new.replicas.index(new.leader)]
    passed = [
        one
        for one in earlier
        if one in in_sync and one in new.isr and one not in new.removing and heard.lives(one, after, office)
    ]
    if passed:
        why = f"{partition_state.described(new)}; broker {passed[0]}, which comes first, was in sync, too"
        _refuse(FIRST, tp, after, why, heard.log, result)


# ---- who is gone


@dataclass(frozen=True, slots=True)
class _Absence:
    """A broker has no znode, and one controller is in office, from zxid `since` to zxid `until`. found: the
    controller may have found the broker gone when it took office, since it reads who lives a moment later.
    late: `heard_ms` after `since`, None = the log ends before. lasts: until then."""

    broker: int
    found: bool
    office: EphemeralZnode
    since: int
    until: int
    late: int | None
    lasts: bool
    heard_ms: int


def _absences(log: ZooKeeperLog, time: ZooKeeperTime, heard_ms: int) -> Iterator[_Absence]:
    for one in log.brokers:
        came = (other for other in log.brokers if other.broker == one.broker and other.since >= one.until)
        back = min(came, key=lambda other: other.since, default=None)
        back_zxid, back_ms = (FOREVER, FOREVER) if back is None else (back.since, back.since_ms)
        for office in log.controllers:
            since, since_ms = max((one.until, one.until_ms), (office.since, office.since_ms))
            until, until_ms = min((back_zxid, back_ms), (office.until, office.until_ms))
            if since < until:
                late = time.after(since_ms, heard_ms)
                lasts = late is not None and late < until_ms
                found = time.passed(office.since_ms, one.until_ms) < heard_ms
                yield _Absence(one.broker, found, office, since, until, late, lasts, heard_ms)


def _left(
    tp: TopicPartition, states: Sequence[StateZnode], absence: _Absence, log: ZooKeeperLog, result: Tally
) -> None:
    """A controller that finds a broker gone as it takes office leaves it the leader of what has no other live
    replica in sync (before 2.3): two that are killed at once may be a controller, and one that is gone as the
    next controller reads who lives."""
    led = [one for one in states if one.zxid <= absence.since]
    if not led or led[-1].state.leader != absence.broker:
        return
    last = led[-1]
    later = (one for one in states if one.zxid > absence.since and one.state.leader != absence.broker)
    moved = next(later, None)
    in_time = moved is not None and moved.zxid < absence.until
    if moved is not None and in_time and (absence.late is None or moved.ms <= absence.late):
        result.asked[GONE] += 1
        return
    others = set(last.state.isr) - {absence.broker}
    if absence.found and not any(_stands(log, other, absence) for other in others):
        return
    wrote = any(
        absence.since < zxid and session == absence.office.session for zxid, _, session in log.changes
    )
    if absence.lasts and wrote:
        result.asked[GONE] += 1
        why = f"{partition_state.described(last.state)}, {absence.heard_ms / 1000:g} s after broker"
        why += f" {absence.broker} was gone, with broker {absence.office.broker} as controller"
        _refuse(GONE, tp, last, why, log, result)


def _stands(log: ZooKeeperLog, broker: int, absence: _Absence) -> bool:
    """Whether a broker has its znode as an absence begins, until it has lasted."""
    mine = (one for one in log.brokers if one.broker == broker)
    return any(one.since <= absence.since and one.until >= absence.until for one in mine)


def _refuse(
    rule: str, tp: TopicPartition, one: StateZnode, why: str, log: ZooKeeperLog, result: Tally
) -> None:
    refuse(rule, tp, one[:2], why, log.writers(one.session), result)
