"""The evidence of a simulated run: what the disks of its nodes have and had (`modelled.shared.evidence`).

evidence(cluster)      # when the run has ended, in memory: every take
"""

import pyarrow as pa

from core.systems import SimulatedSection
from harness.modelled.shared import znodes
from harness.modelled.shared.evidence import tables
from harness.modelled.virtual.cluster import SimulatedCluster
from history.evidence import Evidence


def evidence(cluster: SimulatedCluster) -> Evidence:
    """Everything that the disks of the nodes have and had."""
    return Evidence(tables_of_run(cluster))


def tables_of_run(cluster: SimulatedCluster) -> dict[str, pa.Table]:
    """As `history.evidence.write` takes them."""
    takes = [*cluster.disks()]
    found = tables(takes, cluster.settings, cluster.config.section(SimulatedSection).era)
    if cluster.zookeeper is None:
        return found
    return found | znodes.rows(cluster.zookeeper.log, cluster.ensemble, len(takes) - 1)
