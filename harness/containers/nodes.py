"""The containers of one run: created, started, ended, frozen; each with a static address.

They are containers of testcontainers. This module adds what that package lacks: create and start as
two steps, an end and a new start with the same data, ports on the loopback only, one connection to the
engine for all of them, and errors that say which node failed at what. Ryuk, the reaper of
testcontainers, is off: it needs an image from a registry, and `reaper` does its work without one.
"""

import os
import re
import signal
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from docker.errors import APIError
from docker.types import EndpointConfig, IPAMConfig, IPAMPool, LogConfig
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.network import Network

from core.errors import ClusterError
from harness.containers.claims import labels
from harness.containers.data import SHUT_DOWN
from harness.containers.engine import NODE_LABEL, explained
from harness.processes.waiting import NotYet, on_each, until
from history.evidence_tables import KILLED, LOST_POWER

if TYPE_CHECKING:
    import docker
    from docker.models.containers import Container

STOP_S = 30.0
"""How long a node may take to shut down; after that it is killed."""
SIGNAL_AGAIN_S = 2.0
FREEZE_S = 5.0
POLL_S = 0.1
LOG_LIMIT = {"max-size": "256m", "max-file": "4"}
"""A broker that logs the same error in a loop must not fill the host's disk."""


class RunEngine(DockerClient):
    """The engine as testcontainers sees it, over a connection that is open already.

    labels: what every container and network of the run carries. stem: how their names begin.
    """

    def __init__(self, client: "docker.DockerClient", run: str) -> None:
        self.client = client
        self.labels = labels(run)
        self.stem = "inquest-" + re.sub(r"[^a-zA-Z0-9_.-]+", "-", run)

    def start(self, container: "Container") -> None:
        """Do nothing: testcontainers calls this right after it created a container, and a node starts
        later, when all of them exist (`NodeContainer.start`)."""

    def adopt(self, made: DockerContainer | Network) -> None:
        """Let an object of testcontainers use this connection in place of its own."""
        made._docker.client.close()
        made._docker = self


def create_network(engine: RunEngine, subnets: Sequence[str]) -> str:
    """Create the private network of a run on the first of these subnets that is free; returns that subnet.

    Raises: ClusterError.
    """
    for subnet in subnets:
        ipam = IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)])
        try:
            with explained("the network could not be created"):
                made = Network(docker_network_kw={"driver": "bridge", "labels": engine.labels, "ipam": ipam})
                engine.adopt(made)
                made.name = engine.stem
                made.create()
        except ClusterError as error:
            if "overlaps" not in str(error):
                raise
        else:
            return subnet
    raise ClusterError(
        "no free subnet is left; remove what other runs left (docker network ls --filter label=inquest.run)"
    )


def bridge(engine: RunEngine) -> str:
    """The interface of the run's network on the machine of the engine. Raises: ClusterError."""
    with explained("the network could not be looked at"):
        found = engine.client.networks.list(names=[engine.stem])
        (made,) = [one for one in found if one.name == engine.stem]
    named = (made.attrs.get("Options") or {}).get("com.docker.network.bridge.name", "")
    return str(named or f"br-{str(made.id)[:12]}")


