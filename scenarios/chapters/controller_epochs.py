"""One controller at a time.

A broker knows that it is controller from ZooKeeper, and that it is not any more it learns
later: a process that stood still, or that is cut off, continues as it was. That there are two for a while
no protocol can prevent; so everything that a controller does carries what tells old from new. Its requests
carry its controller epoch, what it says of a partition the leader epoch, its writes a version; and a session
that has ended writes nothing at all."""

from model.protocol.messages import ElectLeaders, PartitionState
from model.protocol.zookeeper_messages import Delete, LeaderAndIsr, StopReplica, UpdateMetadata, ZkOps, ZkPoll
from model.zookeeper.zk_data import CONTROLLER
from scenarios.drivers.cluster import data
from scenarios.drivers.zookeeper import ZookeeperStage
from scenarios.framework import Steps, scenario

DELETED = """/controller | /controller_epoch | believes to be controller | leader in ZooKeeper | ISR | version
    | controller epoch in it | write of 1 | as replica 4 has it"""

P0 = data(0)


def _led_by(leader: int, epoch: int) -> dict[tuple[str, int], PartitionState]:
    """Partition 0 as a controller's request has it."""
    return {P0: PartitionState((2, 3, 4), (2, 3, 4), leader, epoch, epoch)}


@scenario(
    "LeaderAndIsr, UpdateMetadata, StopReplica: which are refused",
    source="Kafka: `ReplicaManager.becomeLeaderOrFollower`, `maybeUpdateMetadataCache`, "
    "`stopReplicas`; KIP-570",
    stage=lambda: ZookeeperStage([(2, 3, 4)]),
    columns="answer | controller that 3 heard of | as replica 3 has it | as 3 tells clients",
)
def control_epochs(s: ZookeeperStage) -> Steps:
    """A broker remembers the highest controller epoch that it heard of and refuses requests
    of a lower one. Within one controller's requests the leader epoch of each partition tells which is newer.
    What broker 3 is sent:"""
    yield "Broker 1 is controller, the first one. Broker 2 leads. | – | 1, epoch 1 | 2, epoch 0 | 2, epoch 0"
    s.say(3, LeaderAndIsr(1, 1, 101, _led_by(3, 2)))
    yield """LeaderAndIsr, controller epoch 1: leader 3, leader epoch 2. Broker 3 leads.
        | NONE | 1, epoch 1 | 3, epoch 2 | 2, epoch 0"""
    s.say(3, LeaderAndIsr(1, 1, 102, _led_by(4, 1)))
    yield """LeaderAndIsr of the same controller, but of leader epoch 1: older than what the replica has. It
        is passed over; other partitions of the same request would count.
        | NONE | 1, epoch 1 | 3, epoch 2 | 2, epoch 0"""
    s.say(3, UpdateMetadata(4, 2, 1, (1, 2, 3, 4), _led_by(3, 2)))
    yield """UpdateMetadata of a new controller, broker 4, with controller epoch 2. Now broker 3 knows of it.
        | NONE | 4, epoch 2 | 3, epoch 2 | 3, epoch 2"""
    s.say(3, LeaderAndIsr(1, 1, 103, _led_by(4, 3)))
    yield """LeaderAndIsr of the old controller. Its leader epoch is newer; it does not matter.
        | STALE_CONTROLLER_EPOCH | 4, epoch 2 | 3, epoch 2 | 3, epoch 2"""
    s.say(3, UpdateMetadata(1, 1, 104, (1, 2, 3, 4), _led_by(4, 3)))
    yield """UpdateMetadata of the old controller: clients would be sent astray.
        | STALE_CONTROLLER_EPOCH | 4, epoch 2 | 3, epoch 2 | 3, epoch 2"""
    s.say(3, StopReplica(1, 1, 105, [P0], delete=True))
    yield """StopReplica, which would delete the log. It has no leader epoch (before KIP-570): nothing else
        would stop it.
        | STALE_CONTROLLER_EPOCH | 4, epoch 2 | 3, epoch 2 | 3, epoch 2"""
    s.say(3, LeaderAndIsr(4, 2, 2, _led_by(2, 3)))
    yield """LeaderAndIsr of the new controller: leader 2, leader epoch 3.
        | NONE | 4, epoch 2 | 2, epoch 3 | 3, epoch 2"""


