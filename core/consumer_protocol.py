"""Subscriptions and assignments of Kafka's consumers, version 0, which group coordinators pass on.

Source: ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

Partition = tuple[str, int]
NO_USER_DATA: Final = struct.pack(">i", -1)
NO_TEXT: Final = struct.pack(">h", -1)


def text(value: str | None) -> bytes:
    """A text after its length of two bytes; null."""
    if value is None:
        return NO_TEXT
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def subscription(topics: Sequence[str]) -> bytes:
    """ConsumerProtocolSubscription."""
    return struct.pack(">hi", 0, len(topics)) + b"".join(map(text, topics)) + NO_USER_DATA


def subscribed(data: bytes) -> tuple[str, ...]:
    """Topics of a subscription, none of an empty one. Raises: ValueError."""
    topics = []
    count, at = _count(data)
    for _ in range(count):
        topic, at = _text(data, at)
        topics.append(topic)
    return tuple(topics)


def assignment(partitions: Iterable[Partition]) -> bytes:
    """ConsumerProtocolAssignment."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    parts = [
        text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in topics.items()
    ]
    return struct.pack(">hi", 0, len(topics)) + b"".join(parts) + NO_USER_DATA


def assigned(data: bytes) -> tuple[Partition, ...]:
    """Partitions of an assignment, none of an empty one. Raises: ValueError."""
    found: list[Partition] = []
    count, at = _count(data)
    for _ in range(count):
        topic, at = _text(data, at)
        (size,) = _read(">i", data, at)
        found += [(topic, number) for number in _read(f">{size}i", data, at + 4)]
        at += 4 + 4 * size
    return tuple(found)


def _count(data: bytes) -> tuple[int, int]:
    """How many topics there are, and where the first one begins."""
    return (_read(">i", data, 2)[0], 6) if data else (0, 0)


def _text(data: bytes, at: int) -> tuple[str, int]:
    """A text, and the place after it."""
    (size,) = _read(">h", data, at)
    (raw,) = _read(f">{size}s", data, at + 2)
    return raw.decode(), at + 2 + size


def _read(form: str, data: bytes, at: int) -> tuple[Any, ...]:
    try:
        return struct.unpack_from(form, data, at)
    except struct.error as error:  # the bytes end too early, or a length is below 0
        raise ValueError(str(error)) from None
