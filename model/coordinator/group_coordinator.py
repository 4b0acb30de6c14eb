"""The group coordinator: membership and assignments of consumer groups.

A broker coordinates the groups that fall into the partitions of `__consumer_offsets` that it leads. A
generation is written to the log before its assignments are answered.

Left out: Kafka begins another generation where assignments could not be written
(resetAndPropagateAssignmentWithError); here members ask again in the same one. In 2.4 and before it answers
heartbeats with REBALANCE_IN_PROGRESS until the assignments are there, and removes no member for not asking
for its own; from 3.3 on it removes such members of a stable generation, too. Here all versions are alike:
such a member is removed while the others wait.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from model.coordinator.classic_group import COMPLETING, EMPTY, PREPARING, STABLE, ClassicGroup, GroupRecord
from model.coordinator.consumer_group_records import group_tombstones
from model.coordinator.group_metadata_manager import GroupMetadataManager, LoadedPartition
from model.errors import NO_ERROR, KafkaError, Refused
from model.protocol.coordinator_messages import (
    DescribedMember,
    DescribeGroup,
    DescribeGroupResponse,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    SyncGroup,
    SyncGroupResponse,
)
from model.protocol.messages import Partition
from model.protocol.requests import Answer, ErrorResponse, Handlers

DEAD: Final = "Dead"
"""What a coordinator says of the state of a group that does not exist."""


class GroupCoordinator:
    """See the module."""

    def __init__(self, log: GroupMetadataManager) -> None:
        self.node = log.node
        self.bugs = log.bugs
        self.log = log
        self._names = 0

    def register(self, handlers: Handlers) -> None:
        """Add its handlers."""
        handlers.on(JoinGroup, self.join, JoinGroupResponse)
        handlers.on(SyncGroup, self.sync, SyncGroupResponse)
        handlers.at_once(Heartbeat, self._heartbeat)
        handlers.at_once(LeaveGroup, self._leave)
        handlers.at_once(DescribeGroup, self._describe, DescribeGroupResponse)

    def join(self, request: JoinGroup, answer: Answer) -> None:
        """Key 11: answered when all members have joined the rebalance that it causes."""
        number, loaded = self.log.at(request.group)
        if request.session_ms < self.node.settings.group_session_min_ms:
            raise Refused(KafkaError.INVALID_SESSION_TIMEOUT)
        self._retire(number, loaded, request.group)
        group = loaded.groups.get(request.group)
        if request.member and (group is None or request.member not in group.members):
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
        if group is not None and not group.accepts(request):
            raise Refused(KafkaError.INCONSISTENT_GROUP_PROTOCOL)
        group = loaded.groups.setdefault(request.group, ClassicGroup(request.group))
        member = request.member
        if not member:
            self._names += 1  # unique for all times: the epoch rises with each coordinator
            member = f"{request.group}-{self.log.epochs[number]}-{self._names}"
        if group.join(member, request, answer, self.node.now):
            self._tell(group, member, answer)
            return
        if group.state is not PREPARING:
            self._rebalance(group)
        self._go_on(number, group)

    def _retire(self, number: int, loaded: LoadedPartition, name: str) -> None:
        """A consumer group (KIP-848) without members makes room (maybeDeleteEmptyConsumerGroup).

        Raises: Refused (INCONSISTENT_GROUP_PROTOCOL).
        """
        consumers = loaded.consumer_groups.get(name)
        if consumers is None:
            return
        if consumers.members:
            raise Refused(KafkaError.INCONSISTENT_GROUP_PROTOCOL)
        if self.log.write(number, group_tombstones(name), lambda _: None):
            del loaded.consumer_groups[name]
            loaded.committed.pop(name, None)

    def _rebalance(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            if member.syncing is not None:
                member.syncing(SyncGroupResponse(KafkaError.REBALANCE_IN_PROGRESS))
                member.syncing = None
        group.prepare(self.node.now)

    def _go_on(self, number: int, group: ClassicGroup) -> None:
        """Begin the next generation when all members have joined, or the time has run out."""
        if group.state is not PREPARING:
            return
        if not group.everybody_joined() and self.node.now < group.until:
            return
        group.next_generation(self.node.now, bump="generation-not-bumped" not in self.bugs)
        for name, member in group.members.items():
            if member.joining is not None:
                self._tell(group, name, member.joining)
                member.joining = None
        if group.state is EMPTY:
            self.log.append(number, (self._record(group),), self.log.timeout_ms, lambda _: None)

    def _record(self, group: ClassicGroup) -> GroupRecord:
        """What the log gets of a generation."""
        record = group.record()
        return record._replace(generation=1) if "generation-logged-as-first" in self.bugs else record

    def _tell(self, group: ClassicGroup, member: str, answer: Answer) -> None:
        leads = member == group.leader
        told = {name: m.topics for name, m in group.members.items()} if leads else {}
        protocol = group.protocol
        metadata = group.metadata() if leads and protocol else {}
        answer(JoinGroupResponse(NO_ERROR, group.generation, member, group.leader, told, protocol, metadata))

    def sync(self, request: SyncGroup, answer: Answer) -> None:
        """Key 14: the partitions of the member; the group leader brings them."""
        number, loaded = self.log.at(request.group)
        group = self.log.member(loaded, request.group, request.member, request.generation)
        if group.state is PREPARING:
            raise Refused(KafkaError.REBALANCE_IN_PROGRESS)
        member = group.members[request.member]
        member.heard = self.node.now
        if group.state is STABLE:
            answer(SyncGroupResponse(NO_ERROR, member.assigned))
            return
        member.syncing = answer
        if request.member == group.leader:
            self._assign(number, group, request.assignments)

    def _assign(
        self, number: int, group: ClassicGroup, assignments: Mapping[str, Sequence[Partition]]
    ) -> None:
        for name, member in group.members.items():
            member.assigned = tuple(assignments.get(name, ()))
        if "partitions-given-twice" in self.bugs:  # every member gets all partitions
            every = tuple(sorted({tp for given in assignments.values() for tp in given}))
            for member in group.members.values():
                member.assigned = every
        generation = group.generation

        def written(error: KafkaError) -> None:
            if group.generation != generation or group.state is not COMPLETING:
                return  # another rebalance began
            if error is not NO_ERROR:
                group.dismiss(error)
                return
            group.state = STABLE
            for member in group.members.values():
                if member.syncing is not None:
                    member.syncing(SyncGroupResponse(NO_ERROR, member.assigned))
                    member.syncing, member.heard = None, self.node.now

        self.log.append(number, (self._record(group),), self.log.timeout_ms, written)

    def _heartbeat(self, request: Heartbeat) -> ErrorResponse:
        """Key 12."""
        _, loaded = self.log.at(request.group)
        group = self.log.member(loaded, request.group, request.member, request.generation)
        group.members[request.member].heard = self.node.now
        if group.state is PREPARING:
            raise Refused(KafkaError.REBALANCE_IN_PROGRESS)
        return ErrorResponse(NO_ERROR)

    def _leave(self, request: LeaveGroup) -> ErrorResponse:
        """Key 13."""
        number, loaded = self.log.at(request.group)
        group = loaded.groups.get(request.group)
        if group is None or request.member not in group.members:
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
        self._remove(number, group, [request.member])
        return ErrorResponse(NO_ERROR)

    def _describe(self, request: DescribeGroup) -> DescribeGroupResponse:
        """Key 15."""
        _, loaded = self.log.at(request.group)
        group = loaded.groups.get(request.group)
        if group is None:
            return DescribeGroupResponse(NO_ERROR, DEAD)
        stable = group.state is STABLE
        members = {
            name: DescribedMember(member.topics, tuple(member.assigned)) if stable else DescribedMember()
            for name, member in group.members.items()
        }
        return DescribeGroupResponse(NO_ERROR, group.state.value, members)

    def _remove(self, number: int, group: ClassicGroup, members: Sequence[str]) -> None:
        for name in members:
            joining = group.members.pop(name).joining
            if joining is not None:  # one that waits for its assignment gets no answer
                joining(JoinGroupResponse(KafkaError.UNKNOWN_MEMBER_ID))
        if group.state is not PREPARING:
            self._rebalance(group)
        self._go_on(number, group)

    # ---- time

    def tick(self) -> None:
        """Remove members that are silent; end rebalances whose time has run out."""
        for number, loaded in self.log.loaded.items():
            for group in list(loaded.groups.values()):
                silent = group.silent(self.node.now)
                if silent:
                    self._remove(number, group, silent)
                self._go_on(number, group)
