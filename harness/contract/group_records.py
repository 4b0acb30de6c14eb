"""Records of groups and their members in `__consumer_offsets`, as the model has them.

Of a classic group without its members; of a group of KIP-848 without the numbers of partitions of its topics:
Kafka keeps a hash of them.
"""

from base64 import urlsafe_b64decode
from typing import Any, Final
from uuid import UUID

from harness.contract.dialect import IdPairs
from harness.evidence.coordinator_records import group_types
from harness.evidence.records import LogRecord
from harness.protocol.cursor import Cursor
from harness.protocol.messages import decode
from model.coordinator.classic_group import GroupRecord
from model.coordinator.consumer_group_records import (
    CLASSIC,
    CURRENT,
    EXPRESSION,
    GROUP,
    MEMBER,
    TARGET,
    TARGETS,
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    Epochs,
    GroupTombstone,
    MemberState,
)
from model.coordinator.group_metadata_manager import OffsetRecord
from model.protocol.messages import Partition

OFFSET: Final = "OffsetCommit"
"""Kind of records of offsets."""
OF_CONSUMER_GROUPS: Final = (GROUP, MEMBER, TARGETS, TARGET, CURRENT, EXPRESSION)


def group_record(record: LogRecord, names: IdPairs) -> object:
    """A record of the log. None: the tombstone of an offset, or of a kind that the model has not.

    Raises: Malformed, UnknownMessage.
    """
    key = Cursor(record.key or b"")
    kind = group_types().get(key.integer(2), "")
    if kind not in (OFFSET, CLASSIC, *OF_CONSUMER_GROUPS) or (kind == OFFSET and record.value is None):
        return None
    named = {name: str(value) for name, value in decode(f"{kind}Key", 0, key).items()}
    group, member = named.get("group", named.get("groupId", "")), named.get("memberId", "")
    regex = named.get("regularExpression", "")
    if record.value is None:
        return GroupTombstone(kind, group, member, regex)
    cursor = Cursor(record.value)
    value: dict[str, Any] = decode(f"{kind}Value", cursor.integer(2), cursor)
    if kind == OFFSET:
        tp = (named["topic"], int(named["partition"]))
        return OffsetRecord(group, tp, value["offset"], value.get("leaderEpoch", -1))
    if kind == CLASSIC:
        return GroupRecord(group, value["generation"], value["leader"] or "", ())
    if kind == EXPRESSION:
        topics = tuple(value["topics"])
        return ConsumerGroupRegularExpression(group, regex, topics, value["version"], value["timestamp"])
    return _of_consumer_group(kind, group, member, value, names)


def _of_consumer_group(kind: str, group: str, member: str, value: dict[str, Any], names: IdPairs) -> object:
    if kind == GROUP:
        return ConsumerGroupMetadata(group, value["epoch"])
    if kind == TARGETS:
        at_ms = value.get("assignmentTimestamp", 0)
        return ConsumerGroupTargetAssignmentMetadata(group, value["assignmentEpoch"], at_ms)
    if kind == TARGET:
        partitions = tuple(tp for tp, _ in _epochs(value["topicPartitions"], names))
        return ConsumerGroupTargetAssignmentMember(group, member, partitions)
    if kind == MEMBER:
        return ConsumerGroupMemberMetadata(
            group,
            member,
            tuple(value["subscribedTopicNames"]),
            value["rebalanceTimeoutMs"],
            value["instanceId"] or "",
            value["serverAssignor"] or "",
            value["subscribedTopicRegex"] or "",
        )
    return ConsumerGroupCurrentMemberAssignment(
        group,
        member,
        value["memberEpoch"],
        value["previousMemberEpoch"],
        MemberState(value["state"]),
        _epochs(value["assignedPartitions"], names),
        _epochs(value["partitionsPendingRevocation"], names),
    )


def _epochs(topics: list[dict[str, Any]], names: IdPairs) -> Epochs:
    """Partitions in order, with the member epochs since which a member has them, -1 = the record does not say
    (before 4.3)."""
    found: list[tuple[Partition, int]] = []
    for topic in topics:
        name = names.topic(UUID(bytes=urlsafe_b64decode(topic["topicId"] + "==")))
        numbers = topic["partitions"]
        since = topic.get("assignmentEpochs") or [-1] * len(numbers)
        found += (((name, int(n)), int(epoch)) for n, epoch in zip(numbers, since, strict=True))
    return tuple(sorted(found))
