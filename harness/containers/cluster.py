"""Brokers in containers of one Docker engine: what runs in them is a `Deployment`, all else is the same.

N brokers, which in KRaft mode are controllers as well unless the run asks for isolated ones. Isolated
controllers, or the nodes of ZooKeeper, are nodes N + 1 to N + M, without any listener on the host. Nodes have
static addresses on a private network (a restarted container keeps its own, so firewall rules still match it);
brokers publish two listeners on the host's loopback: one for clients, one for the harness. Data live in the
containers and are removed with them.

Verbs block and never suspend. Those that only send requests to brokers (`roles`, `offsets`,
`open_transactions`, `replicas`, `elect_preferred`, `reorder`) may be called from any thread; the
other verbs from one thread at a time.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from core.capabilities import Cut, Listener
from core.cluster import Address, Endpoint, NodeEnd, Security
from core.config import RunConfig
from core.errors import ClusterError, LogsKept
from core.terminal import say
from harness.brokers.addresses import HARNESS_PORT, LOOPBACK, PORTS, address, cluster_id, reserve
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import Brokers
from harness.brokers.admin.protocol import view
from harness.brokers.endpoint import endpoint
from harness.brokers.node_ends import NodeEnds
from harness.brokers.peer_proxies import Between
from harness.brokers.proxies import ProxiedBrokers
from harness.brokers.questions import AskedBrokers
from harness.containers import claims, data, engine, firewall, sidecar
from harness.containers.code_image import ensure_code_image
from harness.containers.deployment import Deployment, NodeAddresses
from harness.containers.ends import ENDED, end_of
from harness.containers.nodes import NodeContainer, RunEngine, bridge, create_network, deaths, kill_all
from harness.containers.reaper import start_reaper
from harness.containers.sidecar import Sidecar
from harness.processes.clocks import boot
from harness.processes.reaper import Reaper
from harness.processes.waiting import NotYet, on_each, until
from harness.wire.capture import Capture
from harness.wire.capture_main import Watch
from harness.wire.capture_main import __name__ as CAPTURE
from history.run_folder import Run

if TYPE_CHECKING:
    from docker import DockerClient

READY_DEADLINE_S = 120.0
READY_POLL_S = 0.2
TROUBLE_S = 4.0
CAPTURED = "/captured"
"""Where the capture's container has its tables."""


