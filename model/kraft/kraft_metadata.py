"""Metadata of a KRaft node: its part in the quorum, the controller where it leads, the broker's side.

A broker registers with the active controller and sends it heartbeats; what was decided comes to it as
committed records of the metadata log, which it applies to its image.
"""

from collections.abc import Callable, Sequence
from typing import Final

from model.errors import KafkaError
from model.kraft.kafka_raft_client import LEADER, WAIT_MS, KafkaRaftClient
from model.kraft.quorum_controller import QuorumController
from model.metadata.image import MetadataImage, PartitionRecord
from model.protocol.controller_messages import (
    AllocateProducerIds,
    AllocateProducerIdsResponse,
    AlterPartition,
    AlterPartitionResponse,
    BeginQuorumEpoch,
    BrokerHeartbeat,
    BrokerHeartbeatResponse,
    BrokerRegistration,
    BrokerRegistrationResponse,
    QuorumFetch,
    QuorumFetchResponse,
    Vote,
    VoteResponse,
)
from model.protocol.messages import (
    AlterPartitionReassignments,
    CreateTopics,
    ElectLeaders,
    ElectLeadersResponse,
    ErrorResponse,
    Partition,
)
from model.protocol.requests import ControllerRequest, ControllerResponse, Handlers, Response
from model.replication.alter_partition_manager import AlterPartitionManager
from model.server.broker_metadata_publisher import TICK_MS, BrokerMetadataPublisher


