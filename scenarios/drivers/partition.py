"""A stage with one partition on a few brokers, on which messages about it wait for steps.

A `ClusterStage` that holds what brokers send each other, and the controller, until a step delivers it:

    s.produce("m0", to=1)    a producer's request reaches a broker, the answer (if any) its producer
    s.consume(0, at=1)       a consumer asks and is answered at once
    s.fetch(2)               the request that broker 2 has for its leader reaches the leader
    s.answer(2)              the leader's answer reaches broker 2
    s.alter(1), s.altered(1) the same with a leader's AlterPartition and the controller
    s.cut(2)                 what lies between broker 2 and its leader never arrives
    s.tell(2, 3)             the metadata log reaches these brokers
    s.crash(1), s.lose_power(1), s.restart(1), s.fence(1), s.elect(), s.reassign(…)
    s.wait(3000)             time passes: brokers tick, heartbeats flow (they are in no table)

What columns show is listed in `COLUMNS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self

from model.broker import TICK_MS
from model.eras import Era
from model.errors import KafkaError
from model.kraft.kraft_metadata import KRaftMetadata
from model.kraft.quorum_controller import QuorumController
from model.protocol.controller_messages import (
    AlterPartition,
    AlterPartitionResponse,
    BrokerHeartbeat,
    BrokerRegistration,
    BrokerRegistrationResponse,
    QuorumFetch,
    QuorumFetchResponse,
)
from model.protocol.messages import (
    AlterPartitionReassignments,
    ElectLeaders,
    Fetch,
    FetchPartition,
    ListOffsets,
    OffsetForLeaderEpoch,
    PartitionState,
)
from model.replication.replica import UNKNOWN, Replica
from model.settings import Settings
from scenarios.drivers.cluster import CONTROLLER_NODE, TOPIC, ClusterStage, data
from scenarios.drivers.messages import MessageInFlight
from scenarios.framework import look

TP: Final = data(0)
FETCHES: Final = (Fetch, OffsetForLeaderEpoch)
"""A follower's requests: for records, or where its epoch ends."""
KEPT, ANSWERED, EXPIRED = "kept", "answered", "expired"
"""See `PartitionStage.asked`."""
ASKS, ALTER_ANSWERED = "asks", "answered"
"""See `PartitionStage.altering`."""
HELD: Final = (*FETCHES, AlterPartition, QuorumFetch)


def without(*switches: str, **settings: Any) -> Settings:
    """Settings under which these switches of the era (`model.eras`) are off and all others on."""
    off: dict[str, Any] = dict.fromkeys(switches, False)
    return Settings(era=replace(Era(), **off), **settings)


