"""Kafka as a system under test."""

import pkgutil
from importlib.util import resolve_name
from pathlib import Path
from typing import Final

from core.capabilities import (
    Deletable,
    DirectoryFailable,
    DiskFillable,
    Electable,
    Growable,
    Reassignable,
    Remakable,
    Throttleable,
    VotersChangeable,
    WiredWithin,
    capabilities_of,
)
from core.config import RunConfig
from core.systems import DEPLOYMENTS, KafkaSection, is_since
from harness.containers.cluster import READY_DEADLINE_S, ContainerCluster
from harness.containers.deployment import Deployment
from harness.containers.reaper import reap
from harness.kafka.broker_settings import refusal
from harness.kafka.cluster import KafkaCluster
from harness.kafka.quorum import is_dynamic
from harness.kafka.two_versions import TwoVersionCluster
from harness.kafka.zookeeper import refused_session
from harness.run.backend import Backend
from workloads.registry import workload_of_run

SHARING: Final = "4.1"
"""The first line with share groups that are not an experiment."""
DEAD_LETTERS: Final = "4.4"
"""The first line whose share groups have dead-letter queues (KIP-1191)."""
IDEMPOTENCE: Final = "0.11.0"
"""The first line with idempotent producers and transactions (KIP-98)."""
DIRECTORIES: Final = {"kraft": "3.7", "zookeeper": "1.0"}
"""By deployment, the first line whose brokers survive the loss of one log directory (KIP-858, KIP-112)."""
DYNAMIC: Final = "3.9"
"""The first line whose metadata quorum can change its voters (KIP-853)."""
ASKED_SINCE: Final[dict[type, str]] = {
    Deletable: "0.11.0",  # DeleteRecords (KIP-107)
    Remakable: "0.11.0",  # DeleteTopics, version 1
    Growable: "1.0",  # CreatePartitions (KIP-195)
    Throttleable: "2.3",  # IncrementalAlterConfigs (KIP-339)
    Electable: "2.4",  # ElectLeaders, version 1 (KIP-460)
    Reassignable: "2.4",  # AlterPartitionReassignments (KIP-455)
    WiredWithin: "3.9",  # controllers that say where they are reached (KIP-853)
}
"""The first line whose brokers know the requests of a capability."""


def kafka_cluster(
    config: RunConfig, run_dir: Path, *, ready_deadline_s: float = READY_DEADLINE_S
) -> ContainerCluster:
    """A cluster of Kafka; nothing is started. Raises: ClusterError, where no ports are free."""
    path = DEPLOYMENTS[config.section(KafkaSection).deployment].nodes
    root = __package__.rpartition(".")[0]
    nodes: Deployment = pkgutil.resolve_name(resolve_name(path, root))(config, run_dir)
    return _kind(config)(config, run_dir, nodes, ready_deadline_s=ready_deadline_s)


def _kind(config: RunConfig) -> type[KafkaCluster]:
    return TwoVersionCluster if config.section(KafkaSection).upgrade else KafkaCluster


def _refusal(config: RunConfig) -> str:
    """Which setting its deployment or its brokers cannot honour, "" = they honour all."""
    its = config.section(KafkaSection)
    deployment = DEPLOYMENTS[its.deployment]
    if config.controllers and not deployment.controllers:
        return f"controllers: {deployment.doc}, have no isolated controllers; set controllers=0"
    if its.ensemble > 1 and not deployment.ensemble:
        return f"ensemble: {deployment.doc}, have no ensemble of other nodes; set metadata=zookeeper"
    if its.deployment == "zookeeper" and (why := refused_session(config)):
        return why
    return _directories(config) or _quorum(config) or _before_idempotence(config) or refusal(config)


def _directories(config: RunConfig) -> str:
    """Why brokers cannot have two log directories, "" = they can."""
    its = config.section(KafkaSection)
    if its.log_dirs == 1 or is_since(its.version, since := DIRECTORIES[its.deployment]):
        return ""
    return (
        f"log_dirs: a broker of Kafka {its.version} ends where one of two fails; {since} and later continue"
    )


def _quorum(config: RunConfig) -> str:
    """Why the metadata log cannot say who votes, "" = it can, or need not."""
    its = config.section(KafkaSection)
    if not is_dynamic(config):
        return ""
    if its.deployment != "kraft":
        return f"quorum: Kafka {its.version} on ZooKeeper has no metadata quorum"
    if not is_since(its.version, DYNAMIC):
        return f"quorum: Kafka {its.version} cannot change its voters; {DYNAMIC} and later can"
    return ""


def _before_idempotence(config: RunConfig) -> str:
    """What a run asks of its clients that brokers have only since `IDEMPOTENCE`, "" = nothing."""
    its = config.section(KafkaSection)
    if is_since(its.version, IDEMPOTENCE):
        return ""
    since = f"; {IDEMPOTENCE} and later have"
    if any(one.transactional_id for one in workload_of_run(config).plans(config)):
        return f"workload {config.workload}: Kafka {its.version} has no transactions{since}"
    if config.idempotent:
        return f"idempotent: Kafka {its.version} has no idempotent producers{since}; set idempotent=false"
    return ""


def _capabilities(config: RunConfig) -> frozenset[type]:
    version = config.section(KafkaSection).version
    unknown = {one for one, since in ASKED_SINCE.items() if not is_since(version, since)}
    if config.section(KafkaSection).log_dirs == 1:
        unknown.add(DirectoryFailable)
    if not config.section(KafkaSection).disk_mb:
        unknown.add(DiskFillable)
    if not is_dynamic(config):
        unknown.add(VotersChangeable)
    if config.section(KafkaSection).deployment != "kraft":
        unknown.add(WiredWithin)
    return capabilities_of(_kind(config)) - unknown


def _share_groups(config: RunConfig) -> str:
    its = config.section(KafkaSection)
    if not is_since(its.version, SHARING):
        return (
            f"workload {config.workload}: Kafka {its.version} has no share groups; {SHARING} and later have"
        )
    if config.dead_letters and not is_since(its.version, DEAD_LETTERS):
        return f"dead_letters: Kafka {its.version} has no dead-letter queues; {DEAD_LETTERS} and later have"
    return ""


KAFKA: Final = Backend(
    cluster=kafka_cluster,
    capabilities=_capabilities,
    refusal=_refusal,
    share_groups=_share_groups,
    release=lambda run, _: reap(run),
)
