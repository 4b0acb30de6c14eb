"""What a second core brings to the checks of evidence: python -m benchmarks.evidence_tasks FOLDER.

Where FOLDER does not exist, a simulated run of transactions writes its evidence there: 300 s at 1,000 ops/s,
brokers killed every 17 s, about a million batches in 29 takes, half a million frames (55 CPU seconds). All
checks of evidence are applied to it in this process, and by Spark, warm, on one core and on two, twice each.
Printed: CPU seconds of this process; wall times of reading the tables, of Spark's tasks, and of all of it,
which has the joins on the driver. The findings have to be the same each time.
"""

import os
import sys
import time
from pathlib import Path

from benchmarks.spark_workers import Clocked, timed
from checkers.api import check_evidence
from checkers.engine.check import Tally
from checkers.engine.engines import chosen
from core.config import run_config
from core.progress import ProgressStage
from harness.explore.profile import BASE
from harness.modelled.virtual.evidence import tables_of_run
from harness.modelled.virtual.frames import frames
from harness.modelled.virtual.run import seldom_collecting, simulate
from history.evidence import Evidence, write
from history.tasks import Here, Workers

RUN = {"workload": "transactions", "preset": "safe", "nemesis": "kill", "seed": 1, "capture": True}
LOAD = {"rate": 1000, "duration_s": 300, "calm_s": 15, "partitions": 8}


def make(folder: Path) -> None:
    """Write the evidence of the simulated run."""
    with seldom_collecting():
        done = simulate(run_config({**BASE, **RUN, **LOAD}), invariants=False, trace=True)
        write(folder, tables_of_run(done.cluster) | frames(done.cluster.network.messages or ()))


def judged(folder: Path, workers: Workers, where: str) -> tuple[object, ...]:
    """What was found, without times."""
    tasks: list[float] = []

    def work() -> tuple[float, Tally]:
        read, evidence = timed(lambda: Evidence.load(folder))
        return read, check_evidence(evidence, workers=Clocked(workers, tasks))

    begin = time.process_time()
    whole, (read, tally) = timed(work)
    cpu, load = time.process_time() - begin, os.getloadavg()[0]
    print(
        f"{where}, load {load:.1f}: reading {read:.2f} s, tasks {sum(tasks):.2f} s, all {whole:.2f} s,"
        f" CPU of this process {cpu:.2f} s",
        flush=True,
    )
    assert not tally.crashed, tally.crashed
    return sorted(map(repr, tally.in_logs)), sorted(map(repr, tally.doubts)), tally.asked, tally.counts


def main() -> None:
    """Measure."""
    folder = Path(sys.argv[1])
    if not folder.exists():
        make(folder)
    found = [judged(folder, Here(), "this process")]
    for cores in (1, 2):
        with chosen(folder, master=f"local[{cores}]") as choice:
            choice.workers.map(ProgressStage(name="", tasks="", sizes=[1] * cores), range)
            found += [judged(folder, choice.workers, f"Spark, {cores} cores") for _ in range(2)]
    assert all(one == found[0] for one in found)


if __name__ == "__main__":
    main()
