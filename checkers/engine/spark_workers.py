"""Tasks on Spark: each is a row of a DataFrame, and runs in `mapInArrow`.

What tasks share is written once, into the scratch; a task reads it there, once for each Python worker. So the
JVM carries numbers and small answers, no message, and the same code runs on this machine, on a cluster, and
through Spark Connect. A task that Spark runs twice answers once: answers are rows of one job's result.

Not here: how a session starts and ends (`checkers.engine.spark`).
"""

import contextlib
import functools
import pickle
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from checkers.engine.memory import keep_freed
from core.errors import HistoryError, SparkError
from core.progress import Progress, Stage, Watch, unwatched
from history.tasks import Files, Scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

HANDS: Final = 2
LARGE: Final = 1_000_000
"""A task of Spark costs 30 ms. So tasks of less than this size share some, this number for each processor."""
ANSWER: Final = "number long, answer binary"
"""Columns that tasks yield."""
LOOK_S: Final = 0.25
"""How often a watch learns how many tasks have ended."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """Why a task could not read or write what it had to."""

    why: str


class SparkWorkers:
    """The workers of a session. See `history.tasks.Workers`."""

    def __init__(self, session: "SparkSession", scratch: Files, watch: Watch = unwatched) -> None:
        self.session = session
        self.scratch: Scratch = scratch
        self.apart = True
        self.done = 0
        self._watch = watch
        self._files = scratch
        self._master = master_of(session)
        self.title = f"Spark {session.version}, {self._master}"

    def map(self, stage: Stage, work: Callable[[int], T]) -> list[T]:
        """See `Workers`: one job."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        many = len(stage.sizes)
        if not many:
            return []
        written = self._files.write(f"work-{uuid.uuid4().hex}", work)
        try:
            hands = self._hands(stage)
            with _watched(self.session, stage, hands, self._watch):
                rows = self.session.range(0, hands, 1, hands)
                run = functools.partial(_run, written, self._files, many, hands)
                answered = rows.mapInArrow(run, ANSWER).toArrow()
        except (PySparkException, Py4JError, ConnectionError) as error:
            why = f"{self._master}: {stage.name} {stage.tasks} failed"
            raise SparkError(f"{why}: {telling(str(error))}") from error
        columns = (answered.column(name).to_pylist() for name in ("number", "answer"))
        found = {number: pickle.loads(data) for number, data in zip(*columns, strict=True)}
        for answer in found.values():
            if isinstance(answer, _Refused):
                raise HistoryError(answer.why)
        self.done += many
        return [found[number] for number in range(many)]

    def _hands(self, stage: Stage) -> int:
        """How many tasks of Spark the tasks of a stage are dealt to, in turn: the largest come first."""
        many = len(stage.sizes)
        if not hasattr(self.session, "sparkContext"):  # Spark Connect does not say how many processors it has
            return many
        fewest = HANDS * self.session.sparkContext.defaultParallelism
        return min(many, max(fewest, sum(stage.sizes) // LARGE))


def _run(
    work: str, scratch: Files, many: int, hands: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In an executor: the answers of every task that is dealt to one of these hands. A damaged file becomes
    its error's message, not a failed job."""
    keep_freed()
    dealt = (hand for batch in batches for hand in batch.column(0).to_pylist())
    for number in (number for hand in dealt for number in range(hand, many, hands)):
        try:
            answer: Any = _work(work, scratch)(number)
        except (OSError, HistoryError) as error:
            answer = _Refused(str(error))
        data = pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
        yield pa.RecordBatch.from_arrays(
            [pa.array([number], pa.int64()), pa.array([data], pa.binary())], names=["number", "answer"]
        )


@functools.lru_cache(maxsize=1)
def _work(written: str, scratch: Files) -> Callable[[int], Any]:
    """What the tasks of a job share, read once by a worker."""
    work: Callable[[int], Any] = scratch.read(written)
    return work


def master_of(session: "SparkSession") -> str:
    """Where a session runs its tasks."""
    return session.conf.get("spark.master", None) or "Spark Connect"


def telling(said: str) -> str:
    """The line of a worker's error that says what is wrong."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    found = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception|MISMATCH\w*\])", line)]
    return (found or lines or ["unknown"])[-1 if found else 0]


@contextlib.contextmanager
def _watched(session: "SparkSession", stage: Stage, hands: int, watch: Watch) -> Iterator[None]:
    """Tells the watch, while this block runs a job, how many tasks have ended: the first ones, most often."""
    if watch is unwatched or not hasattr(session, "sparkContext"):
        yield
        return
    context, group, over = session.sparkContext, uuid.uuid4().hex, threading.Event()
    context.setJobGroup(group, stage.name)
    tracker = context.statusTracker()

    def look() -> None:
        ended = -1
        while not over.wait(LOOK_S):
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
            stages = [tracker.getStageInfo(each) for job in jobs if job for each in job.stageIds]
            now = sum(each.numCompletedTasks for each in stages if each)
            if now != ended:
                ended, many = now, len(stage.sizes)
                done = min(now * many // hands, many)
                watch(Progress(stage=stage, tasks=done, done=sum(stage.sizes[:done])))

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()
    watch(Progress(stage=stage, tasks=len(stage.sizes), done=sum(stage.sizes)))
