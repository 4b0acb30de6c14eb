"""What the run program and its load clients say to each other, and how the program holds one of them.

A worker process reads from its stdin where the cluster is (`Endpoint`) and then commands, and writes
`WorkerLine`s to its stdout; a simulated client is handed the same commands in memory.
"""

from typing import Protocol

import msgspec

from core.load_clients import CrashPoint
from core.op import Phase
from harness.processes.child import ChildLine


class Enter(msgspec.Struct, frozen=True, tag="enter", tag_field="command"):
    """The run enters a phase."""

    phase: Phase


class ReadFinal(msgspec.Struct, frozen=True, tag="read-final", tag_field="command"):
    """To a final reader: read up to these ends; by isolation level, (topic, partition, end). begun_ns: when
    the run began."""

    ends: dict[int, list[tuple[str, int, int]]]
    begun_ns: int = 0


class Crash(msgspec.Struct, frozen=True, tag="crash", tag_field="command"):
    """Die by SIGKILL, by the worker's own hand, when it gets to this point of its work."""

    point: CrashPoint


class Grow(msgspec.Struct, frozen=True, tag="grow", tag_field="command"):
    """Further partitions that there are by now: all of them, as (topic, partition)."""

    tps: list[tuple[str, int]]


class Rest(msgspec.Struct, frozen=True, tag="rest", tag_field="command"):
    """End the process, and begin none until `Resume`."""


class Resume(msgspec.Struct, frozen=True, tag="resume", tag_field="command"):
    """Begin processes. remade: how often the topics of the run were deleted and made again by now."""

    remade: int


Command = Enter | ReadFinal | Crash | Grow | Rest | Resume


class ClientProgress(msgspec.Struct, array_like=True):
    """What one client has done since it started: ops by outcome, records, times of its newest work."""

    ok: int = 0
    fail: int = 0
    info: int = 0
    sent: int = 0
    acked: int = 0
    read: int = 0
    ok_invoked_ns: int = 0
    """When the newest op that went as meant was invoked."""
    worked_ns: int = 0
    """When the newest op was invoked that went as meant and whose polls returned records. An empty poll goes
    as meant too, and does not show that the group still works."""
    acked_ns: int = 0
    """When a broker last acknowledged a record."""
    rested_ns: int = 0
    """Since when it has no process, because it is to rest; 0 = it works."""

    def plus(self, other: "ClientProgress") -> "ClientProgress":
        """Both together: the counts added, the newer of the times."""
        counts = ("ok", "fail", "info", "sent", "acked", "read")
        times = ("ok_invoked_ns", "worked_ns", "acked_ns")
        return ClientProgress(
            **{name: getattr(self, name) + getattr(other, name) for name in counts},
            **{name: max(getattr(self, name), getattr(other, name)) for name in times},
        )


class WorkerLine(ChildLine, frozen=True, kw_only=True):
    """One line of a worker's standard output."""

    progress: ClientProgress


class WorkerHandle(Protocol):
    """A started client, as the pool holds it: an operating-system process or a simulated task.

    condemned: a fault crashes it; then its end is not a loss. Safe from any thread: reading, `tell` and
    `strike`.
    """

    condemned: bool

    @property
    def slot(self) -> int:
        """Its slot."""

    @property
    def progress(self) -> ClientProgress:
        """Its newest report."""

    @property
    def heard_ns(self) -> int:
        """When it last reported (CLOCK_MONOTONIC): one that runs does so all the time."""

    @property
    def ended(self) -> int | None:
        """Exit status (negative: signal), None while it runs."""

    def tell(self, command: Command) -> None:
        """Send a command; no error where the client has ended."""

    def pause(self) -> None:
        """SIGSTOP; no-op where it is paused. Raises: OSError, where it has ended."""

    def resume(self) -> None:
        """SIGCONT; no-op where it is not paused, or has ended."""

    def strike(self) -> None:
        """SIGKILL, without waiting: safe in a handler of signals."""

    def close(self) -> None:
        """Wait for the end of a client that was struck, and release what belongs to it."""

    def why_ended(self) -> str:
        """What its exit status and last words say."""

    def last_words(self) -> str:
        """The last line that it wrote to stderr, "" = none."""
