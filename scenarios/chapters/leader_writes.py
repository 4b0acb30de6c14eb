"""In-sync sets that leaders write.

Until KIP-497 (2.7) a leader changes the in-sync set itself: it writes the state of the
partition to ZooKeeper, without the controller. The version of the znode is what the partition epoch is
later. Other brokers may learn of it late: only the leader needs the set of a partition, and the
controller reads it again whenever it decides."""

from model.protocol.messages import ElectLeaders, Fetch
from model.protocol.zookeeper_messages import LeaderAndIsr, ZkOps
from model.zookeeper.zk_data import ISR_CHANGES
from scenarios.drivers.cluster import data
from scenarios.drivers.zookeeper import ZookeeperStage
from scenarios.framework import Steps, scenario

P0 = data(0)


def _hang(s: ZookeeperStage) -> ZookeeperStage:
    """Broker 4 does not fetch from broker 2 any more."""
    return s.hold(Fetch, of=4, to=2, times=99)


def _told(s: ZookeeperStage) -> int:
    """Notifications so far."""
    return s.zookeeper.nodes[ISR_CHANGES].sequence


@scenario(
    "A leader takes a follower out, and lets it in",
    source="Kafka: `Partition.maybeShrinkIsr`, `ReplicaManager.maybePropagateIsrChanges`, "
    "`KafkaController.processIsrChangeNotification`",
    stage=lambda: ZookeeperStage([(2, 3, 4)]),
    columns="""ms | ISR in ZooKeeper | version | ISR as the leader has it = ISR at 2
        | HW waits for = HW of 2 waits for | HW = HW of 2 | newest record | notifications
        | ISR as the controller has it | as 3 tells clients = ISR as 3 tells clients""",
)
def leader_writes_isr(s: ZookeeperStage) -> Steps:
    """No leader epoch rises, no LeaderAndIsr is sent: leader and followers stay what they
    are."""
    s.produce("m0", to=2).wait(500)
    s.since = s.now
    yield """Broker 2 leads, all are in sync. m0 is committed.
        | 0 | 2 3 4 | 0 | 2 3 4 | 2 3 4 | 1 | acknowledged | 0 | 2 3 4 | 2 3 4"""
    _hang(s).produce("m1", to=2).wait(500)
    yield """Broker 4 hangs. m1 reaches broker 3.
        | 500 | 2 3 4 | 0 | 2 3 4 | 2 3 4 | 1 | waits | 0 | 2 3 4 | 2 3 4"""
    s.hold(ZkOps, of=2).until(lambda: s.holds(ZkOps))
    yield """replica.lag.time.max.ms later the leader sends its write: ISR 2, 3, if the version is 0 still.
        | 3100 | 2 3 4 | 0 | 2 3 4 | 2 3 4 | 1 | REQUEST_TIMED_OUT | 0 | 2 3 4 | 2 3 4"""
    s.hold(ZkOps, of=2, answer=True).release(ZkOps).wait(500)
    yield """It is done, and the answer takes its time: until it is there, both sets count for the HW.
        | 3600 | 2 3 | 1 | 2 3 4 | 2 3 4 | 1 | REQUEST_TIMED_OUT | 0 | 2 3 4 | 2 3 4"""
    s.release(ZkOps)
    yield """It is answered, and keeps the new version for its next write. m1 is committed. The controller had
        no part in it, and knows nothing; nor do clients.
        | 3600 | 2 3 | 1 | 2 3 | 2 3 | 2 | REQUEST_TIMED_OUT | 0 | 2 3 4 | 2 3 4"""
    s.hold(ZkOps, of=1, times=9).until(lambda: _told(s) == 1)
    yield """Every 2.5 s the leader looks; the change is more than 5 s old: it creates a znode under
        /isr_change_notification, where the controller has a watch.
        | 11000 | 2 3 | 1 | 2 3 | 2 3 | 2 | REQUEST_TIMED_OUT | 1 | 2 3 4 | 2 3 4"""
    s.let().release(ZkOps)
    yield """The controller reads which partitions it names, then their states, sends UpdateMetadata to all
        brokers, and deletes the znode.
        | 11000 | 2 3 | 1 | 2 3 | 2 3 | 2 | REQUEST_TIMED_OUT | 0 | 2 3 | 2 3"""
    s.release(Fetch).wait(100)
    yield """Broker 4 fetches again and catches up. The leader writes it in, if the version is 1 still.
        | 11100 | 2 3 4 | 2 | 2 3 4 | 2 3 4 | 2 | REQUEST_TIMED_OUT | 0 | 2 3 | 2 3"""
    s.until(lambda: _told(s) == 2)
    yield """All learn of it more than 5 s later.
        | 18500 | 2 3 4 | 2 | 2 3 4 | 2 3 4 | 2 | REQUEST_TIMED_OUT | 0 | 2 3 4 | 2 3 4"""


