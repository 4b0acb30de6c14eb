"""A leader asks the controller for another in-sync set (AlterPartition, KIP-497).

Until the answer is there both sets count for the high watermark (`Replica.maximal_isr`).

Not here: which set is wanted (`replica`), whether it is granted (`controller`), the era in which
leaders wrote it to ZooKeeper themselves (`isr_changes`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from model.controller_messages import AlterAnswer, AlterPartition
from model.errors import KafkaError
from model.messages import Partition
from model.node import Node
from model.replica import Replica
from model.serving import Serving


@dataclass(slots=True)
class Altering:
    """controller(): the node to ask, -1 = it is not known."""

    node: Node
    serving: Serving
    controller: Callable[[], int]
    _again: set[Partition] = field(default_factory=set)

    def lead_on(self) -> None:
        """Look whether in-sync sets have to change; ask again where an answer did not come."""
        for tp, replica in self.node.replicas.items():
            if not replica.leads:
                continue
            if tp in self._again and self.controller() >= 0:
                self._again.discard(tp)
                self._ask(tp, replica)
            else:
                self.may_alter(tp)

    def may_alter(self, tp: Partition) -> None:
        """Ask the controller for another in-sync set where the leader wants one."""
        node = self.node
        replica = node.replicas[tp]
        if replica.proposed is not None or self.controller() < 0:
            return
        wanted = replica.wanted_isr(node.now, node.image.alive())
        if wanted is None or node.broker_epoch < 0:
            return
        replica.proposed = wanted
        self._ask(tp, replica)

    def _ask(self, tp: Partition, replica: Replica) -> None:
        wanted = replica.proposed
        if wanted is None:
            return
        node, state = self.node, replica.state
        brokers = node.image.brokers
        epochs = tuple(brokers[n].epoch if n in brokers else -1 for n in wanted)
        request = AlterPartition(
            node.me,
            node.broker_epoch,
            {tp: (state.leader_epoch, state.partition_epoch, wanted, epochs)},
        )
        node.ask(self.controller(), f"alter {tp[0]} {tp[1]}", request)

    def answered(self, channel: str, answer: AlterAnswer | None) -> None:
        """The controller's answer; the new state itself comes with the metadata. One that did not come
        or was refused leaves the old set in force, and the leader asks again when it looks next."""
        _, topic, number = channel.split(" ")
        tp = (topic, int(number))
        replica = self.node.replicas.get(tp)
        if replica is None or replica.proposed is None:
            return
        error, state = (
            answer.parts.get(tp, (answer.error, None))
            if answer is not None
            else (KafkaError.REQUEST_TIMED_OUT, None)
        )
        if state is not None and error is KafkaError.NONE:
            if state.partition_epoch > replica.state.partition_epoch:
                replica.become(state, self.node.now)
            replica.proposed = None
        elif error is KafkaError.INELIGIBLE_REPLICA:
            replica.proposed = None  # refused, and will not happen
        elif error not in (KafkaError.INVALID_UPDATE_VERSION, KafkaError.FENCED_LEADER_EPOCH):
            self._again.add(tp)
        # Else newer metadata are on their way: until they come, both sets count (KIP-497).
        if replica.advance(self.node.now):
            self.serving.moved(tp)
