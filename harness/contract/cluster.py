"""The clusters of the comparison: one broker, the only replica of everything, with the model's settings; and
for scenarios about replicas several brokers of Kafka with a controller, and proxies between all of them.

The one broker is one of Kafka, or one of the model behind Kafka's protocol: what a client of that one gets is
then what the model answers in this process.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from core.config import run_config
from core.errors import UsageError
from core.runtime import run_blocking
from core.systems import is_since
from harness.contract import held as held_requests
from harness.contract import held_commands
from harness.contract.campaign import Campaign, CampaignResult, Say, wait_for_coordinators
from harness.contract.dialect import Dialect
from harness.contract.differences import known
from harness.contract.replica_place import KafkaReplicas
from harness.contract.replica_settings import broker_settings as replica_settings
from harness.contract.replica_stage import ReplicaStage
from harness.contract.scenarios import (
    PLAYED,
    SCENARIOS,
    Real,
    ScenarioComparison,
    broker_settings,
    play_all,
    stage_of,
)
from harness.contract.stage import PACE, REAL, Cluster, Place
from harness.contract.versions import Version, version_of
from harness.kafka.system import kafka_cluster
from harness.modelled.real.cluster import ModelCluster
from model.eras import ERAS
from model.settings import Settings
from scenarios.drivers.cluster import ClusterStage
from scenarios.drivers.partition import PartitionStage
from scenarios.framework import SEVERAL_BROKERS

READY_S: Final = 300.0
INTERNAL_PARTITIONS: Final = "3"
"""Of the topics of coordinators: as many as the model's stage has."""

