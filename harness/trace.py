"""The trace of a simulated run: messages and states of its nodes (`trace.jsonl`, one JSON array a line).

Filled by the simulation (`harness.simulation.trace`), read by the report. First line: `Opened`. Then
messages in the order in which they were sent, and states when they changed, both by their times. Times are
ns of the run's clock, as everywhere.

A lane is where a message begins or ends: `n2` node 2, `c4` the client of process 4, `h` the harness itself.
A *subject* is what a message is about: a partition (`queue-3`), `txn:` and a transactional id, `group:` and
a group.

Not here: what is told of which message (`harness.simulation.summaries`), faults (`harness.events`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

VERSION: Final = 1
LOST: Final = -1
HARNESS: Final = "h"
UP, DOWN, PAUSED = "up", "down", "paused"
LEADER, FOLLOWER, IDLE = "leader", "follower", "idle"


def node_lane(node: int) -> str:
    """Lane of a node."""
    return f"n{node}"


def client_lane(process: int) -> str:
    """Lane of a client; of the harness, where it is no process of the load."""
    return f"c{process}" if process >= 0 else HARNESS


class Opened(msgspec.Struct, frozen=True, array_like=True, tag="trace"):
    """First line. brokers, controllers: nodes by what their process does; a node can be both."""

    version: int
    brokers: tuple[int, ...]
    controllers: tuple[int, ...]


class Message(msgspec.Struct, frozen=True, array_like=True, tag="message"):
    """A request or an answer. Its number is its place among the messages, from 0 on.

    arrived: -1 = never: its receiver died, or had given up. answers: number of the request that it answers,
    -1 = it is a request. name: the request's, in Kafka's words, also in the answer. parts: what it says, by
    subject; of a Fetch and its answer only what the one before between these two did not say (as in fetch
    sessions, KIP-227). text: what it says besides.
    """

    sent: int
    arrived: int
    sender: str
    receiver: str
    name: str
    answers: int
    parts: dict[str, str]
    text: str = ""


class Process(msgspec.Struct, frozen=True, array_like=True, tag="node"):
    """A node's process. state: up, down or paused. controls: it acts as controller. controller: the one
    that it believes in, -1 none. fenced: it believes that the cluster does not count on it. cause: see
    `Replica`."""

    ns: int
    node: int
    state: str
    controls: bool
    controller: int
    fenced: bool
    cause: int = -1


class Replica(msgspec.Struct, frozen=True, array_like=True, tag="replica"):
    """A replica after an event of its node. partition: `topic-number`. end, high, stable: log end offset,
    high watermark, last stable offset. role: leader, follower, or idle (no leader is known). isr: in-sync set
    as this node knows it. cause: number of the message that its node handled; -1 = it did it by itself
    (time passed, it started)."""

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


class Transaction(msgspec.Struct, frozen=True, array_like=True, tag="transaction"):
    """A transactional id as its coordinator has it in memory. state: Kafka's name; pending: the state that it
    is about to take, "" none. partitions: `topic-number`. cause: see `Replica`."""

    ns: int
    node: int
    transactional_id: str
    state: str
    pending: str
    producer_id: int
    epoch: int
    partitions: tuple[str, ...]
    cause: int = -1


class Group(msgspec.Struct, frozen=True, array_like=True, tag="group"):
    """A group as its coordinator has it in memory. members: how many. cause: see `Replica`."""

    ns: int
    node: int
    group: str
    state: str
    generation: int
    members: int
    cause: int = -1


State = Process | Replica | Transaction | Group
Line = Opened | Message | Process | Replica | Transaction | Group

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Line)


class TraceError(ValueError):
    """A trace that cannot be read; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All lines, by kind. messages: a message's number is its position. states: by time."""

    opened: Opened
    messages: list[Message] = field(default_factory=list)
    states: list[State] = field(default_factory=list)


def encode(trace: Trace) -> bytes:
    """As `trace.jsonl` has it."""
    lines: Iterable[Line] = (trace.opened, *trace.messages, *trace.states)
    return b"".join(_ENCODER.encode(line) + b"\n" for line in lines)


def decode(data: bytes) -> Trace:
    """A whole `trace.jsonl`. Raises: TraceError."""
    lines: list[Line] = []
    for number, line in enumerate(data.splitlines(), 1):
        try:
            lines.append(_DECODER.decode(line))
        except msgspec.MsgspecError as error:
            raise TraceError(f"trace.jsonl line {number}: {error}") from None
    if not lines or not isinstance(lines[0], Opened):
        raise TraceError("trace.jsonl does not begin as a trace does")
    if lines[0].version > VERSION:
        raise TraceError(
            f"trace.jsonl has version {lines[0].version}, this program knows {VERSION}"
        )
    return Trace(
        opened=lines[0],
        messages=[line for line in lines if isinstance(line, Message)],
        states=[line for line in lines if isinstance(line, State)],
    )