class ContainerCluster(AskedBrokers, ProxiedBrokers):
    """`Cluster` and all capabilities over containers of one Docker engine.

    run: value of the label that all its containers and networks carry. addresses: IP address of each
    node, once started.
    """

    def __init__(
        self,
        config: RunConfig,
        run_dir: Path,
        deployment: Deployment,
        *,
        ready_deadline_s: float = READY_DEADLINE_S,
    ) -> None:
        """Reserve ports; nothing is started. Raises: ClusterError, where none are free."""
        self._config = config
        self.deployment, self.controller = deployment, deployment.controller
        run = Run(run_dir)
        self.run = run.name
        self._copies, self._captured = run.copies, run.captured
        self._capture: Capture | None = None
        self._nodes = tuple(deployment.names)
        self._ready_deadline_s = ready_deadline_s
        self._plan = reserve()
        super().__init__(self._plan, self._nodes[: config.brokers])
        self._cluster = cluster_id(self.run)
        listeners = {n: Address(LOOPBACK, self._plan.harness(n)) for n in self.brokers}
        self.admin = Brokers(listeners, cluster=self._cluster, older=deployment.older)
        self._image = self._code_image = ""
        self._client: DockerClient | None = None
        self._watcher: DockerClient | None = None
        self._containers: dict[int, NodeContainer] = {}
        self._claim: claims.Claim | None = None
        self._ends = NodeEnds(self._down, self._described_end)
        self._reaper: Reaper | None = None
        self._powerless: set[int] = set()
        self._unlinked: set[int] = set()
        """Nodes that were started, and do not have their cuts and their proxy for certain."""
        self._from_host: bool | None = None
        self.addresses: dict[int, str] = {}
        self._links = firewall.Links(self.addresses, PORTS, self._set_table)

    @property
    def nodes(self) -> tuple[int, ...]:
        """Node numbers: brokers, 1 to N, then isolated controllers or ZooKeeper's nodes, from N + 1 on."""
        return self._nodes

    @property
    def capture(self) -> Capture:
        """The process that records messages. Raises: ClusterError, where there is none."""
        if self._capture is None:
            raise ClusterError("the cluster was started without capture")
        return self._capture

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The cuts in force, each once."""
        return self._links.in_force

    def endpoint(self) -> Endpoint:
        """The client listeners of all brokers, on the loopback."""
        listeners = [Address(LOOPBACK, self._plan.advertised(node)) for node in self.brokers]
        return endpoint(listeners, Security(), self._cluster)

    async def start(self) -> None:
        """Engine, image, network, nodes; returns when every broker sees all of them and the metadata quorum
        has a leader. Before, it removes what killed runs left.

        Raises: ClusterError; what exists by then stays for `collect`, and `stop` removes it.
        """
        self._claim = claims.claim(self.run)  # first: what carries the name is this process's from here on
        self._client = engine.ensure()
        claims.remove_left(self._client)
        self._watcher = engine.connect(timeout_s=TROUBLE_S)
        self._image = self.deployment.image(self._client)
        if self._between is not None or self._config.capture:
            self._code_image = ensure_code_image(self._client)
        self._reaper = start_reaper(self.run, self._copies)
        self.start_proxies()
        run_engine = RunEngine(self._client, self.run)
        subnet = create_network(run_engine, self._plan.subnets())
        self.addresses.update({node: address(subnet, node) for node in self._nodes})
        if self._config.capture:
            self._capture = self._start_capture(bridge(run_engine))
        for node in self._nodes:
            self._containers[node] = self._described(run_engine, node)
            self._create(run_engine, node)
        on_each(NodeContainer.start, self._made(self._nodes))
        on_each(self._stand_between, self._made(self._nodes))
        self._wait_until_ready()

    async def trouble(self) -> str:
        """The Docker engine does not answer, the proxies have ended, or the deployment says why."""
        try:
            engine.connect(timeout_s=TROUBLE_S).close()
            why = self.deployment.trouble(list(self._containers.values()))
        except ClusterError as error:
            return str(error)
        return why or self.trouble_of_proxies() or (self._capture.trouble() if self._capture else "")

    async def ended(self) -> Sequence[NodeEnd]:
        """Containers that ended, and neither `kill` nor another verb had ended them."""
        return self._ends.take()

    async def collect(self, into: Path) -> None:
        """Each node's complete log, over its restarts, and the settings that it ran with."""
        for node in self._nodes:
            folder = into / str(node)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                for path, text in self.deployment.files(node, self._network()).items():
                    (folder / Path(path).name).write_text(text)
                with (folder / "server.log").open("wb") as file:
                    file.writelines(self._made([node])[0].log())
            except (ClusterError, OSError) as error:
                _note(folder, f"server.log: {error}\n")

    async def take_evidence(self, into: Path) -> list[str]:
        """SIGKILL to all nodes at once; their data directories then, and at earlier kills; then the messages
        that were captured."""
        missed = self._take_disks(into)
        if self._capture is not None and (why := self._capture.finish(into, self._captured)):
            missed.append(why)
        return missed

    def _take_disks(self, into: Path) -> list[str]:
        try:
            nodes = self._made(self._nodes)
            ended = deaths([node for node in nodes if not node.is_up()], self._powerless)
            self._ends.asked(self._nodes)
            kill_all(nodes)
        except ClusterError as error:
            self.deployment.miss(str(error))
        else:
            self.deployment.at_end(nodes, ended)
        return self.deployment.write(into)

    def copy_data(self, node: int, into: Path) -> None:
        """Copy the data directory of a node that has ended or is frozen, as `harness.evidence` reads it.

        Raises: ClusterError.
        """
        data.copy_data(self._made([node])[0].own, into)

    async def stop(self) -> None:
        """Remove everything that carries the run's label; the reaper removes later what cannot be
        removed now. A step that fails does not prevent the next one."""
        with ExitStack() as steps:  # the last one comes first
            steps.callback(self._plan.release)
            if self._claim is not None:
                steps.callback(self._claim.release)
            steps.callback(self._remove)
            steps.callback(self.stop_proxies)
            if self._capture is not None:
                steps.callback(self._capture.stop)
                self._capture = None

    def _remove(self) -> None:
        if self._client is None:
            return
        removed = False
        try:
            left = engine.clear(self.run)
            for line in left:
                say(f"not removed: {line}")
            removed = not left
            self._client.close()
            self._client = None
            self._containers = {}
            if self._watcher is not None:
                self._watcher.close()
                self._watcher = None
        finally:
            reaper, self._reaper = self._reaper, None
            if reaper is not None and removed:
                reaper.dismiss()
            elif reaper is not None:
                say(f"cleanup of {self.run} continues in the background")
                reaper.act()

    async def kill(self, nodes: Sequence[int]) -> None:
        """SIGKILL to all of them at once; returns when they have ended."""
        self._ends.asked(nodes)
        kill_all(self._made(nodes))

    async def fail_writes(self, nodes: Sequence[int], within_s: float) -> None:
        """See `DiskFailable`. Raises: ClusterError."""
        made = self._made(nodes)
        self._ends.asked(nodes)  # a loaded one ends at once
        try:
            on_each(NodeContainer.fail_writes, made)
            self._await_ends(made, within_s)
        except ClusterError:
            kill_all(made)  # what writes nothing has to end all the same, and what may have a limit
            raise

    def _await_ends(self, made: Sequence[NodeContainer], within_s: float) -> None:
        """Nodes that cannot write end of it. Raises: ClusterError, where one has not."""
        until(within_s, READY_POLL_S, lambda: _must_have_ended(made))

    def flushes_each(self) -> bool:
        """See `Powered`."""
        return self.deployment.flushes_each()

    async def lose_power(self, nodes: Sequence[int], seed: int | None = None) -> int:
        """SIGKILL to all of them at once; then their logs lose what was not flushed."""
        ended = self._made(nodes)
        self._ends.asked(nodes)
        try:
            kill_all(ended)
        except ClusterError as error:
            raise LogsKept(f"no log was cut: {error}") from error
        self._powerless.update(nodes)  # also where it fails half-way
        return self.deployment.lose_power(ended, seed)

    async def shut_down(self, nodes: Sequence[int]) -> Sequence[int]:
        """SIGTERM to all of them at once; other nodes after the brokers: without controllers or ZooKeeper no
        broker can hand over. Returns those that were killed after 30 s."""
        self._ends.asked(nodes)
        killed: list[int] = []
        for brokers in (True, False):
            made = self._made([node for node in nodes if (node in self.brokers) is brokers])
            late = on_each(NodeContainer.shut_down, made)
            killed += [node.number for node, was in zip(made, late, strict=True) if was]
        return killed

    async def revive(self, nodes: Sequence[int]) -> None:
        """Start ended nodes, with their data, addresses and cuts; what they left on disk is taken before, but
        for nodes that were shut down. A node whose start failed half-way gets what it lacks; one that runs
        after its end was asked for is killed first: it may be about to end, as if on its own."""

        def one(node: NodeContainer) -> None:
            node.start()
            self._ends.started([node.number])
            self._powerless.discard(node.number)
            self._links.reapply(node.number)  # before its program reaches the network
            self._stand_between(node)
            self._unlinked.discard(node.number)

        self._ends.look()
        made = self._made(nodes)
        unsettled = self._ends.unsettled(nodes)
        kill_all([node for node in made if node.number in unsettled and node.is_up()])
        down = [node for node in made if not node.is_up()]
        self.deployment.before_start(down, self._powerless)
        self._unlinked.update(node.number for node in down)
        on_each(one, [node for node in made if node.number in self._unlinked])

    async def pause(self, nodes: Sequence[int]) -> None:
        """Freeze by the cgroup freezer."""
        on_each(NodeContainer.pause, self._made(nodes))

    async def resume(self, nodes: Sequence[int]) -> None:
        """Thaw."""
        on_each(NodeContainer.unpause, self._made(nodes))

    async def cut(self, cuts: Sequence[Cut]) -> None:
        """Add cuts. One that was made twice has to be mended twice. Raises: ClusterError."""
        self._links.cut(cuts)

    async def mend(self, cuts: Sequence[Cut]) -> None:
        """Remove cuts. Raises: ClusterError, where a link may still be cut."""
        self._links.mend(cuts)

    async def stopped(self, nodes: Sequence[int]) -> int:
        """Packets that open a connection and were dropped, by the counters of the nodes' firewalls."""
        up = [node for node in self._made(nodes) if node.is_up()]
        return sum(firewall.openings(self._saved_table(node)) for node in up)

    async def use_wire_between(self) -> None:
        """Ask for the proxies between brokers; before `start`."""
        self._between = self._between or Between()

    async def use_wire_within(self) -> None:
        """Ask for these, and for proxies before controllers (Kafka from 3.9 on, in KRaft mode)."""
        self._between = Between(frozenset({Listener.BROKER, Listener.CONTROLLER}))

    def _stand_between(self, made: NodeContainer) -> None:
        """Start a node's proxy for other nodes, where these are asked for."""
        if self._between is None:
            return
        reached = self._between.listeners & {*self.deployment.reached(made.number)}
        if not reached:
            return
        network = sidecar.beside(str(made.own.id))
        self._between.stand(
            made.number, lambda module: self._sidecar(module, network), self.addresses[made.number], reached
        )

    # ---- starting

    def _create(self, run_engine: RunEngine, node: int) -> None:
        """Create a node's container, as it is to be when it starts. Raises: ClusterError."""
        self._containers[node].create()

    def _sidecar(self, module: str, network: str, capabilities: Sequence[str] = ()) -> Sidecar:
        """A module of this code in a container of the run. Raises: ClusterError."""
        assert self._client is not None
        return Sidecar(
            self._client,
            self._code_image,
            module,
            network=network,
            labels=claims.labels(self.run),
            capabilities=capabilities,
        )

    def _start_capture(self, interface: str) -> Capture:
        child = self._sidecar(CAPTURE, sidecar.HOST, ("NET_RAW", "NET_ADMIN"))
        watch = Watch(
            interface=interface,
            nodes={its: node for node, its in self.addresses.items()},
            brokers=PORTS[Listener.BROKER],
            others=(PORTS[Listener.CLIENT], PORTS[Listener.CONTROLLER]),
            into=CAPTURED,
            boot=boot(),
        )
        return Capture(watch, child, lambda into: child.copy(CAPTURED, into))

    def _described(self, run_engine: RunEngine, node: int) -> NodeContainer:
        published = {
            PORTS[Listener.CLIENT]: self.behind_proxies(node),
            HARNESS_PORT: self._plan.harness(node),
        }
        made = NodeContainer(
            run_engine,
            node,
            image=self._image,
            hostname=self.deployment.names[node],
            address=self.addresses[node],
            ports=published if node in self.brokers else {},
            environment=self.deployment.environment(node),
            hosts={self.deployment.names[peer]: its for peer, its in self.addresses.items()},
        )
        for path, text in self.deployment.files(node, self._network()).items():
            made.with_copy_into_container(text.encode(), path)
        return made.with_command(list(self.deployment.command)) if self.deployment.command else made

    def _network(self) -> NodeAddresses:
        proxied = self._between.listeners if self._between is not None else frozenset()
        return NodeAddresses(addresses=self.addresses, ports=self._plan, proxied=proxied)

    # ---- containers and cuts

    def _made(self, nodes: Sequence[int]) -> list[NodeContainer]:
        if not self._containers.keys() >= set(nodes):
            raise ClusterError("the cluster was not started")
        return [self._containers[node] for node in nodes]

    def _down(self) -> dict[int, str]:
        """Nodes whose container does not run, asked over a connection that waits for no other call."""
        if self._watcher is None or len(self._containers) < len(self._nodes):
            return {}
        with engine.explained("the nodes could not be looked at"):
            found = self._watcher.api.containers(
                all=True, filters={"label": [f"{engine.RUN_LABEL}={self.run}", engine.NODE_LABEL]}
            )
        down = sorted(int(one["Labels"][engine.NODE_LABEL]) for one in found if one["State"] in ENDED)
        return dict.fromkeys(down, "")

    def _described_end(self, node: int) -> NodeEnd:
        own, watcher = self._containers[node].own.id, self._watcher
        if watcher is None or own is None:
            raise ClusterError("the cluster was stopped")
        return end_of(watcher, own, node, own_program=self.deployment.own_program)

    def _set_table(self, node: int, table: str) -> None:
        """Apply a node's firewall rules; a node that is down gets them when it is revived."""
        (made,) = self._made([node])
        if not made.is_up():
            return
        sandbox = made.sandbox()
        try:
            if self._entered(sandbox):
                firewall.restore_from_host(sandbox, table)
            else:
                firewall.restore_from_sidecar(made.own, self._image, table, claims.labels(self.run))
        except ClusterError:
            if made.is_up():
                raise

    def _saved_table(self, made: NodeContainer) -> str:
        sandbox = made.sandbox()
        if self._entered(sandbox):
            return firewall.saved_from_host(sandbox)
        return firewall.saved_from_sidecar(made.own, self._image, claims.labels(self.run))

    def _entered(self, sandbox: str) -> bool:
        """Whether rules are set from the host; decided once, since one way may not see the other's."""
        if self._from_host is None:
            self._from_host = firewall.host_can_enter(sandbox)
        return self._from_host

    def _wait_until_ready(self) -> None:
        """Return when every broker sees all brokers, and there is a controller.

        Raises: ClusterError, where a node has ended or the deadline passed, with the end of its log.
        """
        allowed = f"within {self._ready_deadline_s:.0f} s"
        blind: list[NodeContainer] = []

        def ready() -> None:
            blind[:] = self._blind()
            if blind:
                others = f"(nor did {len(blind) - 1} others)"
                whom = f"all {len(self.brokers)} brokers"
                raise NotYet(f"node {blind[0].number} did not see {whom} {allowed} {others}")
            if broker_views.roles(self.admin, self.controller).controller < 0:
                raise NotYet(f"the controllers elected no leader {allowed}")

        try:
            until(self._ready_deadline_s, READY_POLL_S, ready)
        except NotYet as error:
            if not blind:
                raise
            raise ClusterError(f"{error}; the end of its log:\n{blind[0].log_tail()}") from None

    def _blind(self) -> list[NodeContainer]:
        """The brokers that do not see all brokers. Raises: ClusterError, where a node has ended."""
        for node in self._made(self._nodes):
            if not node.is_up():
                raise ClusterError(
                    f"node {node.number} ended with exit code {node.exit_code()} while starting; "
                    f"the end of its log:\n{node.log_tail()}"
                )
        views, everyone = broker_views.ask_all(self.admin, view), frozenset(self.brokers)
        seeing = {node for node, its in views.items() if its.brokers == everyone}
        return [node for node in self._made(self.brokers) if node.number not in seeing]


def _must_have_ended(nodes: Sequence[NodeContainer]) -> None:
    if up := [node.number for node in nodes if node.is_up()]:
        raise NotYet(f"node {up[0]} continues though it cannot write")


def _note(folder: Path, text: str) -> None:
    try:
        with (folder / "missing.txt").open("a") as file:
            file.write(text)
    except OSError as error:
        say(f"{folder}: {text.strip()} ({error})")
