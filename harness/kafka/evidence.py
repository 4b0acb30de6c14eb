"""What nodes left on disk: copied out of their containers, parsed, and gone again but for the tables.

The engine copies files of an ended container as well as of a running one, on any machine and for any user
that may use it. The copy stands in the run folder while it is parsed.

At the end of a run all nodes are killed: what they wrote by then is there, whether it was flushed or not
(the page cache is the host's). A shutdown in order would append to the logs that are judged, and take
longer. What only a shutdown writes (snapshots of producers at the end of a log) is missing, therefore;
nodes that were started again after a kill have them.
"""

import shutil
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from core.errors import ClusterError
from harness.containers.data import AT_END, AT_KILL, SHUT_DOWN, Limit, copies, copy_directories
from harness.containers.nodes import NodeContainer
from harness.evidence import directory
from harness.evidence.takes import Takes
from harness.processes.waiting import on_each
from history.evidence import END, KILLED, LOST_POWER, WHEN


class NodeEvidence:
    """The takes of a run's containers. Never raises: `write` says what could not be taken."""

    def __init__(self, folder: Path, with_second: Collection[int] = ()) -> None:
        """folder: it exists only while nodes are copied and parsed. with_second: nodes that have
        two log directories."""
        self._copies = folder
        self._with_second = with_second
        self._takes = Takes()
        self._left = AT_KILL.bytes

    def before_start(self, nodes: Sequence[NodeContainer], powerless: Collection[int] = ()) -> None:
        """Of these nodes, which are down, take those that ended without a shutdown. powerless: the ones that
        lost power."""
        ended = [node for node in nodes if node.exit_code() not in SHUT_DOWN]
        for why in (KILLED, LOST_POWER):
            if its := [node for node in ended if (node.number in powerless) is (why == LOST_POWER)]:
                self._left -= self._take(its, why, Limit(self._left // len(its), AT_KILL.seconds))

    def at_end(self, nodes: Sequence[NodeContainer]) -> None:
        """Take all nodes, which are down."""
        self._take(nodes, END, AT_END)

    def miss(self, why: str) -> None:
        """Something could not be taken; a sentence."""
        self._takes.miss(why)

    def write(self, into: Path) -> list[str]:
        """Write the tables of all takes; what is missing, in sentences."""
        return self._takes.write(into)

    def directories(self, node: int) -> int:
        """How many log directories a node has."""
        return 1 + (node in self._with_second)

    def _take(self, nodes: Sequence[NodeContainer], why: str, limit: Limit) -> int:
        """One take; the bytes that were copied."""
        number, at_ns = self._takes.begin(), time.monotonic_ns()
        copied: dict[int, int] = {}

        def copy(node: NodeContainer) -> None:
            try:
                into, many = self._copies / str(node.number), self.directories(node.number)
                copied[node.number] = copy_directories(node.own, into, many, limit)
            except (ClusterError, OSError) as error:
                self._takes.miss(f"files of node {node.number} {WHEN[why]}: {error}")

        try:
            on_each(copy, nodes)
            for node in sorted(copied):
                try:
                    first, *others = copies(self._copies / str(node), self.directories(node))
                    found = directory.read(first, node, number, at_ns, why, others)
                except OSError as error:
                    self._takes.miss(f"files of node {node} {WHEN[why]}: {error}")
                else:
                    self._takes.add(found)
        finally:
            shutil.rmtree(self._copies, ignore_errors=True)
        return sum(copied.values())