@scenario(
    "A controller that stood still",
    source="Kafka: `ControllerContext.epoch`; ZooKeeper Programmer's Guide, *ZooKeeper Sessions*",
    stage=lambda: ZookeeperStage([(2, 3, 4)]),
    columns="""/controller | /controller_epoch | believes to be controller | leader in ZooKeeper | answer to 1
        | as replica 3 has it | 4 heard of | as 4 tells clients""",
)
def split_brain(s: ZookeeperStage) -> Steps:
    """Two brokers believe to be controller. The brokers obey one."""
    yield """Broker 1 is controller. Broker 2 leads.
        | 1 | 1 | 1 | 2, epoch 0 | NONE | 2, epoch 0 | 1, epoch 1 | 2, epoch 0"""
    s.hold(ZkOps, of=1, times=9).crash(2).expire(2)
    s.release(ZkOps).release(ZkOps).release(ZkOps)
    s.let().pause(1).release(ZkOps)
    yield """Broker 2 dies. The controller writes that broker 3 leads, and before it informs the brokers it
        stands still: its garbage collector, or its host.
        | 1 | 1 | 1 | 3, epoch 1 | NONE | 2, epoch 0 | 1, epoch 1 | 2, epoch 0"""
    s.expire(1)
    yield """Its session has ended. Broker 3 is controller, with the next epoch; it reads in ZooKeeper what
        was decided, and informs all brokers. Broker 1 still believes.
        | 3 | 2 | 1 3 | 3, epoch 1 | NONE | 3, epoch 1 | 3, epoch 2 | 3, epoch 1"""
    s.restart(2).until(lambda: s.written(P0).isr == (2, 3, 4)).ask(ElectLeaders([P0]), to=3)
    yield """Broker 2 comes back, gets in sync, and as the preferred leader gets its leadership back.
        | 3 | 2 | 1 3 | 2, epoch 2 | NONE | 2, epoch 2 | 3, epoch 2 | 2, epoch 2"""
    s.hold(ZkPoll, of=1, answer=True).resume(1)
    yield """Broker 1 continues where it stood: LeaderAndIsr and UpdateMetadata, leader 3, controller epoch 1.
        The brokers refuse.
        | 3 | 2 | 1 3 | 2, epoch 2 | STALE_CONTROLLER_EPOCH | 2, epoch 2 | 3, epoch 2 | 2, epoch 2"""
    s.release(ZkPoll)
    yield """It hears from the ensemble that its session has ended, and resigns.
        | 3 | 2 | 3 | 2, epoch 2 | STALE_CONTROLLER_EPOCH | 2, epoch 2 | 3, epoch 2 | 2, epoch 2"""


@scenario(
    "A controller whose session has ended writes nothing",
    source="ZooKeeper Programmer's Guide, *ZooKeeper Sessions*",
    stage=lambda: ZookeeperStage([(2, 3, 4)]),
    columns=DELETED,
)
def controller_session_over(s: ZookeeperStage) -> Steps:
    """ZooKeeper refuses every request of a session that it has ended, however late. (The
    session of a process, not the process: what it wants to write with its next session has to be stopped in
    another way.)"""
    yield "Broker 1 is controller. Broker 2 leads. | 1 | 1 | 1 | 2, epoch 0 | 2 3 4 | 0 | 1 | – | 2, epoch 0"
    s.hold(ZkOps, of=1, times=9).crash(2).expire(2)
    s.release(ZkOps).release(ZkOps).release(ZkOps).hold(ZkPoll, of=1)
    yield """Broker 2 dies. The controller's write is under way, and from now on nothing of it gets through.
        | 1 | 1 | 1 | 2, epoch 0 | 2 3 4 | 0 | 1 | – | 2, epoch 0"""
    s.expire(1)
    yield """Its session has ended. Broker 3 is controller, and does what broker 1 was about to do.
        | 3 | 2 | 1 3 | 3, epoch 1 | 3 4 | 1 | 2 | – | 3, epoch 1"""
    s.let().release(ZkOps)
    yield """Broker 1's write arrives. Its version is not looked at: the session has ended. So broker 1 learns
        of that, and resigns.
        | 3 | 2 | 3 | 3, epoch 1 | 3 4 | 1 | 2 | session has ended | 3, epoch 1"""


@scenario(
    "A controller that was replaced while its session lives",
    source="Kafka: `KafkaZkClient.setTopicPartitionStatesRaw`; KAFKA-6082",
    stage=lambda: ZookeeperStage([(2, 3, 4)]),
    columns=DELETED,
)
def deleted_controller(s: ZookeeperStage) -> Steps:
    """An operator takes /controller away. The old controller's write names the version that it read; the new
    one has written since. (Since KAFKA-6082, in 2.1, whatever a controller writes is conditional on the
    version of /controller_epoch, too, so that writes are refused that have no version of their own, as
    those of assignments have none. The model leaves that out.)"""
    yield "Broker 1 is controller. Broker 2 leads. | 1 | 1 | 1 | 2, epoch 0 | 2 3 4 | 0 | 1 | – | 2, epoch 0"
    s.hold(ZkOps, of=1, times=9).crash(2).wait(1500).crash(3).expire(2)
    s.release(ZkOps).release(ZkOps).release(ZkOps)
    yield """Broker 2 dies. The controller has read version 0, and its write is under way: leader 3, ISR 3, 4.
        Broker 3 is dead by now, its session is not over.
        | 1 | 1 | 1 | 2, epoch 0 | 2 3 4 | 0 | 1 | – | 2, epoch 0"""
    s.hold(ZkPoll, of=1, answer=True).expire(3).operator(Delete(CONTROLLER))
    yield """An operator deletes /controller, to get another one. Broker 4 is controller, and decides that
        broker 4 leads. Broker 1 has not heard of it yet; its session lives.
        | 4 | 2 | 1 4 | 4, epoch 1 | 4 | 1 | 2 | – | 4, epoch 1"""
    s.let().release(ZkOps)
    yield """Broker 1's write arrives: the version is not 0 any more. With the answer it hears of /controller,
        looks, and resigns.
        | 4 | 2 | 4 | 4, epoch 1 | 4 | 1 | 2 | BAD_VERSION | 4, epoch 1"""
