"""What brokers, controllers and the ensemble of the ZooKeeper era say to each other.

`number` of a controller's request is its position on the controller's connection to that broker: what a
connection brings after its successor has spoken is not heard. Broker epochs (KIP-380, 2.2) are left out: a
request that was meant for an earlier life of a broker dies with its connection.

Not here: requests that all eras have (`messages`), znodes (`zookeeper`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from model.errors import KafkaError
from model.messages import Partition, PartitionState
from model.zookeeper import Event, Op, Result

# ---- a client of ZooKeeper


class Connect(NamedTuple):
    """Begin a session."""

    timeout_ms: int


class Connected(NamedTuple):
    """The session."""

    session: int


class Ops(NamedTuple):
    """`attempt`: the client's connection of this session. An older one than the newest that was heard of
    is refused (SessionMoved), so that nothing of a connection that was given up is done late."""

    session: int
    attempt: int
    ops: Sequence[Op]
    seen: int


class Poll(NamedTuple):
    """Ping, and the wish for events after number `seen`: held until there are some."""

    session: int
    seen: int


class CloseSession(NamedTuple):
    """End it."""

    session: int


class Answered(NamedTuple):
    """`expired`: the session is over. `moved`: the connection is an old one. `events` come before the
    results: they happened before them."""

    results: Sequence[Result] = ()
    events: Sequence[Event] = ()
    expired: bool = False
    moved: bool = False


# ---- the controller to brokers


class LeaderAndIsr(NamedTuple):
    """Key 4: what a broker's own replicas have to do."""

    controller: int
    controller_epoch: int
    number: int
    parts: Mapping[Partition, PartitionState]


class StopReplica(NamedTuple):
    """Key 5: stop to follow, and delete the replica where that is said."""

    controller: int
    controller_epoch: int
    number: int
    partitions: Sequence[Partition]
    delete: bool


class UpdateMetadata(NamedTuple):
    """Key 6: what a broker tells clients. `brokers`: all that live."""

    controller: int
    controller_epoch: int
    number: int
    brokers: Sequence[int]
    parts: Mapping[Partition, PartitionState]


Control = LeaderAndIsr | StopReplica | UpdateMetadata


# ---- a broker to the controller


class ControlledShutdown(NamedTuple):
    """Key 7: a broker wants to go."""

    broker: int


class ShutdownAnswer(NamedTuple):
    """`remaining`: partitions that it still leads."""

    error: KafkaError
    remaining: Sequence[Partition] = ()
