"""How long brokers remember what an idle producer has written."""

from typing import Final

from core.config import RunConfig
from core.flushing import DAY_MS, number
from core.systems import ExternalSection, KafkaSection, is_since

EXPIRATION: Final = "producer.id.expiration.ms"
"""Setting of brokers: they forget a producer that has no transaction open and wrote nothing to a partition
for so long. What it sends again afterwards is a new record to them."""
OLD_EXPIRATION: Final = "transactional.id.expiration.ms"
"""The setting that says so before Kafka 3.4 (KIP-854), where `EXPIRATION` says nothing."""
FIRST: Final = "3.4"
"""The version that has `EXPIRATION`."""


def forgotten_after_ms(config: RunConfig) -> int:
    """How long after its last record in a partition a producer may be forgotten there."""
    settings = config.broker_settings
    new, old = number(settings, EXPIRATION, DAY_MS), number(settings, OLD_EXPIRATION, 7 * DAY_MS)
    if config.has(KafkaSection):
        kafka = config.section(KafkaSection)
        versions = filter(None, (kafka.version, kafka.upgrade))
        return min(new if is_since(version, FIRST) else old for version in versions)
    unnamed = EXPIRATION not in settings and OLD_EXPIRATION in settings
    # Brokers name all settings that they know, and their values; modelled ones forget by the new one alone.
    return old if config.has(ExternalSection) and unnamed else new


def forgotten_after_ns(config: RunConfig) -> int:
    """The same in ns."""
    return 1_000_000 * forgotten_after_ms(config)


def forgetful(config: RunConfig) -> RunConfig:
    """The same, where a producer that may be forgotten within a day may be at once."""
    if forgotten_after_ms(config) >= DAY_MS:
        return config
    at_once = {EXPIRATION: "0", OLD_EXPIRATION: "0"}
    return config.model_copy(update={"broker_settings": config.broker_settings | at_once})
