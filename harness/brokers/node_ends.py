"""The ends of nodes that the run had not asked for: each is seen once, and no new start hides one.

A cluster says which nodes it ends itself, before it does, and which ones it has started. Any other node that
has ended is one that ended on its own, or from outside (`core.cluster.NodeEnd`).
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from core.cluster import UNREGISTERED, NodeEnd, failed_start, is_error
from core.errors import ClusterError, EndsMissed

LINES: Final = 12
"""Lines of its log that the record of an end has."""
ERRORS: Final = 6
"""At most this number of them stand before the last lines: errors, and what says why a broker gave up."""
NEAR: Final = 60
"""Lines at the end of its log in which a full disk is looked for."""
WIDTH: Final = 400
"""Characters of each of them."""
FULL: Final = "No space left on device"
"""How a program names ENOSPC, in Java as in C and Python."""
SHELL: Final = 128
"""An engine reports the signal n that ended a process as the exit code 128 + n."""
LAST_SIGNAL: Final = 31


class NodeEnds:
    """What is known of the ends of a cluster's nodes. Safe from any thread.

    down: numbers of the nodes that do not run now, or that ended since the last look and run again; each with
    what tells this end of the node from others ("" = only that it runs in between). describe: how one of them
    ended. Both may raise ClusterError: then nothing is seen, of all nodes or of that one; the latter
    EndsMissed, where nothing says how that node ended. An end that is not seen before the cluster ends or
    starts that node is never seen.
    """

    def __init__(self, down: Callable[[], Mapping[int, str]], describe: Callable[[int], NodeEnd]) -> None:
        self._down, self._describe = down, describe
        self._lock = threading.Lock()
        self._asked: set[int] = set()
        """Nodes whose end was asked for, and that were not started since."""
        self._seen: dict[int, str] = {}
        """Node -> its end, which has been seen; until the node is seen to run."""
        self._new: list[NodeEnd] = []
        self._blind: ClusterError | None = None
        """Why the last look failed."""
        self._missed: ClusterError | None = None
        """Why an end may never be seen."""

    def asked(self, nodes: Iterable[int]) -> None:
        """The cluster is about to end these nodes. What has ended by now was not asked for."""
        self.look()
        with self._lock:
            self._miss(nodes)
            self._asked.update(nodes)

    def started(self, nodes: Collection[int]) -> None:
        """The cluster has started these nodes; `look` comes before."""
        with self._lock:
            self._miss(nodes)
            self._asked.difference_update(nodes)
            self._seen = {node: end for node, end in self._seen.items() if node not in nodes}

    def unsettled(self, nodes: Iterable[int]) -> set[int]:
        """Those of these nodes whose end was asked for, and that were not started since."""
        with self._lock:
            return self._asked.intersection(nodes)

    def _miss(self, nodes: Iterable[int]) -> None:
        """From here on the run knows how these nodes stand, and did not before."""
        if self._blind is not None and not (self._asked | self._seen.keys()).issuperset(nodes):
            self._missed = self._missed or self._blind

    def look(self) -> None:
        """See which nodes have ended; never raises."""
        with self._lock:
            try:
                found, self._blind = self._down(), None
            except ClusterError as error:
                self._blind = error
                return
            self._seen = {node: end for node, end in self._seen.items() if node in found}
            for node, end in found.items():
                if node not in self._asked and self._seen.get(node) != end:
                    self._see(node, end)

    def _see(self, node: int, end: str) -> None:
        try:
            self._new.append(self._describe(node))
        except EndsMissed as error:
            self._missed = self._missed or error
        except ClusterError as error:
            self._blind = self._blind or error
            return
        self._seen[node] = end

    def take(self) -> list[NodeEnd]:
        """Look, and hand out what was seen since the last call. Raises: as `core.cluster.Cluster.ended`."""
        self.look()
        with self._lock:
            missed, self._missed = self._missed, None
            if missed is not None:
                raise EndsMissed(str(missed))
            if self._blind is not None:
                raise self._blind
            seen, self._new = self._new, []
        return seen


def described(
    node: int, *, exit_code: int, signal: int, log: str, oom_killed: bool = False, own_program: bool = False
) -> NodeEnd:
    """The end of a node. log: the end of its log, as much as is at hand.

    Its last lines seldom say why: a broker that gives up logs the error, and then each step of its shutdown.
    """
    lines = [line.rstrip()[:WIDTH] for line in log.splitlines() if line.strip()]
    # A controller logs errors by the hundred while its broker, which gave up, shuts down.
    kept = {*[at for at, line in enumerate(lines) if UNREGISTERED in line][-1:], *failed_start(lines)}
    early = range(len(lines) - (LINES - ERRORS))
    errors = [at for at in early if is_error(lines[at]) and at not in kept]
    kept.update(errors[len(kept) - ERRORS :])
    others = [at for at in range(len(lines)) if at not in kept]
    kept.update(others[len(kept) - LINES :])
    return NodeEnd(
        node=node,
        exit_code=exit_code,
        signal=signal,
        oom_killed=oom_killed,
        disk_full=any(FULL in line for line in lines[-NEAR:]),
        own_program=own_program,
        log=tuple(lines[at] for at in sorted(kept)),
    )


def signal_of(exit_code: int) -> int:
    """The signal that an exit code of the engine stands for; 0 = none."""
    return exit_code - SHELL if SHELL < exit_code <= SHELL + LAST_SIGNAL else 0
