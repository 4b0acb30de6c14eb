"""What a check is: a claim, the classes that contradict it, a kernel for one partition, a join over all."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import pyarrow as pa

from checkers.allowed import Rule
from checkers.engine.findings import Doubt, Found, Kind, Level, PartitionResult
from checkers.engine.kernel_input import KernelInput
from checkers.engine.partition_view import KernelView
from history.events import Event

P = TypeVar("P")
A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRun:
    """A run as joins see it."""

    tables: Mapping[str, pa.Table]
    known: KernelInput
    events: Sequence[Event]
    ask: "Ask"


class Ask(Protocol):
    """Asks what the kernels of a check kept."""

    def __call__(self, check: str, question: Callable[[object], A]) -> list[tuple[int, A]]:
        """Apply a function to what each partition kept; the partition, and its answer."""


@dataclass(slots=True, kw_only=True)
class Tally(Found):
    """All that was found. doubts: what could not be decided.

    parts: check -> what its kernel left, with the partition, in the order of partitions. unread: partitions
    that the final reads did not read to their end.
    """

    doubts: list[Doubt] = field(default_factory=list)
    parts: dict[str, list[tuple[int, object]]] = field(default_factory=dict)
    unread: list[int] = field(default_factory=list)

    @property
    def reported(self) -> Counter[Kind]:
        """Counts without what no client would notice."""
        return Counter({kind: n for kind, n in self.counts.items() if kind.variant is not Level.LOG})

    def doubt(self, check: str, number: int, why: str, *, tps: Iterable[int] = (), group: int = -1) -> None:
        """A check could not decide something, `number` times; zero times: nothing happens."""
        if number:
            self.doubts.append(Doubt(check=check, number=number, why=why, tps=tuple(tps), group=group))

    def parts_of(self, check: str, kind: type[P]) -> list[tuple[int, P]]:
        """What the kernel of a check left for its join: the partition, and its part."""
        found: list[tuple[int, P]] = []
        for tp, part in self.parts.get(check, ()):
            assert isinstance(part, kind), type(part)
            found.append((tp, part))
        return found


Kernel = Callable[[KernelView, PartitionResult], None]
"""Pure numpy over the rows of one partition; it adds to the result."""

Join = Callable[[WholeRun, Tally], None]
"""What needs several partitions, small tables or events; it adds to the tally."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyClass:
    """One class of findings; its identifier is the key in `Check.anomalies`. rule: where it is allowed.

    absence: a finding rests on what the recording does not show, so it proves nothing where lines of the
    recording are missing.
    """

    title: str
    meaning: str
    literature: str = ""
    absence: bool = False
    rule: Rule = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One claim about the cluster, in a Kafka user's words.

    anomalies: the classes that contradict it. content: it judges what the logs hold, so it needs the
    final reads. needs: the field of `OnRecord` without which it is not asked; "" = none. subject: what a
    history has to hold, so that the check could fail (`checkers.verdict.subjects`); "" = every run has it.
    """

    claim: str
    anomalies: Mapping[str, AnomalyClass]
    kernel: Kernel | None = None
    join: Join | None = None
    content: bool = False
    needs: str = ""
    subject: str = ""