SOON: Final = {
    "producer.id.expiration.check.interval.ms": "1000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}
"""What expires is forgotten about then, and not up to an hour later."""

NEVER: Final = {"offsets.retention.check.interval.ms": str(7 * 24 * 3600 * 1000)}
"""Kafka removes groups that have neither members nor offsets at these intervals, by default every 10 minutes
(GroupMetadataManager.cleanupGroupMetadata; from 4.0 on GroupCoordinatorShard.cleanupGroupMetadata). The model
keeps them: no client could tell when the next check comes."""

CONSUMERS: Final = {
    f"group.consumer.{name}.ms": str(at_ms * PACE)
    for name, at_ms in {
        "session.timeout": Settings().consumer_session_ms,
        "min.session.timeout": Settings().consumer_session_ms,
        "heartbeat.interval": Settings().consumer_heartbeat_ms,
        "min.heartbeat.interval": Settings().consumer_heartbeat_ms,
        "assignment.interval": Settings().consumer_assignment_ms,
    }.items()
}
"""Times of groups of KIP-848, which brokers keep: those of the scenarios, at the pace of the real cluster."""

PATIENT: Final = {
    "broker.session.timeout.ms": "60000",
    # A broker that was killed registers again when its old session has ended; until then it must not give up.
    "initial.broker.registration.timeout.ms": "300000",
    "controller.quorum.fetch.timeout.ms": "60000",
    "controller.quorum.request.timeout.ms": "60000",
    "request.timeout.ms": "60000",
}
"""A broker that a busy machine holds up for seconds keeps what it leads."""


SESSION_MS: Final = "10000"
"""The same for a broker of the model. One that was killed comes back when this time has passed."""
REPLICAS_SINCE: Final = "3.9"
"""From there on a controller can advertise the port of a proxy (KIP-853)."""
DELAYS_AGAIN_SINCE: Final = "4.1"
"""A PartitionFetchState that is made with the delay of another one begins it again (its dueMs)."""
TOO_OLD: Final = f"its brokers cannot stand behind proxies, as those of Kafka {REPLICAS_SINCE} and later can"
FEWEST: Final = 3
"""Brokers with replicas; a scenario that has fewer shares the cluster of others."""
ALONE: Final = {"seed": 1, "brokers": 1, "replication_factor": 1, "min_insync_replicas": 1}
Start = Callable[[Version, int, Path, Mapping[str, str]], AbstractContextManager[Cluster]]
"""Starts a broker for clients of a transaction version; its logs are in the folder afterwards. The mapping:
settings of the broker. Raises: ClusterError."""


def kafka_broker(
    version: Version, spoken: int, folder: Path, more: Mapping[str, str] = MappingProxyType({})
) -> AbstractContextManager[Cluster]:
    """See `Start`. One of Kafka, for clients of any transaction version."""
    settings = {
        "offsets.topic.num.partitions": INTERNAL_PARTITIONS,
        "transaction.state.log.num.partitions": INTERNAL_PARTITIONS,
        "group.min.session.timeout.ms": "1000",
        **SOON,
        **NEVER,
        **CONSUMERS,
        **PATIENT,
        **more,
    }
    config = run_config({**ALONE, "kafka": version.kafka, "broker_settings": settings})
    return _running(kafka_cluster(config, folder, ready_deadline_s=READY_S), folder)


def kafka_replicas(
    version: Version, brokers: int, folder: Path, more: Mapping[str, str] = MappingProxyType({})
) -> AbstractContextManager[Cluster]:
    """See `Start`. Brokers with a controller, for scenarios about replicas. brokers: their number."""
    config = run_config(
        {
            "seed": 1,
            "brokers": brokers,
            "controllers": 1,
            "kafka": version.kafka,
            "broker_settings": dict(more),
        }
    )
    cluster = kafka_cluster(config, folder, ready_deadline_s=READY_S)
    run_blocking(cluster.use_wire_within())
    return _running(cluster, folder, coordinators=False)


def model_broker(
    version: Version, spoken: int, folder: Path, more: Mapping[str, str] = MappingProxyType({}), bug: str = ""
) -> AbstractContextManager[Cluster]:
    """See `Start`. One of the model; all its clients speak one transaction version. bug: a planted one.

    Raises: UsageError, where no era is that of the version."""
    era = next((name for name, era in ERAS.items() if era == version.era_of(spoken)), None)
    if era is None:
        raise UsageError(f"no era of the model is Kafka {version.kafka} with transaction version {spoken}")
    settings: dict[str, object] = {
        "sut": "model",
        "era": era,
        "mutant": bug,
        "broker_settings": {"broker.session.timeout.ms": SESSION_MS, **CONSUMERS, **more},
    }
    return _running(ModelCluster(run_config({**ALONE, **settings}), folder), folder)


BROKERS: Final[Mapping[str, Start]] = {"kafka": kafka_broker, "model": model_broker}
"""By system under test."""


@contextmanager
def _running(cluster: Cluster, folder: Path, *, coordinators: bool = True) -> Iterator[Cluster]:
    try:
        run_blocking(cluster.start())
        if coordinators:
            wait_for_coordinators(cluster.admin)
        yield cluster
    finally:
        try:
            run_blocking(cluster.collect(folder / "cluster"))
        finally:
            run_blocking(cluster.stop())


class Compared(NamedTuple):
    """What the comparison brought: by scenarios, and by random requests."""

    scenarios: ScenarioComparison
    requests: CampaignResult

    @property
    def text(self) -> str:
        """Two lines."""
        return f"{self.scenarios.text}\n{self.requests.text}"

    @property
    def differences(self) -> list[str]:
        """Those that nothing explains, in words."""
        scenarios = [one.text for one in self.scenarios.differences]
        return scenarios + [one.text for one in self.requests.failures]


def compare(
    kafka: str,
    *,
    requests: int,
    seed: int,
    folder: Path,
    say: Say,
    names: Collection[str] = PLAYED,
    start: Start = kafka_broker,
    held: bool = False,
) -> Compared:
    """The model against one broker of this version: by the scenarios of these names, then by random requests.
    requests: their number, 0 = none. start: which kind of broker. held: the requests go to several brokers,
    between which messages are held.

    Raises: UsageError (the version is too old), ClusterError, AdminError.
    """
    version = version_of(kafka)
    played = ScenarioComparison()
    apart = start is not kafka_broker
    alike: dict[Needs, list[str]] = {}
    for name in names:
        needs = _needs(name, version, apart=apart)
        if needs.replicas and (apart or not is_since(kafka, REPLICAS_SINCE)):
            played.unplayable[name] = SEVERAL_BROKERS if apart else TOO_OLD
        else:
            alike.setdefault(needs, []).append(name)
    for number, (needs, those) in enumerate(alike.items(), 1):
        where, given = folder / f"{folder.name}-{number}", dict(needs.settings)
        begin = kafka_replicas if needs.replicas else start
        with begin(version, needs.replicas or needs.spoken, where, given) as cluster:
            play_all(those, version, partial(_real, cluster, version, _Stories()), say, played)
    if names:
        say(played.text)
    outcome = CampaignResult()
    if held:
        _compare_held(version, requests, seed, folder, say, outcome)
        return Compared(played, outcome)
    versions = version.transaction_versions if requests else ()
    for at_once in [(one,) for one in versions] if apart or not versions else [versions]:
        # one whose coordinators have their first epoch, as the model's
        where = folder / f"{folder.name}-requests-{at_once[0]}" if apart else folder
        with start(version, at_once[0], where, {}) as cluster:
            campaign = Campaign(cluster.admin, version, folder.name, seed, () if apart else known(), say)
            campaign.run(requests * len(at_once) // len(versions), outcome, at_once)
    return Compared(played, outcome)


def refused_held(kafka: str, sut: str) -> str:
    """Why no messages can be held between brokers of this version and kind; "" = they can."""
    if sut != "kafka":
        return "brokers of the model stand alone here: no messages between them can be held"
    return "" if is_since(kafka, REPLICAS_SINCE) else f"Kafka {kafka}: {TOO_OLD}"


def _compare_held(
    version: Version, requests: int, seed: int, folder: Path, say: Say, outcome: CampaignResult
) -> None:
    """By random requests to three brokers; one more is the witness."""
    stories = _Stories()
    spoken = version.transaction_versions[-1]
    settings = replica_settings(held_requests.settings_of(version.era_of(spoken)))
    settings["broker.session.timeout.ms"] = str(held_requests.SESSION_MS)
    where = folder / f"{folder.name}-held"
    with kafka_replicas(version, len(held_commands.REPLICAS) + 1, where, settings) as cluster:
        real = partial(_real, cluster, version, stories)
        campaign = held_requests.HeldCampaign(real, version, folder.name, seed, known(), say)
        campaign.run(requests, outcome, (spoken,))


class Needs(NamedTuple):
    """The cluster that scenarios share. spoken: transaction version of its clients, where it has one.
    replicas: brokers of a cluster for scenarios about replicas, else 0."""

    spoken: int
    replicas: int
    settings: tuple[tuple[str, str], ...]


def _needs(name: str, version: Version, *, apart: bool) -> Needs:
    stage = stage_of(SCENARIOS[name], version)
    if isinstance(stage, PartitionStage):
        brokers = max(FEWEST, *stage.replicas, *stage.spare) + 1  # one more is the witness
        return Needs(0, brokers, tuple(replica_settings(stage.settings).items()))
    spoken = stage.settings.era.client_transaction_version if apart else 0
    return Needs(spoken, 0, tuple(broker_settings(name).items()))


class _Stories:
    """What the scenarios on one cluster share: numbers of rules, and topics that earlier ones left."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.left: list[str] = []


def _real(cluster: Cluster, version: Version, stories: _Stories, name: str) -> Real:
    """Makes the stage of a scenario of this name on the cluster."""

    def made(stage: ClusterStage) -> ClusterStage:
        settings = stage.settings
        dialect = Dialect(settings.era.client_transaction_version, version.marker_version)
        if isinstance(stage, PartitionStage):
            place = KafkaReplicas(
                cluster,
                dialect,
                name,
                numbers=stories.numbers,
                left=stories.left,
                delays_again=is_since(version.kafka, DELAYS_AGAIN_SINCE),
            )
            return ReplicaStage(place, stage.replicas, settings, spare=stage.spare)
        return REAL[type(stage)](Place(cluster, dialect, name), settings)

    return made
