"""What a cluster of Kafka can do that others in containers cannot: lose a log directory, be out of space on a
disk, change its voters.

The second log directory of a broker is a link to its files (`containers.data`). It fails when the link leads
nowhere: the broker writes a checkpoint there every second, cannot, and takes the directory offline
(`LogDirFailureChannel`). What it wrote to files that were open, until then, is on the disk. The metadata log
is in the first directory.
"""

from collections.abc import Sequence
from typing import Final

from core.errors import ClusterError
from core.op import TopicPartition
from core.systems import KafkaSection
from harness.brokers.admin import log_directories, voters
from harness.containers.cluster import ContainerCluster
from harness.containers.data import SECOND, link_second
from harness.containers.disks import Disks
from harness.containers.nodes import RunEngine
from harness.kafka import quorum
from harness.processes.waiting import NotYet, until

POLL_S: Final = 0.2


class KafkaCluster(ContainerCluster):
    """`ContainerCluster`, `DirectoryFailable`, `DiskFillable` and `VotersChangeable`."""

    _failed: frozenset[int] = frozenset()
    _full: frozenset[int] = frozenset()
    _removed: frozenset[int] = frozenset()
    _disks: Disks | None = None

    def failed_directories(self) -> tuple[int, ...]:
        """See `DirectoryFailable`."""
        return tuple(sorted(self._failed))

    async def fail_directory(self, node: int, within_s: float) -> tuple[TopicPartition, ...]:
        """See `DirectoryFailable`. Raises: ClusterError."""
        (made,) = self._made([node])
        had = log_directories.replicas(self.admin, node)
        if (mine := had.get(SECOND)) is None:
            raise ClusterError(f"node {node} has no log directory {SECOND} that works")
        self._failed |= {node}
        link_second(made.own, works=False)

        def offline() -> None:
            if log_directories.replicas(self.admin, node).get(SECOND) is not None:
                raise NotYet(f"node {node} has not taken its log directory {SECOND} offline")

        until(within_s, POLL_S, offline)
        return mine

    async def mend_directories(self, nodes: Sequence[int]) -> None:
        """See `DirectoryFailable`. Raises: ClusterError."""
        for made in self._made([node for node in nodes if node in self._failed]):
            if made.is_up():
                raise ClusterError(f"node {made.number} runs: it would not see its directory again")
            link_second(made.own, works=True)
            self._failed -= {made.number}

    async def fill_disks(self, nodes: Sequence[int], within_s: float) -> None:
        """See `DiskFillable`. Raises: ClusterError."""
        if self._disks is None:
            raise ClusterError("the brokers have the disk of the engine")
        made = self._made(nodes)
        self._ends.asked(nodes)
        self._full |= set(nodes)
        for node in nodes:
            self._disks.fill(node)
        self._await_ends(made, within_s)

    def full_disks(self) -> tuple[int, ...]:
        """See `DiskFillable`."""
        return tuple(sorted(self._full))

    async def free_disks(self, nodes: Sequence[int]) -> None:
        """See `DiskFillable`. Raises: ClusterError."""
        for node in sorted(self._full & set(nodes)):
            assert self._disks is not None
            self._disks.free(node)
            self._full -= {node}

    async def remove_voter(self, node: int, within_s: float) -> None:
        """See `VotersChangeable`. Raises: ClusterError."""
        self._removed |= {node}
        voters.remove(self.admin, node, quorum.directory_id(self._cluster, node), within_s)

    def removed_voters(self) -> tuple[int, ...]:
        """See `VotersChangeable`."""
        return tuple(sorted(self._removed))

    async def add_voters(self, nodes: Sequence[int], within_s: float) -> None:
        """See `VotersChangeable`. Raises: ClusterError."""
        for node in nodes:
            directory, where = quorum.directory_id(self._cluster, node), quorum.address(self._config, node)
            voters.add(self.admin, node, directory, quorum.CONTROLLER, where, within_s)
            self._removed -= {node}

    def _create(self, run_engine: RunEngine, node: int) -> None:
        its = self._config.section(KafkaSection)
        if node in self.brokers and its.disk_mb:
            self._disks = self._disks or Disks(run_engine, self.brokers, its.disk_mb, self._image)
            self._disks.give(self._containers[node])
        super()._create(run_engine, node)
        if node in self.brokers and its.log_dirs > 1:
            link_second(self._containers[node].own, works=True)
