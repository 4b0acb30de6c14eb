"""A controller is refused what it has just written: the leader waits for in-sync replicas for ever."""

from collections.abc import Sequence
from typing import Final

from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.few_in_sync import all_stuck, same_logs
from checkers.known_bugs.transaction_fates import Suspicion
from checkers.logs.zookeeper_log import ZooKeeperLog, zookeeper_log
from core.op import TopicPartition
from history.events import RolesSeen
from history.replica_lines import IsrRefusedLine, isr_refused_lines
from history.verdict import NOT_RECOVERED

LATE_MS: Final = 60_000
"""How long after its write a controller hears at most, for this label, that it is refused."""


def _own_write(
    log: ZooKeeperLog, lines: Sequence[IsrRefusedLine], partition: str, wall_ms: int
) -> frozenset[int] | None:
    """The in-sync replicas that ZooKeeper has of a partition at the end, where the controller wrote them, and
    then was refused the same; None = it is not so. wall_ms: what is later does not count."""
    topic, _, number = partition.rpartition("-")
    states = [one for one in log.states.get(TopicPartition(topic, int(number)), ()) if one.ms <= wall_ms]
    if not states or not states[-1].own:
        return None
    state, last = states[-1].state, states[-1]
    for line in lines:
        late = round(line.wall.timestamp() * 1000) - last.ms
        if (
            line.partition == partition
            and (line.leader, line.epoch) == (state.leader, state.leader_epoch)
            and line.isr == {*state.isr}
            and line.version + 1 == state.partition_epoch
            and line.node == log.broker_of(last.session)
            and 0 <= late <= LATE_MS
        ):
            return line.isr
    return None


def _waits_for_ever(suspicion: Suspicion) -> bool:
    run, history = suspicion.run, suspicion.history
    log, lines = run.evidence.once(zookeeper_log), isr_refused_lines(history.run)
    if log is None or not lines:
        return False
    wall_ms = history.wall_ms(suspicion.finding.at_ns)

    def stuck(tp: str, roles: RolesSeen) -> bool:
        isr = _own_write(log, lines, tp, wall_ms)
        return isr is not None and roles.leaders[tp] in isr and same_logs(run, tp, isr)

    return all_stuck(suspicion, stuck)


BUG: Final = KnownBug(
    title="In-sync replicas of a partition never change again: the controller is refused its own write",
    page="findings/refused-in-sync.md",
    link="the report",
    versions="brokers of 2.7 to 3.9 with ZooKeeper; those of 2.7 say so at DEBUG alone, and have no label",
    doc="""\
Since 2.7 a leader asks the controller to change the in-sync replicas, and the controller writes them to the
partition's znode, if that still has the version that it knows. The connection to ZooKeeper breaks after the
write and before its answer; the session lasts. The controller connects again, and repeats the request
(`retryRequestsUntilConnected`): ZooKeeper refuses it, since the version is the one that the first attempt
made. The controller takes the refusal for another broker's change (`Failed to update ISR to …, bad ZK
version`), keeps the old state, and answers INVALID_UPDATE_VERSION. The leader then asks no more: it waits for
a LeaderAndIsr with a new leader epoch, which comes with the next election only. Until then replicas that have
everything are not let in, and where too few are left, producers with `acks=all` get NOT_ENOUGH_REPLICAS.""",
    evidence="All brokers answer and agree, and every partition has a leader; all that is missing are in-sync"
    " replicas. Of each such partition ZooKeeper's log has the newest state from the session of a broker"
    " whose log says, at most a minute later, that the write of the same leader, leader epoch and in-sync"
    " replicas was refused (`bad ZK version`), for the version right before the one that this state has. The"
    " logs of all replicas end at the same offset.",
    anomalies=(NOT_RECOVERED,),
    match=_waits_for_ever,
)
