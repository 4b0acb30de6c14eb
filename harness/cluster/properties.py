"""A node's `server.properties`: KRaft, combined broker and controller, four listeners.

Settings come in three layers, later ones win: `docker/kafka/broker.properties` (tight timings), what
the run's config says of replication, and the run's `broker_settings`.

Not here: clients' settings (`settings`), JVM flags (`docker/kafka/start.sh`).
"""

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

from harness.cluster import ClusterError, Listener
from harness.config import RunConfig

RECIPES = Path(__file__).resolve().parents[2] / "docker"
"""Image recipes and the template; the project is run from its source tree."""

PORTS: Mapping[Listener, int] = {
    Listener.BROKER: 9092,
    Listener.CONTROLLER: 9093,
    Listener.CLIENT: 9094,
}
HARNESS_PORT = 9095
"""The harness's own listener: cuts of client traffic and proxies do not touch it."""


def host(node: int) -> str:
    """Name of a node inside the cluster (each node's hosts file knows all of them)."""
    return f"broker-{node}"


def cluster_id(run: str) -> str:
    """A cluster id (16 bytes, base64url) made from the run's name.

    Its first bit is 0, so it never begins with `-`, which Kafka's tools would take for an option.
    """
    digest = hashlib.sha256(run.encode()).digest()
    raw = bytes([digest[0] & 0x7F]) + digest[1:16]
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def server_properties(config: RunConfig, node: int, advertised: int, harness: int) -> str:
    """The whole file for one node.

    advertised, harness: host ports that clients and the harness are told to dial.
    """
    nodes = range(1, config.brokers + 1)
    ports = {str(name).upper(): port for name, port in PORTS.items()} | {"HARNESS": HARNESS_PORT}
    own = {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(
            f"{peer}@{host(peer)}:{PORTS[Listener.CONTROLLER]}" for peer in nodes
        ),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "BROKER",
        "listeners": ",".join(f"{name}://:{port}" for name, port in ports.items()),
        "advertised.listeners": (
            f"BROKER://{host(node)}:{PORTS[Listener.BROKER]},"
            f"CLIENT://127.0.0.1:{advertised},HARNESS://127.0.0.1:{harness}"
        ),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ports),
        "listener.name.harness.num.network.threads": "1",
        "log.dirs": "/data",
    }
    settings = {**_template(), **_replication(config), **own, **config.broker_settings}
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def topic_settings(config: RunConfig, settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of a workload's topic: what the config says of safety, then the caller's own."""
    return {
        "min.insync.replicas": str(config.min_insync_replicas),
        "unclean.leader.election.enable": str(config.unclean_leader_election).lower(),
        **settings,
    }


def _replication(config: RunConfig) -> dict[str, str]:
    copies = min(3, config.brokers)
    return {
        "default.replication.factor": str(copies),
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(min(2, copies)),
        "min.insync.replicas": str(min(config.min_insync_replicas, copies)),
        "unclean.leader.election.enable": str(config.unclean_leader_election).lower(),
    }


def _template() -> dict[str, str]:
    path = RECIPES / "kafka" / "broker.properties"
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ClusterError(f"{path} cannot be read ({error}); run from a source tree") from error
    pairs = (line.partition("=") for line in lines if line.strip() and not line.startswith("#"))
    return {key.strip(): value.strip() for key, _, value in pairs}
