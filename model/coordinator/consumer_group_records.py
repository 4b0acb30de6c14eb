"""Records of consumer groups in `__consumer_offsets` (KIP-848), and what they say of members.

Names are those of Kafka's keys and values. Each record stands for a key and its newest value; a tombstone is
a record of its own. Topics have names here, not ids. A group's metadata are numbers of partitions; Kafka
keeps a hash of them.
Source: GroupCoordinatorRecordHelpers; clients/…/message/ConsumerGroup*.json.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from model.protocol.messages import Partition

LEAVES: Final = -1
"""Member epoch of a member that leaves (LEAVE_GROUP_MEMBER_EPOCH)."""
LEAVES_FOR_NOW: Final = -2
"""Member epoch of a static member that will be back (LEAVE_GROUP_STATIC_MEMBER_EPOCH)."""

Epochs = tuple[tuple[Partition, int], ...]
"""Partitions of a member; since which member epoch it has each (KIP-1251)."""


class MemberState(IntEnum):
    """Kafka's names and numbers. UNREVOKED_PARTITIONS: it has to give some up before it may be given a new
    epoch. UNRELEASED_PARTITIONS: it waits for some that others have not given up."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ConsumerGroupMetadata(NamedTuple):
    """The group has a new epoch. metadata: topics that members want, and how many partitions each has."""

    group: str
    epoch: int
    metadata: tuple[tuple[str, int], ...] = ()


class ConsumerGroupMemberMetadata(NamedTuple):
    """What a member said of itself. instance: "" = it is not static. assignor: "" = the group's choice.
    regex: "" = it names all topics that it wants."""

    group: str
    member: str
    topics: tuple[str, ...]
    rebalance_ms: int
    instance: str = ""
    assignor: str = ""
    regex: str = ""


class ConsumerGroupTargetAssignmentMember(NamedTuple):
    """What a member is to have."""

    group: str
    member: str
    partitions: tuple[Partition, ...]


class ConsumerGroupTargetAssignmentMetadata(NamedTuple):
    """All targets are those of this epoch of the group. at_ms: when they were computed, 0 = not known."""

    group: str
    epoch: int
    at_ms: int = 0


class ConsumerGroupCurrentMemberAssignment(NamedTuple):
    """What a member has, and what of that it is to give up (`revoking`)."""

    group: str
    member: str
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Epochs = ()
    revoking: Epochs = ()


class ConsumerGroupRegularExpression(NamedTuple):
    """Topics that an expression of members stands for, by the metadata of this version."""

    group: str
    regex: str
    topics: tuple[str, ...]
    version: int = 0
    at_ms: int = 0


class GroupTombstone(NamedTuple):
    """A record is taken back. what: name of the type that it was of. member, regex: whose."""

    what: str
    group: str
    member: str = ""
    regex: str = ""


OfConsumerGroup = (
    ConsumerGroupMetadata
    | ConsumerGroupMemberMetadata
    | ConsumerGroupTargetAssignmentMember
    | ConsumerGroupTargetAssignmentMetadata
    | ConsumerGroupCurrentMemberAssignment
    | ConsumerGroupRegularExpression
    | GroupTombstone
)
CLASSIC: Final = "GroupMetadata"
"""`GroupTombstone.what` of a classic group."""
GROUP, TARGETS = ConsumerGroupMetadata.__name__, ConsumerGroupTargetAssignmentMetadata.__name__
MEMBER = ConsumerGroupMemberMetadata.__name__
TARGET = ConsumerGroupTargetAssignmentMember.__name__
CURRENT = ConsumerGroupCurrentMemberAssignment.__name__
EXPRESSION = ConsumerGroupRegularExpression.__name__


def member_tombstones(group: str, member: str) -> tuple[GroupTombstone, ...]:
    """Of a member that is removed. The order matters: first it has nothing, then it is gone
    (GroupMetadataManager.removeMember)."""
    return tuple(GroupTombstone(what, group, member) for what in (CURRENT, TARGET, MEMBER))


def group_tombstones(group: str) -> tuple[GroupTombstone, ...]:
    """Of a group without members (ConsumerGroup.createGroupTombstoneRecords)."""
    return GroupTombstone(TARGETS, group), GroupTombstone(GROUP, group)
