"""What a check is: a claim, the classes that contradict it, what it reads, a kernel for one partition, a join
over all."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeVar

import pyarrow as pa

from checkers.allowed import Rule
from checkers.engine.findings import Doubt, Found, Kind, Level, PartitionResult, Plain, Variant
from checkers.engine.kernel_input import KernelInput
from checkers.engine.partition_view import KernelView
from checkers.windows import INTERNAL
from core.config import RunConfig
from core.op import TopicPartition
from history.events import Event
from history.evidence import Evidence
from history.reader import History

P = TypeVar("P")
A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRun:
    """A run as joins see it. tables, known, events, ask: of the history. evidence, history: for checks of
    evidence; history None = what clients saw is not known."""

    tables: Mapping[str, pa.Table]
    known: KernelInput
    events: Sequence[Event]
    ask: "AskKernels"
    evidence: Evidence
    history: History | None = None


class AskKernels(Protocol):
    """Asks what the kernels of a check kept."""

    def __call__(self, check: str, question: Callable[[object], A]) -> list[tuple[int, A]]:
        """Apply a function to what each partition kept; the partition, and its answer."""


@dataclass(slots=True, kw_only=True)
class Tally(Found):
    """All that was found.

    parts: check -> what its kernel left, with the partition, in the order of partitions. unread: partitions
    that the final reads did not read to their end.
    """

    parts: dict[str, list[tuple[int, object]]] = field(default_factory=dict)
    unread: list[int] = field(default_factory=list)

    @property
    def reported(self) -> Counter[Kind]:
        """Counts without what no client would notice."""
        return Counter({kind: n for kind, n in self.counts.items() if kind.variant is not Level.LOG})

    @property
    def refused(self) -> Counter[str]:
        """Check of evidence -> places that it refuses."""
        found: Counter[str] = Counter()
        for kind, number in self.counts.items():
            found[kind.check] += number if kind.check else 0
        return +found

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

LogKernel = Callable[[Evidence, TopicPartition, PartitionResult], None]
"""What one partition of the evidence decides; it adds to the result, and nothing where the check is not about
that partition."""

Join = Callable[[WholeRun, Tally], None]
"""What needs several partitions, small tables or events; it adds to the tally."""


class Reads(Enum):
    """What a check reads. HISTORY: what clients saw. EVIDENCE: what brokers left on disk, and messages that
    were seen on the network. BOTH: evidence, and beside it the history, where it is known."""

    HISTORY = "history"
    EVIDENCE = "evidence"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Early:
    """How findings of a class can be final before the run has ended (docs/early.md).

    key: what the parts of their keys are. weakest_acks: their permission depends on the weakest `acks` among
    several producers. neighbours: they are about neighbouring records of a producer, and a record between
    these may still turn up.
    """

    key: tuple[str, ...]
    weakest_acks: bool = False
    neighbours: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyClass:
    """One class of findings; its identifier is the key in `Check.anomalies`. rule: where it is allowed.

    absence: a finding rests on what the recording does not show, so it proves nothing where lines of the
    recording are missing; lacking: the variants that do, where not all do.
    informational: it is legal in every configuration. early: None = its findings are
    final with the run alone. half: half a transaction may show as a finding of it.
    """

    title: str
    meaning: str
    literature: str = ""
    absence: bool = False
    lacking: Collection[Variant] = ()
    informational: bool = False
    early: Early | None = None
    half: bool = False
    rule: Rule = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One claim about the cluster, in a Kafka user's words.

    anomalies: the classes that contradict it. kernel: of one partition of the history; log_kernel: of one of
    the evidence; join: of all. Checks that share a kernel or a join are one pass over the rows. reads: the
    one, the other, or both.

    Of the history. content: it judges what the logs hold, so it needs the final reads. needs: the field of
    `OnRecord` without which it is not asked; "" = none. subject: what a history has to hold, so that the
    check could fail (`checkers.verdict.subjects`); "" = every run has it. lesser: what is claimed of a run
    that cannot show all of it, and why; "" = of this one it is `claim`.

    Of evidence. ring: what it compares (docs/log-rules.md); rules of one ring overlap, so a doubt of one
    leaves the verdict as it is. source: KIP, JIRA or file of Kafka. forgets: the setting of brokers after
    which they forget what its findings rest on. rests_on: internal topics whose records they rest on, beside
    the log of the partition itself; what took some of these excuses a finding. variant: of its findings.
    """

    claim: str
    anomalies: Mapping[str, AnomalyClass]
    kernel: Kernel | None = None
    join: Join | None = None
    content: bool = False
    needs: str = ""
    subject: str = ""
    lesser: Callable[[RunConfig], str] | None = None
    reads: Reads = Reads.HISTORY
    log_kernel: LogKernel | None = None
    ring: int = -1
    source: str = ""
    forgets: str = ""
    rests_on: tuple[str, ...] = INTERNAL
    variant: Variant = Plain.PLAIN

    def claim_of(self, config: RunConfig) -> str:
        """What is claimed of a run."""
        return (self.lesser(config) if self.lesser is not None else "") or self.claim
