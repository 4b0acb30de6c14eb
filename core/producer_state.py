"""How long brokers remember what an idle producer has written."""

from typing import Final

from core.config import RunConfig
from core.flushing import DAY_MS, number

EXPIRATION: Final = "producer.id.expiration.ms"
"""Setting of brokers (KIP-854): they forget a producer that has no transaction open and wrote nothing to a
partition for so long. What it sends again afterwards is a new record to them."""


def forgotten_after_ns(config: RunConfig) -> int:
    """How long after its last record in a partition a producer may be forgotten there."""
    return 1_000_000 * number(config.broker_settings, EXPIRATION, DAY_MS)


def forgetful(config: RunConfig) -> RunConfig:
    """The same, where a producer that may be forgotten within a day may be at once."""
    if forgotten_after_ns(config) >= 1_000_000 * DAY_MS:
        return config
    return config.model_copy(update={"broker_settings": config.broker_settings | {EXPIRATION: "0"}})
