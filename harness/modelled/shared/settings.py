"""Settings of modelled brokers by the config of a run, and which ones they refuse."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from core.config import RunConfig
from core.flushing import DAY_MS
from core.known_names import unlisted
from core.op import Isolation
from model.eras import ERAS
from model.mutants.registry import PLANTED
from model.settings import Settings
from workloads.share import DEAD_LETTERS

MIN_ISR: Final = "min.insync.replicas"
UNCLEAN: Final = "unclean.leader.election.enable"
POLICY: Final = "cleanup.policy"
KEPT: Final = "delete.retention.ms"
TOPIC_SETTINGS: Final = (MIN_ISR, UNCLEAN, POLICY, KEPT)
"""Settings of topics that the model has."""
BROKER_SETTINGS: Final[Mapping[str, Callable[[Settings, int], Settings]]] = {
    "broker.heartbeat.interval.ms": lambda s, ms: replace(s, heartbeat_ms=ms),
    "broker.session.timeout.ms": lambda s, ms: replace(s, session_ms=ms),
    "replica.fetch.backoff.ms": lambda s, ms: replace(s, fetch_backoff_ms=ms),
    "replica.fetch.wait.max.ms": lambda s, ms: replace(s, fetch_wait_ms=ms),
    "producer.id.expiration.ms": lambda s, ms: replace(s, producer_id_expiration_ms=ms),
    "replica.lag.time.max.ms": lambda s, ms: replace(s, replica_lag_ms=ms),
    "transactional.id.expiration.ms": lambda s, ms: replace(s, transactional_id_expiration_ms=ms),
    "log.flush.interval.messages": lambda s, records: replace(s, flush_every=records),
    "offsets.topic.num.partitions": lambda s, number: replace(s, offsets_partitions=number),
    "transaction.state.log.num.partitions": lambda s, number: replace(s, transaction_partitions=number),
    "group.consumer.session.timeout.ms": lambda s, ms: replace(s, consumer_session_ms=ms),
    "group.consumer.heartbeat.interval.ms": lambda s, ms: replace(s, consumer_heartbeat_ms=ms),
    "group.consumer.assignment.interval.ms": lambda s, ms: replace(s, consumer_assignment_ms=ms),
    "group.share.record.lock.duration.ms": lambda s, ms: replace(s, share_lock_ms=ms),
    "group.share.delivery.count.limit": lambda s, number: replace(s, share_deliveries=number),
    "group.share.session.timeout.ms": lambda s, ms: replace(s, share_session_ms=ms),
    "group.share.heartbeat.interval.ms": lambda s, ms: replace(s, share_heartbeat_ms=ms),
    "group.share.partition.max.record.locks": lambda s, number: replace(s, share_in_flight=number),
    "share.coordinator.snapshot.update.records.per.snapshot": lambda s, n: replace(s, share_updates=n),
    "share.coordinator.state.topic.num.partitions": lambda s, n: replace(s, share_state_partitions=n),
    "log.roll.ms": lambda s, ms: replace(s, roll_ms=ms),
    "log.cleaner.backoff.ms": lambda s, ms: replace(s, compaction_ms=ms),
}
"""Settings of brokers that the model has, whole and above 0, times in milliseconds; how each is set."""
MINIMA: Final = frozenset(
    f"group.{name}.ms"
    for name in (
        "consumer.min.session.timeout",
        "consumer.min.heartbeat.interval",
        "share.min.record.lock.duration",
        "share.min.session.timeout",
        "share.min.heartbeat.interval",
    )
)
"""Below these Kafka's brokers accept no settings of groups; the model accepts all."""
PROTOCOL: Final = "consumer.group.protocol"
RATIO: Final = "log.cleaner.min.cleanable.ratio"


