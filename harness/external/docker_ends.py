"""Containers of the user's that ended unasked: with the shorthand `docker`, nodes are watched.

Such a container may run again by the next look: the engine starts it (`restart: always`), or a person does.
So each start of a container is distinguished from the one before by its time.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from core.cluster import NodeEnd
from core.errors import EndsMissed
from harness.brokers.node_ends import NodeEnds
from harness.containers import engine
from harness.containers.ends import CREATED, ENDED, RESTARTING, end_of

if TYPE_CHECKING:
    from docker import DockerClient

CALL_S: Final = 4.0


class DockerEnds:
    """Which nodes ended. names: of their containers, or their ids. hide: takes secrets out of a text. Safe
    from any thread."""

    def __init__(self, names: Mapping[int, str], hide: Callable[[str], str] = lambda text: text) -> None:
        self._names, self._hide = names, hide
        self._client: DockerClient | None = None
        self._ends = NodeEnds(self._down, self._described)
        self._lock = threading.RLock()
        self._ids: dict[int, str] = {}
        self._running: dict[int, str] = {}
        """When each began to run whose end was not described yet, as of the last look."""
        self._now: dict[int, str] = {}
        """When it began to run the last time; the same where it did not end since."""
        self._told: dict[int, str] = {}
        """The start whose end was described."""

    def asked(self, nodes: Iterable[int]) -> None:
        """Hooks are about to end these."""
        with self._lock:
            self._ends.asked(nodes)

    def look(self) -> None:
        """See which have ended, before a hook starts some."""
        with self._lock:
            self._ends.look()

    def started(self, nodes: Collection[int]) -> None:
        """A hook has started these."""
        with self._lock:
            self._ends.started(nodes)
            for node in nodes:
                self._running.pop(node, None)

    def take(self) -> Sequence[NodeEnd]:
        """See `core.cluster.Cluster.ended`."""
        with self._lock:
            return self._ends.take()

    def close(self) -> None:
        """Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _engine(self) -> "DockerClient":
        if self._client is None:
            self._client = engine.connect(timeout_s=CALL_S)
        return self._client

    def _down(self) -> dict[int, str]:
        """Raises: ClusterError, also where there is no such container."""
        found = {}
        for node, name in self._names.items():
            with engine.explained(f"node {node} could not be looked at"):
                told = self._engine().api.inspect_container(name)
            state, started = told["State"], told["State"]["StartedAt"]
            if state["Status"] == CREATED:
                continue  # it never ran
            self._ids[node], self._now[node] = told["Id"], started
            if self._running.get(node) in (None, self._told.get(node)):
                self._running[node] = started
            before = self._running[node]
            if before != started or state["Status"] in (*ENDED, RESTARTING):
                found[node] = before
        return found

    def _described(self, node: int) -> NodeEnd:
        try:
            end = end_of(self._engine(), self._ids[node], node, started=self._running[node])
        except EndsMissed:
            self._tell(node)
            raise
        self._tell(node)
        return msgspec.structs.replace(end, log=tuple(map(self._hide, end.log)))

    def _tell(self, node: int) -> None:
        self._told[node], self._running[node] = self._running[node], self._now[node]
