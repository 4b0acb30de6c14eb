"""The load clients of a run, as a nemesis aims at them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from core.op import TopicPartition


class CrashPoint(StrEnum):
    """Where in its work a client dies."""

    ANYWHERE = "anywhere"
    IN_TRANSACTION = "in-transaction"
    """After the records of a transaction were sent, before it ends."""
    BEFORE_COMMIT = "before-commit"
    """After records were polled (and copied), right before their offsets are committed."""
    AFTER_COMMIT = "after-commit"
    """After offsets were committed (not in a transaction), before the op continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSlot:
    """One load client, as a nemesis aims at it. fed: while producers work there is something for it: it reads
    partitions of its own choice, or is a member of a share group, which gives partitions to each. instance:
    it is one of an application, and where in its work it is, only its program knows."""

    slot: int
    transactional_id: str = ""
    group: str = ""
    produces: bool = False
    fed: bool = False
    instance: bool = False


@runtime_checkable
class Clients(Protocol):
    """The load clients of a run: operating-system processes that can die and be paused.

    Not part of the system under test; nemeses reach them beside it."""

    @property
    def slots(self) -> tuple[ClientSlot, ...]:
        """All load clients."""

    def acked_ns(self, slot: int) -> int:
        """When the client last learned that a broker acknowledged a record of its; 0 = never."""

    async def crash(self, slots: Sequence[int], point: CrashPoint) -> None:
        """SIGKILL each when it gets to the point; after 2 s wherever it is then."""

    async def restart(self, slots: Sequence[int]) -> None:
        """Start clients that are down: new processes of the same slots. No-op for running ones."""

    async def pause(self, slots: Sequence[int]) -> None:
        """SIGSTOP. They resume when the harness dies, whatever happens."""

    async def resume(self, slots: Sequence[int]) -> None:
        """SIGCONT. No-op for running ones."""

    async def grow(self, tps: Sequence[TopicPartition]) -> None:
        """These partitions are new: all clients but those that leave it to their group what they read end
        their process, and the next one works on these partitions as well."""

    async def rest(self, within_s: float) -> tuple[int, ...]:
        """All end their process in order, and begin none until `work`, those that are started meanwhile too.
        Which have not ended theirs in time."""

    async def work(self, remade: int) -> None:
        """Those that rest begin processes again. remade: how often the topics of the run were deleted and
        made again by now."""
