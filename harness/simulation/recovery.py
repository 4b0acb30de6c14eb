"""Whether a simulated cluster and its clients have recovered: what `harness.interpreter` asks of real ones.

Not here: how long it may take (`harness.simulate`).
"""

from collections.abc import Mapping

from harness.clients import idle_groups
from harness.config import RunConfig
from harness.messages import Progress
from harness.simulation.clients import SimClients
from harness.simulation.cluster import SimulatedCluster
from model.messages import Partition, PartitionState


def unrecovered(
    cluster: SimulatedCluster, clients: SimClients, config: RunConfig, since_ns: int
) -> str:
    """What is still missing after healing, "" = nothing."""
    return unrecovered_cluster(cluster) or stuck_clients(clients, config, since_ns)


def unrecovered_cluster(cluster: SimulatedCluster) -> str:
    """What the nodes still miss, "" = nothing: all are up, and all brokers know every partition's leader,
    with a whole in-sync set."""
    down = [n for n, node in cluster.sim.items() if not node.up]
    if down:
        return f"nodes {down} are down"
    known = {node: _partitions(cluster, node) for node in cluster.brokers}
    newest: dict[Partition, int] = {}
    for partitions in known.values():
        for tp, state in partitions.items():
            if state.leader < 0:
                return f"{tp} has no leader"
            if len(state.isr) < len(state.replicas):
                return f"{tp} has in-sync replicas {list(state.isr)} only"
            newest[tp] = max(newest.get(tp, -1), state.leader_epoch)
    for node, partitions in known.items():
        for tp, epoch in newest.items():
            if tp not in partitions or partitions[tp].leader_epoch < epoch:
                return f"node {node} has not heard what became of {tp}"
    return ""


def _partitions(cluster: SimulatedCluster, node: int) -> Mapping[Partition, PartitionState]:
    """All partitions, as a broker that is up knows them."""
    broker = cluster.sim[node].broker
    assert broker is not None
    return broker.node.image.partitions


def stuck_clients(clients: SimClients, config: RunConfig, since_ns: int) -> str:
    """Which clients have done nothing since then, and which groups were given nothing; "" = none."""
    slow = [s.spec.slot for s in clients.states if s.counters.ok_invoked_ns < since_ns]
    if slow:
        return f"clients {slow} have done nothing since"
    if not config.rate:
        return ""
    progress = {s.spec.slot: Progress(worked_ns=s.counters.worked_ns) for s in clients.states}
    idle = idle_groups(clients.slots, progress, since_ns)
    return f"groups {idle} were given nothing since" if idle else ""
