"""Kafka's nodes in KRaft mode as a deployment: any released version from 3.3 on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.config import RunConfig
from core.errors import ClusterError
from core.flushing import flushes_each
from core.systems import KafkaSection
from harness.brokers.addresses import cluster_id
from harness.brokers.admin.connection import BrokerConnection
from harness.brokers.admin.protocol import ControllerView, quorum_leader
from harness.containers.deployment import NodeAddresses
from harness.containers.nodes import NodeContainer
from harness.kafka.broker_config import environment, server_properties
from harness.kafka.evidence import NodeEvidence
from harness.kafka.images import ensure_image
from harness.kafka.power import lose_unflushed
from history.run_folder import Run

if TYPE_CHECKING:
    from docker import DockerClient

PROPERTIES = "/etc/kafka/node.properties"


class KRaft(NodeEvidence):
    """A `Deployment`."""

    command: Sequence[str] = ()
    own_program = False

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        run = Run(run_dir)
        super().__init__(run.copies)
        self._config = config
        self._cluster = cluster_id(run.name)

    def image(self, client: "DockerClient") -> str:
        """See `Deployment`."""
        return ensure_image(client, self._config.section(KafkaSection).version)

    def environment(self, node: int) -> Mapping[str, str]:
        """See `Deployment`."""
        return {"CLUSTER_ID": self._cluster, **environment(self._config, node)}

    def files(self, node: int, network: NodeAddresses) -> Mapping[str, str]:
        """See `Deployment`."""
        ports = network.ports
        text = server_properties(
            self._config, node, ports.advertised(node), ports.harness(node), proxied=network.proxied
        )
        return {PROPERTIES: text}

    def controller(self, connection: BrokerConnection) -> ControllerView:
        """See `Deployment`."""
        return quorum_leader(connection)

    def trouble(self, nodes: Sequence[NodeContainer]) -> str:
        """See `Deployment`."""
        return ""

    def flushes_each(self) -> bool:
        """See `Deployment`."""
        return flushes_each(self._config)

    def lose_power(self, nodes: Sequence[NodeContainer], seed: int | None) -> int:
        """See `Deployment`, and `power`."""
        try:
            return lose_unflushed(nodes, seed, self._copies, self._config)
        except OSError as error:
            raise ClusterError(f"no power loss: {error}") from error
