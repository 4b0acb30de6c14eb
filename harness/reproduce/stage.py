"""The cluster of the schedules: five brokers and a controller of its own, in roles.

A, B and C hold the partition of the transaction log that the producer's id belongs to; A leads it. D and E
are the other two. Every replication factor is 3, min.insync.replicas is 2, unclean election is off.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from itertools import islice
from pathlib import Path

from confluent_kafka import OFFSET_STORED, Consumer
from confluent_kafka import TopicPartition as At
from kio.schema.create_topics.v5.response import CreateTopicsResponse
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse

from core.cluster import GROUP_TOPIC, TRANSACTION_TOPIC, Cut, Direction
from core.config import run_config
from core.java_hash import java_hash
from core.op import Isolation, TopicPartition
from core.runtime import run_blocking
from core.wire import Action, WireRule
from harness.brokers.admin import broker_views, protocol
from harness.brokers.admin.connection import AdminError, check
from harness.kafka.system import kafka_cluster
from harness.processes.waiting import NotYet, until
from harness.reproduce.producer import WireProducer

SETTINGS = {
    "replica.lag.time.max.ms": "30000",  # Kafka's default: so long a follower that lags stays in sync
    "request.timeout.ms": "30000",  # Kafka's default: so long a leader waits for its followers
    "auto.leader.rebalance.enable": "false",  # leaders move when the schedule says so
}
LOOK_S = 3.0
PAUSE_S = 0.05
STEP_S = 40.0
"""Deadline of a step: an election, the load of a coordinator."""
WHOLE_S = 120.0

Say = Callable[[str], None]


class Deaths(StrEnum):
    """How a coordinator loses its partition to the next one."""

    KILL = "kill"
    SHUTDOWN = "shutdown"
    ELECTION = "election"


class NotReached(NotYet):
    """The cluster did not take the way that the schedule describes."""


class FiveBrokers:
    """A running cluster, and what the schedules do with it. a, b, c, d, e: numbers of the brokers."""

    def __init__(
        self,
        kafka: str,
        folder: Path,
        say: Say,
        settings: Mapping[str, str] | None = None,
        *,
        wire: bool = False,
        between: bool = False,
        deaths: Deaths = Deaths.KILL,
    ) -> None:
        """Nothing is started. settings: of brokers, beside SETTINGS. wire: clients reach the brokers through
        the proxy that knows frames. between: brokers reach each other through such proxies. deaths: how
        coordinators lose their partition.

        Raises: ConfigError, for a version that cannot run.
        """
        brokers = {**SETTINGS, **(settings or {})}
        config = {"seed": 1, "brokers": 5, "controllers": 1, "kafka": kafka, "broker_settings": brokers}
        self.cluster = kafka_cluster(run_config(config), folder)
        if wire:
            run_blocking(self.cluster.use_wire())
        if between:
            run_blocking(self.cluster.use_wire_between())
        self.say = say
        self.deaths = deaths
        self.log = TopicPartition(TRANSACTION_TOPIC, 0)
        self._logs = 0

    def start(self) -> None:
        """Start the cluster and assign the roles. Raises: ClusterError."""
        run_blocking(self.cluster.start())
        first = WireProducer(self.cluster.admin, self.cluster.brokers[0], "first", self.say)

        def replicas() -> dict[TopicPartition, tuple[int, ...]]:
            first.coordinator()  # the first one who asks has the transaction log created
            known = run_blocking(self.cluster.replicas())
            logs = {tp: nodes for tp, nodes in known.items() if tp.topic == TRANSACTION_TOPIC}
            if not logs:
                raise NotYet("the transaction log is not created")
            return logs

        logs = until(STEP_S, PAUSE_S, replicas)
        self._logs = len(logs)
        self.log = min(logs)
        self.a, self.b, self.c = logs[self.log]
        self.d, self.e = (node for node in self.cluster.brokers if node not in logs[self.log])
        roles = zip("ABCDE", (self.a, self.b, self.c, self.d, self.e), strict=True)
        self.say(
            f"{self.log.topic}-{self.log.partition}: " + ", ".join(f"{r} = broker {n}" for r, n in roles)
        )

    def heal(self) -> None:
        """Heal all links, start all nodes. Raises: ClusterError."""
        run_blocking(self.cluster.mend(self.cluster.cuts))
        run_blocking(self.cluster.revive(self.cluster.nodes))

    def restore(self) -> None:
        """Heal, and wait until every replica is in sync and A leads the log. Raises: ClusterError."""
        self.heal()

        def whole() -> None:
            roles = run_blocking(self.cluster.roles())
            if not roles.agreed or any(len(isr) < 3 for isr in roles.isr.values()):
                raise NotYet("not every replica is in sync")

        until(WHOLE_S, PAUSE_S, whole)
        if self.deaths is Deaths.ELECTION:
            self.reorder(self.log, (self.a, self.b, self.c))
        run_blocking(self.cluster.elect_preferred([self.log]))
        self.leads(self.a, self.log)

    def producer(self, name: str, asked: int, version: int = 1) -> WireProducer:
        """A producer whose transactional id belongs to the log partition of A, B and C.

        asked: the broker that it asks for coordinators. version: of transactions.
        """
        ids = (f"{name}-{number}" for number in range(1000))
        mine = next(one for one in ids if java_hash(one) % self._logs == self.log.partition)
        return WireProducer(self.cluster.admin, asked, mine, self.say, version)

    def groups(self, name: str) -> tuple[TopicPartition, tuple[int, ...], list[str]]:
        """The first partition of `__consumer_offsets`, its replicas, and three groups that belong to it.

        Raises: NotYet.
        """

        def logs() -> dict[TopicPartition, tuple[int, ...]]:
            with self.cluster.admin.connect(self.d, LOOK_S) as connection:
                connection.call(FindCoordinatorResponse, key=name, key_type=0)
            known = run_blocking(self.cluster.replicas())
            found = {tp: nodes for tp, nodes in known.items() if tp.topic == GROUP_TOPIC}
            if not found:
                raise NotYet("the offsets topic is not created")
            return found

        every = until(STEP_S, PAUSE_S, logs)
        first = min(every)
        ids = (f"{name}-{number}" for number in range(1000))
        mine = (one for one in ids if java_hash(one) % len(every) == first.partition)
        return first, tuple(sorted(every[first])), list(islice(mine, 3))

    def reorder(self, tp: TopicPartition, nodes: Sequence[int]) -> None:
        """Give the replicas of a partition another order, and wait for it. Raises: ClusterError."""
        run_blocking(self.cluster.reorder({tp: nodes}))

        def ordered() -> None:
            if run_blocking(self.cluster.replicas())[tp] != tuple(nodes):
                raise NotYet(f"the replicas of {tp} are not in the order {nodes}")

        until(STEP_S, PAUSE_S, ordered)

    def create(
        self, topic: str, places: Sequence[Sequence[int]], settings: Mapping[str, str] | None = None
    ) -> list[TopicPartition]:
        """A topic with its partitions on these brokers, each led by the first one. settings: of the topic.

        Raises: ClusterError, AdminError.
        """
        given = {"min.insync.replicas": "2", **(settings or {})}
        wanted = {
            "name": topic,
            "assignments": [
                {"partition_index": number, "broker_ids": nodes} for number, nodes in enumerate(places)
            ],
            "configs": [{"name": key, "value": value} for key, value in given.items()],
        }
        with self.cluster.admin.connect(self.d, 15.0) as connection:
            answer = connection.call(CreateTopicsResponse, topics=[wanted], timeout=timedelta(seconds=10))
            check(topic, answer.topics[0].error_code)
        tps = [TopicPartition(topic, number) for number in range(len(places))]
        for tp, nodes in zip(tps, places, strict=True):
            self.leads(nodes[0], tp)
        return tps

    def leader(self, tp: TopicPartition, witness: int) -> int:
        """The leader of a partition by the word of one broker; -1 = none. Raises: AdminError."""
        with self.cluster.admin.connect(witness, LOOK_S) as connection:
            return protocol.view(connection).partitions[tp].leader_id

    def leads(self, node: int, tp: TopicPartition, witness: int = 0) -> None:
        """Wait until a broker leads a partition (-1: no broker does), by the word of D or of another witness.

        Raises: NotYet.
        """

        def led() -> None:
            try:
                leader = self.leader(tp, witness or self.d)
            except (AdminError, KeyError):
                leader = None
            if leader != node:
                raise NotYet(f"broker {node} does not lead {tp.topic}-{tp.partition}, but {leader}")

        until(STEP_S, PAUSE_S, led)

    def awake(self, *nodes: int) -> None:
        """Wait until all brokers that run know that these do. Raises: NotYet."""

        def known() -> None:
            views = [
                view.brokers for view in broker_views.ask_all(self.cluster.admin, protocol.view).values()
            ]
            if any(not view >= set(nodes) for view in views) or len(views) < len(nodes):
                raise NotYet(f"the brokers {nodes} are not known to all")

        until(STEP_S, PAUSE_S, known)

    def loaded(self, node: int, producer: WireProducer) -> str:
        """What a new coordinator knows of the transaction once it has loaded its log. Raises: NotYet."""

        def known() -> str:
            state = producer.described(node)
            if state.isupper():
                raise NotYet(f"broker {node} does not coordinate: {state}")
            return state

        return until(STEP_S, PAUSE_S, known)

    def cut(self, *pairs: tuple[int, int]) -> None:
        """Cut the links of pairs of brokers, in both directions."""
        run_blocking(
            self.cluster.cut(
                [Cut(node=one, direction=way, peer=peer) for one, peer in pairs for way in Direction]
            )
        )

    @contextmanager
    def no_fetches(self, leader: int, followers: Sequence[int]) -> Iterator[None]:
        """Inside the block these followers fetch nothing from a leader: their requests wait at its proxy. All
        other traffic of the brokers continues. The cluster has proxies between brokers.

        Raises: NotYet, where they do not fetch.
        """
        number = self.cluster.wire.number()
        rule = WireRule(
            number=number, api="fetch", action=Action.HOLD, nodes=(leader,), times=0, between=True
        )

        def waiting() -> None:
            seen = run_blocking(self.cluster.seen(number))
            for node in followers:
                if not any(one.client_id.startswith(f"broker-{node}-fetcher-") for one in seen):
                    raise NotYet(f"broker {node} does not fetch from broker {leader}")

        run_blocking(self.cluster.rule([rule]))
        try:
            until(STEP_S, PAUSE_S, waiting)
            yield
        finally:
            run_blocking(self.cluster.lift([number]))

    def kill(self, node: int) -> None:
        """SIGKILL."""
        run_blocking(self.cluster.kill([node]))

    def hand_over(self, old: int, new: int) -> str:
        """Take the log partition from one of A, B, C and wait until another one leads it; what was done.

        SHUTDOWN: SIGTERM, and the broker hands its leaders over, as in a rolling restart. ELECTION: no broker
        ends; the new leader becomes the preferred one, as tools that balance a cluster do it.

        Raises: ClusterError, NotYet.
        """
        match self.deaths:
            case Deaths.KILL:
                self.kill(old)
                done = f"broker {old} is killed"
            case Deaths.SHUTDOWN:
                run_blocking(self.cluster.shut_down([old]))
                done = f"broker {old} is shut down in order"
            case Deaths.ELECTION:
                others = (node for node in (self.a, self.b, self.c) if node != new)
                self.reorder(self.log, (new, *others))
                run_blocking(self.cluster.elect_preferred([self.log]))
                done = f"broker {new} is made the preferred leader, and elected"
        self.leads(new, self.log)
        return done

    def stable(self, tp: TopicPartition) -> int:
        """Last stable offset. Raises: NotYet, where no broker tells it."""
        offsets = run_blocking(self.cluster.offsets([tp], Isolation.READ_COMMITTED))
        if tp not in offsets:
            raise NotYet(f"no broker tells the last stable offset of {tp}")
        return offsets[tp][1]

    def stable_beyond(self, tp: TopicPartition, offset: int, otherwise: str, seconds: float = STEP_S) -> None:
        """Wait until the last stable offset is greater than this one. otherwise: what that it is not means.

        Raises: NotYet.
        """

        def beyond() -> None:
            if self.stable(tp) <= offset:
                raise NotYet(otherwise)

        until(seconds, PAUSE_S, beyond)

    def committed(self, tps: Sequence[TopicPartition]) -> set[tuple[TopicPartition, int]]:
        """Where the records are that a reader at read_committed gets up to the last stable offsets.

        Raises: NotYet.
        """
        return set(self.read(tps, Isolation.READ_COMMITTED))

    def read(
        self, tps: Sequence[TopicPartition], isolation: Isolation, group: str = ""
    ) -> dict[tuple[TopicPartition, int], str]:
        """The values that a reader gets, in the order of offsets. group: it begins where the group's
        committed offsets say. Raises: NotYet."""
        reader = Consumer(
            {
                "bootstrap.servers": ",".join(map(str, self.cluster.admin.addresses.values())),
                "group.id": group or "inquest-reproduce",
                "auto.offset.reset": "earliest",
                "isolation.level": isolation.name.lower(),
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        begin = OFFSET_STORED if group else 0
        reader.assign([At(tp.topic, tp.partition, begin) for tp in tps])
        found: dict[tuple[TopicPartition, int], str] = {}
        ended: set[TopicPartition] = set()
        deadline = time.monotonic() + STEP_S
        try:
            while len(ended) < len(tps):
                if time.monotonic() > deadline:
                    raise NotYet("a reader does not reach the ends of all partitions")
                message = reader.poll(0.1)
                if message is None:
                    continue
                tp = TopicPartition(str(message.topic()), int(message.partition() or 0))
                if message.error():
                    ended.add(tp)
                else:
                    found[tp, int(message.offset() or 0)] = (message.value() or b"").decode()
        finally:
            reader.close()
        return found
