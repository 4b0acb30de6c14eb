"""Kafka's own topics, by name."""

from typing import Final

TRANSACTION_TOPIC: Final = "__transaction_state"
GROUP_TOPIC: Final = "__consumer_offsets"
SHARE_STATE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset(
    {TRANSACTION_TOPIC, GROUP_TOPIC, SHARE_STATE_TOPIC, "__cluster_metadata", "__remote_log_metadata"}
)
"""Names of other programs' begin with two underscores, too (`__CruiseControlMetrics`)."""


def internal(topic: str) -> bool:
    """Whether a topic is Kafka's own."""
    return topic in INTERNAL_TOPICS
