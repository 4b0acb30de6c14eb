"""When brokers flush the logs of a topic to disk, by the settings of a run: what a loss of power may take."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from core.config import RunConfig

INTERNAL: Final = "__"
"""Topics whose names begin so have the settings of the brokers."""
DAY_MS: Final = 86_400_000
FIRST_LOOK_MS: Final = 30_000
"""After its start a broker first looks for what to flush or to note (log.initial.task.delay.ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushing:
    """records: a log is flushed as soon as it has this number of records that are not; 0 = it is set to none.
    after_ms: the flusher takes logs whose last flush is older; 0 = it never runs. looks_ms: distance between
    two of its looks. first_look_ms: from the start of a broker to the first one.
    """

    records: int = 0
    after_ms: int = 0
    looks_ms: int = 0
    first_look_ms: int = FIRST_LOOK_MS

    @property
    def each(self) -> bool:
        """Whether each record is flushed before it is acknowledged."""
        return self.records == 1

    @property
    def latest_ms(self) -> int:
        """How long after it was appended the flusher has taken a record; 0 = it never runs."""
        return self.after_ms + 2 * self.looks_ms + self.first_look_ms if self.looks_ms else 0


def flushing(config: RunConfig, topic: str) -> Flushing:
    """Of a topic: its own settings, else those of the brokers."""
    brokers = config.broker_settings
    own = {} if topic.startswith(INTERNAL) else config.topic_settings
    looks = number(brokers, "log.flush.scheduler.interval.ms", 0)
    if not 0 < looks < DAY_MS:
        looks = 0
    return Flushing(
        records=number(own, "flush.messages", number(brokers, "log.flush.interval.messages", 0)),
        after_ms=number(own, "flush.ms", number(brokers, "log.flush.interval.ms", looks)) if looks else 0,
        looks_ms=looks,
        first_look_ms=number(brokers, "log.initial.task.delay.ms", FIRST_LOOK_MS),
    )


def number(settings: Mapping[str, str], name: str, otherwise: int) -> int:
    """A setting that is a number; `otherwise` where it is not set, or is none."""
    given = settings.get(name, "").strip()
    return int(given) if given.removeprefix("-").isdecimal() else otherwise


def flushes_each(config: RunConfig) -> bool:
    """Whether each record of every topic is flushed before it is acknowledged."""
    return flushing(config, "").each and flushing(config, INTERNAL).each
