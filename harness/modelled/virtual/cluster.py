"""The simulated cluster: `Cluster` and what nemeses need, over nodes of the reference model.

`roles` and `offsets` read the state of the nodes directly: the harness looks without messages, and a look
takes no virtual time.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import NamedTuple

from core.capabilities import (
    Cut,
    DeadLetter,
    Growable,
    Listener,
    Reassignable,
    Remakable,
    ShareOffsets,
    Toxic,
    WiredWithin,
    capabilities_of,
)
from core.client_settings import SessionSpec
from core.cluster import NodeEnd, OpenTransaction, Roles
from core.config import RunConfig
from core.errors import ClusterError
from core.flushing import flushes_each
from core.op import Isolation, TopicPartition
from core.systems import SimulatedSection
from core.wire import Seen, WireRule
from harness.modelled.shared.base_time import BASE_MS
from harness.modelled.shared.disk_copy import DiskCopy, copied
from harness.modelled.shared.group_settings import share_settings
from harness.modelled.shared.settings import settings_of_run
from harness.modelled.virtual.admin import Administered
from harness.modelled.virtual.client_runtime import Sender
from harness.modelled.virtual.network import CLIENTS, Network, cuts_from
from harness.modelled.virtual.nodes import Caller, NodeProcess, SimNode
from harness.modelled.virtual.proxies import Proxies
from harness.modelled.virtual.scheduler import Scheduler
from harness.modelled.virtual.session import SimSession
from harness.modelled.virtual.wire import Wire
from history.evidence_tables import END
from model.broker import Broker
from model.coordinator.transaction_metadata import ONGOING, PREPARED
from model.errors import Refused
from model.metadata.image import MetadataImage
from model.protocol.coordinator_messages import JoinGroup
from model.protocol.messages import Fetch
from model.protocol.requests import Answered
from model.protocol.share_messages import ShareFetch
from model.replication.node import Ask
from model.replication.replica import Replica
from model.share.dead_letter_queue import LetterRecord
from model.zookeeper.ensemble import Ensemble
from model.zookeeper.zk_data import TOP_LEVEL
from model.zookeeper.zookeeper import ZooKeeper


class Throttle(NamedTuple):
    """What is throttled: see `Throttleable`."""

    node: int
    tps: tuple[TopicPartition, ...]
    rate: int


READY_US = 60_000_000
STEP_US = 50_000
JOIN_GRACE_MS = 3_000
"""The answer to JoinGroup comes when the rebalance ends; librdkafka waits this much longer, Java 5 s."""


def capabilities(config: RunConfig) -> Collection[type]:
    """What its cluster offers: no reassignment could be cancelled before KIP-455 (2.4), and with ZooKeeper
    the model has no further partitions and deletes no topics."""
    era = settings_of_run(config, config.section(SimulatedSection).era, "").era
    without = {Reassignable, Growable, Remakable, WiredWithin} if era.zookeeper else set()
    return capabilities_of(SimulatedCluster) - without


class SimulatedCluster(Administered):
    """`Cluster`, `Killable`, `Powered`, `Pausable`, `HalfOpenable`, `Restartable`, `Electable`,
    `Reassignable`, `Growable`, `Deletable`, `Remakable`, `Throttleable`, `Linked`, `Wired`,
    `WiredBetween`, `WiredWithin`, `SharesGroups`."""

    def __init__(self, config: RunConfig, scheduler: Scheduler) -> None:
        self.config = config
        self.scheduler = scheduler
        its = config.section(SimulatedSection)
        self.settings = settings_of_run(config, its.era, its.mutant)
        rng = random.Random(f"{config.seed}/simulation")
        self.network = Network(scheduler, random.Random(f"{config.seed}/network"))
        self.brokers = tuple(range(1, config.brokers + 1))
        last = config.brokers + config.controllers
        self.nodes = tuple(range(1, last + 1))
        self.ensemble = last + 1 if self.settings.era.zookeeper else -1
        """Node of the ZooKeeper ensemble, -1 = the metadata are a quorum's."""
        assert self.ensemble < 0 or not config.controllers, "this era has no isolated controllers"
        self.zookeeper = ZooKeeper(TOP_LEVEL) if self.ensemble > 0 else None
        self._everyone: dict[int, SimNode] = {}
        for me in self.nodes:
            self._add(me, rng, self._broker)
        self.sim = dict(self._everyone)
        self._throttled: Throttle | None = None
        self.takes: list[list[DiskCopy]] = []
        """What was on the disks of crashed nodes before they came back."""
        if (zookeeper := self.zookeeper) is not None:
            self._add(self.ensemble, rng, lambda _: Ensemble(zookeeper))
        self._proxies = Proxies(self.network, scheduler, random.Random(f"{config.seed}/toxics"))
        self._wire = Wire(self.network, scheduler, random.Random(f"{config.seed}/wire"))

    def _add(self, me: int, rng: random.Random, begin: Callable[[SimNode], NodeProcess]) -> None:
        draws = random.Random(f"{rng.getrandbits(64)}")
        self._everyone[me] = SimNode(
            me, self.settings, self.scheduler, self.network, draws, self._everyone, begin
        )

    def _broker(self, node: SimNode) -> Broker:
        broker = Broker(
            node.me,
            voters=self.nodes[len(self.brokers) :] or self.brokers,
            settings=self.settings,
            durable=node.durable,
            incarnation=node.incarnation,
            draw=node.rng.randint,
            broker=node.me in self.brokers,
            ensemble=self.ensemble,
        )
        self._limit(broker)
        return broker

    # ---- Cluster

    async def start(self) -> None:
        """Start all nodes; returns when they are one cluster."""
        for me in sorted(self._everyone, key=lambda me: me != self.ensemble):  # the ensemble comes first
            self._everyone[me].start()
        until = self.scheduler.now + READY_US
        while not self._complete():
            if self.scheduler.now > until:
                raise ClusterError("the simulated cluster does not come up")
            await self.scheduler.sleep(STEP_US)

    @property
    def running(self) -> list[Broker]:
        """The processes of all nodes that are up."""
        return [node.broker for node in self.sim.values() if node.broker is not None]

    def _complete(self) -> bool:
        """All brokers run, and each knows that the others do."""
        images = [broker.node.image for broker in self.running if broker.is_broker]
        everyone = set(self.brokers)
        return len(images) == len(everyone) and all(image.alive() >= everyone for image in images)

    async def roles(self) -> Roles:
        """What the nodes that are up believe."""
        views = {n: image.partitions for n, image in self.views().items()}
        leaders: dict[TopicPartition, int] = {}
        epochs: dict[TopicPartition, int] = {}
        versions: dict[TopicPartition, int] = {}
        isr: dict[TopicPartition, tuple[int, ...]] = {}
        replicas: dict[TopicPartition, tuple[int, ...]] = {}
        for view in views.values():
            for key, state in view.items():
                tp = TopicPartition(*key)
                if state.partition_epoch >= versions.get(tp, -1):
                    versions[tp], epochs[tp] = state.partition_epoch, state.leader_epoch
                    leaders[tp], isr[tp], replicas[tp] = state.leader, state.isr, state.replicas
        same = len({tuple(sorted((tp, s.leader) for tp, s in v.items())) for v in views.values()})
        controller = next((broker.me for broker in self.running if broker.metadata.controls), -1)
        return Roles(
            ns=self.scheduler.ns,
            leaders=leaders,
            leader_epochs=epochs,
            isr=isr,
            replicas=replicas,
            controller=controller,
            answering=tuple(sorted(views)),
            agreed=len(views) == len(self.brokers) and same == 1,
        )

    def views(self) -> dict[int, MetadataImage]:
        """Metadata of the brokers that answer."""
        return {
            broker.me: broker.node.image
            for broker in self.running
            if broker.is_broker and not self.sim[broker.me].paused and broker.metadata.ready
        }

    def leader(self, tp: TopicPartition) -> Replica | None:
        """The replica that leads a partition in the newest epoch, among nodes that are up."""
        found = (broker.node.leader_of(tp) for broker in self.running)
        return max(filter(None, found), key=lambda replica: replica.state.leader_epoch, default=None)

    async def offsets(
        self, tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        """(log start, LSO or HW) from each partition's leader that tells it."""
        found = {}
        for tp in tps:
            replica = self.leader(tp)
            if replica is None:
                continue
            with suppress(Refused):
                end = replica.latest_offset(committed=isolation is Isolation.READ_COMMITTED)
                found[tp] = (replica.log.start, end)
        return found

    async def configure_groups(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """See `SharesGroups`: all share groups of the cluster have the same settings, those of its brokers.
        Raises: ClusterError, where others are asked for."""
        known = share_settings(self.settings)
        for group, its in settings.items():
            for name, value in its.items():
                if known.get(name) != value:
                    raise ClusterError(
                        f"share group {group}: the simulated cluster cannot set {name}={value}"
                    )

    async def share_offsets(self, groups: Sequence[str], tps: Sequence[TopicPartition]) -> ShareOffsets:
        """See `SharesGroups`: as the coordinators have them in their logs."""
        found: dict[tuple[str, TopicPartition], int] = {}
        for broker in self.running:
            state = broker.share_groups.state
            for group, tp in product(groups, tps):
                with suppress(Refused):
                    start = state.at(group, tp)[1].start
                    found[group, tp] = max(start, found.get((group, tp), 0))
        return found

    async def dead_letters(self, topic: str) -> Sequence[DeadLetter]:
        """See `SharesGroups`: as the leaders of its partitions have them below the high watermark."""
        found: list[DeadLetter] = []
        parts = {tp for view in self.views().values() for tp in view.partitions if tp[0] == topic}
        for tp in sorted(TopicPartition(*tp) for tp in parts):
            if (replica := self.leader(tp)) is None:
                raise ClusterError(f"the dead letters in {topic} could not be read: {tp} has no leader")
            for offset, batch, letter in replica.log.records():
                assert isinstance(letter, LetterRecord)
                if offset < replica.high_watermark:
                    payload = letter.copy if isinstance(letter.copy, bytes) else None
                    source = TopicPartition(*letter.partition)
                    what = letter.group, source, letter.offset, letter.times, payload
                    ms = BASE_MS + batch.appended_ms
                    found.append(DeadLetter(*what, place=(tp, offset), ms=ms))
        return found

    async def open_transactions(self, tps: Sequence[TopicPartition]) -> list[OpenTransaction]:
        """Transactions that are open in the leaders' logs."""
        claimed = self._claimed()
        rows = []
        for tp in tps:
            replica = self.leader(tp)
            for producer, known in sorted(replica.log.producers.items()) if replica else ():
                if known.began >= 0:
                    coordinator, tid = claimed.get(producer, (self.brokers[0], ""))
                    rows.append(
                        OpenTransaction(
                            topic=tp.topic,
                            partition=tp.partition,
                            producer_id=producer,
                            producer_epoch=known.epoch,
                            start=known.began,
                            coordinator=coordinator,
                            transactional_id=tid,
                        )
                    )
        return rows

    def _claimed(self) -> dict[int, tuple[int, str]]:
        """Producer ids with a transaction under way: coordinator and transactional id."""
        claimed: dict[int, tuple[int, str]] = {}
        for broker in self.running:
            for known in broker.coordinators.transactions.log.known.values():
                for tid, transaction in known.items():
                    if transaction.state is ONGOING or transaction.state in PREPARED:
                        claimed[transaction.record.producer_id] = (broker.me, tid)
        return claimed

    async def trouble(self) -> str:
        """Nothing can happen to a simulation."""
        return ""

    async def ended(self) -> Sequence[NodeEnd]:
        """None ends on its own."""
        return ()

    def disks(self) -> list[list[DiskCopy]]:
        """What disks had at each take so far, and what all have now. No node is shut down for that."""
        return [*self.takes, [self._disk(node, END, self.sim[node].crashed) for node in self.nodes]]

    def _disk(self, node: int, why: str, ended: str = "") -> DiskCopy:
        durable = copied(self.sim[node].durable)
        return DiskCopy(node=node, ns=self.scheduler.ns, why=why, durable=durable, ended=ended)

    async def collect(self, into: Path) -> None:
        """The nodes' logs stay in memory; `run_folder` writes them."""

    async def take_evidence(self, into: Path) -> list[str]:
        """The disks stay as they are now; `run_folder` writes what they hold (`evidence.tables`)."""
        return []

    async def stop(self) -> None:
        """Nothing is left behind: the nodes are objects, and stay as they are."""

    # ---- what nemeses need

    async def kill(self, nodes: Sequence[int]) -> None:
        """SIGKILL."""
        for node in nodes:
            self.sim[node].kill()

    def flushes_each(self) -> bool:
        """See `Powered`."""
        return flushes_each(self.config)

    async def lose_power(self, nodes: Sequence[int], seed: int | None = None) -> int:
        """Power off: a node keeps what it had flushed, and nothing is drawn."""
        return sum(self.sim[node].lose_power() for node in nodes)

    async def revive(self, nodes: Sequence[int]) -> None:
        """Start again."""
        crashed = [node for node in nodes if self.sim[node].crashed]
        if crashed:
            self.takes.append([self._disk(node, self.sim[node].crashed) for node in crashed])
        for node in nodes:
            self.sim[node].start()

    async def shut_down(self, nodes: Sequence[int]) -> Sequence[int]:
        """SIGTERM; those that got SIGKILL after 30 s."""
        until = self.scheduler.now + 30_000_000
        for node in nodes:
            self.sim[node].shut_down()
        while any(self.sim[node].up for node in nodes) and self.scheduler.now < until:
            await self.scheduler.sleep(STEP_US)
        late = [node for node in nodes if self.sim[node].up]
        await self.kill(nodes)
        return late

    async def pause(self, nodes: Sequence[int]) -> None:
        """Stand still."""
        for node in nodes:
            self.sim[node].pause()

    async def resume(self, nodes: Sequence[int]) -> None:
        """Continue."""
        for node in nodes:
            self.sim[node].resume()

    async def cut(self, cuts: Sequence[Cut]) -> None:
        """Cut links."""
        self.network.cut(cuts)
        self._link_ensemble()

    async def mend(self, cuts: Sequence[Cut]) -> None:
        """Mend links."""
        self.network.mend(cuts)
        self._link_ensemble()

    async def stopped(self, nodes: Sequence[int]) -> int:
        """Connections to these nodes that were not opened."""
        return sum(self.network.stopped[node] for node in nodes)

    def _link_ensemble(self) -> None:
        if self.ensemble < 0:
            return
        before = [cut for cut in self.network.cuts if cut.peer == self.ensemble]
        now = cuts_from(self.network.cuts, self.brokers, self.ensemble)
        self.network.cut([cut for cut in now if cut not in before])
        self.network.mend([cut for cut in before if cut not in now])

    async def throttle(self, node: int, tps: Sequence[TopicPartition], rate: int) -> None:
        """See `Throttleable`: in force at once, also on brokers that start later."""
        self._throttled = Throttle(node, tuple(tps), rate)
        for broker in self.running:
            self._limit(broker)

    async def unthrottle(self, tps: Sequence[TopicPartition]) -> None:
        """See `Throttleable`."""
        if (now := self._throttled) is not None:
            await self.throttle(now.node, [tp for tp in now.tps if tp not in tps], now.rate)

    def _limit(self, broker: Broker) -> None:
        """Give a broker the throttle that is in force: the slow one as follower, the others as leaders."""
        if (now := self._throttled) is not None:
            follows = broker.me == now.node
            quota = broker.replica_fetchers.quota if follows else broker.replica_manager.quota
            quota.limit(now.tps, now.rate)

    async def use_proxies(self) -> None:
        """They are always there."""

    async def poison(self, nodes: Sequence[int], toxics: Sequence[Toxic]) -> None:
        """Add toxics. Raises: ClusterError, where no proxy stands, or there is no such toxic."""
        strange = [node for node in nodes if node not in self.brokers]
        if strange:
            raise ClusterError(f"no proxy stands in front of node {strange[0]}")
        self._proxies.poison(nodes, toxics)

    async def cure(self, nodes: Sequence[int]) -> None:
        """Take toxics back."""
        self._proxies.cure(nodes)

    async def use_wire(self) -> None:
        """It is always there."""

    async def use_wire_between(self) -> None:
        """It is always there."""

    async def use_wire_within(self) -> None:
        """It is always there."""

    async def rule(self, rules: Sequence[WireRule]) -> None:
        """Put rules in force. Raises: ClusterError, for one that the simulation cannot carry out."""
        self._wire.rule(rules)

    async def seen(self, number: int | None = None) -> tuple[Seen, ...]:
        """What rules did so far, one of them or all."""
        return self._wire.seen(number)

    async def lift(self, numbers: Sequence[int] = ()) -> None:
        """Take rules back, and let go what they hold."""
        self._wire.lift(numbers)

    # ---- clients

    def connect(self, spec: SessionSpec) -> SimSession:
        """Open a client's session."""
        return SimSession(spec, self.brokers, self.scheduler, self.sender(spec.process), self.settings)

    def sender(self, process: int = -1) -> Sender:
        """How a new client's requests get to nodes: one connection to each node and kind of request."""
        return _Sender(self, process)


class _Sender:
    """See `SimulatedCluster.sender`."""

    def __init__(self, cluster: SimulatedCluster, process: int) -> None:
        self._nodes = cluster.sim
        self._wait_ms = cluster.settings.request_timeout_ms
        self._caller = Caller(cluster.network, cluster.scheduler, CLIENTS, process)
        self.hang_up = self._caller.hang_up

    def __call__(self, ask: Ask, answered: Answered, timeout_ms: int | None = None) -> None:
        """See `Sender`."""
        wait_ms = self._wait_ms if timeout_ms is None else timeout_ms
        if isinstance(ask.request, Fetch | ShareFetch):
            wait_ms += ask.request.max_wait_ms
        elif isinstance(ask.request, JoinGroup):
            wait_ms = max(wait_ms, ask.request.rebalance_ms + JOIN_GRACE_MS)
        told = lambda message: answered(message and message.content)  # noqa: E731
        kind = ask.channel.split(" ")[0]
        self._caller.ask(self._nodes[ask.node], kind, Listener.CLIENT, ask.request, wait_ms, told)
