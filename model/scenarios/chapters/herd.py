"""Scenarios: what a cluster without a controller would cost: the herd, counted."""

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Self

from model.scenarios.drivers.cluster import data
from model.scenarios.drivers.zookeeper import ZookeeperStage
from model.scenarios.framework import Scenario, Steps
from model.zookeeper.herd import SelfElecting
from model.zookeeper.zookeeper import ZooKeeper

LEADER = 2


@dataclass(slots=True)
class ElectionLoad:
    """What the ensemble did: notifications that it sent, reads and writes that it was asked for."""

    notifications: int = 0
    reads: int = 0
    writes: int = 0


class Designs:
    """The same failure in both designs. `each`: every replica watches. `one`: a controller does."""

    def __init__(self) -> None:
        self.partitions = self.replicas = 0
        self.each: ElectionLoad | None = None
        self.one: ElectionLoad | None = None

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


def _without(partitions: int, replicas: int) -> ElectionLoad:
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
    return _since(zk, before)


def _cluster(partitions: int, replicas: int) -> ZookeeperStage:
    holders = tuple(range(LEADER, LEADER + replicas))
    return ZookeeperStage([holders] * partitions, brokers=(1, *holders))


def _with(partitions: int, replicas: int) -> ElectionLoad:
    scene = _cluster(partitions, replicas).crash(LEADER)
    tps = [data(n) for n in range(partitions)]
    return _counted(scene, LEADER, lambda: all(scene.leader(tp) == LEADER + 1 for tp in tps))


def _load(zk: ZooKeeper) -> ElectionLoad:
    counts = zk.counts
    return ElectionLoad(counts.notifications, counts.reads, counts.writes)


def _since(zk: ZooKeeper, before: ElectionLoad) -> ElectionLoad:
    now = _load(zk)
    return ElectionLoad(*(b - a for a, b in zip(astuple(before), astuple(now), strict=True)))


def _counted(scene: ZookeeperStage, dead: int, condition: Callable[[], bool]) -> ElectionLoad:
    """From the end of a broker's session on."""
    before = _load(scene.zookeeper)
    scene.expire(dead).until(condition)
    return _since(scene.zookeeper, before)


def _failures(d: Designs) -> Steps:
    d.fail(1)
    yield (
        "A broker dies that led one partition, with three replicas. The two others are notified, "
        "and each tries to create the znode; or the controller is notified, reads, and writes.",
        "1 | 3 | 2 | 2 | 2 | 1 | 5 | 1",
    )
    d.fail(10)
    yield "It led ten partitions.", "10 | 3 | 20 | 20 | 20 | 1 | 14 | 10"
    d.fail(100)
    yield (
        "It led a hundred: 200 notifications, and half of the 200 writes that follow are without "
        "success. The controller gets one notification.",
        "100 | 3 | 200 | 200 | 200 | 1 | 104 | 100",
    )
    d.fail(100, 5)
    yield (
        "A hundred, with five replicas each. The controller reads two brokers more.",
        "100 | 5 | 400 | 400 | 400 | 1 | 106 | 100",
    )
    d.fail_controller(100)
    yield (
        "The controller dies. The herd that is left is one of brokers: all three others are "
        "notified and try, and are notified again of the new one, which reads every state.",
        "100 | 3 | – | – | – | 6 | 118 | 4",
    )


def _of(design: str, kind: str) -> Callable[[Designs], object]:
    def show(d: Designs) -> object:
        load = getattr(d, design)
        return getattr(load, kind) if load is not None else None

    return show


HERD = Scenario(
    name="herd",
    title="The herd that the controller avoids, counted",
    about="""In drafts of replication there was no controller: the leader of each partition held an
ephemeral znode, and every replica watched it. When a broker dies that leads p partitions of r replicas,
p (r - 1) notifications go out at once, each followed by a write; all but one for each partition
fail. A controller gets one notification, whatever p is, writes p states, and can tell each broker of all of
them in one request. (Columns: what the ensemble sends and is asked for, from the end of the session on.)""",
    source="Kafka wiki, *Detailed Replication Design* V2 (each replica watches) and V3 (controller); "
    "ZooKeeper, *Recipes: Leader Election* (the herd effect)",
    stage=Designs,
    columns={
        "partitions": lambda d: d.partitions,
        "replicas of each": lambda d: d.replicas,
        "each replica watches: notifications": _of("each", "notifications"),
        "reads": _of("each", "reads"),
        "writes": _of("each", "writes"),
        "one controller: notifications": _of("one", "notifications"),
        "its reads": _of("one", "reads"),
        "its writes": _of("one", "writes"),
    },
    steps=_failures,
)