class KRaftMetadata:
    """See the module. broker: the node is one, not only a controller."""

    def __init__(
        self,
        publisher: BrokerMetadataPublisher,
        voters: Sequence[int],
        draw: Callable[[int, int], int],
        incarnation: int,
        *,
        broker: bool,
    ) -> None:
        node, durable = publisher.node, publisher.durable
        self.node = node
        self.publisher = publisher
        self.durable = durable
        self.incarnation = incarnation
        self.is_broker = broker
        self.quorum = KafkaRaftClient(node.me, voters, node.settings, draw)
        self.quorum.epoch, self.quorum.voted = durable.quorum_epoch, durable.voted
        self.quorum.entries = durable.entries
        self.controller: QuorumController | None = None
        self.alter_partition = AlterPartitionManager(
            node, publisher.replica_manager, lambda: self.quorum.leader
        )
        self.fenced = True
        self.leaving = False
        self.may_end = False
        self._committing: list[tuple[int, int, int, ControllerResponse]] = []
        self._parked: list[tuple[int, int, int, QuorumFetch]] = []
        self._quorum_again = -1
        self._told: dict[int, int] = {}
        self._heartbeat_at = 0
        self._forwarded: dict[str, tuple[int, int]] = {}
        self._forwards = 0
        self._unpublished: dict[Partition, None] = {}
        self._caught_up = False

    @property
    def controller_id(self) -> int:
        """The quorum's leader."""
        return self.quorum.leader

    @property
    def administrator(self) -> int:
        """The quorum's leader."""
        return self.quorum.leader

    @property
    def controls(self) -> bool:
        """Whether this node leads the quorum."""
        return self.controller is not None

    @property
    def ready(self) -> bool:
        """It has applied the metadata up to its own registration."""
        return self._caught_up

    def register(self, handlers: Handlers) -> None:
        """Add the handlers of requests of voters and observers, and of those to the controller."""
        handlers.on(Vote, self._vote)
        handlers.on(BeginQuorumEpoch, self._begin_epoch)
        handlers.on(QuorumFetch, self._quorum_fetch)
        handlers.on(BrokerRegistration, self._control)
        handlers.on(BrokerHeartbeat, self._control)
        handlers.on(AlterPartition, self._control)
        handlers.on(AllocateProducerIds, self._control)
        handlers.on(CreateTopics, self._control)
        handlers.on(ElectLeaders, self._control)
        handlers.on(AlterPartitionReassignments, self._control)

    # ---- events

    def start(self) -> None:
        """Join the quorum."""
        self.quorum.start(self.node.now)

    def answered(self, node: int, channel: str, answer: Response | None) -> bool:
        """See `ClusterMetadata`."""
        now = self.node.now
        if channel == "quorum":
            assert isinstance(answer, QuorumFetchResponse | None)
            if self.quorum.fetched(node, answer, now):
                self._quorum_again = now + TICK_MS
        elif channel == "vote":
            if isinstance(answer, VoteResponse):
                self.quorum.voted_by(node, answer, now)
        elif channel == "heartbeat":
            assert isinstance(answer, BrokerHeartbeatResponse | None)
            self._heartbeat_answered(answer)
        elif channel == "register":
            assert isinstance(answer, BrokerRegistrationResponse | None)
            self._registered(answer)
        elif channel.startswith("alter "):
            assert isinstance(answer, AlterPartitionResponse | None)
            self.alter_partition.answered(channel, answer)
        elif channel in self._forwarded:
            connection, correlation = self._forwarded.pop(channel)
            self.node.reply(connection, correlation, answer or ErrorResponse(KafkaError.REQUEST_TIMED_OUT))
        else:
            return False
        return True

    def tick(self) -> None:
        """Time-outs of the quorum, fetches that waited, decisions that are due."""
        now = self.node.now
        self.quorum.tick(now)
        if self.quorum.role != LEADER and self.controller is not None:
            self._resign()
        if 0 <= self._quorum_again <= now:
            self._quorum_again = -1
            self.quorum.again(now)
        self._release(late=True)
        if self.controller is not None:
            changes = self.controller.tick(now)
            if changes:
                self.quorum.append(changes)

    def lead_on(self) -> None:
        """See `ClusterMetadata`."""
        self.alter_partition.lead_on()

    def fetched(self, tp: Partition, follower: int) -> None:
        """See `ClusterMetadata`."""
        self.alter_partition.fetched(tp, follower)

    def leave(self) -> None:
        """The next heartbeat says that this broker wants to go."""
        self.leaving = True
        self._heartbeat_at = self.node.now
        self.may_end |= not self.is_broker or self.node.broker_epoch < 0

    def end(self) -> None:
        """Remember the broker epoch, by which the next start proves that this end was clean."""
        self.durable.clean_epoch = self.node.broker_epoch

    def after(self) -> None:
        """What the quorum brought, and what it wants sent."""
        quorum = self.quorum
        if quorum.role == LEADER and self.controller is None:
            self._take_over()
        elif quorum.role != LEADER and self.controller is not None:
            self._resign()
        self.durable.quorum_epoch, self.durable.voted = quorum.epoch, quorum.voted
        if self.node.image.offset < quorum.high_watermark:
            self._apply()
        elif self._unpublished:
            self._publish()
        self._release()
        if quorum.out:
            sent, quorum.out = quorum.out, []
            for node, request in sent:
                channel = "quorum" if isinstance(request, QuorumFetch) else "vote"
                if isinstance(request, BeginQuorumEpoch):
                    channel = "begin"
                self.node.ask(node, channel, request)

    def _apply(self) -> None:
        """Apply committed records; take over what concerns this broker."""
        image, entries = self.node.image, self.quorum.entries
        while image.offset < self.quorum.high_watermark:
            change = entries[image.offset][1]
            image.apply(change)
            if isinstance(change, PartitionRecord) and self.is_broker:
                self._unpublished[change.partition] = None
        self._publish()
        while self._committing and self._committing[0][0] <= self.quorum.high_watermark:
            _, connection, correlation, answer = self._committing.pop(0)
            self.node.reply(connection, correlation, answer)

    def _publish(self) -> None:
        """Act on what was applied; after a start not before this broker has caught up with its own
        registration (BrokerLifecycleManager.initialCatchUpFuture). What it led before, it would lead with
        a log that may have lost its end."""
        image = self.node.image
        self._caught_up = self._caught_up or 0 <= self.node.broker_epoch < image.offset
        if self._caught_up:
            changed, self._unpublished = self._unpublished, {}
            self.publisher.became((tp, image.partitions[tp]) for tp in changed)

    # ---- the quorum's side

    def _vote(self, connection: int, correlation: int, request: Vote) -> None:
        self.node.reply(connection, correlation, self.quorum.vote(request, self.node.now))

    def _begin_epoch(self, connection: int, correlation: int, request: BeginQuorumEpoch) -> None:
        self.quorum.begin(request, self.node.now)
        self.node.reply(connection, correlation, ErrorResponse(KafkaError.NONE))

    def _quorum_fetch(self, connection: int, correlation: int, request: QuorumFetch) -> None:
        answer = self.quorum.serve(request, self.node.now)
        if answer is None:
            until = self.node.now + WAIT_MS
            self._parked.append((until, connection, correlation, request))
        else:
            self.node.reply(connection, correlation, answer)

    def _release(self, *, late: bool = False) -> None:
        """Answer fetches of the metadata log that have something to bring now, or waited long."""
        if not self._parked:
            return
        quorum, left = self.quorum, []
        for entry in self._parked:
            until, connection, correlation, request = entry
            news = quorum.role != LEADER or quorum.end > request.end
            news = news or quorum.high_watermark > self._told.get(request.replica, -1)
            if news or (late and until <= self.node.now):
                self._told[request.replica] = quorum.high_watermark
                self.node.reply(connection, correlation, quorum.held(request))
            else:
                left.append(entry)
        self._parked = left

    # ---- the controller's side

    def _take_over(self) -> None:
        image = MetadataImage()
        for _, change in self.quorum.entries:
            image.apply(change)
        self.controller = QuorumController(self.node.settings, image)

    def _resign(self) -> None:
        self.controller = None
        for _, connection, correlation, answer in self._committing:
            refused = type(answer)(KafkaError.NOT_CONTROLLER)
            self.node.reply(connection, correlation, refused)
        self._committing = []

    def _control(self, connection: int, correlation: int, request: ControllerRequest) -> None:
        if self.controller is None:
            if (
                isinstance(request, CreateTopics | ElectLeaders | AlterPartitionReassignments)
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
            self.quorum.append(decision.changes)
        self._committing.append((self.quorum.end, connection, correlation, decision.answer))
        if self.quorum.high_watermark >= self.quorum.end:
            while self._committing:
                _, conn, corr, answer = self._committing.pop(0)
                self.node.reply(conn, corr, answer)

    # ---- the broker's side

    def keep_alive(self) -> None:
        """Register, then send heartbeats."""
        node = self.node
        if self.quorum.leader < 0 or node.now < self._heartbeat_at:
            return
        self._heartbeat_at = node.now + node.settings.heartbeat_ms
        if node.broker_epoch < 0:
            request = BrokerRegistration(node.me, self.incarnation, self.durable.clean_epoch)
            node.ask(self.quorum.leader, "register", request)
            return
        beat = BrokerHeartbeat(node.me, node.broker_epoch, node.image.offset, self.leaving)
        node.ask(self.quorum.leader, "heartbeat", beat)

    def _registered(self, answer: BrokerRegistrationResponse | None) -> None:
        if answer is not None and answer.error is KafkaError.NONE:
            self.node.broker_epoch = answer.broker_epoch
            self.durable.clean_epoch = -1
            self._heartbeat_at = self.node.now

    def _heartbeat_answered(self, answer: BrokerHeartbeatResponse | None) -> None:
        if answer is None:
            return
        if answer.error is KafkaError.STALE_BROKER_EPOCH:
            self.node.broker_epoch = -1
        elif answer.error is KafkaError.NONE:
            self.fenced = answer.fenced
            self.may_end |= self.leaving and answer.may_end


REFUSALS: Final[dict[type, ControllerResponse]] = {
    BrokerRegistration: BrokerRegistrationResponse(KafkaError.NOT_CONTROLLER),
    BrokerHeartbeat: BrokerHeartbeatResponse(KafkaError.NOT_CONTROLLER),
    AlterPartition: AlterPartitionResponse(KafkaError.NOT_CONTROLLER),
    AllocateProducerIds: AllocateProducerIdsResponse(KafkaError.NOT_CONTROLLER),
    CreateTopics: ErrorResponse(KafkaError.NOT_CONTROLLER),
    ElectLeaders: ElectLeadersResponse(KafkaError.NOT_CONTROLLER),
    AlterPartitionReassignments: ErrorResponse(KafkaError.NOT_CONTROLLER),
}
