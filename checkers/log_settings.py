"""What the settings of a topic say of what its logs may lose."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from checkers.windows import FOREVER, SLACK_NS
from core.config import RunConfig
from core.flushing import DAY_MS, Flushing, flushing
from core.internal_topics import GROUP_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from core.systems import ImportedSection, KafkaSection, ModelSection, SimulatedSection, is_since, release_of
from core.unclean_elections import SETTING as UNCLEAN
from core.unclean_elections import unheeded
from history.events import ClockJumped, Event

COPIES: Final = {
    TRANSACTION_TOPIC: "transaction.state.log.replication.factor",
    GROUP_TOPIC: "offsets.topic.replication.factor",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic.replication.factor",
}
"""Internal topic -> setting of brokers: the number of its replicas."""
MIN_ISR: Final = "min.insync.replicas"
MOST_COUNTED: Final = 1 << 16
"""A greater number of records that brokers flush together narrows nothing."""
NOT_COMPACTED: Final = -1
EFFECTIVE_MINIMUM: Final = "3.7"
"""The first version where a partition with fewer replicas than min.insync.replicas acknowledges all the same
(KAFKA-15583)."""
NO_LIMIT: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What a topic's settings say of what its logs may lose.

    flushed_ns, flushed_records: see `LogWindows`; 0 ns = each record is flushed before it is acknowledged.
    tombstones_ns: how long compaction keeps tombstones. copies: the number of replicas, where no more than
    those have to acknowledge; NO_LIMIT: as many as `min_isr` always.
    """

    min_isr: int
    copies: int
    unclean: bool
    flushed_ns: int
    flushed_records: int
    tombstones_ns: int = NOT_COMPACTED


def log_settings(config: RunConfig, topic: str, events: Sequence[Event] = ()) -> LogSettings:
    """Of a topic of the run: the topic's own settings win; internal topics have those of the brokers, and
    `__transaction_state` a minimum of its own, and no unclean elections; nor has any topic where the
    controllers do not look at the setting. events: of the run."""
    brokers = config.broker_settings
    copies = str(min(3, config.brokers))
    of = flushing(config, topic)
    number = of.records if 1 < of.records <= MOST_COUNTED else 0
    limited, otherwise = _minimum_is_limited(config), int(copies)
    replicas = config.replication_factor
    if topic in COPIES:
        replicas = _number(brokers.get(COPIES[topic], copies), otherwise)
    made = partial(
        LogSettings,
        flushed_ns=_flushed_ns(of),
        flushed_records=number,
        copies=replicas if limited else NO_LIMIT,
    )
    of_brokers, heeded = brokers.get(UNCLEAN, str(config.unclean_leader_election)), not unheeded(config)
    if topic == TRANSACTION_TOPIC:
        least = brokers.get("transaction.state.log.min.isr", str(min(2, int(copies))))
        return made(min_isr=_number(least, 2), unclean=False)
    if topic == GROUP_TOPIC:
        least = brokers.get(MIN_ISR, str(min(config.min_insync_replicas, int(copies))))
        return made(min_isr=_number(least, 1), unclean=heeded and is_true(of_brokers))
    if topic == SHARE_STATE_TOPIC:
        least = brokers.get("share.coordinator.state.topic.min.isr", str(min(2, int(copies))))
        return made(min_isr=_number(least, 2), unclean=heeded and is_true(of_brokers))
    own = config.settings_of_topics()
    return made(
        min_isr=_number(own[MIN_ISR], config.min_insync_replicas),
        unclean=heeded and is_true(own[UNCLEAN]),
        tombstones_ns=tombstones_kept_ns(config, events),
    )


def _minimum_is_limited(config: RunConfig) -> bool:
    """Whether some broker of the run asks for no more replicas than there are, for all that is known."""
    if config.has(KafkaSection):
        kafka = config.section(KafkaSection)
        return is_since(kafka.upgrade or kafka.version, EFFECTIVE_MINIMUM)
    era = ""
    if config.has(SimulatedSection):
        era = config.section(SimulatedSection).era
    if config.has(ModelSection):
        era = config.section(ModelSection).era
    release = release_of(era)
    return not release or is_since(release, EFFECTIVE_MINIMUM)


def is_true(setting: str) -> bool:
    """Whether a broker's or topic's setting is on, as Kafka reads it (ConfigDef: in any case)."""
    return setting.strip().lower() == "true"


def _number(setting: str, otherwise: int) -> int:
    return int(setting) if setting.strip().isdecimal() else otherwise


def _flushed_ns(of: Flushing) -> int:
    """By number: each record, or none for certain. By time: what the flusher takes at the latest."""
    if of.each:
        return 0
    return 1_000_000 * of.latest_ms + SLACK_NS if of.looks_ms else FOREVER


def tombstones_kept_ns(config: RunConfig, events: Sequence[Event]) -> int:
    """How long compaction keeps the tombstones of the run's topics, NOT_COMPACTED where there is none.
    Brokers measure it by the wall's clock: it may have been shorter by what that was set forward."""
    if not config.compacted or config.has(ImportedSection):
        return NOT_COMPACTED
    brokers = config.broker_settings.get("log.cleaner.delete.retention.ms", "")
    given = config.topic_settings.get("delete.retention.ms", brokers)
    ahead_s = sum(max(0.0, event.wall_s) for event in events if isinstance(event, ClockJumped))
    return max(0, 1_000_000 * _number(given, DAY_MS) - round(1e9 * ahead_s))
