"""Stages of scenarios on a real cluster: the model's drivers and clients, Kafka in the place of its brokers.

A stage delivers requests of clients to `nodes`; here a node is a `RealBroker`, which sends them on and has
the answers. So what a step holds of a client's requests is held here as well; what brokers send each other
cannot be held. Time passes really, and slower than the story's (`PACE`). Brokers are started and killed with
the verbs of `ContainerCluster`.

All scenarios share one cluster: each has names of its own for topics, transactional ids and groups, which
`renamed` puts into requests and takes out of answers.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, NamedTuple, Protocol, Self, cast

import msgspec
from kio.schema.metadata.v12.response import MetadataResponse

from core.internal_topics import TRANSACTION_TOPIC
from core.java_hash import java_hash
from core.runtime import run_blocking
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import AdminError
from harness.containers.cluster import ContainerCluster
from harness.contract.dialect import Dialect, IdPairs
from harness.contract.sides import BROKER
from harness.contract.wire import decode, encode
from harness.modelled.real.cluster import ModelCluster
from harness.processes.waiting import NotYet, not_yet, until
from model.broker import TICK_MS, Broker
from model.errors import KafkaError
from model.protocol.consumer_group_messages import ConsumerGroupHeartbeat
from model.protocol.coordinator_messages import (
    DescribeTransactions,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    JoinGroup,
    OffsetFetch,
    SyncGroup,
    WriteTxnMarkers,
)
from model.protocol.messages import Fetch, ListOffsets, Partition, Produce
from model.protocol.requests import AnyRequest, Request
from model.replication.node import Reply
from model.replication.replica import Replica
from model.settings import Settings
from scenarios.drivers.clients import ClientStage
from scenarios.drivers.cluster import GROUP, A, ClusterStage
from scenarios.drivers.raw_consumer_member import RawConsumerStage
from scenarios.drivers.raw_member import RawMemberStage
from scenarios.drivers.raw_producer import IN, RawProducerStage

CALL_S: Final = 30.0
READY_S: Final = 60.0
RESTART_S: Final = 240.0
"""A killed broker registers again when its old session has ended: 2 minutes (`cluster.PATIENT`)."""
SETTLED_S: Final = 5.0
PACE: Final = 4
"""Real time for each time of the story, also of sessions and time-outs: no time of the story passes while a
step does its work, which takes a busy machine seconds; no session must end meanwhile."""
LONGEST_MS: Final = 900_000
"""Of a transaction (transaction.max.timeout.ms)."""
OTHERS_S: Final = 0.5
"""So long an answer is waited for that may depend on other members; where it comes later a step continues
without it, and the next look at the stage has it."""
POLL_S: Final = 0.05
NAMED: Final = ("transactional_id", "group", "key", "regex")
"""Fields of requests and answers that hold a name of the scenario's, or an expression that names begin."""
ALL_NAMED: Final = ("transactional_ids", "topics")
"""Those that hold several."""
BY_NAME: Final = "transactions"
"""The one that is a mapping of them."""
NOT_FOUND: Final = KafkaError.TRANSACTIONAL_ID_NOT_FOUND


Cluster = ContainerCluster | ModelCluster
"""Of one broker: Kafka's, or the model's behind Kafka's protocol."""


class NotOnKafka(Exception):
    """A step does what no client or operator can do to a real cluster. Such a scenario must not be played."""


def renamed(value: Any, change: Callable[[str], str]) -> Any:
    """A request or an answer with other names of topics, transactional ids and groups."""
    match value:
        case msgspec.Struct():
            names = value.__struct_fields__
            return type(value)(**{name: _field(name, getattr(value, name), change) for name in names})
        case Mapping():
            return {renamed(key, change): renamed(one, change) for key, one in value.items()}
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*(_field(n, v, change) for n, v in zip(value._fields, value, strict=True)))
        case (str() as topic, int() as number):
            return change(topic), number
        case list() | tuple():
            return type(value)(renamed(one, change) for one in value)
    return value


