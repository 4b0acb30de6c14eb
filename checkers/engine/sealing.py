"""Who imports and seals a run: this process, or Spark where the run is large or the user names a master."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from checkers.engine.spark import on_cluster, runner, spark, spark_runs
from core.errors import SparkError
from core.progress import Watch, unwatched
from history.parts import Runner, seal_in_tasks
from history.run_folder import Run
from history.seal import seal, waiting

SPARK_BYTES: Final = 2 << 30
"""Bytes of journals or recordings from which on Spark reads them: one process that seals would need more than
this in memory."""


@contextmanager
def tasks(
    size: int, master: str | None, *, without_spark: bool = False, watch: Watch = unwatched
) -> Iterator[tuple[Runner | None, str]]:
    """A runner for work on `size` bytes; None = this process does it. And why Spark could not be started,
    "" = it was not asked, or runs.

    Raises: SparkError (a cluster that cannot be used).
    """
    asked = size and not without_spark and (master is not None or size > SPARK_BYTES or spark_runs())
    with ExitStack() as stack:
        if not asked:
            yield None, ""
            return
        try:
            session = stack.enter_context(spark(master))
        except SparkError as error:
            if on_cluster(master):
                raise
            yield None, str(error)
            return
        yield runner(session, watch), ""


@contextmanager
def sealing(
    run: Run, master: str | None, *, without_spark: bool = False, watch: Watch = unwatched
) -> Iterator[str]:
    """Seal a run, if nothing has yet; a session that did it runs on in this block.

    Yields: why Spark could not be started, so that this process sealed; "" = it was not asked, or ran.

    Raises: HistoryError, SparkError (a cluster that cannot be used, a job that failed), OSError.
    """
    with tasks(waiting(run), master, without_spark=without_spark, watch=watch) as (run_tasks, failed):
        if run_tasks is not None:
            seal_in_tasks(run, run_tasks)
        seal(run)
        yield failed
