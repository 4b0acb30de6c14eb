"""One modelled client, driven by hand: its brokers are the test, time passes when the test says so."""

from typing import Any, Protocol

from model.protocol.messages import MetadataResponse, Partition, PartitionState
from model.replication.node import Ask

P0: Partition = ("t", 0)
P1: Partition = ("t", 1)


def metadata(brokers: list[int], leader: int = 1, epoch: int = 0) -> MetadataResponse:
    """One broker leads both partitions, all are in sync."""
    replicas = tuple(brokers)
    state = PartitionState(replicas, replicas, leader, epoch)
    return MetadataResponse(brokers, {P0: state, P1: state}, 1)


class Client(Protocol):
    """What all modelled clients have."""

    out: list[Ask]

    def pump(self, now: int) -> None:
        """Time has come to this."""

    def answered(self, channel: str, answer: Any, now: int) -> bool:
        """The answer to a question, None = none came; whether it was this client's."""


class OneClient:
    """See the module. `asked`: requests without an answer, the oldest first."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.now = 0
        self.asked: list[Ask] = []

    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds
        self._client.pump(self.now)
        self.asked += self._client.out
        self._client.out = []

    def of(self, kind: type) -> list[Ask]:
        """Questions of a kind that have no answer."""
        self.wait(0)
        return [ask for ask in self.asked if isinstance(ask.request, kind)]

    def answer(self, what: Ask | type, answer: Any) -> None:
        """A question is answered; of a kind, the oldest."""
        ask = what if isinstance(what, Ask) else self.of(what)[0]
        self.asked.remove(ask)
        assert self._client.answered(ask.channel, answer, self.now)
        self.wait(0)
