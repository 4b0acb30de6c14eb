"""The metadata quorum of a cluster in KRaft mode: who votes at first, and where that is kept.

Static: each node has the voters in its settings. Dynamic (KIP-853): nodes have addresses to begin with
(`controller.quorum.bootstrap.servers`), and the voters stand in the metadata log, from what the first ones
were formatted with. A voter is a node and the id of the directory with its metadata log, which follows here
from cluster and node.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from core.capabilities import Listener
from core.cluster import Address
from core.config import RunConfig
from core.systems import KafkaSection
from harness.brokers.addresses import PORTS, host

DYNAMIC: Final = "dynamic"
CONTROLLER: Final = "CONTROLLER"
"""Name of the controllers' listener."""


def voters(config: RunConfig) -> Sequence[int]:
    """Who votes at first: the isolated controllers, or every broker."""
    if config.controllers:
        return range(config.brokers + 1, config.brokers + config.controllers + 1)
    return range(1, config.brokers + 1)


def is_dynamic(config: RunConfig) -> bool:
    """Whether the metadata log says who votes."""
    return config.section(KafkaSection).quorum == DYNAMIC


def directory_id(cluster: str, node: int) -> UUID:
    """Of the directory with a voter's metadata log. Its first bit is 0 (as in `cluster_id`), its second 1:
    Kafka has ids of its own near 0."""
    digest = hashlib.sha256(f"{cluster} {node}".encode()).digest()
    return UUID(bytes=bytes([digest[0] & 0x3F | 0x40]) + digest[1:16])


def address(config: RunConfig, node: int) -> Address:
    """Where other nodes reach the controller of a node."""
    return Address(host(config, node), PORTS[Listener.CONTROLLER])


def properties(config: RunConfig) -> dict[str, str]:
    """Settings of each node."""
    if is_dynamic(config):
        told = ",".join(str(address(config, node)) for node in voters(config))
        return {"controller.quorum.bootstrap.servers": told}
    told = ",".join(f"{node}@{address(config, node)}" for node in voters(config))
    return {"controller.quorum.voters": told}


def environment(config: RunConfig, cluster: str, node: int) -> Mapping[str, str]:
    """What the entry point of a node formats it with (`docker/kafka/start.sh`)."""
    if not is_dynamic(config):
        return {}
    if node not in voters(config):
        return {"FORMAT": "--no-initial-controllers"}
    first = ",".join(
        f"{one}@{address(config, one)}:{_base64(directory_id(cluster, one))}" for one in voters(config)
    )
    return {"FORMAT": f"--initial-controllers={first}"}


def _base64(uuid: UUID) -> str:
    return urlsafe_b64encode(uuid.bytes).decode().rstrip("=")
