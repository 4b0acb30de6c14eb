"""What Spark costs when its session is warm: the same checks in this process and by Spark, in turns.

    python -m benchmarks.warm_checks FOLDER... [--turns 2]

FOLDER: sealed runs, such as those of `benchmarks.make_history`. One session judges all of
them; its first check is not counted. Printed, one line a run: wall seconds to the verdict of each turn in
both engines, and the ratio of the least.
"""

import argparse
import contextlib
import functools
import os
import tempfile
from pathlib import Path

from benchmarks.spark_workers import timed
from checkers.api import check_history
from checkers.engine.check import Tally
from checkers.engine.engines import Chosen, chosen
from history.reader import load
from history.run_folder import Run


def judged(folder: Path, engine: Chosen) -> Tally:
    """What the checks find in this run."""
    return check_history(load(Run(folder)), engine.workers)


def main() -> None:
    """Judge each run in turns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--turns", type=int, default=2)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="inquest-warm-")))
        engines = {
            "spark": stack.enter_context(chosen(scratch, master="local[*]")),
            "process": stack.enter_context(chosen(scratch, spark=False)),
        }
        check_history(load(Run(options.folders[0])), engines["spark"].workers)
        for folder in options.folders:
            load_before, walls = os.getloadavg()[0], {name: list[float]() for name in engines}
            for _ in range(options.turns):
                for name, engine in engines.items():
                    seconds, tally = timed(functools.partial(judged, folder, engine))
                    assert not tally.crashed, tally.crashed
                    walls[name].append(seconds)
            times = "; ".join(f"{name} {', '.join(f'{s:.2f}' for s in some)}" for name, some in walls.items())
            ratio = min(walls["spark"]) / min(walls["process"])
            print(f"{folder.name}, load {load_before:.1f}: {times}; ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
