"""What a simulated cluster has left undone at the end of its run.

    unfinished(cluster, explained)   # [] = all acknowledged is replicated, every transaction has ended

To be asked once the cluster has had the time that a run gives it after its faults.
"""

from collections.abc import Callable

from harness.modelled.virtual.cluster import SimulatedCluster
from model.coordinator.transaction_metadata import ENDED, ONGOING, TransactionMetadata
from model.log.unified_log import UnifiedLog
from model.protocol.messages import Partition, PartitionState
from model.replication.node import NodeState
from model.replication.replica import Replica

Explained = Callable[[Partition, int, int], bool]
"""Whether a known weakness keeps this transaction open: partition, producer id, epoch."""


def unfinished(cluster: SimulatedCluster, explained: Explained = lambda *_: False) -> list[str]:
    """One sentence for each thing, in the order of partitions: partitions without a leader; committed
    records that an in-sync replica does not have; records of a data partition that are not committed;
    transactions that are open in a log or with their coordinator."""
    found: list[str] = []
    for tp, state in sorted(_newest(cluster).items()):
        name = f"{tp[0]}-{tp[1]}"
        replica = _leader(cluster, tp, state)
        if replica is None:
            found.append(f"{name} has no leader: {state}")
            continue
        found += [f"{name}: {text}" for text in _unreplicated(cluster, tp, replica)]
        high, end = replica.high_watermark, replica.log.end
        if high < end and not tp[0].startswith("__"):
            found.append(f"{name}: of {end} records {high} are committed")
        found += [
            f"{name}: producer {producer}/{known.epoch} has a transaction open since {known.began}"
            for producer, known in sorted(replica.log.producers.items())
            if known.began >= 0 and not explained(tp, producer, known.epoch)
        ]
    return found + _undecided(cluster)


def _newest(cluster: SimulatedCluster) -> dict[Partition, PartitionState]:
    """Partitions as the node knows them that has the most metadata."""
    images = [broker.node.image for broker in cluster.running]
    return dict(max(images, key=lambda image: image.offset).partitions) if images else {}


def _leader(cluster: SimulatedCluster, tp: Partition, state: PartitionState) -> Replica | None:
    """Its leader, in the leader epoch that is known: of in-sync sets that a leader wrote to ZooKeeper
    itself the others know only later."""
    node = cluster.sim.get(state.leader)
    if node is None or node.broker is None:
        return None
    replica = node.broker.node.leader_of(tp)
    same = replica is not None and replica.state.leader_epoch == state.leader_epoch
    return replica if same else None


def _unreplicated(cluster: SimulatedCluster, tp: Partition, leader: Replica) -> list[str]:
    found = []
    for member in leader.isr:
        log: UnifiedLog | None = cluster.sim[member].durable.logs.get(tp)
        end = log.end if log is not None else 0
        if end < leader.high_watermark:
            found.append(
                f"node {member} is in sync and has {end} of {leader.high_watermark} committed records"
            )
    return found


def _undecided(cluster: SimulatedCluster) -> list[str]:
    """Transactions that a coordinator has not ended; of each partition of its log, who leads it last. One
    whose time has not run out may be Ongoing: its producer may be gone before it wrote a record (what it
    wrote keeps a data partition's transaction open, and a run waits for that)."""
    newest: dict[int, tuple[int, list[str]]] = {}
    for broker in cluster.running:
        log = broker.coordinators.transactions.log
        for number, known in log.known.items():
            epoch = log.epochs.get(number, -1)
            texts = [
                f"{tid}: {t.state}, with its coordinator, node {broker.me}"
                for tid, t in sorted(known.items())
                if t.state not in ENDED and not _in_time(broker.node, t)
            ]
            if epoch > newest.get(number, (-1, []))[0]:
                newest[number] = (epoch, texts)
    return [text for _, (_, texts) in sorted(newest.items()) for text in texts]


def _in_time(node: NodeState, one: TransactionMetadata) -> bool:
    due = one.record.started + one.record.timeout_ms + node.settings.transaction_scan_ms
    return one.state is ONGOING and node.now <= due
