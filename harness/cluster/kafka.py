"""A real Kafka cluster in containers: KRaft nodes of any released version from 3.3 on.

N brokers, which are controllers as well unless the run asks for isolated ones: nodes N + 1 to N + M
then, without any listener on the host. Nodes have static addresses on a private network (a restarted
container keeps its own, so rules by address keep hitting the right node); brokers publish two
listeners on the host's loopback: one for clients, one for the harness itself. Data live in the
containers and go with them.

Verbs block and never suspend. The ones that only ask or tell Kafka something (`roles`, `offsets`,
`open_transactions`, `replicas`, `elect_preferred`, `reorder`) may be called from any thread; the
other verbs from one thread at a time.

Not here: sessions of clients (`session`), images (`images`), rules of cut links (`links`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cluster import (
    ClusterError,
    Cut,
    Endpoint,
    Listener,
    Roles,
    Toxic,
    elections,
    engine,
    proxies,
    survey,
    transactions,
)
from harness.cluster.containers import Containers, Node, on_each
from harness.cluster.engine import RUN_LABEL
from harness.cluster.images import ensure_image
from harness.cluster.links import Links, host_can_enter, restore_from_host, restore_from_sidecar
from harness.cluster.plan import address, reserve
from harness.cluster.properties import (
    HARNESS_PORT,
    PORTS,
    cluster_id,
    environment,
    host,
    server_properties,
    topic_settings,
)
from harness.cluster.readiness import wait_until_ready
from harness.cluster.reaper import Reaper, start_reaper
from harness.config import RunConfig
from harness.events import OpenTransaction
from harness.op import Isolation, TopicPartition
from harness.store import Run

if TYPE_CHECKING:
    from docker import DockerClient

READY_DEADLINE_S = 120.0
TOPIC_DEADLINE_S = 30.0
TROUBLE_S = 4.0
PROPERTIES = "/etc/kafka/node.properties"


class KafkaCluster:
    """`Cluster` and all capabilities over containers of one Docker engine.

    run: value of the label that all its containers and networks carry. ports: host port of each
    broker's listener for the harness. addresses: of each node, once started.
    """

    def __init__(
        self, config: RunConfig, run_dir: Path, *, ready_deadline_s: float = READY_DEADLINE_S
    ) -> None:
        """Only takes its ports; nothing is started. Raises: ClusterError, where none are free."""
        self._config = config
        self.run = Run(run_dir).name
        self._nodes = tuple(range(1, config.brokers + config.controllers + 1))
        self._ready_deadline_s = ready_deadline_s
        self._plan = reserve()
        self.ports = {node: self._plan.harness(node) for node in self.brokers}
        self._image = ""
        self._client: DockerClient | None = None
        self._containers: Containers | None = None
        self._links: Links | None = None
        self._reaper: Reaper | None = None
        self._toxiproxy = ""
        self._proxies: proxies.Proxies | None = None
        self._from_host: bool | None = None
        self.addresses: Mapping[int, str] = {}

    @property
    def nodes(self) -> tuple[int, ...]:
        """Node numbers: brokers, 1 to N, then isolated controllers, N + 1 to N + M."""
        return self._nodes

    @property
    def brokers(self) -> tuple[int, ...]:
        """Numbers of the brokers, 1 to N."""
        return self._nodes[: self._config.brokers]

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The cuts in force, each once."""
        return self._links.in_force if self._links else ()

    def endpoint(self) -> Endpoint:
        """The client listeners of all brokers, on the loopback."""
        servers = ",".join(f"127.0.0.1:{self._plan.advertised(node)}" for node in self.brokers)
        return Endpoint(factory="harness.cluster.session:connect", args={"bootstrap": servers})

    async def start(self) -> None:
        """Engine, image, network, nodes; returns when every broker sees all of them and the metadata
        quorum has a leader.

        Raises: ClusterError; what was made until then stays for `collect`, and goes with `stop`.
        """
        self._client = engine.ensure()
        self._image = ensure_image(self._client, self._config.kafka)
        self._reaper = start_reaper(self.run)
        if self._toxiproxy:
            self._proxies = self._start_proxies()
        self._containers = Containers(self._client, self.run)
        subnet = self._containers.make_network(self._plan.subnets())
        self.addresses = {node: address(subnet, node) for node in self._nodes}
        self._links = Links(self.addresses, PORTS, self._set_table)
        for node in self._nodes:
            self._containers.make(self._node(node))
        on_each(self._containers.start, self._nodes)
        wait_until_ready(self._made(), self._nodes, self.ports, self._ready_deadline_s)

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic; returns when every partition has a leader that all brokers agree on.

        min.insync.replicas and unclean election of the run's config are set at the topic.
        Raises: ClusterError.
        """
        wanted = topic_settings(self._config, settings)
        survey.create_topic(self.ports, topic, partitions, replication, wanted, TOPIC_DEADLINE_S)

    async def roles(self) -> Roles:
        """Asked of all brokers at once; within 2 s, whatever they do."""
        return survey.roles(self.ports)

    async def offsets(
        self, tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        """(log start, LSO or HW) from each partition's agreed leader, in the agreed epoch."""
        return survey.offsets(self.ports, survey.roles(self.ports), tps, isolation)

    async def open_transactions(self, tps: Sequence[TopicPartition]) -> list[OpenTransaction]:
        """By the word of the agreed leaders and of all coordinators; within 4 s."""
        return transactions.open_transactions(self.ports, tps)

    async def trouble(self) -> str:
        """Says so where the Docker engine no longer answers, or the proxies have ended."""
        try:
            engine.connect(timeout_s=TROUBLE_S).close()
        except ClusterError as error:
            return str(error)
        return self._proxies.trouble() if self._proxies else ""

    async def collect(self, into: Path) -> None:
        """Each node's whole log, over its restarts, and the settings that it ran with."""
        for node in self._nodes:
            folder = into / str(node)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "node.properties").write_text(self._properties(node))
                with (folder / "server.log").open("wb") as file:
                    file.writelines(self._made().log(node))
            except (ClusterError, OSError) as error:
                _note(folder, f"server.log: {error}\n")

    async def stop(self) -> None:
        """Remove everything that carries the run's label; what cannot be removed now is left to the
        reaper. Whatever fails keeps nothing else from being done."""
        try:
            if self._proxies is not None:
                self._proxies.stop()
                self._proxies = None
        finally:
            try:
                self._remove()
            finally:
                self._plan.release()

    def _remove(self) -> None:
        if self._client is None:
            return
        removed = False
        try:
            left = engine.clear(self.run)
            for line in left:
                engine.say(f"not removed: {line}")
            removed = not left
            self._client.close()
            self._client = self._containers = self._links = None
        finally:
            reaper, self._reaper = self._reaper, None
            if reaper is not None and removed:
                reaper.dismiss()
            elif reaper is not None:
                engine.say(f"a process of its own goes on trying to remove what {self.run} left")
                reaper.act()

    async def kill(self, nodes: Sequence[int]) -> None:
        """SIGKILL all of them at once; returns when they have ended."""
        self._made().kill(nodes)

    async def shut_down(self, nodes: Sequence[int]) -> None:
        """SIGTERM to all of them at once; returns when they have ended, killed after 30 s.

        Isolated controllers after the brokers: without them no broker can hand over.
        """
        made = self._made()
        made.shut_down([node for node in nodes if node in self.brokers])
        made.shut_down([node for node in nodes if node not in self.brokers])

    async def revive(self, nodes: Sequence[int]) -> None:
        """Start ended nodes, with their data, addresses and cuts."""

        def one(node: int) -> None:
            if not self._made().is_up(node):
                self._made().start(node)
                self._cuts().reapply(node)  # the JVM needs longer to reach the network than this

        on_each(one, nodes)

    async def pause(self, nodes: Sequence[int]) -> None:
        """Freeze by the cgroup freezer."""
        on_each(self._made().pause, nodes)

    async def resume(self, nodes: Sequence[int]) -> None:
        """Thaw."""
        on_each(self._made().unpause, nodes)

    async def cut(self, cuts: Sequence[Cut]) -> None:
        """Add cuts. One that was made twice has to be mended twice. Raises: ClusterError."""
        self._cuts().cut(cuts)

    async def mend(self, cuts: Sequence[Cut]) -> None:
        """Take cuts back. Raises: ClusterError, where a link may still be cut."""
        self._cuts().mend(cuts)

    async def elect_preferred(self, tps: Sequence[TopicPartition]) -> None:
        """Make preferred replicas leaders. Raises: ClusterError."""
        elections.elect_preferred(self.ports, tps)

    async def reorder(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        """Change who is preferred; returns when most brokers know it. Raises: ClusterError."""
        elections.reorder(self.ports, replicas)

    async def replicas(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Replicas of each partition in their order; empty where nobody answers."""
        return elections.replicas(self.ports)

    async def use_proxies(self) -> None:
        """Find (or build, 20 s) toxiproxy; it is started with the cluster. Raises: ClusterError."""
        self._toxiproxy = proxies.ensure()

    async def poison(self, nodes: Sequence[int], toxics: Sequence[Toxic]) -> None:
        """Add toxics. Raises: ClusterError, where there are no proxies, or one refuses."""
        if self._proxies is None:
            raise ClusterError("the cluster was started without proxies")
        self._proxies.poison(nodes, toxics)

    async def cure(self, nodes: Sequence[int]) -> None:
        """Take toxics back. Raises: ClusterError, where one may still be in force."""
        if self._proxies is not None:
            self._proxies.cure(nodes)

    # ---- starting

    def _start_proxies(self) -> proxies.Proxies:
        routes = {
            node: proxies.Route(self._plan.advertised(node), self._plan.behind(node))
            for node in self.brokers
        }
        return proxies.Proxies(self._toxiproxy, self._plan.toxiproxy, routes)

    def _node(self, node: int) -> Node:
        clients = self._plan.behind(node) if self._toxiproxy else self._plan.advertised(node)
        published = {
            PORTS[Listener.CLIENT]: clients,
            HARNESS_PORT: self._plan.harness(node),
        }
        return Node(
            number=node,
            image=self._image,
            hostname=host(self._config, node),
            address=self.addresses[node],
            ports=published if node in self.brokers else {},
            files={PROPERTIES: self._properties(node)},
            environment={"CLUSTER_ID": cluster_id(self.run), **environment(self._config, node)},
            hosts={host(self._config, peer): its for peer, its in self.addresses.items()},
        )

    def _properties(self, node: int) -> str:
        return server_properties(
            self._config, node, self._plan.advertised(node), self._plan.harness(node)
        )

    # ---- what was made

    def _made(self) -> Containers:
        if self._containers is None:
            raise ClusterError("the cluster was not started")
        return self._containers

    def _cuts(self) -> Links:
        if self._links is None:
            raise ClusterError("the cluster was not started")
        return self._links

    def _set_table(self, node: int, table: str) -> None:
        """Put a node's rules in force; one that is down gets them when it is revived."""
        made = self._made()
        if not made.is_up(node):
            return
        sandbox = made.sandbox(node)
        if self._from_host is None:  # decided once: the two ways may not see each other's rules
            self._from_host = host_can_enter(sandbox)
        try:
            if self._from_host:
                restore_from_host(sandbox, table)
            else:
                restore_from_sidecar(
                    made.client, made.identity(node), self._image, table, {RUN_LABEL: self.run}
                )
        except ClusterError:
            if made.is_up(node):
                raise


def _note(folder: Path, text: str) -> None:
    try:
        with (folder / "missing.txt").open("a") as file:
            file.write(text)
    except OSError as error:
        engine.say(f"{folder}: {text.strip()} ({error})")
