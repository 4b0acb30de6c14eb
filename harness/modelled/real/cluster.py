"""A cluster of the model's brokers as processes of this machine, behind Kafka's own protocol.

Clients, admin calls, toxics and rules of the wire reach it as they reach Kafka in containers. Kills and
pauses are those of processes; cuts are made by the nodes themselves (`serving.cut_links`); a power loss is a
SIGKILL after which a node finds what it had flushed. What nodes leave on disk becomes evidence by the code
that serves the simulation."""

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from core.capabilities import Cut
from core.cluster import Address as ListenerAddress
from core.cluster import Endpoint, NodeEnd, Security
from core.config import RunConfig
from core.errors import ClusterError
from core.systems import ModelSection
from harness.brokers.addresses import LOOPBACK, cluster_id, reserve
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import Brokers
from harness.brokers.admin.protocol import view
from harness.brokers.endpoint import endpoint
from harness.brokers.node_ends import NodeEnds
from harness.brokers.proxies import ProxiedBrokers
from harness.brokers.questions import AskedBrokers
from harness.modelled.real.encoded import disk
from harness.modelled.real.node import DISK, NodeAddress, NodeSettings, now_ms
from harness.modelled.real.node_process import LOG, NodeProcess
from harness.modelled.shared.base_time import BASE_MS
from harness.modelled.shared.disk_copy import DiskCopy
from harness.modelled.shared.evidence import tables
from harness.modelled.shared.settings import settings_of_run
from harness.processes import guard
from harness.processes.waiting import NotYet, on_each, until
from history import evidence, evidence_tables
from history.run_folder import Run

READY_DEADLINE_S: Final = 60.0
READY_POLL_S: Final = 0.1
SHUT_DOWN_S: Final = 30.0


def node_settings(
    config: RunConfig,
    node: int,
    addresses: Mapping[int, NodeAddress],
    cluster: str,
    folder: str,
    wall_ms: int,
    bind: str = LOOPBACK,
) -> NodeSettings:
    """What a node of a run is started with."""
    of_model = config.section(ModelSection)
    numbers = tuple(range(1, config.brokers + config.controllers + 1))
    brokers = numbers[: config.brokers]
    settings = settings_of_run(config, of_model.era, of_model.mutant)
    return NodeSettings(
        me=node,
        brokers=brokers,
        voters=numbers[config.brokers :] or brokers,
        addresses=addresses,
        cluster=cluster,
        folder=folder,
        era=of_model.era,
        mutant=of_model.mutant,
        model=NodeSettings.values(settings),
        bind=bind,
        wall_ms=wall_ms,
    )


