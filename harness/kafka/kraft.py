"""Kafka's nodes in KRaft mode as a deployment: any released version from 3.3 on."""

from collections.abc import Collection, Mapping

from core.capabilities import Listener
from harness.brokers.admin.connection import BrokerConnection
from harness.brokers.admin.protocol import ControllerView, quorum_leader
from harness.containers.deployment import NodeAddresses
from harness.kafka import quorum
from harness.kafka.broker_config import environment, server_properties
from harness.kafka.nodes import PROPERTIES, KafkaNodes


class KRaft(KafkaNodes):
    """A `Deployment`."""

    def reached(self, node: int) -> Collection[Listener]:
        """See `Deployment`."""
        of_broker = {Listener.BROKER} if node <= self._config.brokers else set()
        return of_broker | ({Listener.CONTROLLER} if node in quorum.voters(self._config) else set())

    def environment(self, node: int) -> Mapping[str, str]:
        """See `Deployment`."""
        own = environment(self._config, node)
        return {"CLUSTER_ID": self._cluster, **quorum.environment(self._config, self._cluster, node), **own}

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
