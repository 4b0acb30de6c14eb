"""Where the rules about logs run: in this process, or one Spark task for some partitions.

Both ways call the same functions and come to the same judgement. Spark only schedules: each worker reads the
evidence from its files. A call that crashes names all its rules as crashed; the others run.
"""

import functools
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from checkers.engine.spark import scatter
from checkers.logs.judgement import Judgement, LogRule, joined
from checkers.logs.registry import LOCAL, WHOLE, LocalRules, WholeRules
from core.errors import HistoryError
from core.op import TopicPartition
from core.progress import Stage, Watch, unwatched
from history import storage
from history.evidence import Evidence
from history.reader import History

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_ROWS: Final = 100_000
"""A task takes further partitions until they have this many rows."""
WEIGHED: Final = ("batches", "transaction_log", "offset_log", "group_log")
"""Tables whose rows tell how much work a partition is."""

Partitions = tuple[TopicPartition, ...]
Local = Mapping[str, LocalRules]
Runner = Callable[[Sequence[Partitions], Local], list[Judgement]]
"""(partitions of each task, rules) -> judgements."""


def judge_all(
    evidence: Evidence,
    history: History | None = None,
    *,
    runner: Runner | None = None,
    local: Local = LOCAL,
    whole: Mapping[str, WholeRules] = WHOLE,
) -> Judgement:
    """Apply all rules. Evidence without takes exercises none.

    history: what the clients saw; None = it is unknown. runner: None = this process.

    Raises: HistoryError, where a file proves damaged.
    """
    if not evidence.table("takes").num_rows:
        return Judgement()
    found = (runner or in_process(evidence))(tasks(evidence), local)
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


def in_process(evidence: Evidence) -> Runner:
    """Runner without Spark."""

    def run(tasks: Sequence[Partitions], local: Local) -> list[Judgement]:
        return [one for tps in tasks for one in _judged(evidence, tps, local)]

    return run


def spark_runner(session: "SparkSession", folder: Path, watch: Watch = unwatched) -> Runner:
    """Runner on a Spark session: one job. folder: of the evidence (`Run.evidence`)."""

    def run(tasks: Sequence[Partitions], local: Local) -> list[Judgement]:
        job = uuid.uuid4().hex
        work = functools.partial(_read_and_judged, storage.shared(folder), job, tuple(tasks), dict(local))
        stage = Stage(
            name="judging", tasks="parts of the brokers' logs", sizes=[*map(len, tasks)], measure="partitions"
        )
        found: list[Judgement] = []
        for answer in scatter(session, stage, work, watch) if tasks else ():
            if isinstance(answer, str):
                raise HistoryError(answer)
            found.append(answer)
        return found

    return run


def _read_and_judged(
    folder: str, job: str, tasks: Sequence[Partitions], local: Local, number: int
) -> Iterator[Judgement | str]:
    """The judgements of one task; a damaged file becomes its error's message, not a failed job."""
    try:
        yield joined(_judged(_evidence(folder, job), tasks[number], local))
    except (OSError, HistoryError) as error:
        yield str(error)


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
