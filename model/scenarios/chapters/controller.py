"""Scenarios: the controller of the ZooKeeper era is elected, and finds that a broker is gone."""

from model.protocol.messages import Fetch
from model.protocol.zookeeper_messages import LeaderAndIsr, UpdateMetadata, ZkOps
from model.scenarios.chapters.herd import HERD
from model.scenarios.drivers.zookeeper import (
    ZookeeperStage,
    acting_on,
    believers,
    controller_at,
    controller_epoch,
    controller_of,
    ids,
    ids_of,
    isr,
    known,
    leader,
    leads,
    time,
    version,
    written,
)
from model.scenarios.framework import Chapter, Scenario, Steps


def _elected(s: ZookeeperStage) -> Steps:
    s.start(1)
    yield (
        "Broker 1 comes up: session 1. It creates /brokers/ids/1, finds no /controller and creates it, and "
        "counts /controller_epoch up, if its version is the one that it read.",
        "1 (s1) | 1 (s1) | 1 | 1 | down | down",
    )
    s.start(2, 3)
    yield (
        "Brokers 2 and 3 come up, find /controller and watch it. The controller tells them of itself.",
        "1 (s1) 2 (s2) 3 (s3) | 1 (s1) | 1 | 1 | 1, epoch 1 | 1, epoch 1",
    )
    s.crash(1).wait(1000)
    yield (
        "Broker 1 dies. Its session continues until its time-out; until then no broker knows.",
        "1 (s1) 2 (s2) 3 (s3) | 1 (s1) | 1 | – | 1, epoch 1 | 1, epoch 1",
    )
    s.hold(ZkOps, of=2).hold(ZkOps, of=3).expire(1)
    yield (
        "The session has ended: both its znodes go, and the watches of brokers 2 and 3 fire.",
        "2 (s2) 3 (s3) | – | 1 | – | 1, epoch 1 | 1, epoch 1",
    )
    s.release(ZkOps)
    yield (
        "Both look, find no controller, and try to create /controller. Broker 2 is first and "
        "counts the epoch up; broker 3 gets NODE_EXISTS and watches again.",
        "2 (s2) 3 (s3) | 2 (s2) | 2 | 2 | 2, epoch 2 | 2, epoch 2",
    )
    s.restart(1)
    yield (
        "Broker 1 comes back, with a new session, as a broker like others.",
        "1 (s4) 2 (s2) 3 (s3) | 2 (s2) | 2 | 2 | 2, epoch 2 | 2, epoch 2",
    )
    s.shut_down(2)
    yield (
        "Broker 2 is shut down in order and closes its session: no broker waits for a time-out. Broker 3 is "
        "first this time.",
        "1 (s4) 3 (s3) | 3 (s3) | 3 | 3 | down | 3, epoch 3",
    )


def _restarted(s: ZookeeperStage) -> Steps:
    yield "Broker 1 is controller.", "1 (s1) 2 (s2) 3 (s3) | 1 (s1) | 1 | 1 | 1, epoch 1"
    s.crash(1).start(1)
    yield (
        "It dies and is back at once, with session 4. Both znodes name it, but are of session 1: it is not "
        "controller, and cannot register.",
        "1 (s1) 2 (s2) 3 (s3) | 1 (s1) | 1 | – | 1, epoch 1",
    )
    s.expire(1)
    yield (
        "Session 1 has ended. All three try to be controller, broker 2 is first. Broker 1 can register.",
        "1 (s4) 2 (s2) 3 (s3) | 2 (s2) | 2 | 2 | 2, epoch 2",
    )


