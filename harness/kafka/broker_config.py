"""A node's `server.properties`: in KRaft mode broker and controller at once, or one of them; what all brokers
have in common.

Settings come in three layers, later ones win: `docker/kafka/broker.properties` (tight timings), what
the run's config says of replication, and the run's `broker_settings`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from core.capabilities import Listener
from core.config import RunConfig
from core.errors import ClusterError
from core.systems import KafkaSection
from harness.brokers.addresses import BEHIND, HARNESS_PORT, PORTS, host
from harness.containers.data import DATA, SECOND
from harness.containers.images import RECIPES
from harness.kafka import quorum

ALL: Final = {str(name).upper(): port for name, port in PORTS.items()} | {"HARNESS": HARNESS_PORT}
"""Ports by the names of listeners."""
FOR_BROKERS: Final = tuple(name for name in ALL if name != "CONTROLLER")
"""Listeners of a broker that is not a controller in KRaft mode."""
CONTROLLER_HEAP = "128m"
"""Enough for metadata alone; a broker has 384 MB."""
ADVERTISED: Final = "advertised.listeners"


def environment(config: RunConfig, node: int) -> dict[str, str]:
    """Environment of a node's entry point, apart from its properties."""
    return {} if node <= config.brokers else {"HEAP": CONTROLLER_HEAP}


def server_properties(
    config: RunConfig,
    node: int,
    advertised_port: int,
    harness_port: int,
    *,
    proxied: Collection[Listener] = (),
) -> str:
    """The file of one node in KRaft mode. Controllers get the run's `broker_settings` too: they elect leaders
    and create topics.

    advertised_port, harness_port: of the host, as `advertised` has them; unused by an isolated controller.
    proxied: as `listeners` has it.
    """
    votes = node in quorum.voters(config)
    roles = [role for role, has in (("broker", node <= config.brokers), ("controller", votes)) if has]
    bound = [name for name in ALL if ("controller" if name == "CONTROLLER" else "broker") in roles]
    own = {
        "process.roles": ",".join(roles),
        "node.id": str(node),
        **quorum.properties(config),
        "controller.listener.names": quorum.CONTROLLER,
        **listeners(bound, proxied=proxied),
        "listener.security.protocol.map": _plaintext(ALL),
    }
    name = host(config, node)
    if "broker" in roles:
        own |= directories(config) | advertised(name, advertised_port, harness_port) | rack(config, node)
    if "controller" in roles and Listener.CONTROLLER in proxied:
        others = [own[ADVERTISED]] if ADVERTISED in own else []
        own[ADVERTISED] = ",".join([*others, f"CONTROLLER://{name}:{PORTS[Listener.CONTROLLER]}"])
    return lines(settings(config, own))


def listeners(names: Sequence[str], *, proxied: Collection[Listener]) -> dict[str, str]:
    """Listeners of a node, without TLS. proxied: other nodes reach them through a proxy (`between`)."""
    bound = ALL | {str(one).upper(): BEHIND[one] for one in proxied}
    return {
        "listeners": ",".join(f"{name}://:{bound[name]}" for name in names),
        "listener.security.protocol.map": _plaintext(names),
    }


def advertised(name: str, advertised_port: int, harness_port: int) -> dict[str, str]:
    """What a broker tells others of its listeners. name: of its host. advertised_port, harness_port: of the
    engine's host, as clients and the harness dial them."""
    return {
        "inter.broker.listener.name": "BROKER",
        ADVERTISED: (
            f"BROKER://{name}:{PORTS[Listener.BROKER]},"
            f"CLIENT://127.0.0.1:{advertised_port},HARNESS://127.0.0.1:{harness_port}"
        ),
        "listener.name.harness.num.network.threads": "1",
    }


def rack(config: RunConfig, node: int) -> dict[str, str]:
    """Which rack a broker is in."""
    racks = config.section(KafkaSection).racks
    return {"broker.rack": f"rack-{(node - 1) % racks + 1}"} if racks else {}


def directories(config: RunConfig) -> dict[str, str]:
    """Where a broker keeps its logs. The metadata log is in the first directory."""
    both = config.section(KafkaSection).log_dirs > 1
    return {"log.dirs": f"{DATA},{SECOND}"} if both else {}


def settings(config: RunConfig, own: Mapping[str, str]) -> dict[str, str]:
    """All settings of a node of Kafka. own: those that make it the node that it is."""
    return {**_template(), **_replication(config), "log.dirs": DATA, **own, **config.broker_settings}


def lines(given: Mapping[str, str]) -> str:
    """Settings as a file of Java's properties."""
    return "".join(f"{key}={value}\n" for key, value in given.items())


def _plaintext(names: Iterable[str]) -> str:
    return ",".join(f"{name}:PLAINTEXT" for name in names)


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
