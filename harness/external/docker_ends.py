"""Containers of the user's that ended unasked: with the shorthand `docker`, nodes are watched."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from core.cluster import NodeEnd
from harness.brokers.node_ends import NodeEnds
from harness.containers import engine
from harness.containers.ends import ENDED, end_of
from harness.external import named
from harness.external.file import secured

if TYPE_CHECKING:
    from docker import DockerClient

CALL_S: Final = 4.0


class DockerEnds:
    """Which nodes ended. names: of their containers. Safe from any thread."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self._client: DockerClient | None = None
        self._ends = NodeEnds(self._down, self._described)

    def asked(self, nodes: Iterable[int]) -> None:
        """Hooks are about to end these."""
        self._ends.asked(nodes)

    def look(self) -> None:
        """See which have ended, before a hook starts some."""
        self._ends.look()

    def started(self, nodes: Iterable[int]) -> None:
        """A hook has started these."""
        self._ends.started(nodes)

    def take(self) -> Sequence[NodeEnd]:
        """See `core.cluster.Cluster.ended`."""
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

    def _down(self) -> list[int]:
        with engine.explained("the nodes could not be looked at"):
            found = self._engine().api.containers(all=True, filters={"name": list(self._names.values())})
        ended = {name.lstrip("/") for one in found if one["State"] in ENDED for name in one["Names"]}
        return sorted(node for node, name in self._names.items() if name in ended)

    def _described(self, node: int) -> NodeEnd:
        end, hide = end_of(self._engine(), self._names[node], node), secured(named.load()).without_secrets
        return msgspec.structs.replace(end, log=tuple(map(hide, end.log)))
