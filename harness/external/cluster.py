"""A cluster that the harness did not start, as a run uses it.

The harness asks its brokers at the addresses that they advertise, as clients do. Hooks break its nodes and
heal them; the proxy of the wire stands before its brokers where a fault needs it, and puts its own addresses
in the place of theirs. What the run created is deleted at the end.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from core.capabilities import Pausable
from core.cluster import Address, Endpoint, NodeEnd, Roles
from core.config import RunConfig
from core.errors import ClusterError, ConfigError
from core.internal_topics import internal
from core.op import TopicPartition
from core.systems import ExternalSection, Profile
from core.terminal import say
from harness.brokers.addresses import LOOPBACK, reserve
from harness.brokers.admin import broker_views
from harness.brokers.admin.connection import BrokerConnection, Brokers
from harness.brokers.admin.protocol import ControllerView, active_controller, quorum_leader, view
from harness.brokers.endpoint import endpoint
from harness.brokers.proxies import ProxiedBrokers
from harness.brokers.questions import AskedBrokers
from harness.containers import claims
from harness.external import belongings, named, placements
from harness.external.disks import Disks
from harness.external.docker_ends import DockerEnds
from harness.external.hooked_nodes import HookedNodes
from harness.external.hooks import HookRunner
from harness.external.reaper import LOG, order_of, start_reaper
from harness.processes.reaper import Reaper
from harness.processes.waiting import NotYet, until
from harness.run.planning import names_of
from history.run_folder import Run

READY_S: Final = 30.0
POLL_S: Final = 0.2


def no_controller(_: BrokerConnection) -> ControllerView:
    """Of a cluster that names none."""
    return ControllerView(-1, -1)


CONTROLLER: Final[Mapping[Profile, Callable[[BrokerConnection], ControllerView]]] = {
    "kafka": quorum_leader,
    "redpanda": active_controller,
    "object-store": no_controller,
}
"""The question that finds the controller, by profile; of a cluster in KRaft mode."""


def controller_of(config: RunConfig) -> Callable[[BrokerConnection], ControllerView]:
    """The question that finds the controller of a run's cluster."""
    its = config.section(ExternalSection)
    return active_controller if its.zookeeper else CONTROLLER[its.profile]


