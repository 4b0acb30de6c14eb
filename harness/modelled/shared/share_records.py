"""Records of the share coordinators as Kafka's `__share_group_state` has them (KIP-932), and dead letters.

Keys and values are of version 0. What the model does not have is absent: the count of completed deliveries.
A snapshot says that it was created when it was written.
"""

import struct
from collections.abc import Iterable
from typing import Final

from core.consumer_protocol import text
from core.dead_letters import HEADER
from harness.modelled.shared.topic_uuids import topic_uuid
from harness.protocol.batches import varint
from model.protocol.share_messages import StateBatch
from model.share.dead_letter_queue import LetterRecord
from model.share.share_coordinator import ShareSnapshot, ShareUpdate

OfShareState = ShareSnapshot | ShareUpdate
NUMBERS: Final = {ShareSnapshot: 0, ShareUpdate: 1}
"""Types of keys."""
VERSION: Final = struct.pack(">h", 0)
NO_TAGS: Final = varint(0)


def key(record: OfShareState) -> bytes:
    """The key."""
    topic, number = record.partition
    begin = struct.pack(">h", NUMBERS[type(record)]) + text(record.group)
    return begin + topic_uuid(topic).bytes + struct.pack(">i", number)


def value(record: OfShareState, ms: int) -> bytes:
    """The value. ms: when it was written, by the wall clock."""
    begin = VERSION + struct.pack(">i", record.snapshot_epoch)
    end = _runs(record.batches) + NO_TAGS
    if isinstance(record, ShareUpdate):
        return begin + struct.pack(">iq", record.leader_epoch, record.start) + end
    fields = record.state_epoch, record.leader_epoch, record.start, ms, ms
    return begin + struct.pack(">iiqqq", *fields) + end


def _runs(batches: Iterable[StateBatch]) -> bytes:
    runs = [struct.pack(">qqbh", *one) + NO_TAGS for one in batches]
    return varint(len(runs) + 1) + b"".join(runs)


def letter_headers(record: LetterRecord) -> list[tuple[str, bytes]]:
    """What a dead letter says of its record (KIP-1191)."""
    topic, number = record.partition
    said = {
        "topic": topic,
        "partition": number,
        "offset": record.offset,
        "group": record.group,
        "delivery.count": record.times,
    }
    return [(f"{HEADER}{name}", f"{one}".encode()) for name, one in said.items()]
