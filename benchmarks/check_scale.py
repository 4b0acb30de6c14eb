"""How long a check takes, how much memory it needs, and whether it finds exactly what is planted.

    python -m benchmarks.check_scale [--messages 1000000 --messages 10000000] [--seed 1] [--keep DIR]

For each size a run is made (`benchmarks.make_history`) and `inquest check` judges it in a fresh
process. Printed: wall time from process start to the verdict and to the end, CPU seconds, peak
resident memory of the whole process tree (RSS summed, so pages shared by processes count twice), and
every class whose count is not the expected one. Exits 1 if there is one.

Goals: a million messages in 15 s; ten million in 4 GB.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.make_history import write
from benchmarks.synthetic import Synthetic
from history.run_folder import Run

INQUEST = Path(sys.executable).with_name("inquest")
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
INFORMATIONAL = ("G0", "G0-realtime", "G1c-ww", "int-send-skip", "offset-reuse")
"""Found in any history of overlapping transactions; their number is not planted."""


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


@dataclass(frozen=True)
class Measured:
    """One check. Times in seconds, memory in bytes."""

    to_verdict: float
    to_end: float
    cpu: float
    peak_rss: int
    exit_code: int
    stderr: str


def measure(run: Run, arguments: list[str]) -> Measured:
    """Check a run in a fresh process; an earlier verdict is removed first."""
    run.verdict.unlink(missing_ok=True)
    usage, to_verdict = Usage(), 0.0
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        command = [str(INQUEST), "check", str(run.folder), *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        while process.poll() is None:
            usage.sample(process.pid)
            if not to_verdict and run.verdict.exists():
                to_verdict = time.monotonic() - begin
            time.sleep(0.05)
        output.seek(0)
        return Measured(
            to_verdict=to_verdict,
            to_end=time.monotonic() - begin,
            cpu=sum(usage.cpu.values()),
            peak_rss=usage.peak_rss,
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


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Wall, CPU and memory of `inquest check`.")
    parser.add_argument("--messages", type=int, action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="make, or find, the runs here")
    parser.add_argument("--without-spark", action="store_true")
    options = parser.parse_args()
    wrong = False
    with tempfile.TemporaryDirectory() as temporary:
        for messages in options.messages or [1_000_000, 10_000_000]:
            folder = (options.keep or Path(temporary)) / f"synthetic-{messages}-{options.seed}"
            run = Run(folder)
            if not run.names.exists():
                folder.mkdir(parents=True)
                write(run, Synthetic(messages, options.seed), options.seed)
            got = measure(run, ["--without-spark"] if options.without_spark else [])
            if got.exit_code != 1:
                sys.exit(f"exit code {got.exit_code}, not 1 (anomalies):\n{got.stderr}")
            wrong |= bool(differences(run))
            print(
                f"{messages:>11,} messages: verdict after {got.to_verdict:.1f} s, end after "
                f"{got.to_end:.1f} s, CPU {got.cpu:.1f} s, peak {got.peak_rss / 2**30:.2f} GiB, "
                f"not as planted: {differences(run) or 'none'}"
            )
    sys.exit(wrong)


if __name__ == "__main__":
    main()
