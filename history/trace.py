"""The trace of a simulated run: messages and states of its nodes (`trace.jsonl`, one JSON array a line).

The simulation writes it (`harness.modelled.virtual.tracer`), the report shows it. First line: `TraceHeader`.
Then messages in the order in which they were sent, and states when they changed, both by their times. Times
are ns of the run's clock, as everywhere.

A lane is where a message begins or ends: `n2` node 2, `c4` the client of process 4, `h` the harness itself,
`x` any client, where messages were captured and do not say which.
A *subject* is what a message is about: a partition (`queue-3`), `txn:` and a transactional id, `group:` and
a group.
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec

from core.errors import HistoryError
from history import jsonl

VERSION: Final = 1
LOST: Final = -1
HARNESS: Final = "h"
CLIENTS: Final = "x"
UP, DOWN, PAUSED = "up", "down", "paused"
LEADER, FOLLOWER, IDLE = "leader", "follower", "idle"


def node_lane(node: int) -> str:
    """Lane of a node."""
    return f"n{node}"


def client_lane(process: int) -> str:
    """Lane of a client; of the harness, if it is not a process of the load."""
    return f"c{process}" if process >= 0 else HARNESS


class TraceHeader(msgspec.Struct, frozen=True, array_like=True, tag="trace"):
    """First line. brokers, controllers: nodes by what their process does; a node can be both."""

    version: int
    brokers: tuple[int, ...]
    controllers: tuple[int, ...]


class TracedMessage(msgspec.Struct, frozen=True, array_like=True, tag="message"):
    """A request or an answer. Its number is its place among the messages, from 0 on.

    arrived: -1 = never: its receiver died, or had given up. answers: number of the request that it answers,
    -1 = it is a request. name: the request's, in Kafka's words, also in the answer. parts: what it says, by
    subject; of a Fetch and its answer only what the one before between these two did not say (as in fetch
    sessions, KIP-227). text: what else it says.
    """

    sent: int
    arrived: int
    sender: str
    receiver: str
    name: str
    answers: int
    parts: dict[str, str]
    text: str = ""


class TracedNode(msgspec.Struct, frozen=True, array_like=True, tag="node"):
    """A node's process. state: up, down or paused. controls: it acts as controller. controller: the one
    that it believes in, -1 none. fenced: it believes that the cluster does not count on it. cause: see
    `TracedReplica`."""

    ns: int
    node: int
    state: str
    controls: bool
    controller: int
    fenced: bool
    cause: int = -1


class TracedReplica(msgspec.Struct, frozen=True, array_like=True, tag="replica"):
    """A replica after an event of its node. partition: `topic-number`. end, high, stable: log end offset,
    high watermark, last stable offset. role: leader, follower, or idle (no leader is known). isr: in-sync set
    as this node knows it. cause: number of the message that its node handled; -1 = no message
    (time passed, the node started)."""

    ns: int
    node: int
    partition: str
    end: int
    high: int
    stable: int
    role: str
    leader: int
    epoch: int
    isr: tuple[int, ...]
    cause: int = -1


class TracedTransaction(msgspec.Struct, frozen=True, array_like=True, tag="transaction"):
    """A transactional id as its coordinator has it in memory. state: Kafka's name; pending: the state that it
    is about to take, "" none. partitions: `topic-number`. cause: see `TracedReplica`."""

    ns: int
    node: int
    transactional_id: str
    state: str
    pending: str
    producer_id: int
    epoch: int
    partitions: tuple[str, ...]
    cause: int = -1


class TracedGroup(msgspec.Struct, frozen=True, array_like=True, tag="group"):
    """A group as its coordinator has it in memory. members: how many. cause: see `TracedReplica`."""

    ns: int
    node: int
    group: str
    state: str
    generation: int
    members: int
    cause: int = -1


TracedState = TracedNode | TracedReplica | TracedTransaction | TracedGroup
Line = TraceHeader | TracedMessage | TracedState

_DECODER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All lines, by kind. messages: a message's number is its position. states: by time."""

    header: TraceHeader
    messages: list[TracedMessage] = field(default_factory=list)
    states: list[TracedState] = field(default_factory=list)


def encode(trace: Trace) -> bytes:
    """As `trace.jsonl` has it."""
    return jsonl.encode((trace.header, *trace.messages, *trace.states))


def decode(data: bytes) -> Trace:
    """A whole `trace.jsonl`: unlike a journal it is written at once. Raises: HistoryError."""
    if not data.endswith(b"\n"):
        raise HistoryError("trace.jsonl is cut off")
    header, *lines = jsonl.decode(data, _DECODER, "trace.jsonl")
    if not isinstance(header, TraceHeader):
        raise HistoryError("trace.jsonl does not begin with its header")
    if header.version > VERSION:
        raise HistoryError(f"trace.jsonl has version {header.version}, this program knows {VERSION}")
    return Trace(
        header=header,
        messages=[line for line in lines if isinstance(line, TracedMessage)],
        states=[line for line in lines if isinstance(line, TracedState)],
    )
