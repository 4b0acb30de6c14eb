"""With what brokers create Kafka's own topics, by the settings of a run: replicas, partitions, a minimum.

0 is what is not known: the harness did not start the brokers, or a setting is not a plain number.
"""

from typing import Final

from checkers.log_settings import COPIES
from core.config import RunConfig
from core.internal_topics import GROUP_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from core.systems import KafkaSection, ModelSection, SimulatedSection, is_since
from model.settings import Settings

PARTITIONS: Final = {
    TRANSACTION_TOPIC: "transaction.state.log.num.partitions",
    GROUP_TOPIC: "offsets.topic.num.partitions",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic.num.partitions",
}
"""Internal topic -> setting of brokers: the number of its partitions."""
MINIMUM: Final = "transaction.state.log.min.isr"
GIVEN: Final = {TRANSACTION_TOPIC: 5, GROUP_TOPIC: 5, SHARE_STATE_TOPIC: 50}
"""Partitions where a run sets nothing: what `docker/kafka/broker.properties` says, else Kafka's default."""
_MODEL: Final = Settings()
OF_MODEL: Final = {
    TRANSACTION_TOPIC: _MODEL.transaction_partitions,
    GROUP_TOPIC: _MODEL.offsets_partitions,
    SHARE_STATE_TOPIC: _MODEL.share_state_partitions,
}
"""The same of modelled brokers."""
ENOUGH_UP: Final = "0.11"
"""The first version that creates the topic of the offsets only where as many brokers as replicas are up
(KIP-115)."""


def copies_set(config: RunConfig, topic: str) -> int:
    """With how many replicas; 0 also where there are fewer brokers than that."""
    if not _started(config):
        return 0
    kafka = config.has(KafkaSection)
    if kafka and topic == GROUP_TOPIC and not is_since(config.section(KafkaSection).version, ENOUGH_UP):
        return 0
    own = kafka and topic == SHARE_STATE_TOPIC  # the harness gives no number: it is Kafka's
    wanted = _given(config, COPIES[topic], 3 if own else min(3, config.brokers))
    return wanted if wanted <= config.brokers else 0


def partitions_set(config: RunConfig, topic: str) -> int:
    """With how many partitions."""
    if not _started(config):
        return 0
    return _given(config, PARTITIONS[topic], (GIVEN if config.has(KafkaSection) else OF_MODEL)[topic])


def minimum_set(config: RunConfig, topic: str) -> int:
    """With which min.insync.replicas of its own; 0 also where it gets none."""
    if topic != TRANSACTION_TOPIC or not _started(config):
        return 0
    return _given(config, MINIMUM, min(2, config.brokers))


def _started(config: RunConfig) -> bool:
    """Whether the harness has set the brokers up."""
    return any(config.has(section) for section in (KafkaSection, ModelSection, SimulatedSection))


def _given(config: RunConfig, name: str, otherwise: int) -> int:
    given = config.broker_settings.get(name, str(otherwise)).strip()
    return int(given) if given.isdecimal() else 0
