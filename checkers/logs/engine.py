"""The rules about brokers' logs, in tasks of some partitions each.

Workers in other processes read the evidence from its files. A call that crashes names all its rules as
crashed; the others run.
"""

import functools
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from checkers.logs.judgement import Judgement, LogRule, joined
from checkers.logs.registry import LOCAL, WHOLE, LocalRules, WholeRules
from core.errors import SparkError
from core.op import TopicPartition
from core.progress import Stage
from history import storage
from history.evidence import Evidence
from history.reader import History
from history.tasks import Here, Workers

TASK_ROWS: Final = 100_000
"""A task takes further partitions until they have this many rows."""
WEIGHED: Final = ("batches", "transaction_log", "offset_log", "group_log")
"""Tables whose rows tell how much work a partition is."""

Partitions = tuple[TopicPartition, ...]
Local = Mapping[str, LocalRules]


def judge_all(
    evidence: Evidence,
    history: History | None = None,
    *,
    workers: Workers | None = None,
    folder: Path | None = None,
    local: Local = LOCAL,
    whole: Mapping[str, WholeRules] = WHOLE,
) -> Judgement:
    """Apply all rules. Evidence without takes exercises none.

    history: what the clients saw; None = it is unknown. workers: None = this process; those apart read
    the evidence from `folder` (`Run.evidence`).

    Raises: HistoryError, where a file proves damaged. Where the engine fails, its rules have crashed.
    """
    if not evidence.table("takes").num_rows:
        return Judgement()
    workers, made = workers or Here(), tasks(evidence)
    apart = workers.apart and folder is not None
    source: Evidence | str = storage.shared(cast(Path, folder)) if apart else evidence
    sizes = [*map(len, made)]
    stage = Stage(name="judging", tasks="parts of the brokers' logs", sizes=sizes, measure="partitions")
    try:
        found = workers.map(stage, JudgePart(source, uuid.uuid4().hex, made, local))
    except SparkError as error:
        found = [Judgement(crashed={rule.name: str(error) for one in local.values() for rule in one.rules})]
    for name, rules in whole.items():
        found.append(_guarded(name, rules.rules, functools.partial(rules.judge, evidence, history)))
    return joined(found)


def tasks(evidence: Evidence) -> list[Partitions]:
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


@dataclass(frozen=True, slots=True)
class JudgePart:
    """The judgement of one of these tasks. source: the evidence, or its folder, which each job reads."""

    source: Evidence | str
    job: str
    tasks: Sequence[Partitions]
    local: Local

    def __call__(self, number: int) -> Judgement:
        """Raises: HistoryError, where a file proves damaged; OSError."""
        held = _evidence(self.source, self.job) if isinstance(self.source, str) else self.source
        return joined(_judged(held, self.tasks[number], self.local))


@functools.lru_cache(maxsize=1)
def _evidence(folder: str, job: str) -> Evidence:
    """The evidence, once for all tasks of a job that a worker runs."""
    return Evidence.load(storage.location(folder))


def _judged(evidence: Evidence, tps: Iterable[TopicPartition], local: Local) -> Iterator[Judgement]:
    for tp in tps:
        for name, rules in local.items():
            work = functools.partial(rules.judge, evidence, tp)
            yield _guarded(f"{name}, {tp.topic}-{tp.partition}", rules.rules, work)


def _guarded(where: str, rules: Iterable[LogRule], work: Callable[[], Judgement]) -> Judgement:
    """A crash is noted for each of these rules, and stops nothing else."""
    try:
        return work()
    except Exception:  # noqa: BLE001 (the rules are named as crashed; none of them passes)
        how = f"{where}: {traceback.format_exc(limit=-3)}"
        return Judgement(crashed={rule.name: how for rule in rules})
