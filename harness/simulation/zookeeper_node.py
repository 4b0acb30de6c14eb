"""The ZooKeeper ensemble of a simulated cluster: one node more, after the brokers.

It does not belong to the cluster (`Cluster` does not name it) and is never a target. Links to it carry what
the links between brokers and isolated controllers carry elsewhere, and are cut with a broker's other links:
the ensemble sits with the majority, so that who neither hears nor is heard by a majority of brokers, itself
included, is cut off from it, each direction for itself.
"""

from collections.abc import Collection, Sequence

from core.cluster import Cut, Direction
from harness.simulation.nodes import NodeProcess, SimNode
from model.zookeeper.ensemble import Ensemble
from model.zookeeper.zk_data import TOP_LEVEL
from model.zookeeper.zookeeper import ZooKeeper


class EnsembleNode(SimNode):
    """See the module. `zookeeper`: what outlives the process."""

    zookeeper: ZooKeeper

    def _begin(self) -> NodeProcess:
        if self.incarnation == 1:
            self.zookeeper = ZooKeeper(TOP_LEVEL)
        return Ensemble(self.zookeeper)


def cuts_from(cuts: Collection[Cut], brokers: Sequence[int], ensemble: int) -> list[Cut]:
    """Cuts between brokers and the ensemble that go with the cuts in force."""
    made = []
    for node in brokers:
        for direction in Direction:
            linked = [p for p in brokers if p == node or not _is_cut(cuts, node, p, direction)]
            if 2 * len(linked) <= len(brokers):
                made.append(Cut(node=node, direction=direction, peer=ensemble))
    return made


def _is_cut(cuts: Collection[Cut], node: int, peer: int, direction: Direction) -> bool:
    """Whether `node` gets nothing from (IN) or to (OUT) a peer, on any listener."""
    other = Direction.OUT if direction is Direction.IN else Direction.IN
    same = Cut(node=node, direction=direction, peer=peer)
    return same in cuts or Cut(node=peer, direction=other, peer=node) in cuts
