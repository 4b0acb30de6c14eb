"""What runs in the containers of a cluster, as one value: image, files, environment, controller, disks."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from core.capabilities import Listener
from harness.brokers.addresses import Plan
from harness.brokers.admin.connection import BrokerConnection
from harness.brokers.admin.protocol import ControllerView
from harness.containers.nodes import NodeContainer

if TYPE_CHECKING:
    from docker import DockerClient


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddresses:
    """Where the nodes of a cluster are reached."""

    addresses: Mapping[int, str]
    """Of each node, on the cluster's own network."""
    ports: Plan
    """On the host's loopback."""
    proxied: frozenset[Listener]
    """Listeners that other nodes reach through a proxy, which has the usual port."""


class Deployment(Protocol):
    """Made for one run; only the cluster of that run uses it."""

    names: Mapping[int, str]
    """Its nodes, by the names of their hosts: the brokers, 1 to N, then others."""
    command: Sequence[str]
    """What a container starts; empty = what its image says."""
    own_program: bool
    """The program of a node is the project's own: where it fails, Kafka is not to blame."""
    older: bool
    """Its brokers may lack versions of requests that the harness asks with (`Brokers`)."""

    def image(self, client: "DockerClient") -> str:
        """The image of nodes; built where it is missing. Raises: ClusterError."""

    def reached(self, node: int) -> Collection[Listener]:
        """Listeners of a node that other nodes dial, and that a proxy can stand before."""

    def environment(self, node: int) -> Mapping[str, str]:
        """Environment of a node's container."""

    def files(self, node: int, network: NodeAddresses) -> Mapping[str, str]:
        """Files that a node is started with: texts by path in its container. Copies stand beside its log."""

    def controller(self, connection: BrokerConnection) -> ControllerView:
        """Which node is controller, as one broker says. Raises: AdminError."""

    def trouble(self, nodes: Sequence[NodeContainer]) -> str:
        """Why these nodes can no longer be judged, "" = they can. Raises: ClusterError."""

    def flushes_each(self) -> bool:
        """See `core.capabilities.Powered`."""

    def lose_power(self, nodes: Sequence[NodeContainer], seed: int | None) -> int:
        """These nodes, which are down, lose what they had not flushed; how many batches. seed: of what is
        drawn. Raises: ClusterError."""

    def before_start(self, nodes: Sequence[NodeContainer], powerless: Collection[int]) -> None:
        """These nodes, which are down, are about to be started again: take what is on the disks of those that
        ended without a shutdown. powerless: the ones that lost power. Raises: ClusterError."""

    def at_end(self, nodes: Sequence[NodeContainer], ended: Mapping[int, str]) -> None:
        """Take what is on the disks of all nodes, which are down. ended: how the processes of those had ended
        (`nodes.deaths`) that were down before the run ended them. Never raises."""

    def miss(self, why: str) -> None:
        """Something could not be taken; a sentence."""

    def write(self, into: Path) -> list[str]:
        """Write the evidence of all takes; what is missing, in sentences. Never raises."""
