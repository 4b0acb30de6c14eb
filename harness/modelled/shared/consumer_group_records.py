"""Records of consumer groups (KIP-848) as Kafka's `__consumer_offsets` has them: keys and values, version 0.

What the model does not have is empty: racks, client ids and hosts. The hash of a group's
metadata is of the same things as Kafka's, and another number.
"""

import struct
from collections.abc import Mapping
from typing import Final
from zlib import crc32

from core.consumer_protocol import text
from harness.modelled.shared.topic_uuids import topic_uuid
from harness.protocol.batches import varint
from harness.protocol.topics import numbers_by_topic
from model.coordinator.consumer_group_records import (
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
    GroupTombstone,
    OfConsumerGroup,
)
from model.eras import Era
from model.protocol.messages import Partition

NUMBERS: Final = {GROUP: 3, MEMBER: 5, TARGETS: 6, TARGET: 7, CURRENT: 8, EXPRESSION: 16}
"""Types of keys by the names of their kinds."""
OWNERS: Final = {**dict.fromkeys((MEMBER, TARGET, CURRENT), "member"), EXPRESSION: "regex"}
"""What a key names behind the group."""
VERSION: Final = struct.pack(">h", 0)
NO_TAGS: Final = varint(0)


def key(record: OfConsumerGroup) -> bytes:
    """The key, also of a tombstone."""
    what = record.what if isinstance(record, GroupTombstone) else type(record).__name__
    whose = text(getattr(record, OWNERS[what])) if what in OWNERS else b""
    return struct.pack(">h", NUMBERS[what]) + text(record.group) + whose


def value(record: OfConsumerGroup, era: Era, wall_ms: int) -> bytes | None:
    """The value, None of a tombstone. wall_ms: what the clock of the model lacks to the wall clock."""
    match record:
        case ConsumerGroupMetadata(_, epoch, metadata):
            hashed = struct.pack(">q", crc32(repr(metadata).encode()))
            return VERSION + struct.pack(">i", epoch) + _tag(hashed)
        case ConsumerGroupMemberMetadata(_, _, topics, rebalance_ms, instance, assignor, regex):
            of_client = _compact(instance or None) + _compact(None) + _compact("") + _compact("")
            wanted = varint(len(topics) + 1) + b"".join(map(_compact, topics)) + _compact(regex or None)
            rest = struct.pack(">i", rebalance_ms) + _compact(assignor or None)
            return VERSION + of_client + wanted + rest + NO_TAGS
        case ConsumerGroupRegularExpression(_, _, topics, version, at_ms):
            found = varint(len(topics) + 1) + b"".join(map(_compact, topics))
            return VERSION + found + struct.pack(">qq", version, at_ms + wall_ms) + NO_TAGS
        case ConsumerGroupTargetAssignmentMetadata(_, epoch, at_ms):
            tags = _tag(struct.pack(">q", at_ms + wall_ms)) if at_ms else NO_TAGS
            return VERSION + struct.pack(">i", epoch) + tags
        case ConsumerGroupTargetAssignmentMember(_, _, partitions):
            return VERSION + _with_ids(dict.fromkeys(partitions, 0), epochs=False) + NO_TAGS
        case ConsumerGroupCurrentMemberAssignment(_, _, epoch, before, state, assigned, revoking):
            begin = VERSION + struct.pack(">iib", epoch, before, state)
            held = (_with_ids(dict(one), epochs=era.committed_by_assignment) for one in (assigned, revoking))
            return begin + b"".join(held) + NO_TAGS
    return None


def _with_ids(partitions: Mapping[Partition, int], *, epochs: bool) -> bytes:
    """Numbers of partitions by id of their topic. epochs: since when a member has each, too (KIP-1251)."""
    parts = []
    for topic, numbers in numbers_by_topic(partitions).items():
        tags = _tag(_numbers([partitions[topic, number] for number in numbers])) if epochs else NO_TAGS
        parts.append(topic_uuid(topic).bytes + _numbers(numbers) + tags)
    return varint(len(parts) + 1) + b"".join(parts)


def _numbers(values: list[int]) -> bytes:
    return varint(len(values) + 1) + struct.pack(f">{len(values)}i", *values)


def _compact(given: str | None) -> bytes:
    if given is None:
        return varint(0)
    raw = given.encode()
    return varint(len(raw) + 1) + raw


def _tag(field: bytes) -> bytes:
    """The one tagged field that there is, with the number 0."""
    return varint(1) + varint(0) + varint(len(field)) + field
