"""The model's brokers behind Kafka's protocol as a system under test."""

from collections.abc import Collection
from pathlib import Path
from typing import Final

from core.capabilities import DiskFailable, Remakable, Throttleable, WiredWithin, capabilities_of
from core.cluster import ServedCluster
from core.config import RunConfig
from core.systems import ModelSection
from harness.containers.cluster import ContainerCluster
from harness.containers.reaper import reap
from harness.modelled.real.cluster import ModelCluster
from harness.modelled.real.deployment import model_containers
from harness.modelled.shared.settings import refused_settings, share_groups
from harness.run.backend import Backend
from model.eras import ERAS

MOST_NODES: Final = 9


def cluster(config: RunConfig, run_dir: Path) -> ServedCluster:
    """A cluster of the model; nothing is started. Raises: ClusterError, where no ports are free."""
    return model_containers(config, run_dir) if _contained(config) else ModelCluster(config, run_dir)


def capabilities(config: RunConfig) -> Collection[type]:
    """Those of containers, or of processes. No setting of the model's brokers is dynamic, they serve no
    deletion of topics, what they do about a disk that fails is not Kafka's, and what they say to each other
    has no form that a proxy knows."""
    every = capabilities_of(ContainerCluster if _contained(config) else ModelCluster)
    return every - {DiskFailable, Remakable, Throttleable, WiredWithin}


def release(run: str, config: RunConfig) -> list[str]:
    """Remove what a run in containers left behind; what stayed, in sentences."""
    return reap(run) if _contained(config) else []


def _contained(config: RunConfig) -> bool:
    return config.section(ModelSection).containers


def refusal(config: RunConfig) -> str:
    """Which setting these brokers cannot honour, "" = they honour all."""
    its = config.section(ModelSection)
    if refused := refused_settings(config, its.era, its.mutant):
        return refused
    if config.compacted:
        return (
            "topic_settings: served brokers of the model compact no topics of applications; use sut=simulated"
        )
    if config.capture and not its.containers:
        return "capture: brokers that are processes have no network of their own; set containers=true"
    era = ERAS[its.era]
    if era.zookeeper:
        return f"era {its.era} keeps its metadata in ZooKeeper, which is not served; use sut=simulated"
    if era.client_transaction_version >= 2:
        return f"era {its.era} has clients of transaction version 2, and librdkafka speaks 1: add -tv1"
    if config.brokers + config.controllers > MOST_NODES:
        return f"brokers and controllers: at most {MOST_NODES} nodes"
    return ""


def _share_groups(config: RunConfig) -> str:
    return share_groups(config, config.section(ModelSection).era)


MODEL: Final = Backend(
    cluster=cluster, capabilities=capabilities, refusal=refusal, share_groups=_share_groups, release=release
)
