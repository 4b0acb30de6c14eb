"""A cluster of the model's brokers in containers, on the network that Kafka's would have.

The same faults hit them by the same means: kills and the freezer of the engine, rules of the firewall,
proxies in front of the listeners. Only the image, the settings and what is read from the disk are other ones.
"""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from core.cluster import Listener
from core.config import RunConfig
from core.errors import ClusterError
from harness.brokers.addresses import BEHIND_PORT, HARNESS_PORT, LOOPBACK, PORTS
from harness.containers.code_image import ensure_code_image
from harness.containers.data import DATA, Limit, copy_data, put_files
from harness.containers.nodes import NodeContainer, RunEngine, kill_all
from harness.kafka.cluster import READY_DEADLINE_S, KafkaCluster
from harness.kafka.evidence import END_BYTES, END_S, KILLED_BYTES, KILLED_S, SHUT_DOWN
from harness.kafka.power import LIMIT as LOSS
from harness.modelled.real.cluster import node_settings
from harness.modelled.real.disk import load
from harness.modelled.real.node import DISK, LOST_POWER, NodeAddress, now_ms
from harness.modelled.real.node_main import FAILED
from harness.modelled.real.node_main import __name__ as PROGRAM
from harness.modelled.shared.base_time import BASE_MS
from harness.modelled.shared.disk_copy import Disk
from harness.modelled.shared.evidence import tables
from harness.modelled.shared.settings import settings_of_run
from harness.processes.waiting import on_each
from history import evidence
from model.broker import Durable

if TYPE_CHECKING:
    from docker import DockerClient

EVERYWHERE: Final = "0.0.0.0"  # in its container; only the loopback's ports are published


class ModelContainers(KafkaCluster):
    """As `KafkaCluster`; a power loss is a SIGKILL after which a node finds what it had flushed."""

    PROPERTIES = "/etc/inquest/node.json"
    OWN_PROGRAM = True

    def __init__(
        self, config: RunConfig, run_dir: Path, *, ready_deadline_s: float = READY_DEADLINE_S
    ) -> None:
        """Reserve ports; nothing is started. Raises: ClusterError, where none are free."""
        super().__init__(config, run_dir, ready_deadline_s=ready_deadline_s)
        assert config.model is not None
        self._era = config.model.era
        self._settings = settings_of_run(config, self._era, config.model.mutant)
        self._wall_ms = time.time_ns() // 1_000_000 - now_ms()
        self._takes: list[list[Disk]] = []
        self._missed: list[str] = []

    async def trouble(self) -> str:
        """As `KafkaCluster.trouble`; or the program of a node failed."""
        for one in self._containers.values():
            if not one.is_up() and one.exit_code() == FAILED:
                return f"the program of node {one.number} failed: see its server.log"
        return await super().trouble()

    async def revive(self, nodes: Sequence[int]) -> None:
        """Start ended nodes; what killed ones left on disk is taken before."""
        self._ends.look()
        down = [one for one in self._made(nodes) if not one.is_up()]
        killed = [one for one in down if one.exit_code() not in SHUT_DOWN]
        for why, lost in ((evidence.KILLED, False), (evidence.LOST_POWER, True)):
            its = [one for one in killed if (one.number in self._powerless) is lost]
            if its:
                self._take(its, why, Limit(KILLED_BYTES // len(its), KILLED_S))
        for one in down:
            if one.number in self._powerless:
                put_files(one.own, {LOST_POWER: b""})
            one.start()
            self._ends.started([one.number])
            self._links.reapply(one.number)
            self._stand_between(one)
        self._powerless.difference_update(one.number for one in down)

    def flushes_each(self) -> bool:
        """See `Powered`."""
        return self._settings.flush_every == 1

    async def lose_power(self, nodes: Sequence[int], seed: int | None = None) -> int:
        """See the class; nothing is drawn."""
        await self.kill(nodes)
        self._powerless.update(nodes)
        lost = 0
        for one in self._made(nodes):
            try:
                durable = self._copy(one, LOSS)
            except (OSError, ValueError, KeyError) as error:
                raise ClusterError(f"the disk of node {one.number} cannot be read: {error}") from error
            finally:
                shutil.rmtree(self._copies, ignore_errors=True)
            lost += sum(log.lose_power() for log in durable.logs.values())
        return lost

    def _take_disks(self, into: Path) -> list[str]:
        try:
            nodes = self._made(self.nodes)
            self._ends.asked(self.nodes)
            kill_all(nodes)
            self._take(nodes, evidence.END, Limit(END_BYTES, END_S))
            evidence.write(into, tables(self._takes, self._settings, self._era))
        except (ClusterError, OSError, ValueError) as error:
            self._missed.append(f"{into}: {error}")
        return self._missed

    def _take(self, nodes: Sequence[NodeContainer], why: str, limit: Limit) -> None:
        ns, found = time.monotonic_ns(), list[Disk]()

        def one(node: NodeContainer) -> None:
            try:
                durable = self._copy(node, limit)
            except (ClusterError, OSError, ValueError, KeyError) as error:
                self._missed.append(f"node {node.number} ({why}): {error}")
            else:
                found.append(Disk(node=node.number, ns=ns, why=why, durable=durable))

        try:
            on_each(one, nodes)
        finally:
            shutil.rmtree(self._copies, ignore_errors=True)
        self._takes.append(sorted(found, key=lambda disk: disk.node))

    def _copy(self, node: NodeContainer, limit: Limit) -> Durable:
        place = self._copies / str(node.number)
        copy_data(node.own, place, limit)
        return load(place / DISK, self._settings, self._wall_ms - BASE_MS)

    # ---- what is not Kafka's

    def _built(self, client: "DockerClient") -> str:
        return ensure_code_image(client)

    def _environment(self, node: int) -> dict[str, str]:
        return {}

    def _described(self, run_engine: RunEngine, node: int) -> NodeContainer:
        return super()._described(run_engine, node).with_command([PROGRAM, self.PROPERTIES])

    def _properties(self, node: int) -> str:
        addresses = {number: self._node_address(number) for number in self.nodes}
        if self._between is not None and node in self.brokers:  # a proxy has the port that others dial
            addresses[node] = msgspec.structs.replace(addresses[node], nodes=BEHIND_PORT)
        settings = node_settings(
            self._config, node, addresses, self._cluster, DATA, self._wall_ms, bind=EVERYWHERE
        )
        return msgspec.json.encode(settings).decode()

    def _node_address(self, node: int) -> NodeAddress:
        nodes, controllers = PORTS[Listener.BROKER], PORTS[Listener.CONTROLLER]
        if node not in self.brokers:
            return NodeAddress(host=self.addresses[node], nodes=nodes, controllers=controllers)
        return NodeAddress(
            host=self.addresses[node],
            nodes=nodes,
            controllers=controllers,
            clients=PORTS[Listener.CLIENT],
            harness=HARNESS_PORT,
            advertised={
                "clients": (LOOPBACK, self._plan.advertised(node)),
                "harness": (LOOPBACK, self._plan.harness(node)),
            },
        )