def paced(request: Any) -> Any:
    """The request with its times as the real cluster has them."""
    if isinstance(request, JoinGroup):
        session, rebalance = request.session_ms * PACE, request.rebalance_ms * PACE
        return msgspec.structs.replace(request, session_ms=session, rebalance_ms=rebalance)
    if isinstance(request, ConsumerGroupHeartbeat) and request.rebalance_ms >= 0:
        return msgspec.structs.replace(request, rebalance_ms=request.rebalance_ms * PACE)
    if isinstance(request, InitProducerId) and request.transactional_id is not None:
        timeout_ms = max(request.timeout_ms, min(request.timeout_ms * PACE, LONGEST_MS))
        return msgspec.structs.replace(request, timeout_ms=timeout_ms)
    return request


def _field(name: str, value: Any, change: Callable[[str], str]) -> Any:
    if name in NAMED and isinstance(value, str):
        return change(value)
    if name == "members" and isinstance(value, Mapping):
        return {member: _member(one, change) for member, one in value.items()}
    if name == BY_NAME:
        return {change(key): renamed(one, change) for key, one in value.items()}
    if name in ALL_NAMED and value is not None:
        return tuple(change(one) if isinstance(one, str) else renamed(one, change) for one in value)
    return renamed(value, change)


class SameIds(IdPairs):
    """Clients here have the producer ids that the real broker gave them."""

    def to_model(self, producer_id: int) -> int:
        """The id itself."""
        return producer_id


def _member(value: Any, change: Callable[[str], str]) -> Any:
    """Of an answer to JoinGroup its topics, of one to a description more."""
    return renamed(value, change) if hasattr(value, "_fields") else tuple(map(change, value))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a scenario is played. story: begins all its names. dialect: of its clients. names: ids of the
    cluster's topics."""

    cluster: Cluster
    dialect: Dialect
    story: str
    names: SameIds = field(default_factory=SameIds)

    def inward(self, name: str) -> str:
        """The cluster's name for one of the scenario's."""
        return name if name.startswith("__") or not name else f"{self.story}-{name}"

    def outward(self, name: str) -> str:
        """The scenario's name for one of the cluster's."""
        return name.removeprefix(f"{self.story}-")

    def ask(self, request: Request[A], node: int) -> A:
        """The answer of a broker. Raises: AdminError."""
        waits_s = request.timeout_ms / 1000 if isinstance(request, Produce) else 0.0  # for followers
        kind, values = encode(paced(renamed(request, self.inward)), self.dialect, self.names)
        with self.cluster.admin.connect(node, CALL_S + waits_s) as connection:
            connection.send(kind, values)
            answer = decode(connection.receive(kind), request, self.names)
        return cast("A", renamed(answer, self.outward))

    def learn(self, node: int) -> None:
        """Ask a broker for the ids of all topics. Raises: AdminError."""
        with self.cluster.admin.connect(node, CALL_S) as connection:
            answer = connection.call(MetadataResponse, topics=None, allow_auto_topic_creation=False)
        self.names.topics.update({str(one.name): one.topic_id for one in answer.topics if one.topic_id})

    def tell(self, request: Produce, node: int) -> None:
        """Send a request with acks=0, which has no answer; returns when the broker has handled it: it answers
        the next request of the connection after that, or closes this where it refused the request.

        Raises: AdminError."""
        told = encode(renamed(request, self.inward), self.dialect, self.names)
        after = renamed(ListOffsets(tuple(request.batches)), self.inward)
        kind, values = encode(after, self.dialect, self.names)
        with self.cluster.admin.connect(node, CALL_S) as connection:
            connection.send(*told)
            try:
                connection.call(kind, **values)
            except AdminError as error:
                if not isinstance(error.__cause__, ConnectionError):
                    raise