def _failure(s: ZookeeperStage) -> Steps:
    s.crash(4).expire(4).hold(Fetch, of=4, to=2).restart(4).wait(10_000)
    s.since = s.now
    yield (
        "Broker 2 leads partition 0, with replicas 2 4 3; broker 4 is not in sync. Broker 3 leads "
        "partition 1. The controller, broker 1, watches the children of /brokers/ids.",
        "0 | 1 2 3 4 | 1 2 3 4 | 2, epoch 1 | 2 3 | 1 | 2 3 4 | 2, epoch 1 | 2, epoch 1 | 2, epoch 1",
    )
    s.crash(2).wait(1000)
    yield (
        "Broker 2 dies. That its connections break says nothing; the session counts.",
        "1000 | 1 2 3 4 | 1 2 3 4 | 2, epoch 1 | 2 3 | 1 | 2 3 4 | 2, epoch 1 | 2, epoch 1 | 2, epoch 1",
    )
    s.hold(ZkOps, of=1, times=9).hold(LeaderAndIsr, times=9).hold(UpdateMetadata, times=9)
    s.expire(2)
    yield (
        "The session was not heard of for its time-out: its znode goes, the watch fires.",
        "3000 | 1 3 4 | 1 2 3 4 | 2, epoch 1 | 2 3 | 1 | 2 3 4 | 2, epoch 1 | 2, epoch 1 | 2, epoch 1",
    )
    s.release(ZkOps).release(ZkOps)
    yield (
        "A watch says only that something changed. The controller reads the children, watching again: "
        "broker 2 is gone.",
        "3000 | 1 3 4 | 1 3 4 | 2, epoch 1 | 2 3 | 1 | 2 3 4 | 2, epoch 1 | 2, epoch 1 | 2, epoch 1",
    )
    s.release(ZkOps).release(ZkOps)
    yield (
        "It reads the states of all partitions that broker 2 led or was in sync for, and writes them, if the "
        "versions are still those: the first live replica in the ISR leads, which is 3 and not 4.",
        "3000 | 1 3 4 | 1 3 4 | 3, epoch 2 | 3 | 2 | 3 4 | 2, epoch 1 | 2, epoch 1 | 2, epoch 1",
    )
    s.hold(Fetch, of=4, to=3).release(LeaderAndIsr)
    yield (
        "LeaderAndIsr to the replicas: broker 3 leads, broker 4 follows it.",
        "3000 | 1 3 4 | 1 3 4 | 3, epoch 2 | 3 | 2 | 3 4 | 3, epoch 2 | 3, epoch 2 | 2, epoch 1",
    )
    s.release(UpdateMetadata)
    yield (
        "UpdateMetadata to every broker: now clients are sent to broker 3.",
        "3000 | 1 3 4 | 1 3 4 | 3, epoch 2 | 3 | 2 | 3 4 | 3, epoch 2 | 3, epoch 2 | 3, epoch 2",
    )


def _anew(s: ZookeeperStage) -> Steps:
    s.wait(500).hold(Fetch, of=3).produce("m0", to=2).crash(4)
    s.since = s.now
    yield (
        "Broker 2 leads. Broker 3 hangs and does not fetch; broker 4 dies.",
        "0 | 2, epoch 0 | 2 3 4 | 0 | – | – | 2, epoch 0",
    )
    s.hold(ZkOps, of=1, times=9).expire(4)
    s.release(ZkOps).release(ZkOps).release(ZkOps)
    yield (
        "Broker 4's session has ended. The controller has read the state, with version 0, and wants to write "
        "ISR 2, 3.",
        "2600 | 2, epoch 0 | 2 3 4 | 0 | – | – | 2, epoch 0",
    )
    s.wait(500)
    yield (
        "Meanwhile the leader writes ISR 2, 4 itself: broker 3 lags.",
        "3100 | 2, epoch 0 | 2 4 | 1 | OK | – | 2, epoch 0",
    )
    s.release(ZkOps)
    yield (
        "The controller's write, which names version 0, is refused.",
        "3100 | 2, epoch 0 | 2 4 | 1 | OK | BAD_VERSION | 2, epoch 0",
    )
    s.release(ZkOps)
    s.release(ZkOps)
    yield (
        "It reads again and decides from that: ISR 2. It tells the leader, with a new leader epoch.",
        "3100 | 2, epoch 1 | 2 | 2 | OK | OK | 2, epoch 1",
    )


