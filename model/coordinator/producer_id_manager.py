"""Producer ids, which brokers hand out from blocks that the controller gives them (KIP-730)."""

from collections.abc import Callable
from dataclasses import dataclass

from model.errors import NO_ERROR, KafkaError, Refused
from model.protocol.controller_messages import AllocateProducerIds, AllocateProducerIdsResponse
from model.replication.node import NodeState


@dataclass(slots=True)
class ProducerIdManager:
    """`next` and `end`: what is left of the block in hand. `controller()`: who gives blocks, -1 unknown."""

    node: NodeState
    controller: Callable[[], int]
    next: int = 0
    end: int = 0
    asking: bool = False

    def take(self) -> int:
        """An unused id.

        Raises: Refused (COORDINATOR_LOAD_IN_PROGRESS: a block was asked for; ask again).
        """
        if "producer-id-reused" in self.node.settings.bugs:  # every broker hands out the same ids
            self.next, self.end = self.next or 1, 2**62
        if self.next >= self.end:
            self._ask()
            raise Refused(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "no producer ids in hand")
        if "producer-id-repeated" in self.node.settings.bugs:
            return self.next
        self.next += 1
        return self.next - 1

    def _ask(self) -> None:
        if not self.asking and self.controller() >= 0:
            self.asking = True
            self.node.ask(self.controller(), "ids", AllocateProducerIds(self.node.me), self._answered)

    def _answered(self, answer: AllocateProducerIdsResponse | None) -> None:
        self.asking = False
        if answer is not None and answer.error is NO_ERROR:
            self.next, self.end = answer.first, answer.first + answer.size
