"""What the parts of one broker share: its replicas, its view of the cluster, and what it wants done.

Parts append to `out`; the driver takes it away and does it:

    Reply(connection, correlation, answer)    answer a request that was received
    Ask(node, channel, request)               ask another node; the answer, or None, comes back as
                                              `Broker.answered(node, channel, answer)`. One request is
                                              under way on a channel; channels do not wait for each other
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from model.log.unified_log import UnifiedLog
from model.metadata.image import MetadataImage
from model.protocol.messages import Partition
from model.protocol.requests import Handler, Q, Request, Response
from model.replication.replica import Replica
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
    answer: Response


class Ask(NamedTuple):
    """See the module."""

    node: int
    channel: str
    request: Request


@dataclass(slots=True)
class NodeState:
    """`logs` survive a crash, and so does `checkpoint`: high watermarks as they were written last.

    now: time of the event in hand.
    """

    me: int
    settings: Settings
    logs: dict[Partition, UnifiedLog] = field(default_factory=dict)
    checkpoint: dict[Partition, int] = field(default_factory=dict)
    replicas: dict[Partition, Replica] = field(default_factory=dict)
    image: MetadataImage = field(default_factory=MetadataImage)
    out: list[Reply | Ask] = field(default_factory=list)
    now: int = 0
    broker_epoch: int = -1

    def reply(self, connection: int, correlation: int, answer: Response) -> None:
        """Answer a request; connection -1 = the sender does not wait for it."""
        if connection >= 0:
            self.out.append(Reply(connection, correlation, answer))

    def answering(self, answer: Callable[[Q], Response]) -> Handler[Q]:
        """A handler that answers at once."""

        def handle(connection: int, correlation: int, request: Q) -> None:
            self.reply(connection, correlation, answer(request))

        return handle

    def ask(self, node: int, channel: str, request: Request) -> None:
        """Ask another node (or this one)."""
        self.out.append(Ask(node, channel, request))

    def leader_of(self, tp: Partition) -> Replica | None:
        """The replica of a partition that this broker believes to lead."""
        replica = self.replicas.get(tp)
        return replica if replica is not None and replica.leads else None
