"""What nodes left, as far as the hook `collect` brings it: their logs for people, their disks as evidence.

All nodes stand still meanwhile: what is copied is of one moment then, and no file changes while it is
copied. Where they cannot be paused, the disks may contradict each other: a later copy has what an earlier one
lacks. What lies beside a disk is text for people: the file's secrets are taken out of it.
"""

import shutil
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from core.errors import ClusterError
from core.internal_topics import internal
from core.secrets import hide
from harness.evidence import directory
from harness.evidence.takes import Takes
from harness.external.hooks import HookRunner
from harness.processes.waiting import on_each
from history.evidence_tables import END, KILLED, schema, table

DATA: Final = "data"
"""Folder of a node's log directory, or of those that it has, in what was collected."""
NO_HOOK: Final = "nothing brings what nodes have on disk: the cluster's file has no hook collect for it"

MOVED: Final = "nodes worked while their disks were copied, so that these are not of one moment"


class Disks:
    """What was collected of one run's nodes. still: nodes stand still in its context, which says why they do
    not ("" = they do). prefix: how names of the run's topics begin. Those of others are not read: what a
    program that is not the harness's does with them no rule could judge, and it is not the run's to keep.
    down: nodes that hooks have ended, or may have, and not started again, as of now."""

    def __init__(
        self,
        hooks: HookRunner,
        nodes: Sequence[int],
        still: Callable[[], AbstractContextManager[str]],
        prefix: str = "",
        down: Collection[int] = (),
    ) -> None:
        self._prefix, self._down = prefix, down
        self._ended: frozenset[int] = frozenset()
        self._hooks, self._nodes, self._still = hooks, nodes, still
        self._at_ns = -1
        self._data: dict[int, Path] = {}
        self._missed: list[str] = []
        self._moved = ""

    def collect(self, into: Path) -> None:
        """Have each node's log, and its disk, written into its folder. Never raises."""
        if not self._hooks.has("collect"):
            return

        def one(node: int) -> None:
            folder = (into / str(node)).resolve()
            try:
                (folder / DATA).mkdir(parents=True, exist_ok=True)
                self._hooks.on_node("collect", node, INQUEST_TARGET=str(folder))
            except (ClusterError, OSError) as error:
                self._missed.append(str(error))
                shutil.rmtree(folder / DATA, ignore_errors=True)  # a part of a disk is not evidence
            else:
                self._data[node] = folder / DATA
            self._hide(folder)

        with self._still() as self._moved:
            self._at_ns, self._ended = time.monotonic_ns(), frozenset(self._down)
            on_each(one, self._nodes)

    def _wanted(self, topic: str) -> bool:
        return topic.startswith(self._prefix) or internal(topic)

    def _hide(self, folder: Path) -> None:
        """Take secrets out of the texts of a node; one that cannot be read is removed. Never raises."""
        for text in [path for path in folder.glob("*") if path.is_file() or path.is_symlink()]:
            try:
                hide(text, self._hooks.hide)
            except OSError as error:
                text.unlink(missing_ok=True)
                self._missed.append(f"{text.name}: {error}")

    def take(self, into: Path) -> list[str]:
        """Make what was collected of disks tables of evidence, and remove it; what is missing, in
        sentences."""
        takes = Takes()
        number = takes.begin()
        found = {node: data for node, data in sorted(self._data.items()) if any(data.iterdir())}
        for node, data in found.items() if not self._moved else ():
            try:
                first, *others = directory.log_directories(data)
                disk = directory.read(first, node, number, self._at_ns, END, others, self._wanted)
            except OSError as error:
                takes.miss(f"the disk of node {node}: {error}")
            else:
                takes.add(disk)
                if node in self._ended and not any(disk["nodes"]["clean_shutdown"].to_pylist()):
                    takes.add({"takes": table(schema("takes"), [(number, node, self._at_ns, KILLED)])})
        for data in self._data.values():
            shutil.rmtree(data, ignore_errors=True)
        if not found:
            return self._missed or [NO_HOOK]
        if self._moved:
            return [f"{MOVED}: {self._moved}", *self._missed]
        for node in sorted(self._data.keys() - found.keys()):
            takes.miss(f"the hook collect brought no disk of node {node}")
        for why in self._missed:
            takes.miss(why)
        return takes.write(into)
