"""Brokers that keep their metadata in ZooKeeper as a deployment: versions to 3.9.

ZooKeeper's nodes come after the brokers; their jars are those that Kafka brings. In place of a metadata log
there is theirs of transactions (`harness.evidence.znodes`), which is taken at the end.

A broker makes up an id of its cluster where ZooKeeper has none. So the first start of each broker writes the
run's id (`docker/zookeeper/start.sh`), the first one for all of them.
"""

import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from core.capabilities import Listener
from core.config import RunConfig
from core.errors import ClusterError
from harness.brokers.admin.connection import BrokerConnection
from harness.brokers.admin.protocol import ControllerView, active_controller
from harness.containers.data import AT_END, DATA, copy_data
from harness.containers.deployment import NodeAddresses
from harness.containers.nodes import NodeContainer
from harness.evidence import znodes
from harness.evidence.damage import Damages
from harness.kafka.broker_config import FOR_BROKERS, advertised, directories, lines, listeners, rack, settings
from harness.kafka.nodes import PROPERTIES, KafkaNodes
from history.evidence_tables import DAMAGE, placed, table

CLIENT_PORT: Final = 2181
PEER_PORT: Final = 2888
ELECTION_PORT: Final = 3888
HEAP: Final = "64m"
SESSION: Final = "broker.session.timeout.ms"
"""Kafka's name for the session of a broker in KRaft mode; here, too, a run sets that one."""
SESSION_MS: Final = 3000
"""As there (`docker/kafka/broker.properties`)."""
TICK_MS: Final = 500
CONNECT_MS: Final = 24 * 3_600_000
"""How long a broker that starts waits for ZooKeeper: longer than a fault may hold that down, since the broker
ends then."""
SERVER: Final = {
    "dataDir": DATA,
    "clientPort": str(CLIENT_PORT),
    "tickTime": str(TICK_MS),
    "initLimit": "20",
    "syncLimit": "4",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "preAllocSize": "1024",
}
"""Settings of a node of ZooKeeper; versions before 3.5 leave unknown ones aside. It sets 64 MiB aside for
each file of its log, unless it is given another number of KiB."""


def refused_session(config: RunConfig) -> str:
    """Why ZooKeeper has no sessions as long as this config's, "" = it has: they last 2 to 20 ticks, and it
    gives the next of these to who asks for another."""
    given = config.broker_settings.get(SESSION, str(SESSION_MS))
    if given.isdecimal() and 2 * TICK_MS <= int(given) <= 20 * TICK_MS:
        return ""
    return f"broker_settings: {SESSION}: a session in ZooKeeper lasts {2 * TICK_MS} to {20 * TICK_MS} ms here"


class ZooKeeperNodes(KafkaNodes):
    """A `Deployment`."""

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        super().__init__(config, run_dir)
        first = config.brokers + 1
        self._brokers = self.names
        self._ensemble = {node: f"zookeeper-{node}" for node in range(first, first + self._section.ensemble)}
        self.names = {**self._brokers, **self._ensemble}

    def reached(self, node: int) -> Collection[Listener]:
        """See `Deployment`."""
        return {Listener.BROKER} if node in self._brokers else set()

    def environment(self, node: int) -> Mapping[str, str]:
        """See `Deployment`."""
        if node in self._ensemble:
            return {"ROLE": "zookeeper", "HEAP": HEAP, "ZOOKEEPER_ID": str(node)}
        return {"ROLE": "broker", "CLUSTER_ID": self._cluster, "ZOOKEEPER": self._connect}

    def files(self, node: int, network: NodeAddresses) -> Mapping[str, str]:
        """See `Deployment`."""
        return {PROPERTIES: self._server() if node in self._ensemble else self._broker(node, network)}

    def controller(self, connection: BrokerConnection) -> ControllerView:
        """See `Deployment`."""
        return active_controller(connection)

    def before_start(self, nodes: Sequence[NodeContainer], powerless: Collection[int] = ()) -> None:
        """See `Deployment`; ZooKeeper's nodes have no logs of Kafka."""
        super().before_start(self._of_brokers(nodes), powerless)

    def at_end(self, nodes: Sequence[NodeContainer], ended: Mapping[int, str] = MappingProxyType({})) -> None:
        """See `before_start`; of ZooKeeper's nodes their logs of transactions."""
        super().at_end(self._of_brokers(nodes), ended)
        for node in nodes:
            if node.number in self._ensemble:
                self._take_znodes(node)

    def _take_znodes(self, node: NodeContainer) -> None:
        """A log that cannot be had is damaged, too: it may have what no other one has."""
        what, damages, made = f"the log of {self.names[node.number]}", Damages(), {}
        try:
            copy_data(node.own, self._copies, AT_END)
            made["znodes"] = znodes.read(self._copies, damages)
            places = [(f"{one.file.relative_to(self._copies)}", one.position, one.why) for one in damages]
            missed = [f"{file}, byte {position}: {why}" for file, position, why in places]
        except (ClusterError, OSError) as error:
            places, missed = [(znodes.FOLDER, 0, f"{error}")], [f"{error}"]
        finally:
            shutil.rmtree(self._copies, ignore_errors=True)
        made["damage"] = table(DAMAGE, places)
        where = self._takes.last, node.number
        self._takes.add({name: placed(name, rows, *where) for name, rows in made.items()})
        for why in missed:
            self._takes.miss(f"{what}: {why}")

    def _of_brokers(self, nodes: Sequence[NodeContainer]) -> list[NodeContainer]:
        return [node for node in nodes if node.number in self._brokers]

    @property
    def _connect(self) -> str:
        return ",".join(f"{name}:{CLIENT_PORT}" for name in self._ensemble.values())

    def _server(self) -> str:
        peers = {
            f"server.{node}": f"{name}:{PEER_PORT}:{ELECTION_PORT}" for node, name in self._ensemble.items()
        }
        return lines({**SERVER, **(peers if len(peers) > 1 else {})})

    def _broker(self, node: int, network: NodeAddresses) -> str:
        ports = network.ports
        own = {
            "broker.id": str(node),
            "zookeeper.connect": self._connect,
            "zookeeper.session.timeout.ms": self._config.broker_settings.get(SESSION, str(SESSION_MS)),
            "zookeeper.connection.timeout.ms": str(CONNECT_MS),
            **listeners(FOR_BROKERS, proxied=network.proxied),
            **advertised(self.names[node], ports.advertised(node), ports.harness(node)),
            **rack(self._config, node),
            **directories(self._config),
        }
        return lines(settings(self._config, own))