class ModelCluster(AskedBrokers, ProxiedBrokers):
    """`Cluster`, `Killable`, `Powered`, `Pausable`, `Partitionable`, `Restartable`, `Electable`,
    `Reassignable`, `Deletable`, `Linked`, `Wired`. Verbs block and never suspend."""

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        """Reserve ports; nothing is started. Raises: ClusterError, where none are free."""
        self._config = config
        self._era = config.section(ModelSection).era
        self._settings = settings_of_run(config, self._era, config.section(ModelSection).mutant)
        self._folder = Run(run_dir).copies
        self._cluster = cluster_id(Run(run_dir).name)
        self._numbers = tuple(range(1, config.brokers + config.controllers + 1))
        self._plan = reserve()
        super().__init__(self._plan, self._numbers[: config.brokers])
        listeners = {n: ListenerAddress(LOOPBACK, self._plan.harness(n)) for n in self.brokers}
        self.admin = Brokers(listeners, cluster=self._cluster)
        self._processes: dict[int, NodeProcess] = {}
        self._ends = NodeEnds(self._down, lambda node: self._made(node).end())
        self._wall_ms = time.time_ns() // 1_000_000 - now_ms()
        self._cuts: list[Cut] = []
        self._takes: list[list[DiskCopy]] = []
        self._missed: list[str] = []
        self._remover: guard.Guard | None = None
        """Removes what nodes have on disk, also where the harness is killed."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """Node numbers: brokers, 1 to N, then isolated controllers, N + 1 to N + M."""
        return self._numbers

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the nodes that run."""
        return tuple(one.pid for one in self._processes.values() if one.is_up)

    def endpoint(self) -> Endpoint:
        """The client listeners of all brokers, on the loopback."""
        listeners = [ListenerAddress(LOOPBACK, self._plan.advertised(node)) for node in self.brokers]
        return endpoint(listeners, Security(), self._cluster)

    async def start(self) -> None:
        """Returns when every broker sees all of them. Raises: ClusterError."""
        self.start_proxies()
        try:
            self._remover = guard.remove(self._folder)
        except OSError as error:
            raise ClusterError(f"no guard of {self._folder} was started: {error}") from error
        addresses = {node: self._address(node) for node in self._numbers}
        for node in self._numbers:
            self._processes[node] = NodeProcess(self._described(node, addresses))
        on_each(lambda one: one.start(()), list(self._processes.values()))
        until(READY_DEADLINE_S, READY_POLL_S, self._ready)

    def _address(self, node: int) -> NodeAddress:
        ports = self._plan
        if node not in self.brokers:
            return NodeAddress(host=LOOPBACK, nodes=ports.nodes(node))
        return NodeAddress(
            host=LOOPBACK,
            nodes=ports.nodes(node),
            clients=self.behind_proxies(node),
            harness=ports.harness(node),
            advertised={
                "clients": (LOOPBACK, ports.advertised(node)),
                "harness": (LOOPBACK, ports.harness(node)),
            },
        )

    def _described(self, node: int, addresses: dict[int, NodeAddress]) -> NodeSettings:
        folder = str((self._folder / str(node)).resolve())
        return node_settings(self._config, node, addresses, self._cluster, folder, self._wall_ms)

    def _ready(self) -> None:
        for one in self._processes.values():
            if not one.is_up:
                raise ClusterError(one.trouble() or f"while starting, {one.end()}")
        everyone = frozenset(self.brokers)
        views = broker_views.ask_all(self.admin, view)
        blind = [node for node in self.brokers if node not in views or views[node].brokers != everyone]
        if blind:
            raise NotYet(f"node {blind[0]} did not see all {len(everyone)} brokers in {READY_DEADLINE_S:g} s")
        if broker_views.roles(self.admin, self.controller).controller < 0:
            raise NotYet(f"the controllers elected no leader within {READY_DEADLINE_S:g} s")

    async def trouble(self) -> str:
        """The program of a node failed, or a proxy has ended."""
        nodes = (one.trouble() for one in self._processes.values())
        return next(filter(None, nodes), "") or self.trouble_of_proxies()

    async def ended(self) -> Sequence[NodeEnd]:
        """Processes that ended, and neither `kill` nor another verb had ended them."""
        return self._ends.take()

    def _down(self) -> dict[int, str]:
        return {node: "" for node, one in self._processes.items() if one.pid >= 0 and not one.is_up}

    async def collect(self, into: Path) -> None:
        """Each node's log, over its restarts."""
        for node, process in self._processes.items():
            folder = into / str(node)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(process.log, folder / LOG)
            except OSError as error:
                self._missed.append(f"{folder}: {error}")

    async def take_evidence(self, into: Path) -> list[str]:
        """SIGKILL to all nodes at once; their disks then, and at earlier kills."""
        await self.kill(self._numbers)
        self._take(self._numbers, evidence_tables.END)
        try:
            evidence.write(into, tables(self._takes, self._settings, self._era))
        except (OSError, ValueError) as error:
            self._missed.append(f"{into}: {error}")
        return self._missed

    def _take(self, nodes: Sequence[int], why: str) -> None:
        ns, later_ms = time.monotonic_ns(), self._wall_ms - BASE_MS
        found = []
        for node in nodes:
            try:
                durable = disk.load(self._processes[node].folder / DISK, self._settings, later_ms)
            except (OSError, ValueError, KeyError) as error:
                self._missed.append(f"node {node} ({why}): {error}")
            else:
                found.append(DiskCopy(node=node, ns=ns, why=why, durable=durable))
        self._takes.append(found)

    async def stop(self) -> None:
        """End all processes, and remove what they had on disk."""
        with ExitStack() as steps:  # the last one comes first
            steps.callback(self._plan.release)
            if self._remover is not None:
                steps.callback(self._remover.release)
            steps.callback(self.stop_proxies)
            for process in self._processes.values():
                steps.callback(process.kill)

    # ---- what nemeses need

    async def kill(self, nodes: Sequence[int]) -> None:
        """SIGKILL to all of them at once; returns when they have ended."""
        self._ends.asked(nodes)
        for node in nodes:
            self._made(node).strike()
        for node in nodes:
            self._made(node).wait()

    def flushes_each(self) -> bool:
        """See `Powered`."""
        return self._settings.flush_every == 1

    async def lose_power(self, nodes: Sequence[int], seed: int | None = None) -> int:
        """SIGKILL; at its next start a node finds what it had flushed, and nothing is drawn."""
        await self.kill(nodes)
        lost = 0
        for node in nodes:
            self._made(node).powerless = True
            try:
                left = disk.load(self._made(node).folder / DISK, self._settings, 0)
            except (OSError, ValueError) as error:
                raise ClusterError(f"the disk of node {node} cannot be read: {error}") from error
            lost += sum(log.lose_power() for log in left.logs.values())
        return lost

    async def shut_down(self, nodes: Sequence[int]) -> Sequence[int]:
        """SIGTERM to brokers, then to isolated controllers; those that were killed after 30 s."""
        self._ends.asked(nodes)
        killed: list[int] = []
        for group in (self.brokers, self._numbers[len(self.brokers) :]):
            its = [self._made(node) for node in nodes if node in group]
            for one in its:
                one.terminate()
            late = on_each(lambda one: one.finish(SHUT_DOWN_S), its)
            killed += [one.number for one, was in zip(its, late, strict=True) if was]
        return killed

    async def revive(self, nodes: Sequence[int]) -> None:
        """Start nodes that are down; what killed ones left on disk is taken before."""
        self._ends.look()
        down = [node for node in nodes if not self._made(node).is_up]
        for why in (evidence_tables.KILLED, evidence_tables.LOST_POWER):
            powerless = why == evidence_tables.LOST_POWER
            crashed = [n for n in down if self._made(n).crashed and self._made(n).powerless is powerless]
            if crashed:
                self._take(crashed, why)
        for node in down:
            self._made(node).start(self._cuts)
            self._ends.started([node])

    async def pause(self, nodes: Sequence[int]) -> None:
        """SIGSTOP."""
        on_each(NodeProcess.pause, [self._made(node) for node in nodes])

    async def resume(self, nodes: Sequence[int]) -> None:
        """SIGCONT."""
        on_each(NodeProcess.resume, [self._made(node) for node in nodes])

    async def cut(self, cuts: Sequence[Cut]) -> None:
        """Add cuts. One that was made twice has to be mended twice. Raises: ClusterError."""
        self._cuts += cuts
        self._put_in_force()

    async def mend(self, cuts: Sequence[Cut]) -> None:
        """Remove cuts. Raises: ClusterError, where a link may still be cut."""
        for cut in cuts:
            if cut in self._cuts:
                self._cuts.remove(cut)
        self._put_in_force()

    def _put_in_force(self) -> None:
        on_each(lambda one: one.cut(self._cuts), list(self._processes.values()))

    def _made(self, node: int) -> NodeProcess:
        if node not in self._processes:
            raise ClusterError("the cluster was not started")
        return self._processes[node]
