"""Clients that are made to find out whether librdkafka takes their settings."""

from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer

from core.client_settings import CONSUMER, PRODUCER, SHARE_CONSUMER, Properties
from core.errors import ConfigError
from harness.clients.librdkafka.client_part import failure_of

REFUSALS: Final = (KafkaException, TypeError, ValueError)
"""What the constructors of confluent-kafka raise: librdkafka refused a setting, or the binding did."""


def tried(properties: Mapping[str, Properties]) -> None:
    """Make clients that no cluster is named to, and end them. properties: by `PRODUCER`, `CONSUMER`
    and `SHARE_CONSUMER`.

    Raises: ConfigError, where librdkafka refuses a setting.
    """
    quiet = {"log_level": 0}
    try:
        if PRODUCER in properties:
            Producer({**properties[PRODUCER], **quiet})
        if CONSUMER in properties:
            Consumer({**properties[CONSUMER], **quiet}).close()
        if SHARE_CONSUMER in properties:
            ShareConsumer({**properties[SHARE_CONSUMER], **quiet}).close()
    except REFUSALS as error:
        raise refused(error) from None


def refused(error: Exception) -> ConfigError:
    """One of `REFUSALS` as an error of the configuration."""
    why = failure_of(error).message if isinstance(error, KafkaException) else str(error)
    return ConfigError(f"client settings: {why}")