class WaitingFetch(NamedTuple):
    """A fetch that waits for records (fetch.max.wait.ms) until this time of the stage, which a real broker
    does not know."""

    connection: int
    correlation: int
    request: Fetch
    until: int


class Asked(Protocol):
    """Where brokers are asked."""

    def ask(self, request: Request[A], node: int) -> A:
        """See `Place`. Raises: AdminError."""

    def tell(self, request: Produce, node: int) -> None:
        """See `Place`. Raises: AdminError."""


class RealBroker:
    """A real broker in the place of a model's `Broker`, as far as a stage needs one."""

    is_broker = True
    fenced = False

    def __init__(self, place: Asked, number: int) -> None:
        self._place, self._number = place, number
        self._out: SimpleQueue[Reply | AdminError] = SimpleQueue()
        self._fetches: list[WaitingFetch] = []
        self._asking: list[Thread] = []

    def receive(self, now: int, connection: int, correlation: int, request: AnyRequest) -> None:
        """A request of a client. What follows from it in the broker is done at once in the model: it is
        waited for. An answer that depends on other members may come later. Raises: AdminError."""
        if isinstance(request, JoinGroup | SyncGroup):
            asking = Thread(target=self._later, args=(connection, correlation, request), daemon=True)
            self._asking = [one for one in self._asking if one.is_alive()] + [asking]
            asking.start()
            ends = time.monotonic() + OTHERS_S
            for one in self._asking:  # a request may be what the answers to earlier ones waited for
                one.join(max(ends - time.monotonic(), 0.0))
            return
        if isinstance(request, Fetch):
            self._fetches.append(WaitingFetch(connection, correlation, request, now + request.max_wait_ms))
            self.tick(now)
            return
        if isinstance(request, Produce) and request.acks == 0:
            self._place.tell(request, self._number)
            return
        self._out.put(Reply(connection, correlation, self._place.ask(request, self._number)))
        if isinstance(request, EndTxn | InitProducerId) and request.transactional_id is not None:
            self._settle(request.transactional_id)
        self.tick(now)

    def _later(self, connection: int, correlation: int, request: AnyRequest) -> None:
        try:
            self._out.put(Reply(connection, correlation, self._place.ask(request, self._number)))
        except AdminError as error:
            self._out.put(error)

    def _settle(self, transactional_id: str) -> None:
        ends = time.monotonic() + SETTLED_S
        request = DescribeTransactions((transactional_id,))
        while time.monotonic() < ends:
            answer = self._place.ask(request, self._number)
            if not answer.transactions[transactional_id].state.startswith("Prepare"):
                return
            time.sleep(POLL_S)

    def take_out(self) -> list[Reply]:
        """Answers since the last call. Raises: AdminError."""
        found = []
        while not self._out.empty():
            one = self._out.get()
            if isinstance(one, AdminError):
                raise one
            found.append(one)
        return found

    def tick(self, now: int) -> None:
        """Answer fetches that have waited long enough in the time of the stage, or for which there are
        records. Raises: AdminError."""
        waiting, self._fetches = self._fetches, []
        for fetch in waiting:
            answer = self._place.ask(fetch.request, self._number)
            ready = any(part.error or part.batches for part in answer.parts.values())
            if ready or now >= fetch.until:
                self._out.put(Reply(fetch.connection, fetch.correlation, answer))
            else:
                self._fetches.append(fetch)


