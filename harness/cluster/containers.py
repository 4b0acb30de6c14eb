"""The containers of one run: made, started, ended, frozen; each with a static address.

Knows nothing of what runs in them. Methods raise `ClusterError` with the engine's own words.

Not here: the engine itself (`engine`), firewall rules (`links`).
"""

import io
import os
import re
import signal
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.cluster import ClusterError
from harness.cluster.engine import NODE_LABEL, RUN_LABEL, sdk_errors

if TYPE_CHECKING:
    from docker import DockerClient

STOP_S = 30.0
"""What an orderly end may take before it becomes a SIGKILL."""
SIGNAL_AGAIN_S = 2.0
POLL_S = 0.1
LOG_LIMIT = {"max-size": "256m", "max-file": "4"}
"""A broker that loops on an error must not fill the host's disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One container to make.

    ports: host port on the loopback by port in the container. files: content by absolute path.
    hosts: addresses by name, for its hosts file.
    """

    number: int
    image: str
    hostname: str
    address: str
    ports: Mapping[int, int]
    files: Mapping[str, str]
    environment: Mapping[str, str]
    hosts: Mapping[str, str]


class Containers:
    """All containers of one run, on one private network."""

    def __init__(self, client: "DockerClient", run: str) -> None:
        self.client = client
        self._labels = {RUN_LABEL: run}
        self._stem = "inquest-" + re.sub(r"[^a-zA-Z0-9_.-]+", "-", run)
        self._ids: dict[int, str] = {}

    def make_network(self, subnets: Sequence[str]) -> str:
        """Make the run's network on the first of these subnets that is free; that subnet."""
        from docker.errors import APIError
        from docker.types import IPAMConfig, IPAMPool

        with _told("the network could not be made"):
            for subnet in subnets:
                pools = IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)])
                try:
                    self.client.networks.create(
                        self._stem, driver="bridge", ipam=pools, labels=self._labels
                    )
                except APIError as error:
                    if "overlaps" not in str(error):
                        raise
                else:
                    return subnet
        raise ClusterError(
            "no free subnet is left; remove what other runs left "
            "(docker network ls --filter label=inquest.run)"
        )

    def make(self, node: Node) -> None:
        """Create a node's container, not yet started."""
        from docker.types import EndpointConfig, LogConfig

        with _told(f"node {node.number} could not be created"):
            version = self.client.api.api_version
            container = self.client.containers.create(
                node.image,
                name=f"{self._stem}-{node.hostname}",
                hostname=node.hostname,
                labels={**self._labels, NODE_LABEL: str(node.number)},
                environment=dict(node.environment),
                ports={f"{inside}/tcp": ("127.0.0.1", out) for inside, out in node.ports.items()},
                extra_hosts=dict(node.hosts),
                network=self._stem,
                networking_config={self._stem: EndpointConfig(version, ipv4_address=node.address)},
                log_config=LogConfig(type="json-file", config=LOG_LIMIT),
            )
            container.put_archive("/", _archive(node.files))
            assert container.id is not None
            self._ids[node.number] = container.id

    def start(self, node: int) -> None:
        """Start a created or ended node; a running one is left alone."""
        with _told(f"node {node} could not be started"):
            self.client.api.start(self.identity(node))

    def kill(self, nodes: Sequence[int]) -> None:
        """SIGKILL to all of them at once; ended ones are left alone, frozen ones die as they thaw.

        On the engine's own machine root sends the signals itself, microseconds apart; the engine
        needs a quarter of a second for the same, and is asked afterwards to wait for the ends.
        """
        for pid in [pid for node in nodes if (pid := self._host_pid(node))]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        on_each(self._kill_one, nodes)

    def _kill_one(self, node: int) -> None:
        self._signal(node, signal.SIGKILL)
        with _told(f"node {node} could not be killed"):
            self.client.api.wait(self.identity(node))

    def shut_down(self, nodes: Sequence[int], allowed_s: float = STOP_S) -> None:
        """SIGTERM to all of them at once; whoever has not ended in `allowed_s` is killed.

        Ended ones are left alone, frozen ones are thawed for it.
        """

        def one(node: int) -> None:
            deadline = time.monotonic() + allowed_s
            while self.is_up(node) and time.monotonic() < deadline:
                # As process 1 it never sees a signal that comes before its handler is installed.
                self._signal(node, signal.SIGTERM)
                again = min(time.monotonic() + SIGNAL_AGAIN_S, deadline)
                while self.is_up(node) and time.monotonic() < again:
                    time.sleep(POLL_S)
            self._kill_one(node)

        on_each(one, nodes)

    def _signal(self, node: int, number: signal.Signals) -> None:
        """Send a signal; a frozen node is thawed for it, an ended one is left alone."""
        from docker.errors import APIError

        with _told(f"{number.name} could not be sent to node {node}"):
            for _ in range(2):
                try:
                    self.client.api.kill(self.identity(node), number.name)
                except APIError as error:
                    if "is paused" in str(error):
                        self.client.api.unpause(self.identity(node))
                        continue
                    if "is not running" not in str(error):
                        raise
                return

    def _host_pid(self, node: int) -> int:
        """Process id of a running node's server, if this process may signal it; else 0."""
        with _told(f"node {node} could not be inspected"):
            found = self.client.api.inspect_container(self.identity(node))
        pid, sandbox = int(found["State"]["Pid"]), str(found["NetworkSettings"]["SandboxKey"])
        try:
            # The engine may run on another machine, where the number means another process.
            same = os.path.samefile(f"/proc/{pid}/ns/net", sandbox)
        except OSError:
            return 0
        return pid if same and os.geteuid() == 0 else 0

    def pause(self, node: int) -> None:
        """Freeze; no-op for a frozen node."""
        from docker.errors import APIError

        with _told(f"node {node} could not be paused"):
            try:
                self.client.api.pause(self.identity(node))
            except APIError as error:
                if "already paused" not in str(error):
                    raise

    def unpause(self, node: int) -> None:
        """Thaw; no-op for a node that is not frozen."""
        from docker.errors import APIError

        with _told(f"node {node} could not be resumed"):
            try:
                self.client.api.unpause(self.identity(node))
            except APIError as error:
                if "is not paused" not in str(error) and "is not running" not in str(error):
                    raise

    def state(self, node: int) -> dict[str, Any]:
        """The engine's `State` of a node (`Running`, `Paused`, `ExitCode`, `OOMKilled`, …)."""
        with _told(f"node {node} could not be inspected"):
            state: dict[str, Any] = self.client.api.inspect_container(self.identity(node))["State"]
            return state

    def is_up(self, node: int) -> bool:
        """Whether the node's process exists (running or frozen)."""
        return bool(self.state(node)["Running"])

    def sandbox(self, node: int) -> str:
        """Path of the node's network namespace on the engine's machine."""
        with _told(f"node {node} could not be inspected"):
            found = self.client.api.inspect_container(self.identity(node))
            return str(found["NetworkSettings"]["SandboxKey"])

    def identity(self, node: int) -> str:
        """The engine's id of a node's container. Raises: ClusterError, where none was made."""
        if node not in self._ids:
            raise ClusterError(f"node {node} was never created")
        return self._ids[node]

    def log(self, node: int) -> Iterator[bytes]:
        """All that the node ever wrote, over its restarts, in chunks."""
        with _told(f"the log of node {node} could not be read"):
            yield from self.client.api.logs(self.identity(node), stream=True, follow=False)

    def log_tail(self, node: int, lines: int = 20) -> str:
        """The last lines of a node's log; why not, where they cannot be read."""
        try:
            with _told(f"the log of node {node} could not be read"):
                return self.client.api.logs(self.identity(node), tail=lines).decode(
                    errors="replace"
                )
        except ClusterError as error:
            return str(error)


def on_each(action: Callable[[int], None], nodes: Sequence[int]) -> None:
    """Do it to all nodes at once; all are tried before the first error is raised."""
    if not nodes:
        return
    with ThreadPoolExecutor(len(nodes)) as pool:
        done = [pool.submit(action, node) for node in nodes]
    for future in done:
        future.result()


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn the engine's errors, and its absence, into ClusterError."""
    from docker.errors import APIError

    try:
        yield
    except APIError as error:
        raise ClusterError(f"{what}: {error.explanation or error}") from error
    except sdk_errors() as error:
        raise ClusterError(f"{what}: the Docker engine does not answer ({error})") from error


def _archive(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, text in files.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            content = text.encode()
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
