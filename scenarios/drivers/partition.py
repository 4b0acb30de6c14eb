"""A stage with one partition on a few brokers, driven by hand.

The brokers are the model's whole brokers. What they send lies on the stage until a step delivers it:

    s.produce("m0", to=1)    a producer's request reaches a broker, the answer (if any) its producer
    s.consume(0, at=1)       a consumer asks and is answered at once
    s.fetch(2)               the request that broker 2 has for its leader reaches the leader
    s.answer(2)              the leader's answer reaches broker 2
    s.alter(1), s.altered(1) the same with a leader's AlterPartition and the controller
    s.tell(2, 3)             the metadata log reaches these brokers
    s.crash(1), s.lose_power(1), s.restart(1), s.fence(1), s.elect(), s.reassign(…)
    s.wait(3000)             time passes: brokers tick, heartbeats flow (they are in no table)

The stage plays the metadata quorum itself: one controller, whose decisions are committed at once.

What columns show is listed in `COLUMNS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from model.broker import TICK_MS, Broker, Durable
from model.eras import Era
from model.errors import KafkaError
from model.kraft.quorum_controller import QuorumController
from model.log.unified_log import RecordBatch
from model.metadata.image import MetadataImage
from model.protocol.controller_messages import (
    AlterPartition,
    BrokerHeartbeat,
    BrokerRegistration,
    BrokerRegistrationResponse,
    QuorumFetch,
    QuorumFetchResponse,
)
from model.protocol.messages import (
    AlterPartitionReassignments,
    CreateTopics,
    ElectLeaders,
    Fetch,
    FetchPartition,
    ListOffsets,
    OffsetForLeaderEpoch,
    PartitionState,
    Produce,
    ProduceResponse,
)
from model.protocol.requests import AnyRequest, ControllerRequest, Response
from model.replication.node import Ask, Reply
from model.replication.replica import UNKNOWN, Replica
from model.settings import Settings
from scenarios.framework import look

CONTROLLER = 9
TP = ("t", 0)
ALTER = "alter t 0"
CLIENT = 0
"""The connection of producers. Each request of a broker has one of its own, from 1 on."""

Way = tuple[int, str, int]
"""From whom, on which channel, to whom."""


def without(*switches: str, **settings: Any) -> Settings:
    """Settings under which these switches of the era (`model.eras`) are off and all others on."""
    off: dict[str, Any] = dict.fromkeys(switches, False)
    return Settings(era=replace(Era(), **off), **settings)


class PartitionStage:
    """See the module. replicas: of the partition, the first one leads. spare: brokers without a replica.

    acked: acknowledged records. results: what happened to each record's last request.
    """

    def __init__(
        self,
        replicas: Sequence[int] = (1, 2, 3),
        settings: Settings | None = None,
        *,
        spare: Sequence[int] = (),
    ) -> None:
        self.settings = settings or Settings()
        self.now = 0
        self.nodes: dict[int, Broker] = {}
        self.durable = {n: Durable() for n in sorted({*replicas, *spare})}
        self.acked: list[str] = []
        self.results: dict[str, str] = {}
        self.decision: KafkaError | None = None
        """What the controller said to the newest AlterPartition."""
        self.heard = ""
        """The newest answer to a consumer."""
        self._heard: dict[int, Response] = {}
        self.last = ""
        """Name of the newest record that was sent."""
        self.controller = QuorumController(self.settings, MetadataImage())
        self.controller.image.apply(None)
        self._entries: list[tuple[int, object]] = [(1, None)]
        self._asks: dict[Way, Ask] = {}
        self._asked: dict[Way, Ask] = {}
        self._answers: dict[Way, Response | None] = {}
        self._delivered: dict[int, tuple[int, Ask]] = {}
        """Requests that a leader has and did not answer yet, by connection."""
        self._connections = CLIENT
        self._isolated: set[int] = set()
        self._sent: dict[int, str] = {}
        self._incarnation = 0
        for n in self.durable:
            self.restart(n)
        created = self._decide(CreateTopics(TP[0], 1, len(replicas), (tuple(replicas),)))
        assert created.error is KafkaError.NONE
        self.tell(*self.durable)

    # ---- state

    @property
    def state(self) -> PartitionState:
        """The partition as the controller has it."""
        return self.controller.image.partitions[TP]

    def replica(self, n: int) -> Replica | None:
        """The replica on a broker, None where the process is down or has none."""
        return self.nodes[n].node.replicas.get(TP) if n in self.nodes else None

    def look(self, column: str) -> object:
        """See `framework.Stage`."""
        return look(COLUMNS, self, column)

    # ---- clients

    def produce(self, *records: str, to: int, acks: int = -1) -> Self:
        """A producer sends one batch; records are named for the table, the first one stands for all."""
        number = len(self._sent)
        self._sent[number] = self.last = records[0]
        self.results[records[0]] = "waits" if acks else "sent"
        request = Produce(acks, {TP: RecordBatch(-1, -1, records)})
        self.nodes[to].receive(self.now, CLIENT, number, request)
        self._collect(to)
        return self

    def consume(self, offset: int, *, at: int, epoch: int = -1) -> Self:
        """A consumer fetches from an offset, with the leader epoch that it knows (-1: without); `heard`."""
        request = Fetch(-1, {TP: FetchPartition(offset, epoch)}, max_wait_ms=0)
        found = self._ask(at, request).parts[TP]
        got = " ".join(str(r) for batch in found.batches for r in batch.records)
        self.heard = found.error.name if found.error else got or "nothing"
        return self

    def ask_end(self, asked: int, *, at: int, epoch: int) -> Self:
        """A consumer asks where epoch `asked` ends, with the leader epoch that it knows; `heard`."""
        error, of, end = self._ask(at, OffsetForLeaderEpoch(-1, {TP: (epoch, asked)})).parts[TP]
        self.heard = error.name if error else f"epoch {of} ends at {end}"
        return self

    def ask_latest(self, *, at: int) -> Self:
        """A consumer asks for the end of the log; `heard`."""
        error, end = self._ask(at, ListOffsets((TP,))).parts[TP]
        self.heard = error.name if error else str(end)
        return self

    def _ask(self, n: int, request: AnyRequest) -> Any:
        """A consumer's request that is answered at once."""
        self._connections += 1
        self.nodes[n].receive(self.now, self._connections, 0, request)
        self._collect(n)
        return self._heard.pop(self._connections)

    # ---- followers and their leader

    def fetch(self, follower: int, *, at: int = -1) -> Self:
        """The follower's request (a fetch, or the question where its epoch ends) reaches its leader, which
        may keep it until there is something to bring. at: the leader of before, where that is meant."""
        replica = self.replica(follower)
        leader = at if at >= 0 or replica is None else replica.state.leader
        ask = self._asks.pop((follower, "fetch", leader))
        if leader not in self.nodes:
            self._answers[follower, "fetch", leader] = None
            return self
        self._connections += 1
        self._delivered[self._connections] = (follower, ask)
        self.nodes[leader].receive(self.now, self._connections, 0, ask.request)
        self._collect(leader)
        return self

    def answer(self, follower: int) -> Self:
        """The leader's answer reaches the follower."""
        (key,) = [way for way in self._answers if way[:2] == (follower, "fetch")]
        return self._answered(*key, self._answers.pop(key))

    def rounds(self, *followers: int, most: int = 20) -> Self:
        """Each follower asks and is answered until its leader has nothing more to bring."""
        for follower in followers:
            for _ in range(most):
                replica = self.replica(follower)
                if replica is None or replica.leads:
                    break
                key = (follower, "fetch", replica.state.leader)
                if key in self._asks:
                    self.fetch(follower)
                if key not in self._answers:
                    break
                self._answered(*key, self._answers.pop(key))
        return self

    def _answered(self, n: int, channel: str, node: int, answer: Response | None) -> Self:
        self.nodes[n].answered(self.now, self._asked[n, channel, node], answer)
        self._collect(n)
        return self

    # ---- the controller

    def alter(self, leader: int) -> Self:
        """A leader's AlterPartition reaches the controller."""
        request = self._asks.pop((leader, ALTER, CONTROLLER)).request
        assert isinstance(request, AlterPartition)
        answer = self._decide(request)
        self.decision = answer.parts[TP][0] if answer.parts else answer.error
        self._answers[leader, ALTER, CONTROLLER] = answer
        return self

    def altered(self, leader: int) -> Self:
        """The controller's answer reaches the leader."""
        key = (leader, ALTER, CONTROLLER)
        return self._answered(*key, self._answers.pop(key))

    def tell(self, *brokers: int) -> Self:
        """The metadata log, as far as it goes, reaches these brokers."""
        for n in brokers:
            while self.nodes[n].node.image.offset < len(self._entries):
                self._tell(n, len(self._entries))
        return self

    def _tell(self, n: int, end: int) -> None:
        request = self._asks.pop((n, "quorum", CONTROLLER)).request
        assert isinstance(request, QuorumFetch)
        entries = tuple(self._entries[request.end : end])
        self._answered(n, "quorum", CONTROLLER, QuorumFetchResponse(1, CONTROLLER, request.end, end, entries))

    def isolate(self, *brokers: int) -> Self:
        """From now on the heartbeats of these brokers do not arrive."""
        self._isolated.update(brokers)
        return self

    def heal(self, *brokers: int) -> Self:
        """Heartbeats of these brokers (of all) arrive again, and soon the metadata."""
        self._isolated -= set(brokers or self._isolated)
        return self.wait(500).tell(*(brokers or self.nodes))

    def fence(self, *brokers: int) -> Self:
        """The controller finds that the session of these brokers has ended."""
        for n in brokers:
            self.controller.sessions[n] = self.now - self.settings.session_ms - 1
        self._commit(self.controller.tick(self.now))
        return self

    def elect(self, *, unclean: bool = False) -> Self:
        """An operator asks for the preferred leader, or for an unclean election."""
        self._decide(ElectLeaders((TP,), unclean))
        return self

    def reassign(self, *replicas: int) -> Self:
        """An operator moves the partition."""
        self._decide(AlterPartitionReassignments({TP: replicas}))
        return self

    def _decide(self, request: ControllerRequest[Response]) -> Any:
        decision = self.controller.decide(request, self.now)
        self._commit(decision.changes)
        return decision.answer

    def _commit(self, changes: Sequence[object]) -> None:
        self._entries += [(1, change) for change in changes]

    # ---- processes and time

    def crash(self, *brokers: int) -> Self:
        """SIGKILL: what is in the page cache survives."""
        for n in brokers:
            del self.nodes[n]
            self._asks = {way: ask for way, ask in self._asks.items() if way[0] != n}
            self._answers = {way: a for way, a in self._answers.items() if way[0] != n}
            self._break(n)
        return self

    def _break(self, dead: int) -> None:
        """Connections from and to a broker that died: who asked it hears of that."""
        for connection, (n, ask) in list(self._delivered.items()):
            if dead in (n, ask.node):
                del self._delivered[connection]
                if n != dead:
                    self._answered(n, ask.channel, dead, None)
        for lying in (self._asks, self._answers):
            for way in [way for way in lying if way[2] == dead]:
                del lying[way]
                self._answered(*way, None)

    def lose_power(self, *brokers: int) -> Self:
        """The machine fails: what was not flushed is gone."""
        self.crash(*brokers)
        for n in brokers:
            for log in self.durable[n].logs.values():
                log.lose_power()
        return self

    def restart(self, *brokers: int, noticed: bool = True) -> Self:
        """The process starts again, registers, and gets the metadata. noticed=False: its session
        outlived the crash, the controller has seen nothing of it."""
        for n in brokers:
            self._incarnation += 1
            self.nodes[n] = Broker(
                n,
                voters=(CONTROLLER,),
                settings=self.settings,
                durable=self.durable[n],
                incarnation=self._incarnation,
                draw=lambda low, _: low,
            )
            self.nodes[n].start(self.now)
            self._collect(n)
            self.tell(n)
            self._tick(n)
            self._register(n, noticed)
            self.tell(n)
            self._tick(n)
            self._heartbeats(n)
            self.tell(n)
        return self

    def _register(self, n: int, noticed: bool) -> None:
        request = self._asks.pop((n, "register", CONTROLLER)).request
        assert isinstance(request, BrokerRegistration)
        if noticed:
            answer = self._decide(request)
        else:
            answer = BrokerRegistrationResponse(KafkaError.NONE, self.controller.image.brokers[n].epoch)
        self._answered(n, "register", CONTROLLER, answer)

    def wait(self, milliseconds: int) -> Self:
        """Time passes. Heartbeats flow; everything else lies where it is."""
        for _ in range(milliseconds // TICK_MS):
            self.now += TICK_MS
            for n in self.nodes:
                self._tick(n)
                self._heartbeats(n)
                self._tell(n, self.nodes[n].node.image.offset)  # nothing new: the session continues
            self._commit(self.controller.tick(self.now))
        return self

    def _heartbeats(self, n: int) -> None:
        ask = self._asks.pop((n, "heartbeat", CONTROLLER), None)
        if ask is not None and n not in self._isolated:
            assert isinstance(ask.request, BrokerHeartbeat)
            self._answered(n, "heartbeat", CONTROLLER, self._decide(ask.request))

    def settle(self) -> Self:
        """Five seconds without a fault: everything is replicated, every high watermark known to all and
        checkpointed."""
        for _ in range(10):
            self.rounds(*self.nodes).wait(500)
        return self.rounds(*self.nodes)

    def flush(self, *brokers: int) -> Self:
        """The operating system writes the pages of these brokers to disk."""
        for n in brokers:
            for log in self.durable[n].logs.values():
                log.flush()
        return self

    def _tick(self, n: int) -> None:
        self.nodes[n].tick(self.now)
        self._collect(n)

    # ---- what lies on the stage

    def _collect(self, n: int) -> None:
        """Lay down what a broker sends. Brokers have one request under way on a channel."""
        for effect in self.nodes[n].take_out():
            if isinstance(effect, Ask):
                way = (n, effect.channel, effect.node)
                self._asks[way] = self._asked[way] = effect
            elif effect.connection == CLIENT:
                self._produced(effect)
            elif effect.connection in self._delivered:
                asked, ask = self._delivered.pop(effect.connection)
                self._answers[asked, ask.channel, n] = effect.answer
            else:
                self._heard[effect.connection] = effect.answer

    def _produced(self, reply: Reply) -> None:
        assert isinstance(reply.answer, ProduceResponse)
        error, _ = reply.answer.results[TP]
        name = self._sent[reply.correlation]
        self.results[name] = "acknowledged" if error is KafkaError.NONE else error.name
        if error is KafkaError.NONE:
            self.acked.append(name)


Column = Callable[[PartitionStage, str], object]


def _of(show: Callable[[Replica], object], broker: int = -1) -> Column:
    """Of the replica on a broker: the one that the column names, if no other is given."""

    def column(s: PartitionStage, named: str) -> object:
        n = broker if broker >= 0 else int(named)
        replica = s.replica(n)
        return show(replica) if replica else None if n in s.nodes else "down"

    return column


def _remote(leader: int) -> Column:
    """What the leader knows of a follower's log end; None where it does not lead."""

    def column(s: PartitionStage, follower: str) -> object:
        def show(replica: Replica) -> object:
            known = replica.remotes.get(int(follower))
            if known is None:
                return None
            return "?" if known.end == UNKNOWN else known.end

        return _of(show, leader)(s, "")

    return column


def _status(s: PartitionStage, _: str) -> object:
    """What Kafka's metrics call the partition."""
    if s.state.leader < 0:
        return "offline"
    if len(s.state.isr) < s.settings.effective_min_isr(len(s.state.replicas)):
        return "under min ISR"
    return "under-replicated" if len(s.state.isr) < len(s.state.replicas) else "whole"


def _names(replica: Replica, end: int | None = None) -> list[str]:
    return [str(record) for offset, _, record in replica.log.records() if end is None or offset < end]


COLUMNS: Mapping[str, Column] = {
    # As the controller has it. A leader epoch rises with every leader, a partition epoch with every change.
    "AR": lambda s, _: s.state.replicas,
    "adding": lambda s, _: s.state.adding,
    "removing": lambda s, _: s.state.removing,
    "ISR": lambda s, _: s.state.isr,
    "ELR": lambda s, _: s.state.elr,
    "leader": lambda s, _: s.state.leader if s.state.leader >= 0 else None,
    "leader epoch": lambda s, _: s.state.leader_epoch,
    "partition epoch": lambda s, _: s.state.partition_epoch,
    "partition": _status,
    r"broker epoch of (\d)": lambda s, n: s.controller.image.brokers[int(n)].epoch,
    r"(\d) is fenced": lambda s, n: s.controller.image.brokers[int(n)].fenced,
    # As a broker has it.
    "running": lambda s, _: set(s.nodes),
    r"LEO (\d)": _of(lambda r: r.log.end),
    r"HW (\d)": _of(lambda r: r.high_watermark),
    r"log (\d)": _of(_names),
    r"epochs (\d)": _of(lambda r: [f"({e}, {begin})" for e, begin in r.log.epochs]),
    r"flushed (\d)": _of(lambda r: r.log.flushed),
    r"ISR at (\d)": _of(lambda r: r.isr),
    r"leader, as (\d) knows": _of(lambda r: f"{r.state.leader}, epoch {r.state.leader_epoch}"),
    # As leader 1 has it: the in-sync set that it asked for and was not answered about; for whom its high
    # watermark waits (the in-sync set, and who is asked for or about to leave).
    r"remote LEO (\d)": _remote(1),
    r"of (\d), at 2": _remote(2),
    "asked for": _of(lambda r: r.proposed, 1),
    "HW waits for": _of(lambda r: r.maximal_isr if r.leads else None, 1),
    "consumers see": _of(lambda r: _names(r, r.high_watermark), 1),
    # The newest answers: to a leader's AlterPartition, to a consumer, to the producer of the newest record
    # or of one.
    "controller's answer": lambda s, _: s.decision,
    "consumer": lambda s, _: s.heard or None,
    "produce": lambda s, _: s.results.get(s.last),
    r"([a-d])(?:: acks=\w+)?": lambda s, record: s.results.get(record),
    "acknowledged": lambda s, _: s.acked,
}
