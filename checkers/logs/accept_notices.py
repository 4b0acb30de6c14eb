"""The log of ZooKeeper: leaders change in-sync replicas themselves, and give notice of it to the controller.

So before Kafka 2.7: a leader writes the partition's znode, looks each 2.5 s what it has changed since its
last notice, and gives notice of all of that by one znode, after 5 s without a change, or 60 s after its last
notice. The controller reads it, tells all brokers, and deletes it (KAFKA-1367). A broker that is controller,
too, has one session for both: of what that changes the log does not say for which.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from checkers.engine.check import Tally, WholeRun
from checkers.engine.findings import NOWHERE
from checkers.logs.rule import Rule, checks_of
from checkers.logs.zookeeper_log import IsrNotice, StateZnode, ZooKeeperLog, refuse, whole_log
from checkers.logs.zookeeper_time import LONGEST_SESSION_MS, ZooKeeperTime, held_up_ms
from core.op import TopicPartition
from history.events import ClockJumped
from model.accepting import partition_state

NOTICE: Final = "in-sync-change-noticed"
HELD_BACK: Final = "in-sync-notice-held-back"
READ: Final = "in-sync-notice-read"
NOTICE_MS: Final = 62_500
"""A leader looks each 2.5 s, and gives notice after 5 s without a change, or 60 s after its last one."""
BLACK_OUT_MS: Final = 5_000
INTERVAL_MS: Final = 60_000
SLACK_MS: Final = 15_000
"""A broker may stand still meanwhile, as long as its session lasts."""
ROUNDED_MS: Final = 100
AGAIN_MS: Final = 1_000
"""What waits for a connection with ZooKeeper is sent as soon as there is one: a notice whose answer was lost,
and changes of in-sync replicas. Between the two notices the session lasted."""
READ_MS: Final = 30_000
"""A watch fires at once; a controller takes one event after the other."""
RULES: Final = {
    NOTICE: Rule(
        "A leader that changes the in-sync replicas in a partition's znode gives notice of it in"
        f" /isr_change_notification within {NOTICE_MS / 1000:g} s, while its session lasts.",
        "KAFKA-1367; ReplicaManager.maybePropagateIsrChanges",
    ),
    HELD_BACK: Rule(
        f"A notice names no change of the last {BLACK_OUT_MS / 1000:g} s, unless the session's last notice is"
        f" {INTERVAL_MS / 1000:g} s old, or is created again.",
        "ReplicaManager.maybePropagateIsrChanges",
    ),
    READ: Rule(
        f"The controller's session alone deletes a notice of changed in-sync replicas, and within"
        f" {READ_MS / 1000:g} s.",
        "KafkaController, IsrChangeNotification",
    ),
}


def join(run: WholeRun, result: Tally) -> None:
    """The rules of this module; nothing where the evidence has no log of ZooKeeper."""
    log = whole_log(run.evidence, RULES, result, of_states=(NOTICE, HELD_BACK))
    if log is None:
        return
    time = ZooKeeperTime(log, run.events)
    changes = {
        tp: list(_changes(states)) for tp, states in sorted(log.states.items()) if tp not in log.unread
    }
    for tp, some in changes.items():
        for one in some:
            if _by_leader(one, log):
                _noticed(tp, one, log, time, result)
    jumped = any(isinstance(event, ClockJumped) for event in run.events)
    read_ms = READ_MS + held_up_ms(run.history)
    for notice in log.notices:
        _read(notice, log, time, read_ms, result)
        if not jumped:
            _held_back(notice, changes, log, time, result)


CHECKS: Final = checks_of(RULES, ring=1, join=join)


def _changes(states: Sequence[StateZnode]) -> Iterator[StateZnode]:
    """Writes that change the in-sync replicas and keep the leader epoch."""
    for before, after in itertools.pairwise(states):
        same = before.state.leader_epoch == after.state.leader_epoch
        if after.own and same and set(before.state.isr) != set(after.state.isr):
            yield after


def _by_leader(one: StateZnode, log: ZooKeeperLog) -> bool:
    return log.broker_of(one.session) == one.state.leader and not log.may_control(one.session, one.zxid)


def _noticed(
    tp: TopicPartition, one: StateZnode, log: ZooKeeperLog, time: ZooKeeperTime, result: Tally
) -> None:
    late = time.after(one.ms, NOTICE_MS + SLACK_MS)
    mine = (n for n in log.notices if n.session == one.session and tp in n.tps and n.zxid > one.zxid)
    notice = next(mine, None)
    if notice is not None and (late is None or notice.ms <= late):
        result.asked[NOTICE] += 1
    elif late is not None and log.lasts(one.session, late):
        result.asked[NOTICE] += 1
        why = f"{partition_state.described(one.state)}, and no notice"
        refuse(NOTICE, tp, one[:2], why, log.writers(one.session), result)


def _held_back(
    notice: IsrNotice,
    changes: Mapping[TopicPartition, Sequence[StateZnode]],
    log: ZooKeeperLog,
    time: ZooKeeperTime,
    result: Tally,
) -> None:
    """Of each partition the first change since the session's last notice was known for sure: the notice names
    the partition for it. A later one may have been written, and not be known yet."""
    mine = [one for one in log.notices if one.session == notice.session and one.zxid < notice.zxid]
    if not mine or notice.ms - mine[-1].ms >= INTERVAL_MS - SLACK_MS:
        return  # the process may have waited for longer
    last = mine[-1]
    for tp in sorted(notice.tps):
        own = [one for one in changes.get(tp, ()) if one.session == notice.session]
        since = [one for one in own if last.zxid < one.zxid < notice.zxid]
        if _pending(tp, own, mine) or not since or not all(_by_leader(one, log) for one in since):
            continue
        passed = notice.ms - since[0].ms
        again = notice.tps == last.tps and time.passed(last.ms, notice.ms) <= LONGEST_SESSION_MS
        if again and passed < AGAIN_MS:
            continue  # it may be the last one, which was created twice
        result.asked[HELD_BACK] += 1
        if passed < BLACK_OUT_MS - ROUNDED_MS:
            why = f"a notice of a change {passed} ms before, {notice.ms - last.ms} ms after the last notice"
            refuse(HELD_BACK, tp, notice[:2], why, log.writers(notice.session), result)


def _pending(tp: TopicPartition, own: Sequence[StateZnode], notices: Sequence[IsrNotice]) -> bool:
    """Whether the leader may have known of one of its changes only after its last notice: none named it."""
    last = notices[-1]
    before = [one for one in own if one.zxid < last.zxid]
    return any(
        one.ms > last.ms - BLACK_OUT_MS or not any(n.zxid > one.zxid and tp in n.tps for n in notices)
        for one in before
    )


def _read(notice: IsrNotice, log: ZooKeeperLog, time: ZooKeeperTime, read_ms: int, result: Tally) -> None:
    """In time: where one controller is in office for `read_ms` before and after; one of 0.11 that comes later
    leaves a notice until there is another one."""
    deleted = log.deleted_notices.get(notice.path)
    late = time.after(notice.ms, read_ms)
    if deleted is not None:
        result.asked[READ] += 1
        if not log.may_control(deleted.session, deleted.zxid):
            broker = log.broker_of(deleted.session)
            why = f"broker {broker} deletes a notice, which was not the controller"
            refuse(READ, NOWHERE, deleted[:2], why, log.writers(deleted.session), result)
            return
    if late is None or (deleted is not None and deleted.ms <= late):
        return
    for one in log.controllers:
        if one.since < notice.zxid < one.until and one.until_ms > late:
            if time.passed(one.since_ms, notice.ms) < read_ms:
                continue
            result.asked[READ] += deleted is None
            why = (
                f"a notice is not deleted within {read_ms / 1000:g} s, with broker {one.broker} as controller"
            )
            refuse(READ, NOWHERE, notice[:2], why, log.writers(one.session), result)