class OnKafka(ClusterStage):
    """What a stage does otherwise where brokers are real. One broker."""

    def __init__(self, place: Place, settings: Settings) -> None:
        """Raises: AdminError, ClusterError, NotYet."""
        self.place = place
        super().__init__(settings)

    def _begin(self, partitions: Sequence[Sequence[int]], coordinators: Sequence[int]) -> None:
        self._revive(BROKER)  # an earlier scenario may have ended without it
        self.create(IN[0], ((BROKER,),)).create("p", partitions)
        self._ready()

    def create(self, topic: str, replicas: Sequence[Sequence[int]], *, at: int = BROKER) -> Self:
        """See `ClusterStage`."""
        name = self.place.inward(topic)
        broker_views.create_topic(self.place.cluster.admin, name, len(replicas), 1, {}, READY_S)
        self.place.learn(at)
        return self

    def _ready(self) -> None:
        """Returns when the broker leads and coordinates all that the scenario has."""

        def ready() -> None:
            ends = self.ask(ListOffsets((IN, ("p", 0), ("p", 1))), to=BROKER)
            txn = self.ask(DescribeTransactions(("t", "u")), to=BROKER)
            offsets = self.ask(OffsetFetch(GROUP, (IN,)), to=BROKER)
            errors = {
                *(error for error, *_ in ends.parts.values()),
                *(one.error for one in txn.transactions.values()),
                offsets.error,
            }
            if wrong := errors - {KafkaError.NONE, NOT_FOUND, KafkaError.UNSTABLE_OFFSET_COMMIT}:
                raise NotYet(f"the broker answers {', '.join(sorted(map(str, wrong)))}")

        until(READY_S, POLL_S, ready)

    # ---- state

    def leader(self, tp: Partition) -> int:
        """See `ClusterStage`."""
        return BROKER

    def number(self, key: str, topic: str) -> int:
        """See `ClusterStage`."""
        parts = self.settings.transaction_partitions
        parts = parts if topic == TRANSACTION_TOPIC else self.settings.offsets_partitions
        return java_hash(self.place.inward(key)) % parts

    def replica(self, tp: Partition, n: int = -1) -> Replica | None:
        """Raises: NotOnKafka."""
        raise NotOnKafka("no client looks into a real broker")

    # ---- messages, processes and time

    def hold(
        self,
        kind: type,
        *,
        of: int | str | None = None,
        to: int | None = None,
        answer: bool = False,
        times: int = 1,
    ) -> Self:
        """Of clients only. Raises: NotOnKafka."""
        if kind is WriteTxnMarkers or isinstance(of, int):
            raise NotOnKafka("no client holds messages between real brokers")
        return super().hold(kind, of=of, to=to, answer=answer, times=times)

    def wait(self, milliseconds: int) -> Self:
        """See `ClusterStage`."""
        for _ in range(milliseconds // TICK_MS):
            time.sleep(TICK_MS * PACE / 1000)
            super().wait(TICK_MS)
        return self

    def crash(self, *nodes: int) -> Self:
        """See `ClusterStage`."""
        run_blocking(self.place.cluster.kill(nodes))
        return super().crash(*nodes)

    def start(self, *nodes: int) -> Self:
        """See `ClusterStage`."""
        self._revive(*nodes)
        self._ready()
        return self

    def _revive(self, *nodes: int) -> None:
        """Start those that are down; returns when each answers. Raises: ClusterError, NotYet."""
        run_blocking(self.place.cluster.revive(nodes))
        for n in nodes:
            until(RESTART_S, POLL_S, partial(self._answers, n))
            self.nodes[n] = cast(Broker, RealBroker(self.place, n))

    @not_yet(AdminError)
    def _answers(self, node: int) -> None:
        """Raises: NotYet."""
        self.place.ask(FindCoordinator(GROUP, group=True), node)


class RealProducers(OnKafka, RawProducerStage):
    """`RawProducerStage` on Kafka."""


class Members(OnKafka, RawMemberStage):
    """`RawMemberStage` on Kafka."""


class Consumers(OnKafka, RawConsumerStage):
    """`RawConsumerStage` on Kafka."""


class RealClients(OnKafka, ClientStage):
    """`ClientStage` on Kafka."""


REAL: Final[Mapping[type[ClusterStage], type[OnKafka]]] = {
    RawProducerStage: RealProducers,
    RawMemberStage: Members,
    RawConsumerStage: Consumers,
    ClientStage: RealClients,
}
"""Kind of stage -> the same on Kafka."""
