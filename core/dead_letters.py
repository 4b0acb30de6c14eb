"""Dead-letter queues of share groups (KIP-1191): Kafka's names, and what a history says of a letter."""

from collections.abc import Mapping
from typing import Final

from core.capabilities import DeadLetter
from core.payload import Foreign, decode

FEATURE_LEVEL: Final = 2
"""Of `share.version`: from it on share groups have dead-letter queues."""
TOPIC: Final = "errors.deadletterqueue.topic.name"
COPIED: Final = "errors.deadletterqueue.copy.record.enable"
"""Settings of a group: its queue, and whether a letter has the key and the value of its record."""
ENABLED: Final = "errors.deadletterqueue.group.enable"
"""Setting of a topic: brokers may write letters to it."""
QUEUE: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": "10485760",
    ENABLED: "true",
}
"""Settings of a queue, which keeps every letter: one is larger than its record, by its headers."""
HEADER: Final = "__dlq.errors."
"""How the names of a letter's headers begin: topic, partition, offset, group, delivery.count, message."""

HEADERS_ONLY: Final = -1
ANOTHER: Final = -2
"""In the place of a value: the record was not copied; the copy is not a record of that partition."""

Row = tuple[str, str, int, int, int, int, int, int, int]
"""As in `history.events.DeadLettersListed`."""


def row(run: str, letter: DeadLetter) -> Row:
    """What a history says of a letter. run: name of the run whose record it is."""
    value = HEADERS_ONLY
    if letter.payload is not None:
        value = decode(run, letter.tp, letter.payload)
        value = ANOTHER if isinstance(value, Foreign) else value
    place, at = letter.place
    return (letter.group, *letter.tp, letter.offset, letter.times, value, place.partition, at, letter.ms)
