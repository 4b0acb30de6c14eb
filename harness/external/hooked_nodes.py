"""Nodes that hooks break and heal: `Killable`, `Restartable`, `Pausable` and `Partitionable` of a cluster
that the harness did not start."""

from collections.abc import Sequence

from core.capabilities import Cut
from harness.external.docker_ends import DockerEnds
from harness.external.hooks import HookRunner
from harness.processes.waiting import on_each


class HookedNodes:
    """Verbs block and never suspend. All nodes of a call are tried before its first error is raised.

    hooks: what breaks and heals. brokers: the nodes that are not isolated controllers. ends: sees nodes that
    end unasked, None = nothing does.
    """

    def __init__(self, hooks: HookRunner, brokers: Sequence[int], ends: DockerEnds | None) -> None:
        self._hooks, self._ends = hooks, ends
        self._no_controllers = frozenset(brokers)
        self._cuts: list[Cut] = []
        self._linked: set[int] = set()
        """Nodes whose links may be other than whole: the last hook for these was `cut`, or failed."""
        self._down: set[int] = set()
        """Nodes that hooks ended, or may have."""

    async def kill(self, nodes: Sequence[int]) -> None:
        """The hook `kill`."""
        self._end("kill", nodes)

    async def shut_down(self, nodes: Sequence[int]) -> Sequence[int]:
        """The hook `shut_down`: brokers, then isolated controllers. How they ended the hook does not say."""
        self._end("shut_down", [node for node in nodes if node in self._no_controllers])
        self._end("shut_down", [node for node in nodes if node not in self._no_controllers])
        return ()

    def _end(self, hook: str, nodes: Sequence[int]) -> None:
        if self._ends is not None:
            self._ends.asked(nodes)
        self._down.update(nodes)
        self._hooks.on_nodes(hook, nodes)

    async def revive(self, nodes: Sequence[int]) -> None:
        """The hook `revive`; then the cuts that are in force, on all nodes, and no others."""
        if self._ends is not None:
            self._ends.look()
        started: list[int] = []

        def one(node: int) -> None:
            self._hooks.on_node("revive", node)
            started.append(node)

        try:
            on_each(one, nodes)
        finally:
            if self._ends is not None:
                self._ends.started(started)
            self._down.difference_update(started)
            # A node may have another address now: those that drop what comes from it have to know.
            self._link({cut.node for cut in self._cuts} | self._linked.intersection(started))

    async def pause(self, nodes: Sequence[int]) -> None:
        """The hook `pause`."""
        self._hooks.on_nodes("pause", nodes)

    async def resume(self, nodes: Sequence[int]) -> None:
        """The hook `resume`."""
        self._hooks.on_nodes("resume", nodes)

    async def cut(self, cuts: Sequence[Cut]) -> None:
        """Add cuts. One that was made twice has to be mended twice. Raises: ClusterError."""
        self._cuts += cuts
        self._link({cut.node for cut in cuts})

    async def mend(self, cuts: Sequence[Cut]) -> None:
        """Remove cuts; where an earlier call did, and its hook failed, the hook is run once more. Raises:
        ClusterError, where a link may still be cut."""
        for cut in cuts:
            if cut in self._cuts:
                self._cuts.remove(cut)
        self._link(self._linked.intersection(cut.node for cut in cuts))

    def _link(self, nodes: set[int]) -> None:
        """What is down keeps its links until it is started: there may be nothing that a hook can reach."""
        on_each(self._link_one, sorted(nodes - self._down))

    def _link_one(self, node: int) -> None:
        self._linked.add(node)
        self._hooks.links(node, self._cuts)
        if not any(cut.node == node for cut in self._cuts):
            self._linked.discard(node)
