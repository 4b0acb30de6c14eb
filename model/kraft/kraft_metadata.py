"""Metadata of a KRaft node: its part in the quorum, the controller where it leads, the broker's side.

A broker registers with the active controller and sends it heartbeats; what was decided comes to it as
committed records of the metadata log, which it applies to its image.
"""

from collections.abc import Callable, Sequence
from functools import partial

from model.errors import NO_ERROR, KafkaError, Refused
from model.kraft.kafka_raft_client import LEADER, WAIT_MS, KafkaRaftClient
from model.kraft.quorum_controller import QuorumController
from model.metadata.image import MetadataImage, PartitionRecord, RemoveTopicRecord
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
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    ElectLeadersResponse,
    Partition,
)
from model.protocol.requests import AdminRequest, Answer, ControllerRequest, ErrorResponse, Handlers, Response
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
        self.isr = AlterPartitionManager(node, publisher.replica_manager, lambda: self.quorum.leader)
        self.fenced = True
        self.leaving = False
        self.may_end = False
        self._committing: list[tuple[int, Answer, ErrorResponse]] = []
        self._parked: list[tuple[int, Answer, QuorumFetch]] = []
        self._quorum_again = -1
        self._told: dict[int, int] = {}
        self._heartbeat_at = 0
        self._forwards = 0
        self._unpublished: dict[Partition, None] = {}
        self._deleted: dict[str, None] = {}
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
        handlers.at_once(Vote, lambda request: self.quorum.vote(request, self.node.now))
        handlers.at_once(BeginQuorumEpoch, self._begin_epoch)
        handlers.on(QuorumFetch, self._quorum_fetch)
        handlers.on(BrokerRegistration, self._control, BrokerRegistrationResponse)
        handlers.on(BrokerHeartbeat, self._control, BrokerHeartbeatResponse)
        handlers.on(AlterPartition, self._control, AlterPartitionResponse)
        handlers.on(AllocateProducerIds, self._control, AllocateProducerIdsResponse)
        handlers.on(CreateTopics, self._control)
        handlers.on(CreatePartitions, self._control)
        handlers.on(DeleteTopics, self._control)
        handlers.on(ElectLeaders, self._control, ElectLeadersResponse)
        handlers.on(AlterPartitionReassignments, self._control)

    # ---- events

    def start(self) -> None:
        """Join the quorum."""
        self.quorum.start(self.node.now)

    def tick(self) -> None:
        """Time-outs of the quorum, fetches that waited, decisions that are due."""
        now = self.node.now
        self.quorum.tick(now)
        if self.quorum.role != LEADER and self.controller is not None:
            self._resign()
        if 0 <= self._quorum_again <= now:
            self._quorum_again = -1
            self.quorum.fetch(now)
        self._release(late=True)
        if self.controller is not None:
            changes = self.controller.tick(now)
            if changes:
                self.quorum.append(changes)

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
        elif self._unpublished or self._deleted:
            self._publish()
        if self._parked:
            self._release()
        if quorum.out:
            sent, quorum.out = quorum.out, []
            for node, request in sent:
                match request:
                    case QuorumFetch():
                        self.node.ask(node, "quorum", request, partial(self._quorum_fetched, node))
                    case Vote():
                        self.node.ask(node, "vote", request, partial(self._voted, node))
                    case BeginQuorumEpoch():
                        self.node.ask(node, "begin", request)

    def _apply(self) -> None:
        """Apply committed records; take over what concerns this broker."""
        image, entries = self.node.image, self.quorum.entries
        while image.offset < self.quorum.high_watermark:
            change = entries[image.offset][1]
            image.apply(change)
            if isinstance(change, PartitionRecord) and self.is_broker:
                self._unpublished[change.partition] = None
            elif isinstance(change, RemoveTopicRecord) and self.is_broker:
                self._deleted[change.topic] = None
        self._publish()
        self._answer_committed()

    def _answer_committed(self) -> None:
        while self._committing and self._committing[0][0] <= self.quorum.high_watermark:
            _, answer, response = self._committing.pop(0)
            answer(response)

    def _publish(self) -> None:
        """Act on what was applied; after a start not before this broker has caught up with its own
        registration (BrokerLifecycleManager.initialCatchUpFuture). What it led before, it would lead with
        a log that may have lost its end."""
        image = self.node.image
        self._caught_up = self._caught_up or 0 <= self.node.broker_epoch < image.offset
        if self._caught_up:
            changed, self._unpublished = self._unpublished, {}
            deleted, self._deleted = self._deleted, {}
            self.publisher.deleted(deleted)
            known = ((tp, image.partitions.get(tp)) for tp in changed)
            self.publisher.became((tp, state) for tp, state in known if state is not None)

    # ---- the quorum's side

    def _quorum_fetched(self, node: int, answer: QuorumFetchResponse | None) -> None:
        if self.quorum.fetched(node, answer, self.node.now):
            self._quorum_again = self.node.now + TICK_MS

    def _voted(self, node: int, answer: VoteResponse | None) -> None:
        if answer is not None:
            self.quorum.voted_by(node, answer, self.node.now)

    def _begin_epoch(self, request: BeginQuorumEpoch) -> ErrorResponse:
        self.quorum.begin(request, self.node.now)
        return ErrorResponse(NO_ERROR)

    def _quorum_fetch(self, request: QuorumFetch, answer: Answer) -> None:
        found = self.quorum.serve(request, self.node.now)
        if found is None:
            self._parked.append((self.node.now + WAIT_MS, answer, request))
        else:
            answer(found)

    def _release(self, *, late: bool = False) -> None:
        """Answer fetches of the metadata log that have something to bring now, or waited long."""
        quorum, left = self.quorum, []
        end, high_watermark, told = quorum.end, quorum.high_watermark, self._told
        for entry in self._parked:
            until, answer, request = entry
            news = end > request.end or high_watermark > told.get(request.replica, -1)
            news = news or quorum.role != LEADER
            if news or (late and until <= self.node.now):
                told[request.replica] = high_watermark
                answer(quorum.held(request))
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
        for _, answer, response in self._committing:
            answer(type(response)(KafkaError.NOT_CONTROLLER))
        self._committing = []

    def _control(self, request: ControllerRequest[Response], answer: Answer) -> None:
        if self.controller is None:
            if not isinstance(request, AdminRequest) or self.quorum.leader < 0:
                raise Refused(KafkaError.NOT_CONTROLLER)
            self._forwards += 1
            lost = ErrorResponse(KafkaError.REQUEST_TIMED_OUT)
            channel = f"forward-{self._forwards}"
            self.node.ask(self.quorum.leader, channel, request, lambda told: answer(told or lost))
            return
        decision = self.controller.decide(request, self.node.now)
        if decision.changes:
            self.quorum.append(decision.changes)
        self._committing.append((self.quorum.end, answer, decision.answer))
        if self.quorum.high_watermark >= self.quorum.end:
            self._answer_committed()

    # ---- the broker's side

    def keep_alive(self) -> None:
        """Register, then send heartbeats."""
        node = self.node
        if self.quorum.leader < 0 or node.now < self._heartbeat_at:
            return
        self._heartbeat_at = node.now + node.settings.heartbeat_ms
        if node.broker_epoch < 0:
            request = BrokerRegistration(node.me, self.incarnation, self.durable.clean_epoch)
            node.ask(self.quorum.leader, "register", request, self._registered)
            return
        beat = BrokerHeartbeat(node.me, node.broker_epoch, node.image.offset, self.leaving)
        node.ask(self.quorum.leader, "heartbeat", beat, self._heartbeat_answered)

    def _registered(self, answer: BrokerRegistrationResponse | None) -> None:
        if answer is not None and answer.error is NO_ERROR:
            self.node.broker_epoch = answer.broker_epoch
            self.durable.clean_epoch = -1
            self._heartbeat_at = self.node.now

    def _heartbeat_answered(self, answer: BrokerHeartbeatResponse | None) -> None:
        if answer is None:
            return
        if answer.error is KafkaError.STALE_BROKER_EPOCH:
            self.node.broker_epoch = -1
        elif answer.error is NO_ERROR:
            self.fenced = answer.fenced
            self.may_end |= self.leaving and answer.may_end
