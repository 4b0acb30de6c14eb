"""A cluster on which schedules are performed, and what all of them do with it."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import OFFSET_STORED, Consumer, KafkaException
from confluent_kafka import TopicPartition as At
from kio.schema.create_topics.v5.response import CreateTopicsResponse
from kio.schema.errors import ErrorCode

from core.capabilities import Cut, Direction
from core.config import run_config
from core.errors import ConfigError
from core.op import Isolation, TopicPartition
from core.runtime import run_blocking
from core.wire import holding
from harness.brokers.admin import broker_views, protocol
from harness.brokers.admin.connection import AdminError, BrokerConnection, check
from harness.evidence import records, segments
from harness.evidence.damage import Damages
from harness.evidence.directory import SEGMENT
from harness.kafka.system import KAFKA, kafka_cluster
from harness.processes.waiting import NotYet, until

LOOK_S = 3.0
PAUSE_S = 0.05
STEP_S = 40.0
"""Deadline of a step: an election, the load of a coordinator."""
WHOLE_S = 120.0
AT_ONCE_S, LONG_S = 5.0, 15.0
"""A wait that is none is much shorter than the first one; a bug waits for longer than the second one: 30 s
(`replica.lag.time.max.ms`), or for ever."""

Say = Callable[[str], None]


class NotReached(NotYet):
    """The cluster did not take the way that the schedule describes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformedWait:
    """What a schedule left. who: a client waited, and when. waited_s: how long."""

    who: str
    waited_s: float


