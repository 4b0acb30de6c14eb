"""Disks of bounded size for the logs of nodes: volumes of the engine, in memory (tmpfs).

A volume in memory is gone once no container has it mounted. So one container of the run, which does nothing
else, has all of them: a node that ended finds its disk as it was. It also fills disks. With the labels of the
run, container and volumes are removed as everything else of the run.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from core.errors import ClusterError
from harness.brokers.node_ends import FULL
from harness.containers.data import DATA, FILLER
from harness.containers.engine import explained
from harness.containers.nodes import NodeContainer, RunEngine

if TYPE_CHECKING:
    from docker.models.containers import Container

HELD: Final = "/disks"
"""Folder of the container that holds the disks."""


class Disks:
    """The disks of a run's nodes."""

    def __init__(self, engine: RunEngine, nodes: Iterable[int], size_mb: int, image: str) -> None:
        """Make them, and the container that holds them. image: any with a shell. Raises: ClusterError."""
        self._names = {node: f"{engine.stem}-disk-{node}" for node in nodes}
        options = {"type": "tmpfs", "device": "tmpfs", "o": f"size={size_mb}m"}
        with explained("the disks of nodes could not be made"):
            for name in self._names.values():
                engine.client.volumes.create(name, driver="local", driver_opts=options, labels=engine.labels)
            self._holder: Container = engine.client.containers.create(
                image,
                entrypoint=["sleep", "infinity"],
                name=f"{engine.stem}-disks",
                labels=engine.labels,
                network_mode="none",
                volumes=self._mounts(),
            )
            self._holder.start()

    def give(self, made: NodeContainer) -> None:
        """A node that was not created yet has its data directory on its disk."""
        made.with_volume_mapping(self._names[made.number], DATA, "rw")

    def fill(self, node: int) -> None:
        """Leave no space. Raises: ClusterError."""
        said = self._run(f"dd if=/dev/zero of={self._filler(node)} bs=64k")
        if FULL not in said:
            raise ClusterError(f"the disk of node {node} could not be filled: {said}")

    def free(self, node: int) -> None:
        """Give back what `fill` took. Raises: ClusterError."""
        if said := self._run(f"rm -f {self._filler(node)}"):
            raise ClusterError(f"the disk of node {node} could not be freed: {said}")

    def _run(self, command: str) -> str:
        """What a command said. Raises: ClusterError."""
        with explained("the disks of nodes could not be changed"):
            said = self._holder.exec_run(["sh", "-c", command]).output
        return said.decode(errors="replace") if isinstance(said, bytes) else ""

    def _filler(self, node: int) -> str:
        return f"{HELD}/{node}/{FILLER}"

    def _mounts(self) -> dict[str, dict[str, str]]:
        return {name: {"bind": f"{HELD}/{node}", "mode": "rw"} for node, name in self._names.items()}
