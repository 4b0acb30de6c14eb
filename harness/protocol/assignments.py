"""Subscriptions and assignments of Kafka's consumers, version 0, which group coordinators pass on.

Source: ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from harness.protocol.cursor import Cursor
from harness.protocol.topics import Place, numbers_by_topic

NO_USER_DATA: Final = struct.pack(">i", -1)
NO_TEXT: Final = struct.pack(">h", -1)


def text(value: str | None) -> bytes:
    """A text after its length of two bytes; null."""
    if value is None:
        return NO_TEXT
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def _read_text(cursor: Cursor) -> str:
    return bytes(cursor.take(cursor.integer(2))).decode()


def subscription(topics: Sequence[str]) -> bytes:
    """ConsumerProtocolSubscription."""
    return struct.pack(">hi", 0, len(topics)) + b"".join(map(text, topics)) + NO_USER_DATA


def subscribed(data: bytes) -> tuple[str, ...]:
    """Topics of a subscription, none of an empty one. Raises: Malformed."""
    if not data:
        return ()
    cursor = Cursor(data)
    cursor.integer(2)
    return tuple(_read_text(cursor) for _ in range(cursor.integer(4)))


def assignment(partitions: Iterable[Place]) -> bytes:
    """ConsumerProtocolAssignment."""
    topics = numbers_by_topic(partitions)
    parts = [
        text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in topics.items()
    ]
    return struct.pack(">hi", 0, len(topics)) + b"".join(parts) + NO_USER_DATA


def assigned(data: bytes) -> tuple[Place, ...]:
    """Partitions of an assignment, none of an empty one. Raises: Malformed."""
    if not data:
        return ()
    cursor = Cursor(data)
    cursor.integer(2)
    found = []
    for _ in range(cursor.integer(4)):
        topic = _read_text(cursor)
        found += [(topic, cursor.integer(4)) for _ in range(cursor.integer(4))]
    return tuple(found)
