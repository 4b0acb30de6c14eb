"""What requests and responses say of partitions: topics first, and in each topic its partitions."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from harness.protocol.payloads import Message

T = TypeVar("T")
Place = tuple[str, int]
"""Topic and number of a partition."""


def by_topic(items: Iterable[tuple[Place, T]]) -> dict[str, list[T]]:
    """Values of partitions by topic."""
    found: dict[str, list[T]] = {}
    for (topic, _), value in items:
        found.setdefault(topic, []).append(value)
    return found


def numbers_by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """Numbers of partitions by topic, each as often as it is named."""
    return by_topic((place, place[1]) for place in places)


def in_topics(
    items: Iterable[tuple[Place, object]], partitions: str = "partitions", name: str = "name"
) -> list[dict[str, object]]:
    """Topics with values of their partitions. partitions, name: the fields of a topic."""
    return [{name: topic, partitions: values} for topic, values in by_topic(items).items()]


def numbers_in_topics(
    places: Iterable[Place], partitions: str = "partitions", name: str = "name"
) -> list[dict[str, object]]:
    """Topics with the numbers of their partitions. partitions, name: the fields of a topic."""
    return in_topics(((place, place[1]) for place in places), partitions, name)


def of_topics(
    topics: Iterable[Message], partitions: str = "partitions", number: str = "partition_index"
) -> Iterator[tuple[Place, Message]]:
    """Each partition of topics that were read, and what is said of it. partitions: the field of a topic.
    number: the field of a partition."""
    for topic in topics:
        name = str(topic.name if hasattr(topic, "name") else topic.topic)
        yield from (((name, int(getattr(one, number))), one) for one in getattr(topic, partitions))


def numbers_of_topics(topics: Iterable[Message], partitions: str) -> list[Place]:
    """The partitions that topics name which were read. partitions: the field of a topic with the numbers."""
    return [(str(topic.name), int(number)) for topic in topics for number in getattr(topic, partitions)]