class NodeContainer(DockerContainer):
    """One node. Its methods raise ClusterError, with the engine's own words.

    `ports` binds to the loopback: testcontainers would publish a port on all interfaces.
    """

    ports: dict[str, tuple[str, int]]  # type: ignore[assignment]

    def __init__(
        self,
        engine: RunEngine,
        number: int,
        *,
        image: str,
        hostname: str,
        address: str,
        ports: Mapping[int, int],
        environment: Mapping[str, str],
        hosts: Mapping[str, str],
    ) -> None:
        """Describe the container; `create` makes it.

        ports: host port on the loopback by port in the container. hosts: addresses by name, for its hosts
        file.
        """
        with explained(f"node {number} could not be created"):
            super().__init__(image, env=dict(environment))
            engine.adopt(self)
            version = engine.client.api.api_version
        self.number = number
        self.image = image  # as it is: built here, never prefixed with a registry
        self.with_name(f"{engine.stem}-{hostname}")
        self.ports = {f"{inside}/tcp": ("127.0.0.1", outside) for inside, outside in ports.items()}
        self.with_kwargs(
            hostname=hostname,
            labels={**engine.labels, NODE_LABEL: str(number)},
            extra_hosts=dict(hosts),
            network=engine.stem,
            networking_config={engine.stem: EndpointConfig(version, ipv4_address=address)},
            log_config=LogConfig(type="json-file", config=LOG_LIMIT),
        )

    def create(self) -> None:
        """Create the container with its files; it does not run yet."""
        testcontainers_config.ryuk_disabled = True
        with self._explained("be created"):
            super().start()

    def start(self) -> Self:
        """Start a created or ended node; a running one is left alone."""
        with self._explained("be started"):
            self.own.start()
        return self

    @property
    def own(self) -> "Container":
        """The SDK's container. Raises: ClusterError, where it was never created."""
        if self._container is None:
            raise ClusterError(f"node {self.number} was never created")
        return self._container

    def kill(self) -> None:
        """SIGKILL; returns when the node has ended. An ended one is left alone."""
        self.signal(signal.SIGKILL)
        with self._explained("be killed"):
            self.own.wait()

    def shut_down(self, allowed_s: float = STOP_S) -> bool:
        """SIGTERM; whether the node had not ended after `allowed_s`, and was killed.

        An ended one is left alone, a frozen one is thawed. SIGTERM is repeated: as process 1 the
        server never sees a signal that arrives before it has installed a handler.
        """
        deadline = time.monotonic() + allowed_s
        while self.is_up() and (left := deadline - time.monotonic()) > 0:
            self.signal(signal.SIGTERM)
            with suppress(NotYet):
                until(min(SIGNAL_AGAIN_S, left), POLL_S, self._must_have_ended)
        late = self.is_up()
        self.kill()
        return late

    def _must_have_ended(self) -> None:
        if self.is_up():
            raise NotYet(f"node {self.number} still runs")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; a frozen node is thawed for it, an ended one is left alone."""
        with self._explained(f"get {number.name}"):
            for _ in range(2):
                try:
                    self.own.kill(number.name)
                except APIError as error:
                    if "is paused" in str(error):
                        self.own.unpause()
                        continue
                    if "is not running" not in str(error):
                        raise
                return

    def host_pid(self) -> int:
        """Process id of a running node's server, if this process may signal it; else 0."""
        pid = int(self._inspect()["State"]["Pid"])
        try:
            # The engine may run on another machine, where the number means another process.
            same = os.path.samefile(f"/proc/{pid}/ns/net", self.sandbox())
        except OSError:
            return 0
        return pid if same and os.geteuid() == 0 else 0

    def fail_writes(self) -> None:
        """Let every write of the node's server to a file fail (EFBIG), by the limit of file sizes of its
        process: pipes and sockets have none. Raises: ClusterError; a late engine may have set it."""
        with self._explained("have its files limited"):
            code, said = self.own.exec_run(["prlimit", "--pid", "1", "--fsize=0:"])
        if code:
            why = said.decode(errors="replace").strip() if isinstance(said, bytes) else ""
            raise ClusterError(f"node {self.number}: its files could not be limited: {why}")

    def pause(self) -> None:
        """Freeze; no-op for a frozen node. The engine gives up early on a busy process: tried for 5 s."""
        until(FREEZE_S, POLL_S, self._freeze)

    def _freeze(self) -> None:
        try:
            with self._explained("be paused", unless=("already paused",)):
                self.own.pause()
        except ClusterError as error:
            if "unable to freeze" in str(error):
                raise NotYet(str(error)) from error
            raise

    def unpause(self) -> None:
        """Thaw; no-op for a node that is not frozen."""
        with self._explained("be resumed", unless=("is not paused", "is not running")):
            self.own.unpause()

    def is_up(self) -> bool:
        """Whether the node's process exists (running or frozen)."""
        return bool(self._inspect()["State"]["Running"])

    def exit_code(self) -> int:
        """Exit code of an ended node."""
        return int(self._inspect()["State"]["ExitCode"])

    def sandbox(self) -> str:
        """Path of the node's network namespace on the engine's machine."""
        return str(self._inspect()["NetworkSettings"]["SandboxKey"])

    def _inspect(self) -> "dict[str, dict[str, str | int | bool]]":
        with self._explained("be inspected"):
            self.own.reload()
            return self.own.attrs

    def log(self) -> Iterator[bytes]:
        """All that the node ever wrote, over its restarts, in chunks."""
        with explained(f"the log of node {self.number} could not be read"):
            yield from self.own.logs(stream=True, follow=False)

    def log_tail(self) -> str:
        """The last lines of the node's log; where they cannot be read, the reason."""
        try:
            with explained(f"the log of node {self.number} could not be read"):
                return self.own.logs(tail=20).decode(errors="replace")
        except ClusterError as error:
            return str(error)

    @contextmanager
    def _explained(self, what: str, unless: Sequence[str] = ()) -> Iterator[None]:
        try:
            with explained(f"node {self.number} could not {what}"):
                yield
        except ClusterError as error:
            if not any(words in str(error) for words in unless):
                raise


def kill_all(nodes: Sequence[NodeContainer]) -> None:
    """SIGKILL all of them at once; ended ones are left alone, frozen ones die as they thaw.

    On the engine's own machine root sends the signals itself, microseconds apart (the engine needs a
    quarter of a second); then the engine waits for the ends.
    """
    for pid in [pid for node in nodes if (pid := node.host_pid())]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    on_each(NodeContainer.kill, nodes)


def deaths(nodes: Sequence[NodeContainer], powerless: Collection[int]) -> dict[int, str]:
    """How the processes of nodes that are down had ended, by node: KILLED or LOST_POWER; not of those that
    were shut down in order. powerless: the ones that lost power. Raises: ClusterError."""
    died = [node.number for node in nodes if node.exit_code() not in SHUT_DOWN]
    return {number: LOST_POWER if number in powerless else KILLED for number in died}
