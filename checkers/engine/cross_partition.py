"""What needs more than one partition, or none: what the joins of checks take and give."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from checkers.engine.findings import Doubt, Found, Level, PartitionResult, Variant
from checkers.engine.kernel_input import KernelInput
from history.events import Event
from history.reader import Array

P = TypeVar("P")


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRun:
    """A run as joins see it. proven: ops proven committed in some partition."""

    tables: Mapping[str, pa.Table]
    known: KernelInput
    events: Sequence[Event]
    proven: Array


@dataclass(slots=True, kw_only=True)
class Tally(Found):
    """All that was found. doubts: what could not be decided.

    parts: check -> partition -> what its kernel left. unread: partitions that the final reads did not
    read to their end.
    """

    doubts: list[Doubt] = field(default_factory=list)
    parts: dict[str, dict[int, object]] = field(default_factory=dict)
    unread: list[int] = field(default_factory=list)

    @property
    def reported(self) -> Counter[tuple[str, Variant]]:
        """Counts without what no client would notice."""
        return Counter({key: n for key, n in self.counts.items() if key[1] is not Level.LOG})

    def doubt(self, check: str, number: int, why: str, *, tps: Iterable[int] = (), group: int = -1) -> None:
        """A check could not decide something, `number` times; zero times: nothing happens."""
        if number:
            self.doubts.append(Doubt(check=check, number=number, why=why, tps=tuple(tps), group=group))

    def parts_of(self, check: str, kind: type[P]) -> dict[int, P]:
        """What the kernel of a check left for its join, by partition."""
        found: dict[int, P] = {}
        for tp, part in self.parts.get(check, {}).items():
            assert isinstance(part, kind), type(part)
            found[tp] = part
        return found


NO_OPS: Final = np.zeros(0, np.int32)


def all_proven(results: Sequence[PartitionResult]) -> Array:
    """Ops proven committed in some partition."""
    return np.unique(np.concatenate([NO_OPS, *(r.proven for r in results)]))


def proven_elsewhere(results: Sequence[PartitionResult]) -> tuple[Array, list[int]]:
    """Ops proven committed in one partition while another shows nothing of them; those partitions.

    Their records there count as committed, and the offsets that they committed there count: these
    partitions have to be checked again, with that knowledge.
    """
    everywhere = all_proven(results)
    again: list[int] = []
    needed = [everywhere[:0]]
    for result in results:
        ops = np.intersect1d(np.setdiff1d(result.waiting, result.proven), everywhere)
        if len(ops):
            again.append(result.tp)
            needed.append(ops)
    return np.unique(np.concatenate(needed)), again
