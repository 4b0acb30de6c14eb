"""The model's nodes in containers as a deployment, on the network that Kafka's would have.

The same faults hit them by the same means: kills and the freezer of the engine, rules of the firewall,
proxies in front of the listeners. Only the image, the settings and what is read from the disk are other ones.
"""

import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from core.capabilities import Listener
from core.config import RunConfig
from core.errors import ClusterError
from core.systems import ModelSection
from harness.brokers.addresses import BEHIND, HARNESS_PORT, LOOPBACK, PORTS, cluster_id, host_names
from harness.brokers.admin.connection import BrokerConnection
from harness.brokers.admin.protocol import ControllerView, quorum_leader
from harness.containers.cluster import ContainerCluster
from harness.containers.code_image import ensure_code_image
from harness.containers.data import (
    AT_END,
    AT_KILL,
    AT_POWER_LOSS,
    DATA,
    SHUT_DOWN,
    Limit,
    copy_data,
    put_files,
)
from harness.containers.deployment import NodeAddresses
from harness.containers.nodes import NodeContainer
from harness.modelled.real.cluster import node_settings
from harness.modelled.real.encoded.disk import load
from harness.modelled.real.node import DISK, LOST_POWER, NodeAddress, now_ms
from harness.modelled.real.node_main import FAILED
from harness.modelled.real.node_main import __name__ as PROGRAM
from harness.modelled.shared.base_time import BASE_MS
from harness.modelled.shared.disk_copy import DiskCopy
from harness.modelled.shared.evidence import tables
from harness.modelled.shared.settings import settings_of_run
from harness.processes.waiting import on_each
from history import evidence, evidence_tables
from history.run_folder import Run
from model.broker import Durable

if TYPE_CHECKING:
    from docker import DockerClient

EVERYWHERE: Final = "0.0.0.0"  # in its container; only the loopback's ports are published
SETTINGS: Final = "/etc/inquest/node.json"


def model_containers(config: RunConfig, run_dir: Path) -> ContainerCluster:
    """A cluster of the model in containers; nothing is started. Raises: ClusterError, where no ports are
    free."""
    return ContainerCluster(config, run_dir, ModelNodes(config, run_dir))


class ModelNodes:
    """A `Deployment`. A power loss is a SIGKILL after which a node finds what it had flushed."""

    command: Sequence[str] = (PROGRAM, SETTINGS)
    own_program = True
    older = False

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        run = Run(run_dir)
        self._config = config
        self._copies = run.copies
        self.names: Mapping[int, str] = host_names(config)
        self._cluster = cluster_id(run.name)
        self._brokers = tuple(range(1, config.brokers + 1))
        self._era = config.section(ModelSection).era
        self._settings = settings_of_run(config, self._era, config.section(ModelSection).mutant)
        self._wall_ms = time.time_ns() // 1_000_000 - now_ms()
        self._takes: list[list[DiskCopy]] = []
        self._missed: list[str] = []

    def image(self, client: "DockerClient") -> str:
        """See `Deployment`."""
        return ensure_code_image(client)

    def reached(self, node: int) -> Collection[Listener]:
        """See `Deployment`."""
        return {Listener.BROKER} if node in self._brokers else set()

    def environment(self, node: int) -> Mapping[str, str]:
        """See `Deployment`."""
        return {}

    def files(self, node: int, network: NodeAddresses) -> Mapping[str, str]:
        """See `Deployment`."""
        addresses = {number: self._address(number, network) for number in network.addresses}
        if network.proxied and node in self._brokers:  # a proxy has the port that others dial
            addresses[node] = msgspec.structs.replace(addresses[node], nodes=BEHIND[Listener.BROKER])
        settings = node_settings(
            self._config, node, addresses, self._cluster, DATA, self._wall_ms, bind=EVERYWHERE
        )
        return {SETTINGS: msgspec.json.encode(settings).decode()}

    def controller(self, connection: BrokerConnection) -> ControllerView:
        """See `Deployment`."""
        return quorum_leader(connection)

    def trouble(self, nodes: Sequence[NodeContainer]) -> str:
        """The program of a node failed."""
        for one in nodes:
            if not one.is_up() and one.exit_code() == FAILED:
                return f"the program of node {one.number} failed: see its server.log"
        return ""

    def flushes_each(self) -> bool:
        """See `Deployment`."""
        return self._settings.flush_every == 1

    def lose_power(self, nodes: Sequence[NodeContainer], seed: int | None) -> int:
        """See the class; nothing is drawn."""
        lost = 0
        for one in nodes:
            try:
                durable = self._copy(one, AT_POWER_LOSS)
            except (OSError, ValueError, KeyError) as error:
                raise ClusterError(f"the disk of node {one.number} cannot be read: {error}") from error
            finally:
                shutil.rmtree(self._copies, ignore_errors=True)
            lost += sum(log.lose_power() for log in durable.logs.values())
        return lost

    def before_start(self, nodes: Sequence[NodeContainer], powerless: Collection[int]) -> None:
        """See `Deployment`."""
        killed = [one for one in nodes if one.exit_code() not in SHUT_DOWN]
        for why, lost in ((evidence_tables.KILLED, False), (evidence_tables.LOST_POWER, True)):
            if its := [one for one in killed if (one.number in powerless) is lost]:
                self._take(its, why, Limit(AT_KILL.bytes // len(its), AT_KILL.seconds))
        for one in nodes:
            if one.number in powerless:
                put_files(one.own, {LOST_POWER: b""})

    def at_end(self, nodes: Sequence[NodeContainer], ended: Mapping[int, str]) -> None:
        """See `Deployment`; a node cuts its logs when it starts after a loss of power, so none is cut yet."""
        self._take(nodes, evidence_tables.END, AT_END)

    def miss(self, why: str) -> None:
        """See `Deployment`."""
        self._missed.append(why)

    def write(self, into: Path) -> list[str]:
        """See `Deployment`."""
        try:
            if self._takes:
                evidence.write(into, tables(self._takes, self._settings, self._era))
        except (OSError, ValueError) as error:
            self._missed.append(f"{into}: {error}")
        return self._missed

    def _take(self, nodes: Sequence[NodeContainer], why: str, limit: Limit) -> None:
        ns, found = time.monotonic_ns(), list[DiskCopy]()

        def one(node: NodeContainer) -> None:
            try:
                durable = self._copy(node, limit)
            except (ClusterError, OSError, ValueError, KeyError) as error:
                self._missed.append(f"node {node.number} ({why}): {error}")
            else:
                found.append(DiskCopy(node=node.number, ns=ns, why=why, durable=durable))

        try:
            on_each(one, nodes)
        finally:
            shutil.rmtree(self._copies, ignore_errors=True)
        self._takes.append(sorted(found, key=lambda disk: disk.node))

    def _copy(self, node: NodeContainer, limit: Limit) -> Durable:
        place = self._copies / str(node.number)
        copy_data(node.own, place, limit)
        return load(place / DISK, self._settings, self._wall_ms - BASE_MS)

    def _address(self, node: int, network: NodeAddresses) -> NodeAddress:
        own = NodeAddress(
            host=network.addresses[node], nodes=PORTS[Listener.BROKER], controllers=PORTS[Listener.CONTROLLER]
        )
        if node not in self._brokers:
            return own
        ports = network.ports
        return msgspec.structs.replace(
            own,
            clients=PORTS[Listener.CLIENT],
            harness=HARNESS_PORT,
            advertised={
                "clients": (LOOPBACK, ports.advertised(node)),
                "harness": (LOOPBACK, ports.harness(node)),
            },
        )