class PartitionStage(ClusterStage):
    """See the module. replicas: of the partition, the first one leads. spare: brokers without a replica."""

    def __init__(
        self,
        replicas: Sequence[int] = (1, 2, 3),
        settings: Settings | None = None,
        *,
        spare: Sequence[int] = (),
    ) -> None:
        self.decision: KafkaError | None = None
        """The controller's answer to the newest AlterPartition."""
        self.heard = ""
        """The newest answer to a consumer."""
        self.replicas, self.spare = replicas, spare
        self._brokers = sorted({*replicas, *spare})
        self.isolated: set[int] = set()
        """Brokers whose heartbeats do not arrive."""
        self._unnoticed: set[int] = set()
        """Brokers whose sessions outlive a crash: their registration changes nothing."""
        super().__init__(settings or Settings(), (replicas,))

    def again(self, settings: Settings) -> Self:
        """See `ClusterStage`."""
        return type(self)(self.replicas, settings, spare=self.spare)

    def _begin(self, partitions: Sequence[Sequence[int]], coordinators: Sequence[int]) -> None:
        self.start(CONTROLLER_NODE).until(lambda: self.metadata.controls)
        self.restart(*self._brokers).create(TOPIC, partitions).tell(*self._brokers)

    # ---- state

    @property
    def metadata(self) -> KRaftMetadata:
        """The metadata of the controller's node."""
        metadata = self.controller.metadata
        assert isinstance(metadata, KRaftMetadata)
        return metadata

    def epochs(self, n: int) -> Sequence[tuple[int, int]] | None:
        """Epochs that a broker's replica has noted, each with where it begins; None where there is none."""
        replica = self.replica(TP, n)
        return list(replica.log.epochs) if replica is not None else None

    @property
    def quorum_controller(self) -> QuorumController:
        """The active controller."""
        assert self.metadata.controller is not None
        return self.metadata.controller

    @property
    def state(self) -> PartitionState:
        """The partition as the controller has it."""
        return self.controller.node.image.partitions[TP]

    @property
    def unfenced(self) -> set[int]:
        """Brokers whose session the controller takes for alive."""
        return {n for n, one in self.controller.node.image.brokers.items() if not one.fenced}

    @property
    def running(self) -> set[int]:
        """Brokers whose process runs."""
        return set(self.nodes) - {CONTROLLER_NODE}

    def look(self, column: str) -> object:
        """See `framework.Stage`."""
        return look(COLUMNS, self, column)

    # ---- clients

    def consume(self, offset: int, *, at: int, epoch: int = -1) -> Self:
        """A consumer fetches from an offset, with the leader epoch that it knows (-1: without); `heard`."""
        request = Fetch(-1, {TP: FetchPartition(offset, epoch)}, max_wait_ms=0)
        found = self.ask(request, to=at).parts[TP]
        got = " ".join(str(r) for batch in found.batches for r in batch.records)
        self.heard = found.error.name if found.error else got or "nothing"
        return self

    def ask_end(self, asked: int, *, at: int, epoch: int) -> Self:
        """A consumer asks where epoch `asked` ends, with the leader epoch that it knows; `heard`."""
        error, of, end = self.ask(OffsetForLeaderEpoch(-1, {TP: (epoch, asked)}), to=at).parts[TP]
        self.heard = error.name if error else f"epoch {of} ends at {end}"
        return self

    def ask_latest(self, *, at: int) -> Self:
        """A consumer asks for the end of the log; `heard`."""
        error, end = self.ask(ListOffsets((TP,)), to=at).parts[TP]
        self.heard = error.name if error else str(end)
        return self

    # ---- followers and their leader

    def fetch(self, follower: int, *, at: int = -1) -> Self:
        """The follower's request (a fetch, or the question where its epoch ends) reaches its leader, which
        may keep it until there is something to bring. at: the leader of before, where that is meant."""
        return self._take(self._fetches(follower, at, answering=False))

    def answer(self, follower: int) -> Self:
        """The leader's answer reaches the follower."""
        return self._take(self._of_kind(FETCHES, of=follower, answering=True))

    def rounds(self, *followers: int, most: int = 20) -> Self:
        """Each follower asks and is answered until its leader has nothing more to bring."""
        for follower in followers:
            for _ in range(most):
                replica = self.replica(TP, follower)
                if replica is None or replica.leads:
                    break
                if self._fetches(follower, answering=False):
                    self.fetch(follower)
                answers = self._fetches(follower, answering=True)
                if not answers:
                    break
                self._take(answers)
        return self

    def asked(self, follower: int) -> str | None:
        """What the leader did with the follower's newest request: KEPT, it keeps it; ANSWERED, the answer is
        under way; EXPIRED, likewise, and it was kept for the whole time that a fetch may wait. None: no
        request has reached it since the last answer."""
        if any(
            one.sender == follower and isinstance(one.ask.request, FETCHES) for one in self._waiting.values()
        ):
            return KEPT
        for one in self._fetches(follower, answering=True):
            late = one.answered_ms - one.arrived_ms >= self.settings.fetch_wait_ms
            return EXPIRED if late else ANSWERED
        return None

    def sends(self, follower: int) -> bool:
        """Whether the follower's request to its leader waits for a step."""
        return bool(self._fetches(follower, answering=False))

    def cut(self, follower: int, *, at: int = -1) -> Self:
        """The connection of a follower to its leader, or the one of before, breaks: the request or the answer
        on it never arrives, and an answer that the leader has still to give finds none."""
        replica = self.replica(TP, follower)
        leader = at if at >= 0 or replica is None else replica.state.leader
        lost = self._of_kind(FETCHES, of=follower, to=leader)
        for message in lost:
            self.held.remove(message)
        for connection, one in list(self._waiting.items()):
            if (one.sender, one.ask.node) == (follower, leader) and isinstance(one.ask.request, FETCHES):
                lost.append(self._waiting.pop(connection))
        for message in lost:
            self._hear(message, None)
        return self.flow()

    def _fetches(self, follower: int, at: int = -1, *, answering: bool) -> list[MessageInFlight]:
        """What lies between a follower and its leader, or the one of before."""
        replica = self.replica(TP, follower)
        leader = at if at >= 0 or replica is None else replica.state.leader
        return self._of_kind(FETCHES, of=follower, to=leader, answering=answering)

    def _take(self, messages: Sequence[MessageInFlight]) -> Self:
        """The only one of these messages arrives."""
        (message,) = messages
        return self.arrive(message)

    # ---- the controller

    def alter(self, leader: int) -> Self:
        """A leader's AlterPartition reaches the controller."""
        self._take(self._of_kind(AlterPartition, of=leader, answering=False))
        (message,) = self._of_kind(AlterPartition, of=leader, answering=True)
        answer = message.answer
        assert isinstance(answer, AlterPartitionResponse)
        self.decision = answer.parts[TP][0] if answer.parts else answer.error
        return self

    def altered(self, leader: int) -> Self:
        """The controller's answer reaches the leader."""
        return self._take(self._of_kind(AlterPartition, of=leader, answering=True))

    def altering(self, leader: int) -> str | None:
        """What lies between a leader and the controller: the leader's AlterPartition (ASKS), or its answer
        (ALTER_ANSWERED). None: nothing."""
        for message in self._of_kind(AlterPartition, of=leader):
            return ALTER_ANSWERED if message.answering else ASKS
        return None

    def behind(self, broker: int) -> bool:
        """Whether a broker does not have all of the metadata log."""
        return self.nodes[broker].node.image.offset < self.controller.quorum.end

    def tell(self, *brokers: int) -> Self:
        """The metadata log, as far as it goes, reaches these brokers."""
        end = self.controller.quorum.end
        for n in brokers:
            while self.nodes[n].node.image.offset < end:
                self._tell(n, end)
        return self

    def _tell(self, n: int, end: int) -> None:
        """The answer to a broker's fetch of the metadata log, up to an offset."""
        (message,) = self._of_kind(QuorumFetch, of=n)
        request = message.ask.request
        assert isinstance(request, QuorumFetch)
        entries = tuple(self.controller.quorum.entries[request.end : end])
        message.answer = QuorumFetchResponse(1, CONTROLLER_NODE, request.end, end, entries)
        message.answering = True
        self.arrive(message)

    def isolate(self, *brokers: int) -> Self:
        """From now on the heartbeats of these brokers do not arrive."""
        self.isolated.update(brokers)
        return self

    def heal(self, *brokers: int) -> Self:
        """Heartbeats of these brokers (of all) arrive again, and soon the metadata."""
        self.isolated -= set(brokers or self.isolated)
        return self.wait(500).tell(*(brokers or self.running))

    def fence(self, *brokers: int) -> Self:
        """The controller finds that the session of these brokers has ended."""
        for n in brokers:
            self.quorum_controller.sessions[n] = self.now - self.settings.session_ms - 1
        self.controller.tick(self.now)
        return self.flow()

    def elect(self, *, unclean: bool = False) -> Self:
        """An operator asks for the preferred leader, or for an unclean election."""
        self.ask(ElectLeaders((TP,), unclean), to=CONTROLLER_NODE)
        return self

    def reassign(self, *replicas: int) -> Self:
        """An operator moves the partition."""
        self.ask(AlterPartitionReassignments({TP: replicas}), to=CONTROLLER_NODE)
        return self

    # ---- messages

    def _travel(self, message: MessageInFlight) -> None:
        sender, request = message.sender, message.ask.request
        if isinstance(request, BrokerHeartbeat) and sender in self.isolated:
            return
        if isinstance(request, BrokerRegistration) and sender in self._unnoticed:
            epoch = self.controller.node.image.brokers[request.broker].epoch
            message.told(BrokerRegistrationResponse(KafkaError.NONE, epoch))
        else:
            super()._travel(message)

    def _is_held(self, message: MessageInFlight) -> bool:
        of_broker = isinstance(message.sender, int) and isinstance(message.ask.request, HELD)
        return of_broker or super()._is_held(message)

    def _break(self, node: int) -> None:
        """The connections take with them what lies on them."""
        super()._break(node)
        for message in [one for one in self.held if node in (one.sender, one.ask.node)]:
            self.held.remove(message)
            self._hear(message, None)

    # ---- processes and time

    def lose_power(self, *brokers: int) -> Self:
        """The machine fails: what was not flushed is gone."""
        self.crash(*brokers)
        for n in brokers:
            for log in self._durable[n].logs.values():
                log.lose_power()
        return self

    def restart(self, *nodes: int, noticed: bool = True) -> Self:
        """The process starts again, registers, and gets the metadata. noticed=False: its session
        outlived the crash, the controller has seen nothing of it."""
        self._unnoticed = set() if noticed else set(nodes)
        for n in nodes:
            self.start(n).tell(n)
            for _ in ("registration", "heartbeat"):
                self.nodes[n].tick(self.now)
                self.flow().tell(n)
        return self

    def wait(self, milliseconds: int) -> Self:
        """Time passes. Heartbeats flow; everything else lies where it is."""
        for _ in range(milliseconds // TICK_MS):
            super().wait(TICK_MS)
            for n in self.running:
                self._tell(n, self.nodes[n].node.image.offset)  # nothing new: the session continues
        return self

    def settle(self) -> Self:
        """Five seconds without a fault: everything is replicated, every high watermark known to all and
        checkpointed."""
        for _ in range(10):
            self.rounds(*self.running).wait(500)
        return self.rounds(*self.running)

    def flush(self, *brokers: int) -> Self:
        """The operating system writes the pages of these brokers to disk."""
        for n in brokers:
            for log in self._durable[n].logs.values():
                log.flush()
        return self


Column = Callable[[PartitionStage, str], object]


def _of(show: Callable[[Replica], object], broker: int = -1) -> Column:
    """Of the replica on a broker: the one that the column names, if no other is given."""

    def column(s: PartitionStage, named: str) -> object:
        n = broker if broker >= 0 else int(named)
        replica = s.replica(TP, n)
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


def _epochs(s: PartitionStage, broker: str) -> object:
    found = s.epochs(int(broker))
    if found is None:
        return None if int(broker) in s.nodes else "down"
    return [f"({epoch}, {begin})" for epoch, begin in found]


def _names(replica: Replica, end: int | None = None) -> list[str]:
    return [str(record) for offset, _, record in replica.log.records() if end is None or offset < end]


COLUMNS: Mapping[str, Column] = {
    # As the controller has it. A leader epoch rises with every leader, a partition epoch with every change.
    "AR": lambda s, _: s.state.replicas,
    "adding": lambda s, _: s.state.adding,
    "removing": lambda s, _: s.state.removing,
    "ISR": lambda s, _: tuple(sorted(s.state.isr)),  # a set, which Kafka before 4.0 names in another order
    "ELR": lambda s, _: s.state.elr,
    "leader": lambda s, _: s.state.leader if s.state.leader >= 0 else None,
    "leader epoch": lambda s, _: s.state.leader_epoch,
    "partition epoch": lambda s, _: s.state.partition_epoch,
    "partition": _status,
    r"broker epoch of (\d)": lambda s, n: s.controller.node.image.brokers[int(n)].epoch,
    r"(\d) is fenced": lambda s, n: s.controller.node.image.brokers[int(n)].fenced,
    # As a broker has it.
    "running": lambda s, _: s.running,
    r"LEO (\d)": _of(lambda r: r.log.end),
    r"HW (\d)": _of(lambda r: r.high_watermark),
    r"log (\d)": _of(_names),
    r"epochs (\d)": _epochs,
    r"flushed (\d)": _of(lambda r: r.log.flushed),
    r"ISR at (\d)": _of(lambda r: r.isr),
    r"leader, as (\d) knows": _of(lambda r: f"{r.state.leader}, epoch {r.state.leader_epoch}"),
    r"fetch of (\d)": lambda s, follower: s.asked(int(follower)),
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
    "produce": lambda s, _: s.told.get(s.last),
    r"([a-d])(?:: acks=\w+)?": lambda s, record: s.told.get(record),
    "acknowledged": lambda s, _: s.acked,
}
