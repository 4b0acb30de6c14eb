"""Ids of modelled topics: they follow from names.

Not in `metadata_log`, which needs the descriptions of Kafka's records: nodes in containers have none.
"""

import base64
from uuid import UUID, uuid5


def topic_uuid(topic: str, number: int = 0) -> UUID:
    """The id of a topic. number: the model's own (`MetadataImage.topic_ids`)."""
    return uuid5(UUID(int=0), f"{topic}/{number}" if number else topic)


def topic_id(topic: str, number: int = 0) -> str:
    """As Kafka writes ids: base64url. number: as above."""
    return uuid_text(topic_uuid(topic, number))


def uuid_text(number: UUID) -> str:
    """An id as Kafka writes it."""
    return base64.urlsafe_b64encode(number.bytes).decode().rstrip("=")
