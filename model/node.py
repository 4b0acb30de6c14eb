"""What the parts of one broker share: its replicas, its view of the cluster, and what it wants done.

Parts append to `out`; the driver takes it away and does it:

    Reply(connection, correlation, answer)    answer a request that was received
    Ask(node, channel, request)               ask another node; the answer, or None, comes back as
                                              `Broker.answered(node, channel, answer)`. One request is
                                              under way on a channel; channels do not wait for each other

Not here: what the parts do (`broker`, `serving`, `following`, `transactions`, `groups`).
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from model.image import Image
from model.log import Log
from model.messages import Partition
from model.replica import Replica
from model.settings import Settings

TRANSACTION_TOPIC = "__transaction_state"
GROUP_TOPIC = "__consumer_offsets"


def settings_of(settings: Settings, topic: str) -> Settings:
    """The settings that are in force for a topic."""
    return settings.of_decisions() if topic == TRANSACTION_TOPIC else settings


class Reply(NamedTuple):
    """See the module."""

    connection: int
    correlation: int
    answer: Any


class Ask(NamedTuple):
    """See the module."""

    node: int
    channel: str
    request: Any


@dataclass(slots=True)
class Node:
    """`logs` survive a crash, and so does `checkpoint`: high watermarks as they were written last.

    now: time of the event in hand.
    """

    me: int
    settings: Settings
    logs: dict[Partition, Log] = field(default_factory=dict)
    checkpoint: dict[Partition, int] = field(default_factory=dict)
    replicas: dict[Partition, Replica] = field(default_factory=dict)
    image: Image = field(default_factory=Image)
    out: list[Reply | Ask] = field(default_factory=list)
    now: int = 0
    broker_epoch: int = -1

    def reply(self, connection: int, correlation: int, answer: Any) -> None:
        """Answer a request; connection -1 = nobody waits for it."""
        if connection >= 0:
            self.out.append(Reply(connection, correlation, answer))

    def ask(self, node: int, channel: str, request: Any) -> None:
        """Ask another node (or this one)."""
        self.out.append(Ask(node, channel, request))

    def leader_of(self, tp: Partition) -> Replica | None:
        """The replica of a partition that this broker believes to lead."""
        replica = self.replicas.get(tp)
        return replica if replica is not None and replica.leads else None
