"""A controller's connections to brokers (ControllerChannelManager): in order, one request at a time, each
sent again until it is answered or the broker is gone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from model.errors import KafkaError
from model.protocol.requests import ErrorResponse
from model.protocol.zookeeper_messages import ControlRequest

BACKOFF_MS: Final = 100


@dataclass(slots=True)
class ControllerChannelManager:
    """`queues`: by broker that lives. `numbered`: requests made so far. `refused`: brokers that know a newer
    controller (they say so with STALE_CONTROLLER_EPOCH)."""

    queues: dict[int, list[ControlRequest]] = field(default_factory=dict)
    numbered: int = 0
    refused: set[int] = field(default_factory=set)
    _flying: dict[int, ControlRequest] = field(default_factory=dict)
    _pause: dict[int, int] = field(default_factory=dict)

    def add(self, broker: int) -> None:
        """A broker came."""
        self.queues.setdefault(broker, [])

    def drop(self, broker: int) -> None:
        """A broker is gone, and all that was meant for it."""
        self.queues.pop(broker, None)

    def send(self, broker: int, make: Callable[[int], ControlRequest]) -> None:
        """Queue a request, which `make` builds from its number; nothing where the broker is gone."""
        if broker in self.queues:
            self.numbered += 1
            self.queues[broker].append(make(self.numbered))

    def due(self, now: int) -> Iterator[tuple[int, ControlRequest]]:
        """What is to be sent now."""
        for broker, queue in self.queues.items():
            if queue and broker not in self._flying and self._pause.get(broker, 0) <= now:
                self._flying[broker] = queue[0]
                yield broker, queue[0]

    def answered(self, broker: int, answer: ErrorResponse | None, now: int) -> None:
        """A broker answered, None = it did not."""
        sent = self._flying.pop(broker)
        queue = self.queues.get(broker)
        if answer is None:
            self._pause[broker] = now + BACKOFF_MS
        elif queue and queue[0] is sent:
            queue.pop(0)
        if answer is not None and answer.error is KafkaError.STALE_CONTROLLER_EPOCH:
            self.refused.add(broker)
