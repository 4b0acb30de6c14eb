"""The active controller of a KRaft cluster: what it decides, as records of the metadata log.

Every decision is a list of records and an answer that may be given once they are committed. The
controller applies its records at once, so that the next decision sees them; one that loses the quorum is
thrown away with what was not committed, and its successor begins from the log.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from model.errors import NO_ERROR, KafkaError
from model.metadata.election import change
from model.metadata.image import (
    BrokerRegistrationChangeRecord,
    MetadataImage,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
)
from model.metadata.striped_replica_placer import UsableBroker, place
from model.protocol.controller_messages import (
    PRODUCER_ID_BLOCK_SIZE,
    AllocateProducerIds,
    AllocateProducerIdsResponse,
    AlterPartition,
    AlterPartitionResponse,
    BrokerHeartbeat,
    BrokerHeartbeatResponse,
    BrokerRegistration,
    BrokerRegistrationResponse,
)
from model.protocol.messages import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    ElectLeadersResponse,
    Partition,
    PartitionState,
)
from model.protocol.requests import ControllerRequest, ErrorResponse, Response
from model.replication.node import settings_of
from model.settings import Settings


class ControllerDecision(NamedTuple):
    """Records to commit, and the answer to give when they are."""

    changes: list[MetadataRecord]
    answer: ErrorResponse


@dataclass(slots=True)
class QuorumController:
    """Begins with an image of the whole log. `sessions`: when each broker was last heard of. `applied`:
    metadata that each said to have. `handed_over`: end of the log when the leaderships of a broker that wants
    to go had been given away. `balanced_ms`: when it last looked for leaders that are not the preferred ones,
    -1 = not yet."""

    settings: Settings
    image: MetadataImage
    sessions: dict[int, int] = field(default_factory=dict)
    applied: dict[int, int] = field(default_factory=dict)
    handed_over: dict[int, int] = field(default_factory=dict)
    balanced_ms: int = -1
    _made: list[MetadataRecord] = field(default_factory=list)

    def decide(self, request: ControllerRequest[Response], now: int) -> ControllerDecision:
        """Handle one request."""
        self._made = []
        answer = self._answer(request, now)
        return ControllerDecision(self._made, answer)

    def tick(self, now: int) -> list[MetadataRecord]:
        """Fence brokers that were not heard of for a session; give leaders back where that is due."""
        self._made = []
        for broker, known in sorted(self.image.brokers.items()):
            # A new controller gives everyone a whole session from its own begin.
            seen = self.sessions.setdefault(broker, now)
            if not known.fenced and now - seen > self.settings.session_ms:
                self._fence(broker)
        every = self.settings.preferred_check_ms
        if every and self.balanced_ms < 0:
            self.balanced_ms = now
        elif every and now - self.balanced_ms >= every:
            self.balanced_ms = now
            self._elect(ElectLeaders(tuple(sorted(self.image.partitions))))
        return self._made

    def _answer(self, request: ControllerRequest[Response], now: int) -> ErrorResponse:
        match request:
            case BrokerHeartbeat():
                return self._heartbeat(request, now)
            case AlterPartition():
                return self._alter(request)
            case BrokerRegistration():
                return self._register(request, now)
            case CreateTopics():
                return self._create(request)
            case CreatePartitions():
                return self._add_partitions(request)
            case DeleteTopics():
                return self._delete(request)
            case ElectLeaders():
                return self._elect(request)
            case AlterPartitionReassignments():
                return self._reassign(request)
            case AllocateProducerIds():
                return self._allocate(request.broker)
        raise AssertionError(f"unknown request {request!r}")

    # ---- brokers

    def _register(self, request: BrokerRegistration, now: int) -> BrokerRegistrationResponse:
        known = self.image.brokers.get(request.broker)
        if known is not None and known.incarnation != request.incarnation:
            heard = self.sessions.get(request.broker, -1)
            alive = not known.fenced and heard >= 0 and now - heard <= self.settings.session_ms
            if alive:  # its predecessor's session lasts
                return BrokerRegistrationResponse(KafkaError.DUPLICATE_BROKER_REGISTRATION)
        elif known is not None:
            return BrokerRegistrationResponse(NO_ERROR, known.epoch)
        unclean = known is not None and request.clean_epoch != known.epoch
        if known is not None and not known.fenced:
            self._fence(request.broker)
        self.sessions[request.broker] = now
        self.applied.pop(request.broker, None)
        self.handed_over.pop(request.broker, None)
        self._apply(RegisterBrokerRecord(request.broker, request.incarnation))
        cleaned = self.settings.era.eligible_replicas and "unclean-stays-eligible" not in self.settings.bugs
        if unclean and cleaned:
            self._without(request.broker, dirty=True)
        return BrokerRegistrationResponse(NO_ERROR, self.image.brokers[request.broker].epoch)

    def _heartbeat(self, request: BrokerHeartbeat, now: int) -> BrokerHeartbeatResponse:
        known = self.image.brokers.get(request.broker)
        if known is None or known.epoch != request.broker_epoch:
            return BrokerHeartbeatResponse(KafkaError.STALE_BROKER_EPOCH)
        self.sessions[request.broker] = now
        self.applied[request.broker] = request.offset
        if request.shut_down:
            may_end = known.fenced or self._leave(request.broker)
            return BrokerHeartbeatResponse(NO_ERROR, known.fenced, may_end)
        if known.fenced and request.offset > known.epoch:
            self._apply(BrokerRegistrationChangeRecord(request.broker, False, known.leaving))
            self._each(lambda state: state.leader < 0)
        return BrokerHeartbeatResponse(NO_ERROR, self.image.brokers[request.broker].fenced)

    def _leave(self, broker: int) -> bool:
        """Take its leaderships from a broker that wants to go; whether it may. One that led nothing may at
        once, else all others have to know first who leads now (BrokerHeartbeatManager.nextState). Who may
        go is fenced."""
        if any(state.leader == broker for state in self.image.partitions.values()):
            self._apply(BrokerRegistrationChangeRecord(broker, self.image.brokers[broker].fenced, True))
            self._without(broker)
            self.handed_over[broker] = self.image.offset
            return False
        if self.image.brokers[broker].leaving:
            since = self.handed_over.setdefault(broker, self.image.offset)
            others = self.image.electable() - {broker}
            if any(self.applied.get(other, -1) < since for other in others):
                return False
        self._fence(broker)
        return True

    def _fence(self, broker: int) -> None:
        self._apply(BrokerRegistrationChangeRecord(broker, True, self.image.brokers[broker].leaving))
        if "fenced-leads-on" not in self.settings.bugs:
            self._without(broker)

    def _without(self, broker: int, *, dirty: bool = False) -> None:
        """Take a broker out of leadership and in-sync sets."""
        for tp, state in self._sorted():
            if broker in state.isr or broker == state.leader or (dirty and broker in state.elr):
                isr = [n for n in state.isr if n != broker]
                after = self._changed(tp, state, without=broker, isr=isr, dirty=broker if dirty else -1)
                self._set(tp, state, after)

    def _each(self, where: Callable[[PartitionState], bool]) -> None:
        """Elect again where it is possible."""
        for tp, state in self._sorted():
            if where(state):
                self._set(tp, state, self._changed(tp, state))

    # ---- partitions

    def _alter(self, request: AlterPartition) -> AlterPartitionResponse:
        known = self.image.brokers.get(request.broker)
        if known is None or known.epoch != request.broker_epoch:
            return AlterPartitionResponse(KafkaError.STALE_BROKER_EPOCH)
        answers = {tp: self._alter_one(tp, request.broker, *wanted) for tp, wanted in request.parts.items()}
        return AlterPartitionResponse(NO_ERROR, answers)

    def _alter_one(
        self,
        tp: Partition,
        broker: int,
        leader_epoch: int,
        partition_epoch: int,
        isr: tuple[int, ...],
        epochs: tuple[int, ...],
    ) -> tuple[KafkaError, PartitionState | None]:
        state = self.image.partitions.get(tp)
        if state is None:
            return KafkaError.UNKNOWN_TOPIC_OR_PARTITION, None
        fenced = state.leader != broker or leader_epoch != state.leader_epoch
        if fenced and "alter-unfenced" not in self.settings.bugs:
            return KafkaError.FENCED_LEADER_EPOCH, None
        # A change of the leader is one of the partition too: who is not fenced is not asked for its version.
        asked = not fenced and "alter-unversioned" not in self.settings.bugs
        if asked and partition_epoch != state.partition_epoch:
            return KafkaError.INVALID_UPDATE_VERSION, None
        for node, epoch in zip(isr, epochs, strict=True):
            member = self.image.brokers.get(node)
            if node in state.isr:
                continue
            away = member is None or member.fenced or member.leaving
            if away or epoch not in (-1, self.image.brokers[node].epoch):  # KIP-841, KIP-903
                return KafkaError.INELIGIBLE_REPLICA, None
        wanted = [n for n in isr if n in self.image.alive() or n in state.isr]
        after = self._changed(tp, state, isr=wanted)
        self._set(tp, state, after)
        return NO_ERROR, after

    def _create(self, request: CreateTopics) -> ErrorResponse:
        if request.topic in self.image.topics:
            return ErrorResponse(KafkaError.TOPIC_ALREADY_EXISTS)
        usable, electable = self._usable(), self.image.electable()
        if any(electable.isdisjoint(nodes) for nodes in request.replicas):
            return ErrorResponse(KafkaError.INVALID_REPLICA_ASSIGNMENT)
        if len(usable) < request.replication or not electable:
            return ErrorResponse(KafkaError.INVALID_REPLICATION_FACTOR)
        made = tuple(map(tuple, request.replicas)) or place(
            usable, partitions=request.partitions, replication=request.replication
        )
        self._make(request.topic, dict(enumerate(made)))
        return ErrorResponse(NO_ERROR)

    def _usable(self) -> list[UsableBroker]:
        """Brokers that get replicas of new partitions: all but those on their way out. One that shut down in
        order is fenced, and on it no more (BrokerHeartbeatManager.UsableBrokerIterator). No broker of the
        model is in a rack."""
        brokers = self.image.brokers.items()
        return [UsableBroker(n, fenced=one.fenced) for n, one in brokers if one.fenced or not one.leaving]

    def _delete(self, request: DeleteTopics) -> ErrorResponse:
        if request.topic not in self.image.topics:
            return ErrorResponse(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
        self._apply(RemoveTopicRecord(request.topic))
        return ErrorResponse(NO_ERROR)

    def _add_partitions(self, request: CreatePartitions) -> ErrorResponse:
        """As many replicas each as the first partition has (ReplicationControlManager.createPartitions)."""
        have = sum(topic == request.topic for topic, _ in self.image.partitions)
        if not have:
            return ErrorResponse(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
        if request.count <= have:
            return ErrorResponse(KafkaError.INVALID_PARTITIONS)
        usable = self._usable()
        replication = len(self.image.partitions[request.topic, 0].replicas)
        if len(usable) < replication or not self.image.electable():
            return ErrorResponse(KafkaError.INVALID_REPLICATION_FACTOR)
        more = request.count - have
        made = place(usable, partitions=more, replication=replication, draw=lambda n: have % n)
        self._make(request.topic, dict(enumerate(made, have)))
        return ErrorResponse(NO_ERROR)

    def _make(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """New partitions of a topic, led by the first of their replicas that lives."""
        brokers = self.image.electable()
        for number, nodes in replicas.items():
            alive = tuple(sorted(n for n in nodes if n in brokers))
            leader = next(n for n in nodes if n in brokers)
            state = PartitionState(tuple(nodes), alive, leader, 0, 0)
            self._apply(PartitionRecord((topic, number), state))

    def _elect(self, request: ElectLeaders) -> ElectLeadersResponse:
        parts = {tp: self._elect_one(tp, unclean=request.unclean) for tp in request.partitions}
        return ElectLeadersResponse(NO_ERROR, parts)

    def _elect_one(self, tp: Partition, *, unclean: bool) -> KafkaError:
        """An unclean election is for partitions without a leader (ReplicationControlManager.electLeader)."""
        state = self.image.partitions.get(tp)
        if state is None:
            return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        if state.leader >= 0 if unclean else state.leader == state.replicas[0]:
            return KafkaError.ELECTION_NOT_NEEDED
        after = self._changed(tp, state, preferred=not unclean, unclean=unclean)
        if self._set(tp, state, after):
            return NO_ERROR
        if unclean:
            return KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE
        return KafkaError.PREFERRED_LEADER_NOT_AVAILABLE

    def _reassign(self, request: AlterPartitionReassignments) -> AlterPartitionReassignmentsResponse:
        """All changes are of the state before the request."""
        made: list[MetadataRecord] = []
        parts = {tp: self._reassign_one(tp, replicas, made) for tp, replicas in request.replicas.items()}
        for record in made:
            self._apply(record)
        return AlterPartitionReassignmentsResponse(NO_ERROR, parts)

    def _reassign_one(
        self, tp: Partition, replicas: Sequence[int] | None, made: list[MetadataRecord]
    ) -> KafkaError:
        state = self.image.partitions.get(tp)
        if state is None:
            return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        if replicas is None:
            return self._cancel(tp, state, made)
        adding = tuple(sorted(set(replicas) - {*state.replicas}))
        removing = tuple(sorted({*state.replicas} - {*replicas}))
        whole = (*replicas, *removing)
        # Of a reassignment before it stays what it does not say again (changePartitionReassignment).
        after = self._changed(
            tp, state, replicas=whole, adding=adding or state.adding, removing=removing or state.removing
        )
        if after != state:
            made.append(PartitionRecord(tp, after))
        return NO_ERROR

    def _cancel(self, tp: Partition, state: PartitionState, made: list[MetadataRecord]) -> KafkaError:
        """What was added goes (PartitionReassignmentRevert); refused where only that is in sync."""
        if not state.adding and not state.removing:
            return KafkaError.NO_REASSIGNMENT_IN_PROGRESS
        replicas = tuple(n for n in state.replicas if n not in state.adding)
        isr = tuple(n for n in state.isr if n not in state.adding)
        if not isr and not settings_of(self.settings, tp[0]).unclean:
            return KafkaError.INVALID_REPLICA_ASSIGNMENT
        isr = isr or replicas[:1]
        after = self._changed(tp, state, isr=isr, replicas=replicas, adding=(), removing=())
        made.append(PartitionRecord(tp, after))
        return NO_ERROR

    def _allocate(self, broker: int) -> AllocateProducerIdsResponse:
        first = self.image.next_id
        overlap = "producer-id-blocks-overlap" in self.settings.bugs
        self._apply(ProducerIdsRecord(first + PRODUCER_ID_BLOCK_SIZE - overlap, broker))
        return AllocateProducerIdsResponse(NO_ERROR, first, PRODUCER_ID_BLOCK_SIZE)

    # ---- records

    def _sorted(self) -> Iterable[tuple[Partition, PartitionState]]:
        return sorted(self.image.partitions.items())

    def _changed(
        self, tp: Partition, state: PartitionState, *, without: int = -1, **how: Any
    ) -> PartitionState:
        """The state that follows (`election.change`), where a broker does not count as electable."""
        electable = self.image.electable() - {without}
        first = len(self.image.partitions.get((tp[0], 0), state).replicas)
        return change(state, settings_of(self.settings, tp[0]), electable, first=first, **how)

    def _set(self, tp: Partition, before: PartitionState, after: PartitionState) -> bool:
        if after == before:
            return False
        self._apply(PartitionRecord(tp, after))
        return True

    def _apply(self, record: MetadataRecord) -> None:
        self.image.apply(record)
        self._made.append(record)
