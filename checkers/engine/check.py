"""What a check is: a claim, the classes that contradict it, a kernel for one partition, a join."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from checkers.allowed import Rule
from checkers.engine.cross_partition import Tally, WholeRun
from checkers.engine.findings import PartitionResult
from checkers.engine.partition_view import KernelView

Kernel = Callable[[KernelView, PartitionResult], None]
"""Pure numpy over the rows of one partition; it adds to the result."""

Join = Callable[[WholeRun, Tally], None]
"""What needs several partitions, small tables or events; it adds to the tally."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyClass:
    """One class of findings; its identifier is the key in `Check.anomalies`. rule: where it is allowed."""

    title: str
    meaning: str
    literature: str = ""
    rule: Rule = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One claim about the cluster, in a Kafka user's words.

    anomalies: the classes that contradict it. content: it judges what the logs hold, so it needs the
    final reads.
    """

    claim: str
    anomalies: Mapping[str, AnomalyClass]
    kernel: Kernel | None = None
    join: Join | None = None
    content: bool = False
