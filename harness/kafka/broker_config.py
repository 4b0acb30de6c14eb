"""A node's `server.properties`: KRaft; broker and controller at once, or one of them.

Settings come in three layers, later ones win: `docker/kafka/broker.properties` (tight timings), what
the run's config says of replication, and the run's `broker_settings`.
"""

from core.cluster import Listener
from core.config import RunConfig
from core.errors import ClusterError
from harness.brokers.addresses import BEHIND_PORT, HARNESS_PORT, PORTS, host
from harness.containers.data import DATA
from harness.containers.images import RECIPES

CONTROLLER_HEAP = "128m"
"""Enough for metadata alone; a broker has 384 MB."""


def environment(config: RunConfig, node: int) -> dict[str, str]:
    """Environment of a node's entry point, apart from its properties."""
    return {} if node <= config.brokers else {"HEAP": CONTROLLER_HEAP}


def server_properties(
    config: RunConfig, node: int, advertised: int, harness: int, *, proxied: bool = False
) -> str:
    """The file of one node. Controllers get the run's `broker_settings` too: they elect leaders and
    create topics.

    advertised, harness: host ports that clients and the harness dial; unused by an isolated controller.
    proxied: other brokers reach it through a proxy (`between`).
    """
    ports = {str(name).upper(): port for name, port in PORTS.items()} | {"HARNESS": HARNESS_PORT}
    bound = ports | {"BROKER": BEHIND_PORT} if proxied else ports
    votes = range(1, config.brokers + 1)
    if config.controllers:
        votes = range(config.brokers + 1, config.brokers + config.controllers + 1)
    roles = [role for role, has in (("broker", node <= config.brokers), ("controller", node in votes)) if has]
    listeners = {
        name: port
        for name, port in bound.items()
        if ("controller" if name == "CONTROLLER" else "broker") in roles
    }
    own = {
        "process.roles": ",".join(roles),
        "node.id": str(node),
        "controller.quorum.voters": ",".join(
            f"{peer}@{host(config, peer)}:{PORTS[Listener.CONTROLLER]}" for peer in votes
        ),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(f"{name}://:{port}" for name, port in listeners.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ports),
        "log.dirs": DATA,
    }
    if "broker" in roles:
        own |= {
            "inter.broker.listener.name": "BROKER",
            "advertised.listeners": (
                f"BROKER://{host(config, node)}:{PORTS[Listener.BROKER]},"
                f"CLIENT://127.0.0.1:{advertised},HARNESS://127.0.0.1:{harness}"
            ),
            "listener.name.harness.num.network.threads": "1",
        }
    settings = {**_template(), **_replication(config), **own, **config.broker_settings}
    return "".join(f"{key}={value}\n" for key, value in settings.items())


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
