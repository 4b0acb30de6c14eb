"""A cluster whose nodes change from one version of Kafka to a later one, and back: `Upgradable`.

A node's container has the programs of both (`images.ensure_pair`), and starts the one that a file in it
names. So a node keeps its disk, addresses, cuts and log, whatever it runs.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from core.errors import ClusterError
from harness.brokers.admin import features
from harness.containers.data import put_files
from harness.kafka.cluster import KafkaCluster
from harness.kafka.images import HOME, HOMES


class TwoVersionCluster(KafkaCluster):
    """`KafkaCluster` and `Upgradable`."""

    _later: frozenset[int] = frozenset()
    _raised = False

    def upgraded(self) -> tuple[int, ...]:
        """See `Upgradable`."""
        return tuple(sorted(self._later))

    def features_raised(self) -> bool:
        """See `Upgradable`."""
        return self._raised

    async def install(self, nodes: Sequence[int], *, later: bool) -> None:
        """See `Upgradable`. Raises: ClusterError."""
        if self._raised and not later:
            raise ClusterError(f"nodes {list(nodes)} cannot go back: the features of the cluster were raised")
        for made in self._made(nodes):
            if made.is_up():
                raise ClusterError(f"node {made.number} runs: its version cannot be changed")
            home = PurePosixPath(HOME)
            put_files(made.own, {home.name: HOMES[later].encode()}, str(home.parent))
            self._later = self._later | {made.number} if later else self._later - {made.number}

    async def lagging_voters(self) -> tuple[int, ...]:
        """See `Upgradable`."""
        return features.lagging_voters(self.admin)

    async def raise_features(self) -> Mapping[str, tuple[int, int]]:
        """See `Upgradable`. Raises: ClusterError, where they may have been raised all the same."""
        self._raised = True
        return features.raise_features(self.admin)
