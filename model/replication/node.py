"""What the parts of one broker share: its replicas, its view of the cluster, and what it wants done.

Parts append to `out`; the driver takes it away and does it:

    Reply(connection, correlation, answer)    answer a request that was received
    Ask(node, channel, request, then)         ask another node, and call `then` with the answer, or with
                                              None where none came. One request is under way on a channel;
                                              channels do not wait for each other
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, cast

import msgspec

from core.internal_topics import SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from model.log.unified_log import UnifiedLog
from model.metadata.image import MetadataImage
from model.protocol.messages import Partition, PartitionState
from model.protocol.requests import Answer, AnyRequest, R, Request, Response
from model.replication.replica import Replica
from model.settings import Settings

DECISION_TOPICS = (TRANSACTION_TOPIC, SHARE_STATE_TOPIC)
"""Topics that brokers create with a minimum of in-sync replicas of their own."""


def settings_of(settings: Settings, topic: str) -> Settings:
    """The settings that are in force for a topic."""
    return settings.of_decisions() if topic in DECISION_TOPICS else settings


class Reply(msgspec.Struct, frozen=True):
    """See the module."""

    connection: int
    correlation: int
    answer: Response


def ignore(answer: object) -> None:
    """No party waits for the answer."""


class Ask(msgspec.Struct, frozen=True):
    """See the module."""

    node: int
    channel: str
    request: AnyRequest
    then: Callable[[Response | None], None] = ignore


class MarkersLeftOut(NamedTuple):
    """A coordinator ends a transaction without its marker in some partitions. ms: the node's time.
    producer_epoch: of the marker."""

    ms: int
    node: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[Partition, ...]


class LeaderStarts(NamedTuple):
    """A replica leads from now on; its log ends at `end`. ms: the node's time."""

    ms: int
    node: int
    partition: Partition
    state: PartitionState
    end: int
    high_watermark: int


class MarkersSentAfterLoading(NamedTuple):
    """A coordinator that has loaded a partition of its log sends the markers of a decision that is in it.
    ms: the node's time. number: of the partition. updated: time of the decision."""

    ms: int
    node: int
    number: int
    coordinator_epoch: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: tuple[Partition, ...]
    updated: int


class MarkersCancelled(NamedTuple):
    """A coordinator gave up a request with markers that it had sent to a broker, for no answer came in time.
    ms: the node's time, also of `made`, when it made the request."""

    ms: int
    node: int
    to: int
    made: int
    timeout: int


LogLine = MarkersLeftOut | LeaderStarts | MarkersSentAfterLoading | MarkersCancelled
"""A line of a node's server log."""


@dataclass(slots=True)
class NodeState:
    """`logs` survive a crash, and so do `checkpoint`, the high watermarks as they were written last, and
    `server_log`, with the lines only that a check reads.

    now: time of the event in hand. connection: that its request came over, -1 = none.
    """

    me: int
    settings: Settings
    logs: dict[Partition, UnifiedLog] = field(default_factory=dict)
    checkpoint: dict[Partition, int] = field(default_factory=dict)
    server_log: list[LogLine] = field(default_factory=list)
    replicas: dict[Partition, Replica] = field(default_factory=dict)
    image: MetadataImage = field(default_factory=MetadataImage)
    out: list[Reply | Ask] = field(default_factory=list)
    now: int = 0
    connection: int = -1
    broker_epoch: int = -1

    def answering(self, connection: int, correlation: int) -> Answer:
        """What answers a request; connection -1 = the sender does not wait for it."""
        return partial(self._reply, connection, correlation) if connection >= 0 else ignore

    def _reply(self, connection: int, correlation: int, answer: Response) -> None:
        self.out.append(Reply(connection, correlation, answer))

    def ask(
        self, node: int, channel: str, request: Request[R], then: Callable[[R | None], None] = ignore
    ) -> None:
        """Ask another node (or this one); `then` gets the answer, None = connection lost or none in time."""
        self.out.append(Ask(node, channel, request, cast("Callable[[Response | None], None]", then)))

    def leader_of(self, tp: Partition) -> Replica | None:
        """The replica of a partition that this broker believes to lead."""
        replica = self.replicas.get(tp)
        return replica if replica is not None and replica.state.leader == replica.me else None