@scenario(
    "A leader that was replaced cannot write",
    source="Kafka: `Partition.updateIsr`, `ReplicationUtils.updateLeaderAndIsr`; KAFKA-2729",
    stage=lambda: ZookeeperStage([(2, 3, 4)]),
    columns="""ms | leader in ZooKeeper | ISR | version | as replica 3 has it | its write = write of 3
        | its HW waits for = HW of 3 waits for | HW = HW of 3 | its log = log 3 | newest record""",
)
def deposed_leader_writes(s: ZookeeperStage) -> Steps:
    """The same as with AlterPartition, with the version in place of leader epoch and
    partition epoch. (Kafka's leader tries again with the old version until the controller informs it: "Cached
    zkVersion not equal to that in zookeeper, skip updating ISR".)"""
    s.crash(2).expire(2).restart(2).until(lambda: s.leader(P0) == 3 and len(s.written(P0).isr) == 3)
    s.produce("m0", to=3).wait(10_000)
    s.since = s.now
    s.writes.clear()
    yield """Broker 3 leads since broker 2, the preferred leader, was away.
        | 0 | 3, epoch 1 | 2 3 4 | 2 | 3, epoch 1 | – | 2 3 4 | 1 | m0 | acknowledged"""
    s.hold(LeaderAndIsr, to=3).ask(ElectLeaders([P0]), to=4)
    yield """A preferred election: broker 2 leads. LeaderAndIsr has reached brokers 2 and 4; to broker 3 it is
        under way.
        | 0 | 2, epoch 2 | 2 3 4 | 3 | 3, epoch 1 | – | 2 3 4 | 1 | m0 | acknowledged"""
    s.produce("m1", to=3)
    yield """A client that does not know either sends m1 to broker 3, which has no followers.
        | 0 | 2, epoch 2 | 2 3 4 | 3 | 3, epoch 1 | – | 2 3 4 | 1 | m0 m1 | waits"""
    s.wait(3100)
    yield """Both leaders miss followers and write: broker 2 ISR 2, 4 with version 3; broker 3 itself alone,
        with version 2. The latter is refused.
        | 3100 | 2, epoch 2 | 2 4 | 4 | 3, epoch 1 | BAD_VERSION | 2 3 4 | 1 | m0 m1 | REQUEST_TIMED_OUT"""
    s.wait(5000)
    yield """Broker 3 reads, finds that a controller decided, and waits for the controller. It can neither
        commit nor continue.
        | 8100 | 2, epoch 2 | 2 4 | 4 | 3, epoch 1 | BAD_VERSION | 2 3 4 | 1 | m0 m1 | REQUEST_TIMED_OUT"""
    s.release(LeaderAndIsr)
    yield """LeaderAndIsr arrives: it follows, cuts m1 off, and is let in again.
        | 8100 | 2, epoch 2 | 2 3 4 | 5 | 2, epoch 2 | BAD_VERSION | – | 1 | m0 | REQUEST_TIMED_OUT"""


def _flap(s: ZookeeperStage, times: int = 1) -> ZookeeperStage:
    """Broker 4 hangs until it is out of the sets, and catches up: two changes of each partition."""
    for _ in range(times):
        _hang(s)
        for number in range(3):
            s.produce(f"at {s.now}", to=2, number=number)
        s.wait(3500).let().release(Fetch).wait(200)
    return s


@scenario(
    "Notifications of changes are held back and gathered",
    source="Kafka: `ReplicaManager.IsrChangePropagationBlackOut` (5 s), "
    "`IsrChangePropagationInterval` (60 s)",
    stage=lambda: ZookeeperStage([(2, 3, 4)] * 3),
    columns="ms | changes written | unreported = unreported by 2 | notifications so far",
)
def isr_change_notifications(s: ZookeeperStage) -> Steps:
    """A notification for each change would be a storm when a broker hangs: each has
    UpdateMetadata to every broker in its train. A leader looks every 2.5 s, and notifies once of all that
    changed, if nothing changed for 5 s, or if the last notification is 60 s old."""
    s.since = s.now
    yield "Broker 2 leads three partitions with the same replicas. | 0 | 0 | – | 0"
    _flap(s)
    yield """Broker 4 hangs, is taken out of all three ISRs, catches up and is let in: six writes.
        | 3700 | 6 | 0 1 2 | 0"""
    s.until(lambda: _told(s) == 1)
    yield "The last change is more than 5 s old: one notification names all three. | 9000 | 6 | – | 1"
    s.since = s.now
    _flap(s)
    yield "From now on broker 4 hangs again and again. (Time from here.) | 3700 | 12 | 0 1 2 | 1"
    _flap(s)
    yield "Never is the last change 5 s old: no notification is written. | 7400 | 18 | 0 1 2 | 1"
    _flap(s, 14)
    yield "So it continues. | 59200 | 102 | 0 1 2 | 1"
    _flap(s)
    yield """60 s after the last notification there is one all the same. (Then broker 4 was let in again.)
        | 62900 | 108 | 0 1 2 | 2"""
