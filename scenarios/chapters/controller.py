"""The controller of the ZooKeeper era.

Before KRaft the state of the cluster is in ZooKeeper, and one of the brokers, the
controller, decides. ZooKeeper offers it three things. An *ephemeral* znode belongs to the session of the
client that created it and goes with it. A *watch* is set by a read and says once that something changed. A
write can be *conditional* on the version of a znode, which counts its changes. (s1: session 1. Sessions
end after 3 s here; Kafka's default is 18 s, before KIP-537 6 s. As of 2.4, where nothing else is said.)"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import ClassVar, Self

from model.protocol.messages import Fetch
from model.protocol.zookeeper_messages import LeaderAndIsr, UpdateMetadata, ZkOps
from model.zookeeper.herd import SelfElecting
from model.zookeeper.zookeeper import ZooKeeper
from scenarios.drivers.cluster import data
from scenarios.drivers.zookeeper import ZookeeperStage
from scenarios.framework import Steps, look, scenario

LEADER = 2


@scenario(
    "Who creates /controller is controller",
    source="Kafka: `KafkaController.elect`, "
    "`KafkaZkClient.registerControllerAndIncrementControllerEpoch`; "
    "ZooKeeper, *Recipes: Leader Election*",
    stage=lambda: ZookeeperStage(brokers=()),
    columns="""/brokers/ids = /brokers/ids with sessions | /controller = /controller with session
        | /controller_epoch | believes to be controller | 2 heard of | 3 heard of""",
)
def controller_election(s: ZookeeperStage) -> Steps:
    """Each broker tries to create the ephemeral znode /controller; one succeeds. The others watch it and try
    again when it is gone. Each new controller counts /controller_epoch up, a znode that stays: its epoch
    tells its requests from those of every earlier one."""
    s.start(1)
    yield """Broker 1 comes up: session 1. It creates /brokers/ids/1, finds no /controller and creates it, and
        counts /controller_epoch up, if its version is the one that it read.
        | 1 (s1) | 1 (s1) | 1 | 1 | down | down"""
    s.start(2, 3)
    yield """Brokers 2 and 3 come up, find /controller and watch it. The controller tells them of itself.
        | 1 (s1) 2 (s2) 3 (s3) | 1 (s1) | 1 | 1 | 1, epoch 1 | 1, epoch 1"""
    s.crash(1).wait(1000)
    yield """Broker 1 dies. Its session continues until its time-out; until then no broker knows.
        | 1 (s1) 2 (s2) 3 (s3) | 1 (s1) | 1 | – | 1, epoch 1 | 1, epoch 1"""
    s.hold(ZkOps, of=2).hold(ZkOps, of=3).expire(1)
    yield """The session has ended: both its znodes go, and the watches of brokers 2 and 3 fire.
        | 2 (s2) 3 (s3) | – | 1 | – | 1, epoch 1 | 1, epoch 1"""
    s.release(ZkOps)
    yield """Both look, find no controller, and try to create /controller. Broker 2 is first and counts the
        epoch up; broker 3 gets NODE_EXISTS and watches again.
        | 2 (s2) 3 (s3) | 2 (s2) | 2 | 2 | 2, epoch 2 | 2, epoch 2"""
    s.restart(1)
    yield """Broker 1 comes back, with a new session, as a broker like others.
        | 1 (s4) 2 (s2) 3 (s3) | 2 (s2) | 2 | 2 | 2, epoch 2 | 2, epoch 2"""
    s.shut_down(2)
    yield """Broker 2 is shut down in order and closes its session: no broker waits for a time-out. Broker 3
        is first this time.
        | 1 (s4) 3 (s3) | 3 (s3) | 3 | 3 | down | 3, epoch 3"""


@scenario(
    "A znode is of a session, not of a broker",
    source="ZooKeeper Programmer's Guide, *ZooKeeper Sessions*, *Ephemeral Nodes*",
    stage=lambda: ZookeeperStage(brokers=(1, 2, 3)),
    columns="""/brokers/ids = /brokers/ids with sessions | /controller = /controller with session
        | /controller_epoch | believes to be controller | 2 heard of""",
)
def controller_session(s: ZookeeperStage) -> Steps:
    """A controller that restarts faster than its session ends is in no way but its
    own: what the former process created goes only with the former session. (Kafka's broker finds its
    registration taken and ends with an error; the model's keeps trying.)"""
    yield "Broker 1 is controller. | 1 (s1) 2 (s2) 3 (s3) | 1 (s1) | 1 | 1 | 1, epoch 1"
    s.crash(1).start(1)
    yield """It dies and is back at once, with session 4. Both znodes name it, but are of session 1: it is not
        controller, and cannot register.
        | 1 (s1) 2 (s2) 3 (s3) | 1 (s1) | 1 | – | 1, epoch 1"""
    s.expire(1)
    yield """Session 1 has ended. All three try to be controller, broker 2 is first. Broker 1 can register.
        | 1 (s4) 2 (s2) 3 (s3) | 2 (s2) | 2 | 2 | 2, epoch 2"""


@scenario(
    "A broker is found dead, and others lead",
    source="Kafka: `KafkaController.processBrokerChange`, `onBrokerFailure`, "
    "`PartitionStateMachine.electLeaderForPartitions`",
    stage=lambda: ZookeeperStage([(2, 4, 3), (3, 2, 4), (3, 4, 1)]),
    columns="""ms | /brokers/ids | controller knows of | leader in ZooKeeper | ISR | version
        | ISR of partition 1 | as replica 3 has it | as replica 4 has it | as 1 tells clients""",
)
def broker_failure(s: ZookeeperStage) -> Steps:
    """Detection takes as long as a session lasts; what follows takes some round trips, and
    reads and writes in proportion to the partitions that are hit. ZooKeeper is written before any broker
    hears of it: a controller that dies between two steps leaves behind what the next one needs."""
    s.crash(4).expire(4).hold(Fetch, of=4, to=2).restart(4).wait(10_000)
    s.since = s.now
    yield """Broker 2 leads partition 0, with replicas 2 4 3; broker 4 is not in sync. Broker 3 leads
        partition 1. The controller, broker 1, watches the children of /brokers/ids.
        | 0 | 1 2 3 4 | 1 2 3 4 | 2, epoch 1 | 2 3 | 1 | 2 3 4 | 2, epoch 1 | 2, epoch 1 | 2, epoch 1"""
    s.crash(2).wait(1000)
    yield """Broker 2 dies. That its connections break says nothing; the session counts.
        | 1000 | 1 2 3 4 | 1 2 3 4 | 2, epoch 1 | 2 3 | 1 | 2 3 4 | 2, epoch 1 | 2, epoch 1 | 2, epoch 1"""
    s.hold(ZkOps, of=1, times=9).hold(LeaderAndIsr, times=9).hold(UpdateMetadata, times=9)
    s.expire(2)
    yield """The session was not heard of for its time-out: its znode goes, the watch fires.
        | 3000 | 1 3 4 | 1 2 3 4 | 2, epoch 1 | 2 3 | 1 | 2 3 4 | 2, epoch 1 | 2, epoch 1 | 2, epoch 1"""
    s.release(ZkOps).release(ZkOps)
    yield """A watch says only that something changed. The controller reads the children, watching again:
        broker 2 is gone.
        | 3000 | 1 3 4 | 1 3 4 | 2, epoch 1 | 2 3 | 1 | 2 3 4 | 2, epoch 1 | 2, epoch 1 | 2, epoch 1"""
    s.release(ZkOps).release(ZkOps)
    yield """It reads the states of all partitions that broker 2 led or was in sync for, and writes them, if
        the versions are still those: the first live replica in the ISR leads, which is 3 and not 4.
        | 3000 | 1 3 4 | 1 3 4 | 3, epoch 2 | 3 | 2 | 3 4 | 2, epoch 1 | 2, epoch 1 | 2, epoch 1"""
    s.hold(Fetch, of=4, to=3).release(LeaderAndIsr)
    yield """LeaderAndIsr to the replicas: broker 3 leads, broker 4 follows it.
        | 3000 | 1 3 4 | 1 3 4 | 3, epoch 2 | 3 | 2 | 3 4 | 3, epoch 2 | 3, epoch 2 | 2, epoch 1"""
    s.release(UpdateMetadata)
    yield """UpdateMetadata to every broker: now clients are sent to broker 3.
        | 3000 | 1 3 4 | 1 3 4 | 3, epoch 2 | 3 | 2 | 3 4 | 3, epoch 2 | 3, epoch 2 | 3, epoch 2"""


@scenario(
    "A state that changed between reading and writing",
    source="Kafka: `PartitionStateMachine.doElectLeaderForPartitions`: BADVERSION is tried again",
    stage=lambda: ZookeeperStage([(2, 3, 4)]),
    columns="""ms | leader in ZooKeeper | ISR | version | write of leader 2
        | write of the controller = write of 1 | as replica 2 has it""",
)
def state_decided_again(s: ZookeeperStage) -> Steps:
    """Controller and leader write the same znode. Neither holds a lock; who finds another
    version than the one that it read has to decide again."""
    s.wait(500).hold(Fetch, of=3).produce("m0", to=2).crash(4)
    s.since = s.now
    yield """Broker 2 leads. Broker 3 hangs and does not fetch; broker 4 dies.
        | 0 | 2, epoch 0 | 2 3 4 | 0 | – | – | 2, epoch 0"""
    s.hold(ZkOps, of=1, times=9).expire(4)
    s.release(ZkOps).release(ZkOps).release(ZkOps)
    yield """Broker 4's session has ended. The controller has read the state, with version 0, and wants to
        write ISR 2, 3.
        | 2600 | 2, epoch 0 | 2 3 4 | 0 | – | – | 2, epoch 0"""
    s.wait(500)
    yield """Meanwhile the leader writes ISR 2, 4 itself: broker 3 lags.
        | 3100 | 2, epoch 0 | 2 4 | 1 | OK | – | 2, epoch 0"""
    s.release(ZkOps)
    yield """The controller's write, which names version 0, is refused.
        | 3100 | 2, epoch 0 | 2 4 | 1 | OK | BAD_VERSION | 2, epoch 0"""
    s.release(ZkOps)
    s.release(ZkOps)
    yield """It reads again and decides from that: ISR 2. It tells the leader, with a new leader epoch.
        | 3100 | 2, epoch 1 | 2 | 2 | OK | OK | 2, epoch 1"""


class Designs:
    """The same failure in both designs. `each`: every replica watches. `one`: a controller does."""

    not_played: ClassVar[str] = ZookeeperStage.not_played

    def __init__(self) -> None:
        self.partitions = self.replicas = 0
        self.each: Counter[str] | None = None
        self.one: Counter[str] | None = None

    def fail(self, partitions: int, replicas: int = 3) -> Self:
        """A broker dies that led all these partitions; until all have another leader."""
        self.partitions, self.replicas = partitions, replicas
        self.each = _without(partitions, replicas)
        self.one = _with(partitions, replicas)
        return self

    def fail_controller(self, partitions: int, replicas: int = 3) -> Self:
        """The controller dies, which leads nothing; until there is another."""
        self.partitions, self.replicas = partitions, replicas
        self.each = None
        scene = _cluster(partitions, replicas).crash(1)
        self.one = _counted(scene, 1, lambda: bool(scene.believers()))
        return self

    def look(self, column: str) -> object:
        """See `framework.Stage`."""
        return look(COUNTED, self, column)


COUNTED: Mapping[str, Callable[[Designs, str], object]] = {
    "partitions": lambda d, _: d.partitions,
    "replicas of each": lambda d, _: d.replicas,
    "each replica watches: (notifications)|(reads|writes)": lambda d, kind: d.each[kind] if d.each else None,
    "one controller: (notifications)|its (reads|writes)": lambda d, kind: d.one[kind] if d.one else None,
}


def _without(partitions: int, replicas: int) -> Counter[str]:
    tps = tuple(data(n) for n in range(partitions))
    zk = ZooKeeper()
    brokers = [SelfElecting(n, zk, zk.connect(0, 3000), tps) for n in range(LEADER, LEADER + replicas)]
    for broker in brokers:
        broker.elect(0, tps)
    assert brokers[0].leads == set(tps)
    before = _load(zk)
    zk.close(brokers[0].session)
    for broker in brokers[1:]:
        broker.wake(0)
    assert brokers[1].leads == set(tps)
    return _load(zk) - before


def _cluster(partitions: int, replicas: int) -> ZookeeperStage:
    holders = tuple(range(LEADER, LEADER + replicas))
    return ZookeeperStage([holders] * partitions, brokers=(1, *holders))


def _with(partitions: int, replicas: int) -> Counter[str]:
    scene = _cluster(partitions, replicas).crash(LEADER)
    tps = [data(n) for n in range(partitions)]
    return _counted(scene, LEADER, lambda: all(scene.leader(tp) == LEADER + 1 for tp in tps))


def _load(zk: ZooKeeper) -> Counter[str]:
    """What the ensemble did: notifications that it sent, reads and writes that it was asked for."""
    return Counter(asdict(zk.counts))


def _counted(scene: ZookeeperStage, dead: int, condition: Callable[[], bool]) -> Counter[str]:
    """From the end of a broker's session on."""
    before = _load(scene.zookeeper)
    scene.expire(dead).until(condition)
    return _load(scene.zookeeper) - before


@scenario(
    "The herd that the controller avoids, counted",
    source="Kafka wiki, *Detailed Replication Design* V2 (each replica watches) and V3 (controller); "
    "ZooKeeper, *Recipes: Leader Election* (the herd effect)",
    stage=Designs,
    columns="""partitions | replicas of each | each replica watches: notifications | reads | writes
        | one controller: notifications | its reads | its writes""",
)
def herd(d: Designs) -> Steps:
    """In drafts of replication there was no controller: the leader of each partition held an ephemeral znode,
    and every replica watched it. When a broker dies that leads p partitions of r replicas, p (r - 1)
    notifications go out at once, each followed by a write; all but one for each partition fail. A
    controller gets one notification, whatever p is, writes p states, and can tell each broker of all of
    them in one request. (Columns: what the ensemble sends and is asked for, from the end of the session
    on.)"""
    d.fail(1)
    yield """A broker dies that led one partition, with three replicas. The two others are notified, and each
        tries to create the znode; or the controller is notified, reads, and writes.
        | 1 | 3 | 2 | 2 | 2 | 1 | 5 | 1"""
    d.fail(10)
    yield "It led ten partitions. | 10 | 3 | 20 | 20 | 20 | 1 | 14 | 10"
    d.fail(100)
    yield """It led a hundred: 200 notifications, and half of the 200 writes that follow are without success.
        The controller gets one notification.
        | 100 | 3 | 200 | 200 | 200 | 1 | 104 | 100"""
    d.fail(100, 5)
    yield """A hundred, with five replicas each. The controller reads two brokers more.
        | 100 | 5 | 400 | 400 | 400 | 1 | 106 | 100"""
    d.fail_controller(100)
    yield """The controller dies. The herd that is left is one of brokers: all three others are notified and
        try, and are notified again of the new one, which reads every state.
        | 100 | 3 | – | – | – | 6 | 118 | 4"""
