"""What the interpreter and its workers say to each other: one JSON line each, over pipes.

Not here: who says what when (`harness.interpreter`, `harness.worker`).
"""

import msgspec

from harness.cluster import CrashPoint, Endpoint
from harness.op import Phase


class Start(msgspec.Struct, frozen=True, tag="start", tag_field="command"):
    """First command. `width`: distance between the process numbers of one slot."""

    endpoint: Endpoint
    width: int


class Enter(msgspec.Struct, frozen=True, tag="enter", tag_field="command"):
    """The run enters a phase."""

    phase: Phase


class ReadFinal(msgspec.Struct, frozen=True, tag="read-final", tag_field="command"):
    """To a final reader: read up to these ends; by isolation level, (topic, partition, end)."""

    ends: dict[int, list[tuple[str, int, int]]]


class Crash(msgspec.Struct, frozen=True, tag="crash", tag_field="command"):
    """Die by SIGKILL, by the worker's own hand, when it gets to this point of its work."""

    point: CrashPoint


Command = Start | Enter | ReadFinal | Crash


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """Counters of a worker since it started (`harness.client.Counters`)."""

    ok: int = 0
    fail: int = 0
    info: int = 0
    sent: int = 0
    acked: int = 0
    read: int = 0
    ok_invoked_ns: int = 0
    worked_ns: int = 0