class StagedCluster:
    """A running cluster. witness: the broker that is asked where a schedule names none."""

    witness: int

    def __init__(
        self,
        config: Mapping[str, object],
        folder: Path,
        say: Say,
        *,
        wire: bool,
        between: bool,
        controllers: bool = False,
    ) -> None:
        """Nothing is started. config: of a run. wire: clients reach the brokers through the proxy that knows
        frames. between: brokers reach each other through such proxies. controllers: and the controller.

        Raises: ConfigError, for a version that cannot run, or that cannot have these settings.
        """
        asked = run_config({"seed": 1, "idempotent": False, **config})  # a stage has producers of its own
        if why := KAFKA.refusal(asked):
            raise ConfigError(why)
        self.cluster = kafka_cluster(asked, folder)
        self._copies = folder / "copies"
        if wire:
            run_blocking(self.cluster.use_wire())
        if between:
            use = self.cluster.use_wire_within if controllers else self.cluster.use_wire_between
            run_blocking(use())
        self.say = say

    def start(self) -> None:
        """Start the cluster. Raises: ClusterError."""
        run_blocking(self.cluster.start())

    def heal(self) -> None:
        """Heal all links, start all nodes. Raises: ClusterError."""
        run_blocking(self.cluster.mend(self.cluster.cuts))
        run_blocking(self.cluster.revive(self.cluster.nodes))

    def restore(self) -> None:
        """Lift every rule, heal, and wait until every replica is in sync: what an attempt before left in
        force, since it did not come to its end, is none of the next one's. Raises: ClusterError."""
        run_blocking(self.cluster.lift())
        self.heal()

        def whole() -> None:
            roles = run_blocking(self.cluster.roles())
            if not roles.agreed or any(len(isr) < len(roles.replicas[tp]) for tp, isr in roles.isr.items()):
                raise NotYet("not every replica is in sync")

        until(WHOLE_S, PAUSE_S, whole)

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
        asked: list[BrokerConnection] = []

        def made(connection: BrokerConnection) -> None:
            asked.append(connection)
            answer = connection.call(CreateTopicsResponse, topics=[wanted], timeout=broker_views.TIMEOUT)
            code = answer.topics[0].error_code
            if len(asked) == 1 or code != ErrorCode.topic_already_exists:
                check(topic, code)

        broker_views.anywhere(self.cluster.admin, made, STEP_S)  # on ZooKeeper only the controller takes it
        tps = [TopicPartition(topic, number) for number in range(len(places))]
        for tp, nodes in zip(tps, places, strict=True):
            self.leads(nodes[0], tp)
        return tps

    def values_on_disk(self, node: int, tp: TopicPartition) -> dict[int, str]:
        """Values by offset on the disk of a broker that has ended or is frozen. Raises: ClusterError."""
        with self.copied(node) as folder:
            files = (folder / f"{tp.topic}-{tp.partition}").glob("*.log")
            found = [segments.read(file) for file in sorted(files) if SEGMENT.fullmatch(file.name)]
            return {
                one.offset: (one.value or b"").decode()
                for segment in found
                for one in records.walk(segment, Damages())
            }

    @contextmanager
    def copied(self, node: int) -> Iterator[Path]:
        """A copy of the data of such a broker, inside the block. Raises: ClusterError."""
        try:
            self.cluster.copy_data(node, self._copies)
            yield self._copies
        finally:
            shutil.rmtree(self._copies, ignore_errors=True)

    def leader(self, tp: TopicPartition, witness: int) -> int:
        """The leader of a partition by the word of one broker; -1 = none. Raises: AdminError."""
        with self.cluster.admin.connect(witness, LOOK_S) as connection:
            return protocol.view(connection).partitions[tp].leader_id

    def leads(self, node: int, tp: TopicPartition, witness: int = 0) -> None:
        """Wait until a broker leads a partition (-1: no broker does), by the word of one broker (0: of
        `witness`).

        Raises: NotYet.
        """

        def led() -> None:
            try:
                leader = self.leader(tp, witness or self.witness)
            except (AdminError, KeyError):
                leader = None
            if leader != node:
                raise NotYet(f"broker {node} does not lead {tp.topic}-{tp.partition}, but {leader}")

        until(STEP_S, PAUSE_S, led)

    def in_sync_are(self, nodes: Set[int], tp: TopicPartition, witness: int = 0) -> None:
        """Wait until just these replicas of a partition are in sync, by the word of one broker (0: of
        `witness`). Raises: NotYet."""

        def seen() -> None:
            try:
                with self.cluster.admin.connect(witness or self.witness, LOOK_S) as connection:
                    isr = set(protocol.view(connection).partitions[tp].isr_nodes)
            except (AdminError, KeyError):
                isr = set()
            if isr != nodes:
                raise NotYet(f"in sync in {tp.topic}-{tp.partition} are {sorted(isr)}")

        until(STEP_S, PAUSE_S, seen)

    def awake(self, *nodes: int) -> None:
        """Wait until all brokers that run know that these do. Raises: NotYet."""

        def known() -> None:
            views = self._known()
            if any(not view >= set(nodes) for view in views) or len(views) < len(nodes):
                raise NotYet(f"the brokers {nodes} are not known to all")

        until(STEP_S, PAUSE_S, known)

    def gone(self, node: int) -> None:
        """Wait until no broker that runs takes this one for alive. Raises: NotYet."""

        def known() -> None:
            if any(node in view for view in self._known()):
                raise NotYet(f"broker {node} is still alive for some")

        until(STEP_S, PAUSE_S, known)

    def _known(self) -> list[Set[int]]:
        """Which brokers those that run know of."""
        views = broker_views.ask_all(self.cluster.admin, protocol.view)
        return [view.brokers for view in views.values()]

    def cut(self, *pairs: tuple[int, int]) -> None:
        """Cut the links of pairs of brokers, in both directions."""
        run_blocking(
            self.cluster.cut(
                [Cut(node=one, direction=way, peer=peer) for one, peer in pairs for way in Direction]
            )
        )

    @contextmanager
    def held(self, node: int, api: str = "fetch", client_id: str = "") -> Iterator[int]:
        """Inside the block such requests of other nodes (of the one that calls itself so) wait at a node's
        proxy: those of followers to fetch from a leader; the number of the rule. All other traffic continues.
        The cluster has proxies between brokers."""
        number = self.cluster.wire.number()
        run_blocking(self.cluster.rule([holding(number, api, node, client_id)]))
        try:
            yield number
        finally:
            run_blocking(self.cluster.lift([number]))

    def fetches(self, number: int, follower: int, leader: int) -> None:
        """Wait until a follower's request waits at a leader's proxy. number: of the rule. Raises: NotYet."""

        def waiting() -> None:
            seen = run_blocking(self.cluster.seen(number))
            named = {name for one in seen for name in one.named.split(", ")}
            if f"broker {follower}" not in named:
                raise NotYet(f"broker {follower} does not fetch from broker {leader}, but {sorted(named)}")

        until(STEP_S, PAUSE_S, waiting)

    @contextmanager
    def no_fetches(self, leader: int, followers: Sequence[int]) -> Iterator[None]:
        """Inside the block these followers fetch nothing from a leader. See `held`.

        Raises: NotYet, where they do not ask.
        """
        with self.held(leader) as number:
            for node in followers:
                self.fetches(number, node, leader)
            yield

    def kill(self, node: int) -> None:
        """SIGKILL."""
        run_blocking(self.cluster.kill([node]))

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

    def committed_offset(self, group: str, tp: TopicPartition) -> int:
        """The offset that a group has of a partition; negative = none. Raises: NotYet."""
        reader = Consumer(
            {
                "bootstrap.servers": ",".join(map(str, self.cluster.admin.addresses.values())),
                "group.id": group,
            }
        )
        try:
            (found,) = reader.committed([At(tp.topic, tp.partition)], STEP_S)
        except KafkaException as error:
            raise NotYet(f"no broker tells the offset of {group}: {error.args[0].str()}") from error
        finally:
            reader.close()
        return int(found.offset)

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
