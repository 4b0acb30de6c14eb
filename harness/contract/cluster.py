"""The cluster of the comparison: one broker, the only replica of everything, with the model's settings."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from core.config import run_config
from core.runtime import run_blocking
from harness.contract.campaign import Campaign, Outcome, Say, wait_for_coordinators
from harness.contract.dialect import Dialect
from harness.contract.differences import known
from harness.contract.played import PLAYED
from harness.contract.scenarios import Comparison, Real, broker_settings, play_all
from harness.contract.stage import REAL, Place
from harness.contract.versions import Version, version_of
from harness.kafka.cluster import KafkaCluster
from model.scenarios.drivers.cluster import ClusterStage
from model.settings import Settings

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

PATIENT: Final = {
    "broker.session.timeout.ms": "60000",
    # A broker that was killed registers again when its old session has ended; until then it must not give up.
    "initial.broker.registration.timeout.ms": "300000",
    "controller.quorum.fetch.timeout.ms": "60000",
    "controller.quorum.request.timeout.ms": "60000",
    "request.timeout.ms": "60000",
}
"""A broker that a busy machine holds up for seconds keeps what it leads."""


@contextmanager
def one_broker(
    kafka: str, folder: Path, more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[KafkaCluster]:
    """A running cluster; its logs are in the folder afterwards. more: settings of the broker.

    Raises: ClusterError.
    """
    settings = {
        "seed": 1,
        "kafka": kafka,
        "brokers": 1,
        "replication_factor": 1,
        "min_insync_replicas": 1,
        "broker_settings": {
            "offsets.topic.num.partitions": INTERNAL_PARTITIONS,
            "transaction.state.log.num.partitions": INTERNAL_PARTITIONS,
            "group.min.session.timeout.ms": "1000",
            **SOON,
            **NEVER,
            **PATIENT,
            **more,
        },
    }
    cluster = KafkaCluster(run_config(settings), folder, ready_deadline_s=READY_S)
    try:
        run_blocking(cluster.start())
        yield cluster
    finally:
        try:
            run_blocking(cluster.collect(folder / "cluster"))
        finally:
            run_blocking(cluster.stop())


class Compared(NamedTuple):
    """What the comparison brought: by scenarios, and by random requests."""

    scenarios: Comparison
    requests: Outcome

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
    kafka: str, *, requests: int, seed: int, folder: Path, say: Say, names: Collection[str] = PLAYED
) -> Compared:
    """The model against one broker of this version: by the scenarios of these names, then by random requests.

    Raises: UsageError (the version is too old), ClusterError, AdminError.
    """
    version = version_of(kafka)
    played = Comparison()
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name in names:
        alike.setdefault(tuple(broker_settings(name).items()), []).append(name)
    for number, (settings, those) in enumerate(alike.items(), 1):
        with one_broker(kafka, folder / f"{folder.name}-{number}", dict(settings)) as cluster:
            wait_for_coordinators(cluster.admin)
            play_all(those, version, partial(_real, cluster, version), say, played)
    if names:
        say(played.text)
    with one_broker(kafka, folder) as cluster:  # whose coordinators have their first epoch, as the model's
        wait_for_coordinators(cluster.admin)
        campaign = Campaign(cluster.admin, version, folder.name, seed, known(), say)
        return Compared(played, campaign.run(requests))


def _real(cluster: KafkaCluster, version: Version, name: str) -> Real:
    """Makes the stage of a scenario of this name on the cluster."""

    def made(kind: type[ClusterStage], settings: Settings) -> ClusterStage:
        dialect = Dialect(settings.era.client_transaction_version, version.marker_version)
        return REAL[kind](Place(cluster, dialect, name), settings)

    return made
