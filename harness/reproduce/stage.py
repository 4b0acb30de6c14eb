"""The cluster of the schedules: five brokers and a controller of its own (or a node of ZooKeeper), in roles.

A, B and C hold the partition of the transaction log that the producer's id belongs to; A leads it. D and E
are the other two. Every replication factor is 3, min.insync.replicas is 2, unclean election is off.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path

from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse

from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from core.java_hash import java_hash
from core.op import TopicPartition
from core.runtime import run_blocking
from core.systems import DEPLOYMENTS, deployment_of
from harness.brokers.admin.connection import AdminError
from harness.processes.waiting import NotYet, until
from harness.reproduce.cluster import LOOK_S, PAUSE_S, STEP_S, Say, StagedCluster
from harness.reproduce.producer import WireProducer

SETTINGS = {
    "replica.lag.time.max.ms": "30000",  # Kafka's default: so long a follower that lags stays in sync
    "request.timeout.ms": "30000",  # Kafka's default: so long a leader waits for its followers
    "auto.leader.rebalance.enable": "false",  # leaders move when the schedule says so
}


class Deaths(StrEnum):
    """How a coordinator loses its partition to the next one."""

    KILL = "kill"
    SHUTDOWN = "shutdown"
    ELECTION = "election"


class FiveBrokers(StagedCluster):
    """a, b, c, d, e: numbers of the brokers; D is the witness."""

    def __init__(
        self,
        kafka: str,
        folder: Path,
        say: Say,
        settings: Mapping[str, str] | None = None,
        *,
        wire: bool = False,
        between: bool = False,
        controllers: bool = False,
        deaths: Deaths = Deaths.KILL,
        log_dirs: int = 1,
        upgrade: str = "",
    ) -> None:
        """As `StagedCluster`. settings: of brokers, beside SETTINGS. deaths: how coordinators lose their
        partition. log_dirs: log directories of each broker. upgrade: a later version that nodes may get."""
        deployment = DEPLOYMENTS.get(deployment_of(kafka))
        config = {
            "brokers": 5,
            "controllers": int(deployment is None or deployment.controllers),
            "kafka": kafka,
            "upgrade": upgrade,
            "broker_settings": {**SETTINGS, **(settings or {})},
            "log_dirs": log_dirs,
        }
        super().__init__(config, folder, say, wire=wire, between=between, controllers=controllers)
        self.deaths = deaths
        self.log = TopicPartition(TRANSACTION_TOPIC, 0)
        self._logs = 0
        self._log_named = False

    def start(self) -> None:
        """Start the cluster and assign the roles. Raises: ClusterError."""
        super().start()
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
        self.witness = self.d
        roles = zip("ABCDE", (self.a, self.b, self.c, self.d, self.e), strict=True)
        self.say(", ".join(f"{role} = broker {node}" for role, node in roles))

    def restore(self) -> None:
        """Heal, and wait until every replica is in sync and A leads the log. Raises: ClusterError."""
        super().restore()
        if self.deaths is Deaths.ELECTION:
            self.reorder(self.log, (self.a, self.b, self.c))
        run_blocking(self.cluster.elect_preferred([self.log]))
        self.leads(self.a, self.log)

    def producer(self, name: str, asked: int, version: int = 1) -> WireProducer:
        """A producer whose transactional id belongs to the log partition of A, B and C.

        asked: the broker that it asks for coordinators. version: of transactions.
        """
        if not self._log_named:  # a story without a transaction has no use for it
            self._log_named = True
            self.say(f"A, B and C have {self.log}, the log of its transactions; A leads it")
        ids = (f"{name}-{number}" for number in range(1000))
        mine = next(one for one in ids if java_hash(one) % self._logs == self.log.partition)
        return WireProducer(self.cluster.admin, asked, mine, self.say, version)

    def groups(self, name: str) -> tuple[TopicPartition, tuple[int, ...], list[str]]:
        """The first partition of `__consumer_offsets`, whose leader D knows, its replicas, and three groups
        that belong to it.

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

        def led() -> None:
            try:
                leader = self.leader(first, self.d)
            except (AdminError, KeyError):
                leader = -1
            if leader < 0:
                raise NotYet(f"broker {self.d} knows no leader of {first}")

        until(STEP_S, PAUSE_S, led)
        ids = (f"{name}-{number}" for number in range(1000))
        mine = (one for one in ids if java_hash(one) % len(every) == first.partition)
        return first, tuple(sorted(every[first])), list(islice(mine, 3))

    def reorder(self, tp: TopicPartition, nodes: Sequence[int]) -> None:
        """Give the replicas of a partition another order, and wait for it. Raises: ClusterError."""
        run_blocking(self.cluster.reorder({tp: nodes}))
        self._wait_for_replicas([tp], nodes)

    def assign(
        self, tps: Sequence[TopicPartition], nodes: Sequence[int], leaving: Sequence[int] = ()
    ) -> None:
        """Give partitions these replicas by one request, and wait until brokers know of them; the data
        follow. leaving: replicas that stay until all of these are in sync. Raises: ClusterError."""
        run_blocking(self.cluster.reassign(dict.fromkeys(tps, nodes), STEP_S))
        self._wait_for_replicas(tps, (*nodes, *leaving))

    def _wait_for_replicas(self, tps: Sequence[TopicPartition], nodes: Sequence[int]) -> None:
        def placed() -> None:
            replicas = run_blocking(self.cluster.replicas())
            for tp in tps:
                if replicas[tp] != tuple(nodes):
                    raise NotYet(f"the replicas of {tp} are not {nodes}, in this order")

        until(STEP_S, PAUSE_S, placed)

    def loaded(self, node: int, producer: WireProducer) -> str:
        """What a new coordinator knows of the transaction once it has loaded its log. Raises: NotYet."""

        def known() -> str:
            state = producer.described(node)
            if state.isupper():
                raise NotYet(f"broker {node} does not coordinate: {state}")
            return state

        return until(STEP_S, PAUSE_S, known)

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