def settings_of_run(config: RunConfig, era: str, mutant: str) -> Settings:
    """Settings of the brokers of a run."""
    topic_settings = config.settings_of_topics()
    settings = Settings(
        era=ERAS[era],
        bugs=frozenset(filter(None, [mutant])),
        min_isr=int(topic_settings[MIN_ISR]),
        unclean=topic_settings[UNCLEAN] == "true",
        internal_replication=min(3, config.brokers),
        share_committed=config.isolation is Isolation.READ_COMMITTED,
        share_letters=DEAD_LETTERS if config.dead_letters else "",
        compacted=config.compacted,
        cleanable_ratio=float(config.broker_settings.get(RATIO, 0.5)),
        tombstones_ms=int(topic_settings.get(KEPT, DAY_MS)),
    )
    for name, given in config.broker_settings.items():
        if name == RATIO or name in MINIMA:
            continue
        settings = BROKER_SETTINGS[name](settings, int(given))
    return settings


def refused_settings(config: RunConfig, era: str, mutant: str) -> str:
    """Which setting brokers of the model cannot honour, "" = they honour all."""
    if era not in ERAS:
        return f"unknown era {era!r}; known: {', '.join(ERAS)}"
    if config.client_settings.get(PROTOCOL) == "consumer" and not ERAS[era].consumer_groups:
        return f"client_settings: {PROTOCOL}: era {era} has no groups of KIP-848; 4.0 and later have"
    if config.renew_share and not ERAS[era].share_locks_renewed:
        return f"renew_share: era {era} renews no locks; 4.2 and later do"
    if mutant and mutant not in PLANTED:
        return unlisted("unknown mutant", mutant, PLANTED, "mutants")
    if ERAS[era].zookeeper and config.controllers:
        return f"controllers: era {era} has no isolated controllers; set controllers=0"
    if strange := sorted(config.broker_settings.keys() - BROKER_SETTINGS.keys() - {RATIO, *MINIMA}):
        known = ", ".join((*BROKER_SETTINGS, RATIO))
        return f"broker_settings: a modelled broker has no {', '.join(strange)}; it has {known}"
    for name, given in config.broker_settings.items():
        if name == RATIO:
            if re.fullmatch(r"0\.\d+|[01]", given) is None:
                return f"broker_settings: {name}: a share from 0 to 1, not {given!r}"
        elif not given.isdecimal() or int(given) == 0:
            return f"broker_settings: {name}: a number of ms, not {given!r}"
    if strange := sorted(config.topic_settings.keys() - set(TOPIC_SETTINGS)):
        known = ", ".join(TOPIC_SETTINGS)
        return f"topic_settings: a modelled topic has no {', '.join(strange)}; it has {known}"
    if config.topic_settings.get(POLICY, "compact") != "compact":
        return f"topic_settings: {POLICY}: a modelled topic is compacted, or left as it is"
    if not config.topic_settings.get(KEPT, "0").isdecimal():
        return f"topic_settings: {KEPT} must be a number of ms"
    if config.compacted and "log.cleaner.backoff.ms" not in config.broker_settings:
        return (
            "topic_settings: modelled brokers compact where log.cleaner.backoff.ms is set (broker_settings)"
        )
    minimum = config.settings_of_topics()[MIN_ISR]
    if not minimum.isdecimal() or not 1 <= int(minimum) <= config.replication_factor:
        return f"topic_settings: {MIN_ISR} must be 1 to {config.replication_factor}, not {minimum!r}"
    if config.settings_of_topics()[UNCLEAN] not in ("true", "false"):
        return f"topic_settings: {UNCLEAN} must be true or false"
    return ""


def share_groups(config: RunConfig, era: str) -> str:
    """Why modelled brokers of this era have no share groups, "" = they have some."""
    if not ERAS[era].share_groups:
        return f"workload {config.workload}: era {era} has no share groups; 4.1 and later have"
    if config.dead_letters and not ERAS[era].share_dead_letters:
        return f"dead_letters: era {era} has no dead-letter queues; 4.4 and later have"
    return ""
