"""The one place that decides where the work on a recorded run is done: by Spark, or in this process.

Spark seals and judges recorded runs. This process does where the caller asks for it, and where Spark cannot
be started on this machine: then `why` says so in one line. A cluster that cannot be used is an error.
"""

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from checkers.engine.masters import is_local, master_of
from checkers.engine.spark import spark as a_session
from checkers.engine.spark_workers import SparkWorkers
from core.errors import SparkError
from core.progress import Watch, unwatched
from history.tasks import Here, Workers, files_in


@dataclass(frozen=True, slots=True)
class Chosen:
    """The workers that do it. why: why Spark could not be started; "" = it was not asked, or runs.
    here: on this machine."""

    workers: Workers
    why: str = ""
    here: bool = True

    @property
    def title(self) -> str:
        """For people: who judged, and in how many tasks."""
        workers = self.workers
        return f"{workers.title}, {workers.done} tasks" if workers.apart else workers.title


@contextmanager
def chosen(
    folder: Path, watch: Watch = unwatched, *, spark: bool = True, master: str | None = None
) -> Iterator[Chosen]:
    """Workers for a run. folder: of the run, where tasks of a cluster leave what is large. spark: else this
    process works. master: None = all processors of this machine, an active session, or what `spark-submit`
    was given.

    Raises: SparkError (a cluster that cannot be used), OSError.
    """
    with ExitStack() as stack:
        if not spark:
            yield Chosen(Here(watch))
            return
        try:
            session = stack.enter_context(a_session(master))
        except SparkError as error:
            if not is_local(master):
                raise
            yield Chosen(Here(watch), why=str(error))
            return
        place, here = folder / f"scratch-{uuid.uuid4().hex}", is_local(master_of(session))
        if here:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="inquest-tasks-"))) / "tasks"
        scratch = stack.enter_context(files_in(place))
        yield Chosen(SparkWorkers(session, scratch, watch), here=here)
