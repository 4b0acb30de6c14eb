"""One node of a modelled cluster: broker, controller of the quorum, or both.

Everything that happens to a node is one of its events: `start`, `receive` (a request), `answered` (the
answer to a request of its own, None = none came in time), `tick` (every 100 ms). What it wants done stands
in `take_out()` afterwards. A node that crashes is thrown away except for its `Durable`.

Not here: leading (`serving`), following (`following`), transactions, groups, the metadata quorum (`quorum`),
decisions of the controller (`controller`), time and network (the driver).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from model.controller import Controller
from model.coordinating import Coordinating
from model.errors import KafkaError
from model.following import Following
from model.image import ChangePartition, Image
from model.log import Log
from model.messages import (
    AllocateIds,
    AlterAnswer,
    AlterPartition,
    Answer,
    BeginEpoch,
    BrokerHeartbeat,
    CreateTopic,
    DescribeProducers,
    ElectLeaders,
    EpochEnds,
    Fetch,
    HeartbeatAnswer,
    IdsAnswer,
    ListOffsets,
    Metadata,
    MetadataAnswer,
    Partition,
    Produce,
    ProducersAnswer,
    QuorumFetch,
    Reassign,
    Register,
    RegisterAnswer,
    Vote,
)
from model.node import Ask, Node, Reply
from model.quorum import LEADER, WAIT_MS, Quorum
from model.replica import Replica
from model.serving import Serving
from model.settings import Settings

TICK_MS: Final = 100
CHECKPOINT_MS: Final = 5000
FOR_CONTROLLER: Final = (
    Register, BrokerHeartbeat, AlterPartition, AllocateIds, CreateTopic, ElectLeaders, Reassign
)  # fmt: skip


@dataclass(slots=True)
class Durable:
    """What a node finds again after a crash. `clean_epoch`: its broker epoch at a clean shutdown."""

    logs: dict[Partition, Log] = field(default_factory=dict)
    checkpoint: dict[Partition, int] = field(default_factory=dict)
    quorum_epoch: int = 0
    voted: int = -1
    entries: list[tuple[int, Any]] = field(default_factory=list)
    clean_epoch: int = -1


class Broker:
    """See the module. `incarnation` is different at each start. broker, voter: its process.roles."""

    def __init__(
        self,
        me: int,
        *,
        voters: Sequence[int],
        settings: Settings,
        durable: Durable,
        incarnation: int,
        draw: Callable[[int, int], int],
        broker: bool = True,
    ) -> None:
        self.me = me
        self.settings = settings
        self.durable = durable
        self.incarnation = incarnation
        self.is_broker = broker
        self.node = Node(me, settings, durable.logs, durable.checkpoint)
        self.quorum = Quorum(me, voters, settings, draw)
        self.quorum.epoch, self.quorum.voted = durable.quorum_epoch, durable.voted
        self.quorum.entries = durable.entries
        self.controller: Controller | None = None
        self.serving = Serving(self.node, self._may_alter)
        self.following = Following(self.node)
        self.coordinating = Coordinating(self.node, self.serving, lambda: self.quorum.leader)
        self.fenced = True
        self.leaving = False
        self.may_end = False
        self._committing: list[tuple[int, int, int, Any]] = []
        self._quorum_parked: list[tuple[int, int, int, QuorumFetch]] = []
        self._quorum_again = -1
        self._told: dict[int, int] = {}
        self._again: set[Partition] = set()
        self._heartbeat_at = 0
        self._checkpoint_at = 0
        self._forwarded: dict[str, tuple[int, int]] = {}
        self._forwards = 0
        self._handlers: dict[type, Callable[[int, int, Any], None]] = {
            Produce: self.serving.produce,
            Fetch: self.serving.fetch,
            EpochEnds: self._simple(self.serving.epoch_ends),
            ListOffsets: self._simple(self.serving.list_offsets),
            Metadata: self._simple(self._metadata),
            DescribeProducers: self._simple(self._producers),
            Vote: self._simple(lambda r: self.quorum.vote(r, self.node.now)),
            BeginEpoch: self._begin_epoch,
            QuorumFetch: self._quorum_fetch,
            **self.coordinating.handlers(),
        }

    # ---- events

    def start(self, now: int) -> None:
        """The process comes up, with what was durable."""
        self.node.now = now
        for tp, log in self.durable.logs.items():
            replica = Replica(self.me, self.settings, log)
            replica.high_watermark = min(self.durable.checkpoint.get(tp, 0), log.end)
            self.node.replicas[tp] = replica
        self.quorum.start(now)
        self._after()

    def receive(self, now: int, connection: int, correlation: int, request: Any) -> None:
        """A request came. Connection -1: nobody waits for the answer."""
        self.node.now = now
        handler = self._handlers.get(type(request))
        if handler is not None:
            handler(connection, correlation, request)
        elif isinstance(request, FOR_CONTROLLER):
            self._control(connection, correlation, request)
        else:
            raise AssertionError(f"unknown request {request!r}")
        self._after()

    def answered(self, now: int, node: int, channel: str, answer: Any) -> None:
        """The answer to an `Ask`, None = connection lost or no answer in time."""
        self.node.now = now
        if channel == "fetch":
            for tp in self.following.answered(node, answer):
                self.serving.moved(tp)
            self.following.pump()
        elif channel == "quorum":
            if self.quorum.fetched(node, answer, now):
                self._quorum_again = now + TICK_MS
        elif channel == "vote":
            if answer is not None:
                self.quorum.voted_by(node, answer, now)
        elif channel == "heartbeat":
            self._heartbeat_answered(answer)
        elif channel == "register":
            self._registered(answer)
        elif channel.startswith("alter "):
            self._altered(channel, answer)
        elif self.coordinating.answered(channel, answer):
            pass
        elif channel in self._forwarded:
            connection, correlation = self._forwarded.pop(channel)
            self.node.reply(connection, correlation, answer or Answer(KafkaError.REQUEST_TIMED_OUT))
        self._after()

    def tick(self, now: int) -> None:
        """100 ms passed."""
        self.node.now = now
        self.quorum.tick(now)
        if self.quorum.role != LEADER and self.controller is not None:
            self._resign()
        if 0 <= self._quorum_again <= now:
            self._quorum_again = -1
            self.quorum.again(now)
        self._release_quorum(late=True)
        if self.controller is not None:
            self._append_changes(self.controller.tick(now))
        if self.is_broker:
            self._lead_on()
            self.serving.tick()
            self.following.pump()
            self.coordinating.tick()
            self._keep_alive()
            if now >= self._checkpoint_at:
                self._checkpoint_at = now + CHECKPOINT_MS
                for tp, replica in self.node.replicas.items():
                    self.durable.checkpoint[tp] = replica.high_watermark
        self._after()

    def shut_down(self, now: int) -> None:
        """Begin a clean shutdown; `may_end` is set when it is over."""
        self.leaving = True
        self._heartbeat_at = now
        self.may_end |= not self.is_broker or self.node.broker_epoch < 0

    def end(self) -> Durable:
        """The end of a clean shutdown: everything is on disk."""
        for tp, replica in self.node.replicas.items():
            replica.log.flush()
            self.durable.checkpoint[tp] = replica.high_watermark
        self.durable.clean_epoch = self.node.broker_epoch
        return self.durable

    def take_out(self) -> list[Reply | Ask]:
        """What the node wants done since the last call."""
        out, self.node.out = self.node.out, []
        return out

    # ---- metadata

    def _after(self) -> None:
        """After every event: what the quorum brought, and what it wants sent."""
        quorum = self.quorum
        if quorum.role == LEADER and self.controller is None:
            self._take_over()
        elif quorum.role != LEADER and self.controller is not None:
            self._resign()
        self.durable.quorum_epoch, self.durable.voted = quorum.epoch, quorum.voted
        if self.node.image.offset < quorum.high_watermark:
            self._apply()
        self._release_quorum()
        if quorum.out:
            sent, quorum.out = quorum.out, []
            for node, request in sent:
                channel = "quorum" if isinstance(request, QuorumFetch) else "vote"
                if isinstance(request, BeginEpoch):
                    channel = "begin"
                self.node.ask(node, channel, request)

    def _apply(self) -> None:
        """Apply committed records; take over what concerns this broker."""
        image, changed = self.node.image, []
        entries = self.quorum.entries
        while image.offset < self.quorum.high_watermark:
            change = entries[image.offset][1]
            image.apply(change)
            if isinstance(change, ChangePartition) and self.is_broker:
                changed.append(change.partition)
        for tp in dict.fromkeys(changed):
            self._become(tp)
            self.coordinating.became(tp)
        if changed:
            self.following.pump()
        while self._committing and self._committing[0][0] <= self.quorum.high_watermark:
            _, connection, correlation, answer = self._committing.pop(0)
            self.node.reply(connection, correlation, answer)

    def _become(self, tp: Partition) -> None:
        state = self.node.image.partitions[tp]
        replica = self.node.replicas.get(tp)
        if self.me not in state.replicas:
            if replica is not None:
                del self.node.replicas[tp]
                self.durable.logs.pop(tp, None)
                self.durable.checkpoint.pop(tp, None)
                self.serving.moved(tp)
            return
        if replica is None:
            replica = Replica(self.me, self.settings)
            self.node.replicas[tp] = replica
            self.durable.logs[tp] = replica.log
        replica.become(state, self.node.now)
        replica.advance(self.node.now)
        self.serving.moved(tp)

    def _metadata(self, request: Metadata) -> MetadataAnswer:
        image = self.node.image
        return MetadataAnswer(sorted(image.alive()), dict(image.partitions), self.quorum.leader)

    def _producers(self, request: DescribeProducers) -> ProducersAnswer:
        parts = {}
        for tp in request.partitions:
            replica = self.node.leader_of(tp)
            if replica is not None:
                known = sorted(replica.log.producers.items())
                parts[tp] = [(pid, p.epoch, p.began) for pid, p in known]
        return ProducersAnswer(parts)

    # ---- the quorum's side

    def _begin_epoch(self, connection: int, correlation: int, request: BeginEpoch) -> None:
        self.quorum.begin(request, self.node.now)
        self.node.reply(connection, correlation, Answer(KafkaError.NONE))

    def _quorum_fetch(self, connection: int, correlation: int, request: QuorumFetch) -> None:
        answer = self.quorum.serve(request, self.node.now)
        if answer is None:
            until = self.node.now + WAIT_MS
            self._quorum_parked.append((until, connection, correlation, request))
        else:
            self.node.reply(connection, correlation, answer)

    def _release_quorum(self, *, late: bool = False) -> None:
        """Answer fetches of the metadata log that have something to bring now, or waited long."""
        if not self._quorum_parked:
            return
        quorum, left = self.quorum, []
        for entry in self._quorum_parked:
            until, connection, correlation, request = entry
            news = quorum.role != LEADER or quorum.end > request.end
            news = news or quorum.high_watermark > self._told.get(request.replica, -1)
            if news or (late and until <= self.node.now):
                self._told[request.replica] = quorum.high_watermark
                self.node.reply(connection, correlation, quorum.held(request))
            else:
                left.append(entry)
        self._quorum_parked = left

    # ---- the controller's side

    def _take_over(self) -> None:
        image = Image()
        for _, change in self.quorum.entries:
            image.apply(change)
        self.controller = Controller(self.settings, image)

    def _resign(self) -> None:
        self.controller = None
        for _, connection, correlation, answer in self._committing:
            refused = _not_controller(answer)
            self.node.reply(connection, correlation, refused)
        self._committing = []

    def _control(self, connection: int, correlation: int, request: Any) -> None:
        if self.controller is None:
            if (
                isinstance(request, CreateTopic | ElectLeaders | Reassign)
                and self.quorum.leader >= 0
            ):
                self._forwards += 1
                channel = f"forward-{self._forwards}"
                self._forwarded[channel] = (connection, correlation)
                self.node.ask(self.quorum.leader, channel, request)
            else:
                self.node.reply(connection, correlation, REFUSALS[type(request)])
            return
        decision = self.controller.decide(request, self.node.now)
        if decision.changes:
            self._append_changes(decision.changes)
        self._committing.append((self.quorum.end, connection, correlation, decision.answer))
        if self.quorum.high_watermark >= self.quorum.end:
            while self._committing:
                _, conn, corr, answer = self._committing.pop(0)
                self.node.reply(conn, corr, answer)

    def _append_changes(self, changes: Sequence[Any]) -> None:
        if changes:
            self.quorum.append(changes)

    # ---- the broker's side

    def _keep_alive(self) -> None:
        """Register, then send heartbeats."""
        node = self.node
        if self.quorum.leader < 0 or node.now < self._heartbeat_at:
            return
        self._heartbeat_at = node.now + self.settings.heartbeat_ms
        if node.broker_epoch < 0:
            request = Register(self.me, self.incarnation, self.durable.clean_epoch)
            node.ask(self.quorum.leader, "register", request)
            return
        beat = BrokerHeartbeat(self.me, node.broker_epoch, node.image.offset, self.leaving)
        node.ask(self.quorum.leader, "heartbeat", beat)

    def _registered(self, answer: RegisterAnswer | None) -> None:
        if answer is not None and answer.error is KafkaError.NONE:
            self.node.broker_epoch = answer.broker_epoch
            self.durable.clean_epoch = -1
            self._heartbeat_at = self.node.now

    def _heartbeat_answered(self, answer: HeartbeatAnswer | None) -> None:
        if answer is None:
            return
        if answer.error is KafkaError.STALE_BROKER_EPOCH:
            self.node.broker_epoch = -1
        elif answer.error is KafkaError.NONE:
            self.fenced = answer.fenced
            self.may_end |= self.leaving and answer.may_end

    def _lead_on(self) -> None:
        """Look whether in-sync sets have to change; ask again where an answer did not come."""
        for tp, replica in self.node.replicas.items():
            if not replica.leads:
                continue
            if tp in self._again and self.quorum.leader >= 0:
                self._again.discard(tp)
                self._ask_alter(tp, replica)
            else:
                self._may_alter(tp)

    def _may_alter(self, tp: Partition) -> None:
        """Ask the controller for another in-sync set where the leader wants one (KIP-497)."""
        node = self.node
        replica = node.replicas[tp]
        if replica.proposed is not None or self.quorum.leader < 0:
            return
        wanted = replica.wanted_isr(node.now, node.image.alive())
        if wanted is None or node.broker_epoch < 0:
            return
        replica.proposed = wanted
        self._ask_alter(tp, replica)

    def _ask_alter(self, tp: Partition, replica: Replica) -> None:
        wanted = replica.proposed
        if wanted is None:
            return
        node, state = self.node, replica.state
        brokers = node.image.brokers
        epochs = tuple(brokers[n].epoch if n in brokers else -1 for n in wanted)
        request = AlterPartition(
            self.me,
            node.broker_epoch,
            {tp: (state.leader_epoch, state.partition_epoch, wanted, epochs)},
        )
        node.ask(self.quorum.leader, f"alter {tp[0]} {tp[1]}", request)

    def _altered(self, channel: str, answer: AlterAnswer | None) -> None:
        """The controller's answer; the new state itself comes with the metadata. One that did not come
        or was refused leaves the old set in force, and the leader asks again when it looks next."""
        _, topic, number = channel.split(" ")
        tp = (topic, int(number))
        replica = self.node.replicas.get(tp)
        if replica is None or replica.proposed is None:
            return
        error, state = (
            answer.parts.get(tp, (answer.error, None))
            if answer is not None
            else (KafkaError.REQUEST_TIMED_OUT, None)
        )
        if state is not None and error is KafkaError.NONE:
            if state.partition_epoch > replica.state.partition_epoch:
                replica.become(state, self.node.now)
            replica.proposed = None
        elif error is KafkaError.INELIGIBLE_REPLICA:
            replica.proposed = None  # refused, and will not happen
        elif error not in (KafkaError.INVALID_UPDATE_VERSION, KafkaError.FENCED_LEADER_EPOCH):
            self._again.add(tp)
        # Else newer metadata are on their way: until they come, both sets count (KIP-497).
        if replica.advance(self.node.now):
            self.serving.moved(tp)

    def _simple(self, function: Callable[[Any], Any]) -> Callable[[int, int, Any], None]:
        """A handler that answers at once."""

        def handle(connection: int, correlation: int, request: Any) -> None:
            self.node.reply(connection, correlation, function(request))

        return handle


def _not_controller(answer: Any) -> Any:
    return type(answer)(KafkaError.NOT_CONTROLLER)


REFUSALS: Final[dict[type, Any]] = {
    Register: RegisterAnswer(KafkaError.NOT_CONTROLLER),
    BrokerHeartbeat: HeartbeatAnswer(KafkaError.NOT_CONTROLLER),
    AlterPartition: AlterAnswer(KafkaError.NOT_CONTROLLER),
    AllocateIds: IdsAnswer(KafkaError.NOT_CONTROLLER),
    CreateTopic: Answer(KafkaError.NOT_CONTROLLER),
    ElectLeaders: Answer(KafkaError.NOT_CONTROLLER),
    Reassign: Answer(KafkaError.NOT_CONTROLLER),
}
