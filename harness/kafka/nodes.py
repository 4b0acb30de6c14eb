"""What all deployments of Kafka's nodes share: image, evidence, power losses."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.config import RunConfig
from core.errors import ClusterError
from core.flushing import flushes_each
from core.systems import KafkaSection, is_since
from harness.brokers.addresses import cluster_id, host_names
from harness.containers.nodes import NodeContainer
from harness.kafka.evidence import NodeEvidence
from harness.kafka.images import ensure_image, ensure_pair
from harness.kafka.power import lose_unflushed
from history.run_folder import Run

if TYPE_CHECKING:
    from docker import DockerClient

PROPERTIES = "/etc/kafka/node.properties"
"""The settings of a node's program, in its container."""


class KafkaNodes(NodeEvidence):
    """A `Deployment` but for `environment`, `files` and `controller`. names: as there."""

    command: Sequence[str] = ()
    own_program = False

    def __init__(self, config: RunConfig, run_dir: Path) -> None:
        run = Run(run_dir)
        self._config = config
        self._section = config.section(KafkaSection)
        both = range(1, config.brokers + 1) if self._section.log_dirs > 1 else ()
        super().__init__(run.copies, both)
        self._cluster = cluster_id(run.name)
        self.older = not is_since(self._section.version, "2.4")
        self.names: Mapping[int, str] = host_names(config)

    def image(self, client: "DockerClient") -> str:
        """See `Deployment`."""
        its = self._section
        if its.upgrade:
            return ensure_pair(client, its.version, its.upgrade, its.deployment)
        return ensure_image(client, its.version, its.deployment)

    def trouble(self, nodes: Sequence[NodeContainer]) -> str:
        """See `Deployment`."""
        return ""

    def flushes_each(self) -> bool:
        """See `Deployment`."""
        return flushes_each(self._config)

    def lose_power(self, nodes: Sequence[NodeContainer], seed: int | None) -> int:
        """See `Deployment`, and `power`."""
        try:
            return lose_unflushed(nodes, seed, self._copies, self._config, self.directories)
        except OSError as error:
            raise ClusterError(f"no power loss: {error}") from error
