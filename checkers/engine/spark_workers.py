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
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from checkers.engine.masters import is_local, master_of, reach
from checkers.engine.memory import keep_freed
from core.errors import HistoryError, SparkError
from core.extensions import load_checks
from core.progress import Progress, ProgressStage, Watch, unwatched
from history.tasks import Files, Scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

HANDS: Final = 2
LARGE: Final = 30_000_000
"""A task of Spark costs 60 ms beside its work. So tasks share some: this number for each processor, and one
more for each of this size (of a history: rows, which take some seconds)."""
ANSWER: Final = "number long, answer binary"
"""Columns that tasks yield."""
LOOK_S: Final = 0.25
"""How often a watch learns how many tasks have ended."""
IDLE_LOOKS: Final = 20
"""Looks in a row that see a stage wait without a running task, before the master is asked whether it answers.
Not a time: on a busy machine the driver takes seconds to plan a job, and to hear of its tasks."""


class SparkWorkers:
    """The workers of a session. See `history.tasks.Workers`."""

    def __init__(self, session: "SparkSession", scratch: Files, watch: Watch = unwatched) -> None:
        self.session = session
        self.scratch: Scratch = scratch
        self.apart = True
        self.done = 0
        self._watch = watch
        self._files = scratch
        self.master = master_of(session)
        self.title = f"Spark {session.version}, {self.master}"

    def map(self, stage: ProgressStage, work: Callable[[int], T]) -> list[T]:
        """See `Workers`: one job."""
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        many = len(stage.sizes)
        if not many:
            return []
        written = self._files.write(f"work-{uuid.uuid4().hex}", work)
        job: _Job | None = None
        try:
            hands = self._hands(stage)
            job = _Job(self, stage, hands, self._watch)
            with job:
                rows = self.session.range(0, hands, 1, hands)
                run = functools.partial(_run, written, self._files, many, hands)
                answered = rows.mapInArrow(run, ANSWER).toArrow()
        except (PySparkException, Py4JError, ConnectionError) as error:
            if interrupted(error):
                raise KeyboardInterrupt from None
            why = f"{self.master}: {stage.name} {stage.tasks} failed"
            raise SparkError(f"{why}: {(job and job.lost) or telling(str(error))}") from error
        columns = (answered.column(name).to_pylist() for name in ("number", "answer"))
        found = {number: pickle.loads(data) for number, data in zip(*columns, strict=True)}
        for answer in found.values():
            if isinstance(answer, OSError | HistoryError):
                raise answer
        self.done += many
        return [found[number] for number in range(many)]

    def _hands(self, stage: ProgressStage) -> int:
        """How many tasks of Spark the tasks of a stage are dealt to, in turn: the largest come first."""
        many = len(stage.sizes)
        if not hasattr(self.session, "sparkContext"):  # Spark Connect does not say how many processors it has
            return many
        fewest = HANDS * self.session.sparkContext.defaultParallelism
        return min(many, max(fewest, sum(stage.sizes) // LARGE))


def _run(
    work: str, scratch: Files, many: int, hands: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """In an executor: the answers of every task that is dealt to one of these hands. What a task could
    not read or write is its answer, not a failed job."""
    keep_freed()
    dealt = (hand for batch in batches for hand in batch.column(0).to_pylist())
    for number in (number for hand in dealt for number in range(hand, many, hands)):
        try:
            answer: object = _work(work, scratch)(number)
        except (OSError, HistoryError) as error:
            answer = error
        data = pickle.dumps(answer, protocol=pickle.HIGHEST_PROTOCOL)
        yield pa.RecordBatch.from_arrays(
            [pa.array([number], pa.int64()), pa.array([data], pa.binary())], names=["number", "answer"]
        )


@functools.lru_cache(maxsize=1)
def _work(written: str, scratch: Files) -> Callable[[int], object]:
    """What the tasks of a job share, read once by a worker; it may hold checks of a file."""
    load_checks()
    work: Callable[[int], object] = scratch.read(written)
    return work


def interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: PySpark cancels the job then, and raises what that job says."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def telling(said: str) -> str:
    """The line of a worker's error that says what is wrong."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    found = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception|MISMATCH\w*\])", line)]
    return (found or lines or ["unknown"])[-1 if found else 0]


class _Job:
    """While it is entered, a job of Spark runs: it tells the watch how many tasks have ended (the first ones,
    most often), and ends the job where it waits for a standalone cluster that is gone. lost: why; "" = it is
    there. Through Spark Connect neither can be known."""

    def __init__(self, workers: SparkWorkers, stage: ProgressStage, hands: int, watch: Watch) -> None:
        self.lost = ""
        session, self._master = workers.session, workers.master
        self._stage, self._hands, self._watch = stage, hands, watch
        self._group, self._over = uuid.uuid4().hex, threading.Event()
        self._looking: threading.Thread | None = None
        if not hasattr(session, "sparkContext"):
            return
        self._context = session.sparkContext
        if watch is not unwatched or not is_local(self._master):
            self._context.setJobGroup(self._group, stage.name)
            self._looking = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        from py4j.protocol import Py4JError

        with contextlib.suppress(Py4JError, ConnectionError):  # of a JVM that died: the job says so
            self._look_on()

    def _look_on(self) -> None:
        tracker = self._context.statusTracker()
        ended, idle = -1, 0
        while not self._over.wait(LOOK_S):
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
            stages = [tracker.getStageInfo(each) for job in jobs if job for each in job.stageIds]
            now = sum(each.numCompletedTasks for each in stages if each)
            if now != ended:
                ended, many = now, len(self._stage.sizes)
                done = min(now * many // self._hands, many)
                self._watch(Progress(stage=self._stage, tasks=done, done=sum(self._stage.sizes[:done])))
            running = any(each.numActiveTasks for each in stages if each)
            waiting = any(each.numCompletedTasks < each.numTasks for each in stages if each)
            idle = idle + 1 if waiting and not running else 0
            if idle >= IDLE_LOOKS:
                idle = 0
                try:
                    reach(self._master)
                except SparkError as error:  # else Spark waits for ever
                    self.lost = str(error)
                    self._context.cancelJobGroup(self._group)
                    return

    def __enter__(self) -> "_Job":
        if self._looking is not None:
            self._looking.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        if self._looking is not None:
            self._looking.join()
            if kind is None:
                stage = self._stage
                self._watch(Progress(stage=stage, tasks=len(stage.sizes), done=sum(stage.sizes)))
