"""How long a check takes, how much memory it needs, and whether it finds exactly what is planted.

    python -m benchmarks.check_scale [--messages 1000000 --messages 10000000] [--seed 1] [--keep DIR]
        [--engine this-process --engine spark]

For each size a run is made (`benchmarks.make_history`) and `inquest check` judges it in a fresh process,
once for each engine, one after the other. Printed, one line each: CPU seconds of the whole process tree and
wall time from process start to the verdict and to the end (verdict and report), peak resident memory (RSS
summed, so pages shared by processes count twice), the load of the machine before, the ratio to Jepsen's Kafka
checker, and each class whose count is not the expected one. Then the goals. Exits 1 if a count is wrong; a
goal that is missed is only said, for the times depend on the machine and on what else runs on it.

What the figures mean, and earlier ones: benchmarks/measurements.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.make_history import write
from history.run_folder import Run

INQUEST = Path(sys.executable).with_name("inquest")
PAGE = os.sysconf("SC_PAGE_SIZE")
PART: Final = 10_000_000
"""Messages of a part of a larger history."""
TICKS = os.sysconf("SC_CLK_TCK")
INFORMATIONAL = ("G0", "G0-realtime", "G1c-ww", "int-send-skip", "offset-reuse")
"""Found in any history of overlapping transactions; their number is not planted."""
JEPSEN_S: Final = 150.0
"""What Jepsen's Kafka checker took for a million messages, 2 cores (benchmarks/measurements.md)."""
ENGINES: Final = {"this-process": ["--engine", "process"], "spark": ["--master", "local[*]"]}


@dataclass
class Usage:
    """What a session of processes used. cpu: seconds by process, as last seen."""

    peak_rss: int = 0
    cpu: dict[int, float] = field(default_factory=dict)

    def sample(self, session: int) -> None:
        """Look at all processes of the session now."""
        rss = 0
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            if int(fields[3]) == session:
                rss += int(fields[21]) * PAGE
                self.cpu[int(entry.name)] = (int(fields[11]) + int(fields[12])) / TICKS
        self.peak_rss = max(self.peak_rss, rss)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One check. Times in seconds, memory in bytes; load: processes that wanted a processor before."""

    messages: int
    wall: float
    wall_to_end: float
    cpu: float
    cpu_to_end: float
    peak_rss: int
    load: float
    exit_code: int
    stderr: str


def measure(run: Run, messages: int, arguments: list[str]) -> Measured:
    """Check a run in a fresh process; an earlier verdict is removed first."""
    run.verdict.unlink(missing_ok=True)
    usage, wall, cpu, load = Usage(), 0.0, 0.0, os.getloadavg()[0]
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        command = [str(INQUEST), "check", str(run.folder), *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        while process.poll() is None:
            usage.sample(process.pid)
            if not wall and run.verdict.exists():
                wall, cpu = time.monotonic() - begin, sum(usage.cpu.values())
            time.sleep(0.05)
        output.seek(0)
        return Measured(
            messages=messages,
            wall=wall,
            wall_to_end=time.monotonic() - begin,
            cpu=cpu,
            cpu_to_end=sum(usage.cpu.values()),
            peak_rss=usage.peak_rss,
            load=load,
            exit_code=process.returncode,
            stderr=output.read(),
        )


def differences(run: Run) -> dict[str, tuple[int, int]]:
    """Classes whose count is not the expected one: (found, expected)."""
    expected: dict[str, int] = json.loads((run.folder / "expected.json").read_text())
    verdict: dict[str, Any] = json.loads(run.verdict.read_text())
    found = {name: each["count"] for name, each in verdict["anomalies"].items()}
    return {
        name: (found.get(name, 0), expected.get(name, 0))
        for name in sorted({*found, *expected} - set(INFORMATIONAL))
        if found.get(name, 0) != expected.get(name, 0)
    }


@dataclass(frozen=True, slots=True)
class Goal:
    """An upper bound for one figure of checks of one size."""

    messages: int
    title: str
    most: float
    figure: Callable[[Measured], float]

    def line(self, got: Measured) -> str:
        """The goal and the figure."""
        figure = self.figure(got)
        state = "met" if figure <= self.most else "missed"
        return f"{self.messages:>11,}  {self.title:26} {self.most:6.1f}  {figure:7.1f}  {state}"


GOALS: Final = (
    Goal(1_000_000, "wall to the verdict, s", 7, lambda got: got.wall),
    Goal(1_000_000, "wall to the end, s", 9, lambda got: got.wall_to_end),
    Goal(10_000_000, "CPU to the verdict, s", 20, lambda got: got.cpu),
    Goal(10_000_000, "wall to the verdict, s", 16, lambda got: got.wall),
    Goal(50_000_000, "wall to the verdict, s", 75, lambda got: got.wall),
    Goal(50_000_000, "memory, GB", 6, lambda got: got.peak_rss / 1e9),
)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Wall, CPU and memory of `inquest check`.")
    parser.add_argument("--messages", type=int, action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="make, or find, the runs here")
    parser.add_argument("--engine", choices=ENGINES, action="append")
    options = parser.parse_args()
    wrong, measured = False, list[Measured]()
    print("   messages  engine        CPU to verdict, end  wall to verdict, end  peak GiB   load  Jepsen/CPU")
    with tempfile.TemporaryDirectory() as temporary:
        for messages in options.messages or [1_000_000, 10_000_000]:
            folder = (options.keep or Path(temporary)) / f"synthetic-{messages}-{options.seed}"
            run = Run(folder)
            if not run.names.exists():
                folder.mkdir(parents=True)
                write(run, messages, options.seed, parts=max(1, messages // PART))
            for engine in options.engine or ENGINES:
                got = measure(run, messages, ENGINES[engine])
                if got.exit_code != 1:
                    sys.exit(f"exit code {got.exit_code}, not 1 (anomalies):\n{got.stderr}")
                measured.append(got)
                wrong |= bool(differences(run))
                ratio = JEPSEN_S * messages / 1e6 / got.cpu
                print(
                    f"{messages:>11,}  {engine:12} {got.cpu:8.1f} {got.cpu_to_end:8.1f}   "
                    f"{got.wall:9.1f} {got.wall_to_end:9.1f}  {got.peak_rss / 2**30:8.2f}  {got.load:5.1f}"
                    f"  {ratio:6.0f}",
                    f"  not as planted: {differences(run)}" if differences(run) else "",
                )
    print("\n   messages  goal                       at most   figure")
    for got in measured:
        for goal in GOALS:
            if goal.messages == got.messages:
                print(goal.line(got))
    sys.exit(wrong)


if __name__ == "__main__":
    main()
