"""Who seals a run: this process, or Spark where the run is large or the user names a master."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from checkers.engine.spark import on_cluster, runner, spark, spark_runs
from core.errors import SparkError
from core.progress import Watch, unwatched
from history.parts import seal_in_tasks
from history.run_folder import Run
from history.seal import seal, waiting

SPARK_BYTES: Final = 2 << 30
"""Bytes of journals from which on Spark seals them: one process would need more than this in memory."""


@contextmanager
def sealing(
    run: Run, master: str | None, *, without_spark: bool = False, watch: Watch = unwatched
) -> Iterator[str]:
    """Seal a run, if nothing has yet; a session that did it runs on in this block.

    Yields: why Spark could not be started, so that this process sealed; "" = it was not asked, or ran.

    Raises: HistoryError, SparkError (a cluster that cannot be used, a job that failed), OSError.
    """
    size = waiting(run)
    asked = size and not without_spark and (master is not None or size > SPARK_BYTES or spark_runs())
    failed = ""
    with ExitStack() as stack:
        if asked:
            try:
                session = stack.enter_context(spark(master))
            except SparkError as error:
                if on_cluster(master):
                    raise
                failed = str(error)
            else:
                seal_in_tasks(run, runner(session, watch))
        seal(run)
        yield failed
