"""Kafka as a system under test."""

import pkgutil
from importlib.util import resolve_name
from pathlib import Path
from typing import Final

from core.cluster import capabilities_of
from core.config import RunConfig
from core.systems import DEPLOYMENTS, KafkaSection
from harness.containers.cluster import READY_DEADLINE_S, ContainerCluster
from harness.containers.deployment import Deployment
from harness.containers.reaper import reap
from harness.kafka.broker_settings import refusal
from harness.kafka.two_versions import TwoVersionCluster
from harness.run.backend import Backend

SHARING: Final = (4, 1)
"""The first line with share groups that are not an experiment."""


def kafka_cluster(
    config: RunConfig, run_dir: Path, *, ready_deadline_s: float = READY_DEADLINE_S
) -> ContainerCluster:
    """A cluster of Kafka; nothing is started. Raises: ClusterError, where no ports are free."""
    path = DEPLOYMENTS[config.section(KafkaSection).deployment].nodes
    root = __package__.rpartition(".")[0]
    nodes: Deployment = pkgutil.resolve_name(resolve_name(path, root))(config, run_dir)
    return _kind(config)(config, run_dir, nodes, ready_deadline_s=ready_deadline_s)


def _kind(config: RunConfig) -> type[ContainerCluster]:
    return TwoVersionCluster if config.section(KafkaSection).upgrade else ContainerCluster


def _refusal(config: RunConfig) -> str:
    """Which setting its deployment or its brokers cannot honour, "" = they honour all."""
    its = config.section(KafkaSection)
    deployment = DEPLOYMENTS[its.deployment]
    if config.controllers and not deployment.controllers:
        return f"controllers: {deployment.doc}, have no isolated controllers; set controllers=0"
    if its.ensemble > 1 and not deployment.ensemble:
        return f"ensemble: {deployment.doc}, have no ensemble of other nodes; set metadata=zookeeper"
    return refusal(config)


def _share_groups(config: RunConfig) -> str:
    its = config.section(KafkaSection)
    if tuple(map(int, its.version.split(".")[:2])) >= SHARING:
        return ""
    return f"workload {config.workload}: Kafka {its.version} has no share groups; 4.1 and later have"


KAFKA: Final = Backend(
    cluster=kafka_cluster,
    capabilities=lambda config: capabilities_of(_kind(config)),
    refusal=_refusal,
    share_groups=_share_groups,
    release=lambda run, _: reap(run),
)
