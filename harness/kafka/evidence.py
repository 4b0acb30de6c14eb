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
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from core.errors import ClusterError
from harness.containers.data import AT_END, AT_KILL, Limit, copies, copy_directories
from harness.containers.nodes import NodeContainer, deaths
from harness.evidence import directory
from harness.evidence.takes import Takes
from harness.processes.waiting import on_each
from history.evidence_tables import END, KILLED, LOST_POWER, WHEN, schema, table


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
        ended = deaths(nodes, powerless)
        for why in (KILLED, LOST_POWER):
            if its := [node for node in nodes if ended.get(node.number) == why]:
                self._left -= self._take(its, why, Limit(self._left // len(its), AT_KILL.seconds))

    def at_end(self, nodes: Sequence[NodeContainer], ended: Mapping[int, str] = MappingProxyType({})) -> None:
        """Take all nodes, which are down. ended: how the processes of those had ended (`deaths`) that were
        down before the run ended them."""
        self._take(nodes, END, AT_END, ended)

    def miss(self, why: str) -> None:
        """Something could not be taken; a sentence."""
        self._takes.miss(why)

    def write(self, into: Path) -> list[str]:
        """Write the tables of all takes; what is missing, in sentences."""
        return self._takes.write(into)

    def directories(self, node: int) -> int:
        """How many log directories a node has."""
        return 1 + (node in self._with_second)

    def _take(
        self,
        nodes: Sequence[NodeContainer],
        why: str,
        limit: Limit,
        ended: Mapping[int, str] = MappingProxyType({}),
    ) -> int:
        """One take; the bytes that were copied."""
        number, at_ns = self._takes.begin(), time.monotonic_ns()
        copied: dict[int, int] = {}
        taken: set[int] = set()

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
                    taken.add(node)
        finally:
            shutil.rmtree(self._copies, ignore_errors=True)
        for node in [one.number for one in nodes]:
            how = ended.get(node, why)
            if node in taken and how != why:
                self._takes.add({"takes": table(schema("takes"), [(number, node, at_ns, how)])})
            elif node not in taken and how == LOST_POWER:
                self._takes.add({"unread_losses": table(schema("unread_losses"), [(number, node, at_ns)])})
        return sum(copied.values())