ELECTING = {
    "/brokers/ids": ids_of,
    "/controller": controller_of,
    "/controller_epoch": controller_epoch,
    "believes to be controller": believers,
    "2 heard of": controller_at(2),
    "3 heard of": controller_at(3),
}
FAILING = {
    "ms": time,
    "/brokers/ids": ids,
    "controller knows of": acting_on(1),
    "leader in ZooKeeper": leader(0),
    "ISR": isr(0),
    "version": version(0),
    "ISR of partition 1": isr(1),
    "as replica 3 has it": leads(3),
    "as replica 4 has it": leads(4),
    "as 1 tells clients": known(1),
}
ANEW = {
    "ms": time,
    "leader in ZooKeeper": leader(0),
    "ISR": isr(0),
    "version": version(0),
    "write of leader 2": written(2),
    "write of the controller": written(1),
    "as replica 2 has it": leads(2),
}

CONTROLLER_ERA = Chapter(
    title="The controller of the ZooKeeper era",
    about="""Before KRaft the state of the cluster is in ZooKeeper, and one of the brokers, the
controller, decides. ZooKeeper offers it three things. An *ephemeral* znode belongs to the session of the
client that created it and goes with it. A *watch* is set by a read and says once that something changed. A
write can be *conditional* on the version of a znode, which counts its changes. (s1: session 1. Sessions
end after 3 s here; Kafka's default is 18 s, before KIP-537 6 s. As of 2.4, where nothing else is said.)""",
    scenarios=(
        Scenario(
            name="controller-election",
            title="Who creates /controller is controller",
            about="""Each broker tries to create the ephemeral znode /controller; one succeeds. The
others watch it and try again when it is gone. Each new controller counts /controller_epoch up, a znode that
stays: its epoch tells its requests from those of every earlier one.""",
            source="Kafka: `KafkaController.elect`, "
            "`KafkaZkClient.registerControllerAndIncrementControllerEpoch`; "
            "ZooKeeper, *Recipes: Leader Election*",
            stage=lambda: ZookeeperStage(brokers=()),
            columns=ELECTING,
            steps=_elected,
        ),
        Scenario(
            name="controller-session",
            title="A znode is of a session, not of a broker",
            about="""A controller that restarts faster than its session ends is in no way but its
own: what the former process created goes only with the former session. (Kafka's broker finds its
registration taken and ends with an error; the model's keeps trying.)""",
            source="ZooKeeper Programmer's Guide, *ZooKeeper Sessions*, *Ephemeral Nodes*",
            stage=lambda: ZookeeperStage(brokers=(1, 2, 3)),
            columns={key: ELECTING[key] for key in list(ELECTING)[:-1]},
            steps=_restarted,
        ),
        Scenario(
            name="broker-failure",
            title="A broker is found dead, and others lead",
            about="""Detection takes as long as a session lasts; what follows takes some round trips, and
reads and writes in proportion to the partitions that are hit. ZooKeeper is written before any broker
hears of it: a controller that dies between two steps leaves behind what the next one needs.""",
            source="Kafka: `KafkaController.processBrokerChange`, `onBrokerFailure`, "
            "`PartitionStateMachine.electLeaderForPartitions`",
            stage=lambda: ZookeeperStage([(2, 4, 3), (3, 2, 4), (3, 4, 1)]),
            columns=FAILING,
            steps=_failure,
        ),
        Scenario(
            name="state-decided-anew",
            title="A state that changed between reading and writing",
            about="""Controller and leader write the same znode. Neither holds a lock; who finds another
version than the one that it read has to decide again.""",
            source="Kafka: `PartitionStateMachine.doElectLeaderForPartitions`: BADVERSION is tried again",
            stage=lambda: ZookeeperStage([(2, 3, 4)]),
            columns=ANEW,
            steps=_anew,
        ),
        HERD,
    ),
)
