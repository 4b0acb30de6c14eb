"""A real Kafka cluster in containers: N combined KRaft nodes of any released version from 3.3 on.

Nodes have static addresses on a private network (a restarted container keeps its own, so rules by
address keep hitting the right node) and publish two listeners on the host's loopback: one for
clients, one for the harness itself. Data live in the containers and go with them.

Verbs block and never suspend. `roles` and `offsets` only use sockets and may be called from any
thread; the other verbs from one thread at a time.

Not here: sessions of clients (`session`), images (`images`), rules of cut links (`links`).
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cluster import ClusterError, Cut, Endpoint, Listener, Roles, engine, survey
from harness.cluster.containers import Containers, Node, on_each
from harness.cluster.engine import RUN_LABEL
from harness.cluster.images import ensure_image
from harness.cluster.links import Links, host_can_enter, restore_from_host, restore_from_sidecar
from harness.cluster.plan import address, reserve
from harness.cluster.properties import (
    HARNESS_PORT,
    PORTS,
    cluster_id,
    host,
    server_properties,
    topic_settings,
)
from harness.cluster.reaper import Reaper, start_reaper
from harness.config import RunConfig
from harness.op import Isolation, TopicPartition
from harness.store import Run

if TYPE_CHECKING:
    from docker import DockerClient

READY_DEADLINE_S = 120.0
TOPIC_DEADLINE_S = 30.0
TROUBLE_S = 4.0
POLL_S = 0.2
PROPERTIES = "/etc/kafka/node.properties"


class KafkaCluster:
    """`Cluster`, `Killable`, `Pausable`, `Partitionable` over containers of one Docker engine.

    run: value of the label that all its containers and networks carry. ports: host port of each
    node's listener for the harness. addresses: of each node, once started.
    """

    def __init__(
        self, config: RunConfig, run_dir: Path, *, ready_deadline_s: float = READY_DEADLINE_S
    ) -> None:
        """Only takes its ports; nothing is started. Raises: ClusterError, where none are free."""
        self._config = config
        self.run = Run(run_dir).name
        self._nodes = tuple(range(1, config.brokers + 1))
        self._ready_deadline_s = ready_deadline_s
        self._plan = reserve()
        self.ports = {node: self._plan.harness(node) for node in self._nodes}
        self._image = ""
        self._client: DockerClient | None = None
        self._containers: Containers | None = None
        self._links: Links | None = None
        self._reaper: Reaper | None = None
        self._from_host: bool | None = None
        self.addresses: Mapping[int, str] = {}

    @property
    def nodes(self) -> tuple[int, ...]:
        """Node numbers, 1 to N."""
        return self._nodes

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The cuts in force, each once."""
        return self._links.in_force if self._links else ()

    def endpoint(self) -> Endpoint:
        """The client listeners of all nodes, on the loopback."""
        servers = ",".join(f"127.0.0.1:{self._plan.advertised(node)}" for node in self._nodes)
        return Endpoint(factory="harness.cluster.session:connect", args={"bootstrap": servers})

    async def start(self) -> None:
        """Engine, image, network, nodes; returns when every node sees all nodes.

        Raises: ClusterError; what was made until then stays for `collect`, and goes with `stop`.
        """
        self._client = engine.ensure()
        self._image = ensure_image(self._client, self._config.kafka)
        self._reaper = start_reaper(self.run)
        self._containers = Containers(self._client, self.run)
        subnet = self._containers.make_network(self._plan.subnets())
        self.addresses = {node: address(subnet, node) for node in self._nodes}
        self._links = Links(self.addresses, PORTS, self._set_table)
        for node in self._nodes:
            self._containers.make(self._node(node))
        on_each(self._containers.start, self._nodes)
        self._wait_until_ready()

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic; returns when every partition has a leader that all nodes agree on.

        min.insync.replicas and unclean election of the run's config are set at the topic.
        Raises: ClusterError.
        """
        wanted = topic_settings(self._config, settings)
        survey.create_topic(self.ports, topic, partitions, replication, wanted, TOPIC_DEADLINE_S)

    async def roles(self) -> Roles:
        """Asked of all nodes at once; within 2 s, whatever they do."""
        return survey.roles(self.ports)

    async def offsets(
        self, tps: Sequence[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        """(log start, LSO or HW) from each partition's agreed leader, in the agreed epoch."""
        return survey.offsets(self.ports, survey.roles(self.ports), tps, isolation)

    async def trouble(self) -> str:
        """Says so where the Docker engine no longer answers."""
        try:
            engine.connect(timeout_s=TROUBLE_S).close()
        except ClusterError as error:
            return str(error)
        return ""

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
        """Remove everything that carries the run's label."""
        if self._client is not None:
            for line in engine.clear(self.run):
                engine.say(f"not removed: {line}")
            self._client.close()
            self._client = self._containers = self._links = None
        if self._reaper is not None:
            self._reaper.dismiss()
            self._reaper = None
        self._plan.release()

    async def kill(self, nodes: Sequence[int]) -> None:
        """SIGKILL all of them at once; returns when they have ended."""
        self._made().kill(nodes)

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

    # ---- starting

    def _node(self, node: int) -> Node:
        return Node(
            number=node,
            image=self._image,
            hostname=host(node),
            address=self.addresses[node],
            ports={
                PORTS[Listener.CLIENT]: self._plan.advertised(node),
                HARNESS_PORT: self._plan.harness(node),
            },
            files={PROPERTIES: self._properties(node)},
            environment={"CLUSTER_ID": cluster_id(self.run)},
            hosts={host(peer): its for peer, its in self.addresses.items()},
        )

    def _properties(self, node: int) -> str:
        return server_properties(
            self._config, node, self._plan.advertised(node), self._plan.harness(node)
        )

    def _wait_until_ready(self) -> None:
        everyone = frozenset(self._nodes)
        deadline = time.monotonic() + self._ready_deadline_s
        missing = list(self._nodes)
        while time.monotonic() < deadline:
            for node in self._nodes:
                state = self._made().state(node)
                if not state["Running"]:
                    raise ClusterError(
                        f"node {node} ended with exit code {state['ExitCode']} while starting; "
                        f"the end of its log:\n{self._made().log_tail(node)}"
                    )
            views = survey.views(self.ports)
            missing = [n for n in self._nodes if n not in views or views[n].brokers != everyone]
            if not missing:
                return
            time.sleep(POLL_S)
        raise ClusterError(
            f"node {missing[0]} did not see all {len(everyone)} nodes within "
            f"{self._ready_deadline_s:.0f} s (nor did {len(missing) - 1} others); "
            f"the end of its log:\n{self._made().log_tail(missing[0])}"
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
