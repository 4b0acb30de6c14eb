"""Hooks: commands of the user's shell that break nodes of the cluster and heal them.

    kill, revive          the node's program is ended at once; is started again
    shut_down, revive     it is ended in order
    pause, resume         it stands still; continues
    cut, mend             the node drops what INQUEST_CUTS names, and nothing else; drops nothing
    collect               what the node left is copied into the folder INQUEST_TARGET: `server.log`, and
                          `data/`, which is its log directory
    heal_all              everything is as before any fault

Each is run by `/bin/sh -c` in a session of its own, for all nodes that a fault hits at once. In its
environment are INQUEST_NODE (the number), INQUEST_NAME, INQUEST_PORT (that clients dial) and INQUEST_NAMES
(of all nodes).
It has a deadline, is idempotent, and exit code 0 means: in force. `heal_all` is run once for the cluster,
without a node. INQUEST_CUTS has a line for each cut: `in` or `out`, then the name of the other node or
`clients`, then, where only one listener is meant, `broker` or `controller`.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from core.capabilities import Cut, Killable, Partitionable, Pausable, Restartable, Revivable
from core.errors import ClusterError
from harness.external.file import ClusterFile
from harness.external.means import commands
from harness.external.nodes import Means
from harness.processes.user_command import finish, last
from harness.processes.waiting import on_each

PAIRS: Final[Mapping[type, tuple[str, str]]] = {
    Killable: ("kill", "revive"),
    Restartable: ("shut_down", "revive"),
    Pausable: ("pause", "resume"),
    Partitionable: ("cut", "mend"),
}
"""The hooks that a capability takes: what breaks, and what heals."""
HEALING: Final = ("resume", "mend", "revive")
"""The hooks that heal a node, in the order in which they do."""
LATE_S: Final = 5.0
"""Reading what a hook wrote that was ended takes less."""


def capabilities(names: Collection[str]) -> frozenset[type]:
    """What a cluster with these hooks has: a capability is there where both of its hooks are."""
    found = {one for one, pair in PAIRS.items() if set(pair) <= set(names)}
    return frozenset(found | ({Revivable} if found & {Killable, Restartable} else set()))


class HookRunner:
    """The hooks of one cluster. means: how its nodes are reached. hide: takes secrets out of a text. ports:
    that clients dial. Safe from any thread.

    Raises: ClusterError, where a hook fails; Unanswered, where it does not end in time.
    """

    def __init__(
        self,
        file: ClusterFile,
        means: Means,
        hide: Callable[[str], str] = lambda text: text,
        ports: Mapping[int, int] | None = None,
    ) -> None:
        self._commands = commands(file, means.lacks)
        self._names = means.names
        self.deadline_s = file.deadline_s
        self.hide = hide
        self._ports = ports or {}
        self.during: Callable[[int], AbstractContextManager[object]] = nullcontext
        """Is entered with the process id of each hook while it runs."""
        self._changed, self._under_way = threading.Condition(), 0
        self._log_dirs = file.cluster.log_dirs.rstrip("/")
        self._around = {**means.around, "INQUEST_NAMES": " ".join(means.names.values())}

    def has(self, name: str) -> bool:
        """Whether there is a hook of this name."""
        return name in self._commands

    def on_nodes(self, name: str, nodes: Sequence[int]) -> None:
        """Run a hook for nodes, all at once; all are tried before the first error is raised."""
        on_each(lambda node: self.on_node(name, node), nodes)

    def on_node(self, name: str, node: int, **around: str) -> None:
        """Run a hook for one node. around: further variables."""
        port = str(self._ports.get(node, ""))
        named = {"INQUEST_NODE": str(node), "INQUEST_NAME": self._names[node], "INQUEST_PORT": port}
        folder = self._log_dirs.replace("{node}", str(node))
        self._run(name, f"hook {name} of node {node}", {**named, "INQUEST_LOG_DIRS": folder, **around})

    def links(self, node: int, cuts: Iterable[Cut]) -> None:
        """Put these cuts in force on a node, and no others."""
        lines = [self._line(cut) for cut in cuts if cut.node == node]
        if lines:
            self.on_node("cut", node, INQUEST_CUTS="\n".join(dict.fromkeys(lines)))
        else:
            self.on_node("mend", node)

    def _line(self, cut: Cut) -> str:
        peer = "clients" if cut.peer is None else self._names[cut.peer]
        return f"{cut.direction} {peer} {cut.listener or ''}".rstrip()

    def heal(self, nodes: Sequence[int]) -> list[str]:
        """Heal these nodes by every hook that heals; what could not be healed, in sentences. Never raises,
        but for an interrupt of this thread: hooks are run in others, and end.

        One that is under way ends first: it may break what was healed before its end."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, self.deadline_s + LATE_S)
        failed = []
        for name in filter(self.has, HEALING):
            try:
                self.on_nodes(name, nodes)
            except ClusterError as error:
                failed.append(str(error))
        try:
            if self.has("heal_all"):
                on_each(lambda what: self._run("heal_all", what, {}), ("hook heal_all",))
        except ClusterError as error:
            failed.append(str(error))
        return failed

    def _run(self, name: str, what: str, around: Mapping[str, str]) -> None:
        command, around = ["/bin/sh", "-c", self._commands[name]], {**self._around, **around}
        with self._counted():
            code, out, said = finish(what, command, self.deadline_s, around, self.hide, self.during)
        if code != 0:
            lines = last(out + said, self.hide)
            raise ClusterError(f"{what}: exit code {code}{': ' if lines else ''}{lines}")

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._changed:
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()
