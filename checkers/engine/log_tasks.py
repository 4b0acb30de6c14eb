"""The evidence of a run in tasks: some partitions each, with the kernels that read evidence.

Workers in other processes read the evidence from its files: of large tables the rows of their partitions.
"""

import functools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from checkers.engine.check import LogKernel
from checkers.engine.findings import LogGround, PartitionResult
from core.op import TopicPartition
from history import storage
from history.evidence import Evidence
from history.tasks import Workers

TASK_ROWS: Final = 100_000
"""A task takes further partitions until they have this many rows."""
WEIGHED: Final = ("batches", "transaction_log", "offset_log", "group_log")
"""Tables whose rows tell how much work a partition is."""


@dataclass(frozen=True, slots=True)
class LogWork:
    """What the tasks share. kernels: each with the checks that it is of."""

    ground: LogGround = field(default_factory=LogGround)
    kernels: Mapping[LogKernel, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTask:
    """Some partitions to check. source: the evidence, or its folder, which each job reads."""

    stage: ClassVar = "judging"
    parts: ClassVar = "parts of the brokers' logs"
    measure: ClassVar = "partitions"
    source: Evidence | str
    job: str
    partitions: tuple[TopicPartition, ...]

    @property
    def size(self) -> int:
        """How many they are."""
        return len(self.partitions)

    def run(self, work: LogWork) -> Iterator[PartitionResult]:
        """Check them. Raises: HistoryError, where a file proves damaged; OSError."""
        held = _opened(self.source, self.job) if isinstance(self.source, str) else self.source
        for log in self.partitions:
            result = PartitionResult(log=log, ground=work.ground)
            for kernel, checks in work.kernels.items():
                result.guarded(checks, functools.partial(kernel, held, log, result))
            yield result


@functools.lru_cache(maxsize=1)
def _opened(folder: str, job: str) -> Evidence:
    """The evidence, once for all tasks of a job that a worker runs: what it says as a whole is read once,
    the rows of a partition by the task that has it."""
    return Evidence.opened(storage.location(folder))


def log_tasks(evidence: Evidence, workers: Workers) -> list[LogTask]:
    """The tasks of evidence: its own files are their source, where workers are elsewhere and it has some."""
    apart = workers.apart and evidence.folder is not None
    source = storage.shared(evidence.folder) if apart and evidence.folder is not None else evidence
    job = uuid.uuid4().hex
    return [LogTask(source=source, job=job, partitions=some) for some in dealt(evidence)]


def dealt(evidence: Evidence) -> list[tuple[TopicPartition, ...]]:
    """The partitions of each task, those with most rows first."""
    rows = {tp: sum(evidence.of(name, tp).num_rows for name in WEIGHED) for tp in evidence.partitions()}
    made: list[list[TopicPartition]] = []
    room = 0
    for tp, many in sorted(rows.items(), key=lambda one: (-one[1], one[0])):
        if room <= 0:
            made.append([])
            room = TASK_ROWS
        made[-1].append(tp)
        room -= many + 1
    return [tuple(some) for some in made]