class ExternalCluster(AskedBrokers, ProxiedBrokers, HookedNodes):
    """`Cluster`, and of the other capabilities those in `capabilities`. Verbs block and never suspend."""

    def __init__(self, config: RunConfig, run_dir: Path, capabilities: frozenset[type]) -> None:
        """Ask the cluster for its addresses; nothing is created. Raises: ClusterError, ConfigError."""
        file, its, found, brokers, nodes = named.reach()
        self._section = config.section(ExternalSection)
        if (*brokers, *nodes.controllers) != self._section.nodes or len(brokers) != config.brokers:
            raise ConfigError("external: the cluster has other nodes than the run is made for")
        self.capabilities = capabilities
        self._run, self._ids = Run(run_dir), names_of(config).transactional_ids
        self._prefix = config.prefix
        self._listeners = found.brokers
        self._cluster, self._security = found.cluster, its.security
        self._plan = reserve()
        ProxiedBrokers.__init__(self, self._plan, brokers, found.brokers)
        self.admin = Brokers(found.brokers, its.security, cluster=found.cluster)
        self.controller = controller_of(config)
        self._means = nodes
        ports = {node: where.port for node, where in found.brokers.items()}
        hooks = HookRunner(file, nodes, its.without_secrets, ports)
        ends = DockerEnds(nodes.names, its.without_secrets) if file.cluster.docker else None
        HookedNodes.__init__(self, hooks, brokers, ends)
        self._disks = Disks(hooks, self.nodes, self._still, self._prefix, self._down)
        self._placed: dict[TopicPartition, tuple[int, ...]] = {}
        """Where replicas of internal topics were before the run moved some."""
        self._claim: claims.Claim | None = None
        self._reaper: Reaper | None = None

    @property
    def nodes(self) -> tuple[int, ...]:
        """Brokers, then isolated controllers, by the cluster's own numbers."""
        return self._section.nodes

    def endpoint(self) -> Endpoint:
        """The listeners of all brokers, or the proxies before them."""
        proxies = [Address(LOOPBACK, self.dialled(node)) for node in self.brokers]
        listeners = proxies if self.wired else list(self._listeners.values())
        return endpoint(listeners, self._security, self._cluster)

    async def start(self) -> None:
        """Returns when all brokers answer and see each other. Raises: ClusterError; ConfigError, where the
        cluster is not the run's to use: nothing was changed then."""
        self._claim = belongings.claim(self.admin)
        if why := belongings.refusal(self.admin, self._section.prefix, READY_S, owned=named.owned()):
            raise ConfigError(why)
        log = str((self._run.cluster / LOG).resolve())
        self._reaper = start_reaper(order_of(self._means, self.admin, self._prefix, ids=self._ids, log=log))
        self._hooks.during = self._reaper.during
        self.start_proxies()
        until(READY_S, POLL_S, self._ready)

    def _ready(self) -> None:
        views, every = broker_views.ask_all(self.admin, view), frozenset(self.brokers)
        if blind := [node for node in self.brokers if node not in views or views[node].brokers != every]:
            raise NotYet(f"broker {blind[0]} did not see all {len(every)} brokers within {READY_S:g} s")

    async def roles(self) -> Roles:
        """As the brokers agree; of the topics only those of the run, and internal ones."""
        return (await super().roles()).about(self._own)

    async def replicas(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """As of all clusters, of the same topics as `roles`."""
        return {tp: nodes for tp, nodes in (await super().replicas()).items() if self._own(tp.topic)}

    async def reassign(self, replicas: Mapping[TopicPartition, Sequence[int]], within_s: float) -> None:
        """As of all clusters. Where replicas of internal topics were before, the reaper knows, too."""
        stay = [tp for tp in replicas if internal(tp.topic) and tp not in self._placed]
        if stay and self._reaper is not None:
            known = await self.replicas()
            placed = {tp: known[tp] for tp in stay if tp in known}
            self._reaper.note(placements.encoded(placed))
            self._placed |= placed
        await super().reassign(replicas, within_s)

    def _own(self, topic: str) -> bool:
        return topic.startswith(self._prefix) or internal(topic)

    async def trouble(self) -> str:
        """A proxy has ended."""
        return self.trouble_of_proxies()

    async def ended(self) -> Sequence[NodeEnd]:
        """With the shorthand `docker`, containers that ended unasked; hooks alone do not show that."""
        return self._ends.take() if self._ends is not None else ()

    async def collect(self, into: Path) -> None:
        """What the hook `collect` brings of each node."""
        self._disks.collect(into)

    async def take_evidence(self, into: Path) -> list[str]:
        """What it brought of disks. No node is ended for it."""
        return self._disks.take(into)

    async def stop(self) -> None:
        """Heal all nodes, delete what the run created, and name what stays; the reaper continues where
        something could not be healed."""
        with ExitStack() as steps:  # the last one comes first
            steps.callback(self._plan.release)
            if self._claim is not None:
                steps.callback(self._claim.release)
            if self._ends is not None:
                steps.callback(self._ends.close)
            steps.callback(self._clear)
            steps.callback(self.stop_proxies)

    def _clear(self) -> None:
        reaper, self._reaper = self._reaper, None
        if reaper is None:
            return  # nothing was created
        if failed := self._hooks.heal(self.nodes):
            for line in failed:
                say(f"not healed: {line}")
            say("healing and deletion continue in the background")
            reaper.act()
            return
        moved = placements.put_back(self.admin, self._placed)  # healing failed, where there is one
        for line in (*moved, *belongings.remove(self.admin, self._prefix), *belongings.staying(self._ids)):
            say(line)
        reaper.dismiss()

    @contextmanager
    def _still(self) -> Iterator[str]:
        """All nodes stand still; why they do not, "" = they do. Does not raise."""
        if Pausable not in self.capabilities:
            yield "no hooks pause and resume"
            return
        why = ""
        try:
            self._hooks.on_nodes("pause", self.nodes)
        except ClusterError as error:
            why = str(error)
        yield why
        try:
            self._hooks.on_nodes("resume", self.nodes)
        except ClusterError as error:
            say(f"{error}; `stop` tries again")
