"""Whether retention may remove records while a run lasts, by its settings."""

from collections.abc import Mapping
from typing import Final

from core.config import RunConfig
from core.flushing import DAY_MS, number
from core.systems import ImportedSection

LIMITS_MS: Final = {"log.retention.ms": 1, "log.retention.minutes": 60_000, "log.retention.hours": 3_600_000}
"""The brokers' limits of retention with their units; of several that are set the first one counts."""


def removes(config: RunConfig) -> bool:
    """Whether retention may remove records within a run, which lasts two days at most. Imported histories do
    not say."""
    if config.has(ImportedSection):
        return True
    own, brokers = config.topic_settings, config.broker_settings
    if config.compacted and "delete" not in own["cleanup.policy"]:
        return False
    if number(own, "retention.bytes", number(brokers, "log.retention.bytes", -1)) >= 0:
        return True
    return 0 <= _kept_ms(own, brokers) < 2 * DAY_MS


def _kept_ms(own: Mapping[str, str], brokers: Mapping[str, str]) -> int:
    """How long retention keeps records; -1 = no limit. One setting counts: the topic's, else the finest of
    the brokers'."""
    if "retention.ms" in own:
        return number(own, "retention.ms", -1)
    given = (unit * number(brokers, name, -1) for name, unit in LIMITS_MS.items() if name in brokers)
    return next(given, -1)
