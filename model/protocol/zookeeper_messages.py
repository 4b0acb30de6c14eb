"""Messages of the ZooKeeper era: between brokers and the ensemble, controllers and brokers.

`number` of a controller's request is its position on the controller's connection to that broker. A broker
ignores what an older connection brings after a newer one has spoken. Broker epochs (KIP-380, 2.2) are left
out: a request that was meant for an earlier life of a broker dies with its connection.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from model.protocol.messages import Partition, PartitionState
from model.protocol.requests import ErrorResponse, Request, Response

# ---- operations on znodes

PERSISTENT: Final = -1
"""Owner of a znode that is not ephemeral."""


class ZkError(Enum):
    """Error of one op (org.apache.zookeeper.KeeperException.Code)."""

    OK = 0
    NO_NODE = -101
    BAD_VERSION = -103
    NODE_EXISTS = -110
    NOT_EMPTY = -111


class Create(NamedTuple):
    """ephemeral: goes with the session. sequential: a number is added to the name."""

    path: str
    data: Any = None
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """version -1: whatever it is."""

    path: str
    data: Any
    version: int = -1


class Delete(NamedTuple):
    """version -1: whatever it is."""

    path: str
    version: int = -1


class GetData(NamedTuple):
    """watch: tell once when the znode is created, changed or deleted."""

    path: str
    watch: bool = False


class Children(NamedTuple):
    """watch: tell once when a child is created or deleted."""

    path: str
    watch: bool = False


ZkOp = Create | SetData | Delete | GetData | Children


class ZkResult(NamedTuple):
    """Of one op. path: of a created znode. owner: session of an ephemeral one. created: number of the
    change that created it (czxid). children: names, sorted."""

    error: ZkError
    data: Any = None
    version: int = -1
    owner: int = PERSISTENT
    created: int = -1
    children: tuple[str, ...] = ()
    path: str = ""


class WatchedEvent(NamedTuple):
    """A watch on `path` fired. `number` counts the events of the session, from 1."""

    number: int
    path: str


# ---- a client of ZooKeeper


class ZkConnect(Request["ZkConnectResponse"], frozen=True):
    """Begin a session."""

    timeout_ms: int


class ZkConnectResponse(Response, frozen=True):
    """The session."""

    session: int


class ZkOps(Request["ZkResponse"], frozen=True):
    """`attempt`: the client's connection of this session. An older one than the newest that was heard of
    is refused (SessionMoved), so that nothing of a connection that was given up is done late."""

    session: int
    attempt: int
    ops: Sequence[ZkOp]
    seen: int


class ZkPoll(Request["ZkResponse"], frozen=True):
    """Ping, and a request for events after number `seen`: held until there are some."""

    session: int
    seen: int


class ZkCloseSession(Request["ZkResponse"], frozen=True):
    """End it."""

    session: int


class ZkResponse(Response, frozen=True):
    """`expired`: the session has ended. `moved`: the connection is an old one. `events` come before the
    results: they happened before them."""

    results: Sequence[ZkResult] = ()
    events: Sequence[WatchedEvent] = ()
    expired: bool = False
    moved: bool = False


# ---- the controller to brokers


class ControlRequest(Request[ErrorResponse], frozen=True):
    """What the controller says to a broker."""

    controller: int
    controller_epoch: int
    number: int


class LeaderAndIsr(ControlRequest, frozen=True):
    """Key 4: what a broker's own replicas have to do."""

    parts: Mapping[Partition, PartitionState]


class StopReplica(ControlRequest, frozen=True):
    """Key 5: stop to follow, and delete the replica where that is said."""

    partitions: Sequence[Partition]
    delete: bool


class UpdateMetadata(ControlRequest, frozen=True):
    """Key 6: what a broker tells clients. `brokers`: all that live."""

    brokers: Sequence[int]
    parts: Mapping[Partition, PartitionState]


# ---- a broker to the controller


class ControlledShutdown(Request["ControlledShutdownResponse"], frozen=True):
    """Key 7: a broker wants to go."""

    broker: int


class ControlledShutdownResponse(ErrorResponse, frozen=True):
    """`remaining`: partitions that it still leads."""

    remaining: Sequence[Partition] = ()
