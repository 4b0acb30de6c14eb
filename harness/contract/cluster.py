"""The cluster of the comparison: one broker, the only replica of everything, with the model's settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from core.config import run_config
from core.runtime import run_blocking
from harness.contract.campaign import Campaign, Outcome, Say
from harness.contract.differences import known
from harness.contract.versions import version_of
from harness.kafka.cluster import KafkaCluster

INTERNAL_PARTITIONS: Final = "3"
"""Of the topics of coordinators: as many as the model's stage has."""

PATIENT: Final = {
    "broker.session.timeout.ms": "120000",
    "controller.quorum.fetch.timeout.ms": "60000",
    "controller.quorum.request.timeout.ms": "60000",
    "request.timeout.ms": "60000",
}
"""A broker that a busy machine holds up for seconds keeps what it leads."""


@contextmanager
def one_broker(kafka: str, folder: Path) -> Iterator[KafkaCluster]:
    """A running cluster; its logs are in the folder afterwards. Raises: ClusterError."""
    settings = {
        "seed": 1,
        "kafka": kafka,
        "brokers": 1,
        "replication_factor": 1,
        "min_insync_replicas": 1,
        "broker_settings": {
            "offsets.topic.num.partitions": INTERNAL_PARTITIONS,
            "transaction.state.log.num.partitions": INTERNAL_PARTITIONS,
            **PATIENT,
        },
    }
    cluster = KafkaCluster(run_config(settings), folder)
    try:
        run_blocking(cluster.start())
        yield cluster
    finally:
        try:
            run_blocking(cluster.collect(folder / "cluster"))
        finally:
            run_blocking(cluster.stop())


def compare(kafka: str, *, requests: int, seed: int, folder: Path, say: Say) -> Outcome:
    """The model against one broker of this version, by random requests.

    Raises: UsageError (the version is too old), ClusterError, AdminError.
    """
    version = version_of(kafka)
    with one_broker(kafka, folder) as cluster:
        return Campaign(cluster.admin, version, folder.name, seed, known(), say).run(requests)
