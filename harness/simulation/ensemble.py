"""The ZooKeeper ensemble of a simulated cluster: one node more, after the brokers.

It is no node of the cluster's (`Cluster` does not name it) and never a target. Links to it carry what the
links between brokers and isolated controllers carry elsewhere, and are cut with a broker's other links: the
ensemble sits with the majority, so that who neither hears nor is heard by a majority of brokers, itself
included, is cut off from it, each direction for itself.

Not here: the state machine (`model.zookeeper`), brokers (`nodes`).
"""

from collections.abc import Collection, Sequence

from harness.cluster import Cut, Direction
from harness.simulation.nodes import Process, SimNode
from model.zk_ensemble import Ensemble
from model.zk_paths import TOP_LEVEL
from model.zookeeper import ZooKeeper


class EnsembleNode(SimNode):
    """See the module. `zookeeper`: what outlives the process."""

    zookeeper: ZooKeeper

    def _begin(self) -> Process:
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
