"""Members of share groups, and the partitions that they may fetch.

A member says with its heartbeats that it is there, and learns what it is assigned; several members may have
one partition. Each change of the members, and of what they subscribe to, is a new group epoch. Kafka writes
members and assignments into `__consumer_offsets`; here a new coordinator knows none of them, and has them
join again, which costs them no record.
Kafka leaves a member what it has, where it can; here each change may move any partition.
Source: KIP-932; GroupMetadataManager.shareGroupHeartbeat, SimpleHomogeneousAssignmentBuilder.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from model.coordinator.group_metadata_manager import GroupMetadataManager
from model.errors import NO_ERROR, KafkaError, Refused
from model.protocol.messages import Partition
from model.protocol.requests import Answer, Handlers
from model.protocol.share_messages import (
    DescribedShareMember,
    DescribeShareGroupOffsets,
    DescribeShareGroupOffsetsResponse,
    ReadShareGroupStateSummary,
    ReadShareGroupStateSummaryResponse,
    ShareGroupDescribe,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResponse,
)
from model.share.share_coordinator import ShareCoordinator, key_of

LEAVES: Final = -1
"""Member epoch of a member that leaves."""
EMPTY, STABLE = "Empty", "Stable"
"""Kafka's names of the states of a group."""


@dataclass(slots=True)
class ShareGroupMember:
    """heard: when it last gave a sign of life. epoch: that it knows."""

    topics: tuple[str, ...]
    heard: int
    epoch: int


@dataclass(slots=True)
class ShareGroup:
    """`members` by id. coordinator_epoch: of the coordinator that knows it."""

    coordinator_epoch: int
    epoch: int = 0
    members: dict[str, ShareGroupMember] = field(default_factory=dict)


class ShareGroupCoordinator:
    """See the module. `groups` by name. state: knows where the state of share partitions is."""

    def __init__(self, log: GroupMetadataManager, state: ShareCoordinator) -> None:
        self.log = log
        self.state = state
        self.node = log.node
        self.groups: dict[str, ShareGroup] = {}

    def register(self, handlers: Handlers) -> None:
        """Add its handlers."""
        handlers.at_once(ShareGroupHeartbeat, self._heartbeat, ShareGroupHeartbeatResponse)
        handlers.at_once(ShareGroupDescribe, self._describe, ShareGroupDescribeResponse)
        handlers.on(DescribeShareGroupOffsets, self._offsets, DescribeShareGroupOffsetsResponse)

    def _heartbeat(self, request: ShareGroupHeartbeat) -> ShareGroupHeartbeatResponse:
        """Key 76."""
        _check(request)
        number, _ = self.log.at(request.group)
        group = self._known(request.group, self.log.epochs[number])
        member = group.members.get(request.member)
        if request.member_epoch == 0:
            self._join(group, request)
        elif member is None:
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
        elif request.member_epoch < 0:
            self._remove(group, request.member)
            return ShareGroupHeartbeatResponse(NO_ERROR)
        elif request.member_epoch > group.epoch:
            raise Refused(KafkaError.FENCED_MEMBER_EPOCH)
        elif request.topics and tuple(request.topics) != member.topics:
            self._join(group, request)
        member = group.members[request.member]
        member.heard, member.epoch = self.node.now, group.epoch
        partitions = self._assigned(group, request.member)
        every = self.node.settings.share_heartbeat_ms
        return ShareGroupHeartbeatResponse(NO_ERROR, group.epoch, every, partitions)

    def _known(self, name: str, coordinator_epoch: int) -> ShareGroup:
        group = self.groups.get(name)
        if group is None or group.coordinator_epoch != coordinator_epoch:
            group = self.groups[name] = ShareGroup(coordinator_epoch)
        return group

    def _join(self, group: ShareGroup, request: ShareGroupHeartbeat) -> None:
        group.epoch += 1
        group.members[request.member] = ShareGroupMember(tuple(request.topics), self.node.now, group.epoch)

    def _remove(self, group: ShareGroup, member: str) -> None:
        group.epoch += 1
        del group.members[member]

    def _assigned(self, group: ShareGroup, member: str) -> Sequence[Partition]:
        """Every partition has a member, and every member a partition; see `Era.share_members_even`."""
        topics = {topic for one in group.members.values() for topic in one.topics}
        wanted = group.members[member].topics
        partitions = sorted(tp for tp in self.node.image.partitions if tp[0] in topics)
        members = sorted(group.members)
        if not partitions:
            return ()
        sharing = -(-len(members) // len(partitions))
        even = self.node.settings.era.share_members_even
        turns = range(sharing * len(partitions) if even else max(len(members), len(partitions)))
        # A pair would come again only after a common multiple of both, which is above that.
        pairs = {(members[n % len(members)], partitions[n % len(partitions)]) for n in turns}
        return sorted(tp for who, tp in pairs if who == member and tp[0] in wanted)

    def tick(self) -> None:
        """Remove members that are silent."""
        late = self.node.now - self.node.settings.share_session_ms
        for group in self.groups.values():
            for name in [name for name, member in group.members.items() if member.heard < late]:
                self._remove(group, name)

    # ---- administrators

    def states(self) -> dict[str, str]:
        """The state of each group that is coordinated here."""
        epochs = self.log.epochs
        return {
            name: STABLE if group.members else EMPTY
            for name, group in sorted(self.groups.items())
            if group.coordinator_epoch == epochs.get(self.log.number(name))
        }

    def _describe(self, request: ShareGroupDescribe) -> ShareGroupDescribeResponse:
        """Key 77."""
        number, _ = self.log.at(request.group)
        group = self.groups.get(request.group)
        if group is None or group.coordinator_epoch != self.log.epochs[number]:
            raise Refused(KafkaError.GROUP_ID_NOT_FOUND)
        members = {
            name: DescribedShareMember(one.epoch, one.topics, self._assigned(group, name))
            for name, one in group.members.items()
        }
        return ShareGroupDescribeResponse(NO_ERROR, STABLE if members else EMPTY, group.epoch, members)

    def _offsets(self, request: DescribeShareGroupOffsets, answer: Answer) -> None:
        """Key 90 (GroupCoordinatorService.describeShareGroupOffsets)."""
        self.log.at(request.group)
        wanted = tuple(dict.fromkeys(request.partitions))
        parts: dict[Partition, tuple[KafkaError, int]] = {}

        def told(tp: Partition, error: KafkaError, start: int) -> None:
            parts[tp] = error, start
            if len(parts) == len(wanted):
                answer(DescribeShareGroupOffsetsResponse(NO_ERROR, parts))

        def summarised(tp: Partition, summary: ReadShareGroupStateSummaryResponse | None) -> None:
            if summary is None:
                told(tp, KafkaError.REQUEST_TIMED_OUT, -1)
            else:
                told(tp, summary.error, summary.start)

        for tp in wanted:
            error, node = self.state.coordinator(key_of(request.group, tp))
            if error is not NO_ERROR:
                told(tp, error, -1)
                continue
            channel = f"share {request.group} {tp[0]}-{tp[1]}"
            asked = ReadShareGroupStateSummary(request.group, tp)
            self.node.ask(node, channel, asked, partial(summarised, tp))
        if not wanted:
            answer(DescribeShareGroupOffsetsResponse(NO_ERROR))


def _check(request: ShareGroupHeartbeat) -> None:
    """GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid.

    Raises: Refused (INVALID_REQUEST).
    """
    joins_without = request.member_epoch == 0 and not request.topics
    if not request.member or not request.group or joins_without or request.member_epoch < LEAVES:
        raise Refused(KafkaError.INVALID_REQUEST)
