"""The log of ZooKeeper, change by change: what Kafka's controller and leaders may write there.

ZooKeeper orders the changes, and refuses one whose version is not the znode's. What is judged is what Kafka
makes of that: a partition's states one after the other, and whose session wrote each of them. Further rules:
`accept_controllers`, `accept_leaders`, `accept_notices`.
"""

import itertools
from typing import Final

from checkers.engine.check import Tally, WholeRun
from checkers.log_settings import is_true
from checkers.logs.classes import UNCLEAN
from checkers.logs.rule import Rule, checks_of
from checkers.logs.zookeeper_log import StateZnode, ZooKeeperLog, refuse, whole_log
from core.op import TopicPartition
from core.unclean_elections import SETTING as UNCLEAN_SETTING
from model.accepting import partition_state
from model.accepting.partition_state import ElectionKind

EPOCH: Final = "znode-leader-epoch-rises"
IN_SYNC: Final = "znode-in-sync-set"
UNCLEAN_ELECTION: Final = "znode-unclean-election"
WRITER: Final = "znode-writer"
RULES: Final = {
    EPOCH: Rule(
        "The leader epoch in a partition's znode rises with every change of its leader, and never falls; nor"
        " does the controller epoch there.",
        "KIP-101; PartitionStateMachine, LeaderIsrAndControllerEpoch",
    ),
    IN_SYNC: Rule(
        "By a partition's znode in-sync replicas are replicas, and the leader is in sync.",
        "PartitionLeaderElectionAlgorithms",
    ),
    UNCLEAN_ELECTION: Rule(
        "Where unclean.leader.election.enable was false since the znode before, a new leader was in sync by"
        " that.",
        "PartitionLeaderElectionAlgorithms",
        UNCLEAN,
    ),
    WRITER: Rule(
        "A partition's znode is written by the session of the controller, or of the partition's leader.",
        "KAFKA-6082; KafkaZkClient.updateLeaderAndIsr, Partition.shrinkIsr",
    ),
}


def join(run: WholeRun, result: Tally) -> None:
    """The rules of this module; nothing where the evidence has no log of ZooKeeper."""
    log = whole_log(run.evidence, RULES, result, of_states=RULES)
    if log is None:
        return
    for tp, states in sorted(log.states.items()):
        for before, after in itertools.pairwise(states):
            _follows(tp, before, after, log, result)
        known: set[int] = set()
        for one in states:
            known.update(one.state.replicas, one.state.adding)
            _sound(tp, one, known, log, result)
            if one.own:
                _written_by(tp, one, log, result)


CHECKS: Final = checks_of(RULES, ring=1, join=join)


def _follows(
    tp: TopicPartition, before: StateZnode, after: StateZnode, log: ZooKeeperLog, result: Tally
) -> None:
    """One state after another."""
    old, new = before.state, after.state
    result.asked[EPOCH] += 1
    change = f"{partition_state.described(old)}; then {partition_state.described(new)}"
    if not partition_state.epoch_rises(old, new):
        _refuse(EPOCH, tp, after, change, log, result)
    elif after.controller_epoch < before.controller_epoch:
        why = f"controller epoch {after.controller_epoch} follows {before.controller_epoch}: {change}"
        _refuse(EPOCH, tp, after, why, log, result)
    result.asked[UNCLEAN_ELECTION] += 1
    if partition_state.election(old, new) is ElectionKind.UNCLEAN:
        allowed = _allowed(tp.topic, before.zxid, after.zxid, log, result.ground.unclean)
        if allowed is None:
            result.leave_open(UNCLEAN_ELECTION, tp, f"{change}, and nothing says whether it is allowed")
        elif not allowed:
            _refuse(UNCLEAN_ELECTION, tp, after, change, log, result)


def _allowed(topic: str, since: int, until: int, log: ZooKeeperLog, brokers: bool | None) -> bool | None:
    """Whether some setting that was in force between two changes allows such an election; None = unknown. The
    controller reads the topic's when it elects. brokers: what theirs says, for topics that say nothing."""
    settings = log.settings.get(topic, [])
    earlier = [said for zxid, said in settings if zxid <= since]
    read = [earlier[-1] if earlier else {}, *(said for zxid, said in settings if since < zxid < until)]
    said = [is_true(own) if (own := one.get(UNCLEAN_SETTING)) is not None else brokers for one in read]
    return True if True in said else None if None in said else False


def _sound(tp: TopicPartition, one: StateZnode, known: set[int], log: ZooKeeperLog, result: Tally) -> None:
    """One state. known: replicas that the partition had so far: a partition's znode follows the topic's
    later."""
    result.asked[IN_SYNC] += 1
    state = one.state
    if strangers := set(state.isr) - known:
        why = f"{sorted(strangers)} never were replicas"
    elif state.leader >= 0 and state.leader not in state.isr:
        why = "the leader is not in sync"
    else:
        return
    _refuse(IN_SYNC, tp, one, f"{partition_state.described(state)}: {why}", log, result)


def _written_by(tp: TopicPartition, one: StateZnode, log: ZooKeeperLog, result: Tally) -> None:
    result.asked[WRITER] += 1
    broker = log.broker_of(one.session)
    if broker is None:
        result.leave_open(WRITER, tp, f"at zxid {one.zxid:#x} a session wrote that no broker is known by")
    elif broker != one.state.leader and not log.may_control(one.session, one.zxid):
        why = f"{partition_state.described(one.state)}, by broker {broker}, which was not the controller"
        _refuse(WRITER, tp, one, why, log, result)


def _refuse(
    rule: str, tp: TopicPartition, one: StateZnode, why: str, log: ZooKeeperLog, result: Tally
) -> None:
    refuse(rule, tp, one[:2], why, log.writers(one.session), result)
