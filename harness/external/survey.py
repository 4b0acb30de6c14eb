"""What a cluster says of itself before a run: its id, its brokers and where they are, their settings."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from kio.schema.metadata.v9.response import MetadataResponse

from core.cluster import Address, Security
from core.errors import ClusterError
from core.flushing import number
from core.presets import PRESETS
from harness.brokers.admin.connection import AdminError, BrokerConnection, Brokers
from harness.brokers.admin.settings import BROKER, described
from harness.external.file import ClusterFile, addresses
from harness.processes.waiting import NotYet, until

ASK_S: Final = 5.0
JOIN_S: Final = 20.0
POLL_S: Final = 0.2
SESSION: Final = "broker.session.timeout.ms"
CONNECT, OLD_SESSION, ROLES = "zookeeper.connect", "zookeeper.session.timeout.ms", "process.roles"
SCAN: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
DEFAULTS: Final = {SESSION: "9000", SCAN: "10000", "replica.lag.time.max.ms": "30000"}
"""Kafka's own, for brokers that do not say."""
OF_PRESETS: Final = frozenset[str]().union(
    *(wanted for one in PRESETS.values() if isinstance(wanted := one.get("broker_settings"), dict))
)
"""Settings that presets give to brokers of the harness's own."""
ASKED: Final = (
    *DEFAULTS,
    *sorted(OF_PRESETS),
    "initial.broker.registration.timeout.ms",
    "log.cleaner.delete.retention.ms",
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "log.flush.scheduler.interval.ms",
    "log.initial.task.delay.ms",
    "log.retention.bytes",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "min.insync.replicas",
    "producer.id.expiration.ms",
    "share.coordinator.state.topic.min.isr",
    "transaction.partition.verification.enable",
    "transaction.state.log.min.isr",
    "transactional.id.expiration.ms",
    "unclean.leader.election.enable",
)
"""Settings of brokers that plans and verdicts depend on, or that a preset takes."""


class Judged(NamedTuple):
    """Values of a setting that verdicts take for granted. of_disks: only those about brokers' disks do."""

    least: float
    most: float
    why: str
    of_disks: bool = False


_OFFSETS: Final = "groups may lose offsets that were acknowledged, and no check knows of it"
_CHECKPOINTS: Final = "rules about logs go by Kafka's own interval of that checkpoint"
RUN_MINUTES: Final = 2 * 24 * 60
"""A run lasts two days at most."""
JUDGED: Final[Mapping[str, Judged]] = {
    "log.flush.offset.checkpoint.interval.ms": Judged(0, 60_000, _CHECKPOINTS, of_disks=True),
    "log.flush.start.offset.checkpoint.interval.ms": Judged(0, 60_000, _CHECKPOINTS, of_disks=True),
    "offsets.commit.required.acks": Judged(-1, -1, _OFFSETS),
    "offsets.retention.minutes": Judged(RUN_MINUTES, inf, _OFFSETS),
    "replica.high.watermark.checkpoint.interval.ms": Judged(0, 5_000, _CHECKPOINTS, of_disks=True),
}
"""Settings that change what brokers promise, or what is on their disks, where no check would know it."""


def unjudged(settings: Mapping[str, str], *, disks: bool) -> str:
    """Which setting of the cluster's brokers no verdict could go by, and why; "" = there is none. disks:
    these are judged."""
    for name, judged in JUDGED.items():
        given = number(settings, name, int(judged.least))
        if (disks or not judged.of_disks) and not judged.least <= given <= judged.most:
            bound = f"at least {judged.least:g}" if given < judged.least else f"at most {judged.most:g}"
            return f"the cluster's brokers have {name}={given}: {judged.why}; set it to {bound}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """cluster: its id, "" = it has none. brokers: where each listens, as it advertises. settings: those of
    `ASKED` and `JUDGED` that a broker names, with Kafka's defaults where none did; `SESSION` is also that of
    a broker in ZooKeeper. zookeeper: the metadata are there, as a broker says."""

    cluster: str
    brokers: Mapping[int, Address]
    settings: Mapping[str, str]
    zookeeper: bool = False


def survey(file: ClusterFile, security: Security, wanted: Collection[int]) -> Survey:
    """Ask the cluster. wanted: brokers that are waited for. Raises: ClusterError, where no broker answers;
    ConfigError, for settings of clients that cannot be honoured."""
    first = Brokers(dict(enumerate(addresses(file.cluster.bootstrap))), security)
    with suppress(NotYet):  # the caller compares
        until(JOIN_S, POLL_S, lambda: _must_have(set(wanted), _first_answer(first)))
    told = _first_answer(first)
    cluster = told.cluster_id or ""
    listeners = {int(one.node_id): Address(str(one.host), int(one.port)) for one in told.brokers}
    brokers = Brokers(dict(sorted(listeners.items())), security, cluster=cluster)
    settings, zookeeper = _settings(brokers)
    return Survey(cluster=cluster, brokers=brokers.addresses, settings=settings, zookeeper=zookeeper)


def _must_have(wanted: set[int], told: MetadataResponse) -> None:
    """Raises: NotYet, where brokers are missing: they may have been started a moment ago."""
    if missing := wanted - {int(one.node_id) for one in told.brokers}:
        raise NotYet(f"brokers {sorted(missing)} are missing")


def _first_answer(bootstrap: Brokers) -> MetadataResponse:
    said: dict[str, None] = {}
    for node in bootstrap.nodes:
        try:
            with bootstrap.connect(node, ASK_S) as connection:
                return connection.cluster()
        except AdminError as error:
            said[str(error)] = None
    raise ClusterError(f"--cluster: no broker answers: {'; '.join(said)}")


def _settings(brokers: Brokers) -> tuple[dict[str, str], bool]:
    for node in brokers.nodes:
        try:
            with brokers.connect(node, ASK_S) as connection:
                settings, zookeeper = _described(connection, node)
                return DEFAULTS | settings, zookeeper
        except AdminError:
            continue  # it cannot say, or this user may not ask: another one, or Kafka's defaults
    return dict(DEFAULTS), False


def _described(connection: BrokerConnection, node: int) -> tuple[dict[str, str], bool]:
    """What a broker is set to, and whether it has its metadata in ZooKeeper: one that moves them to KRaft has
    both, and names no roles of its own until it has moved. Raises: AdminError."""
    asked = (*ASKED, *JUDGED, CONNECT, OLD_SESSION, ROLES)
    found = described(BROKER, {str(node): asked}, connection)[str(node)]
    settings = {name: value for name, value in found.items() if name in {*ASKED, *JUDGED} and value}
    zookeeper = bool(found.get(CONNECT)) and not found.get(ROLES)
    if zookeeper and (session := found.get(OLD_SESSION)):
        settings[SESSION] = session
    return settings, zookeeper
