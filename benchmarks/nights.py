"""How long the index of a year of nights takes: many sessions, with the verdict of each of their runs.

    python -m benchmarks.nights [--runs 10000] [--nights 365] [--keep DIR] [--engine spark] [--engine process]

Each session has its log and the folders that a soak leaves: verdict.json and config.json, of failing runs a
report too. Verdicts are those of a few simulated runs with other names, seeds, findings, versions and times,
so they have the form and about the size of real ones. Then each engine makes `index.html` in a fresh process,
twice: the second time its session is warm, as that of a soak's judge. Printed: wall and CPU seconds of the
process tree from its start to the first index, wall seconds of the second one, and peak memory. The goal is
60 s for ten thousand runs, start included. Exits 1 where engines made different pages.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.check_scale import Usage
from checkers.engine.engines import chosen
from core.programs import environment, program
from harness.nights.page import NAME, build
from harness.nights.session_log import (
    FILE,
    FOLDER,
    STATES,
    PlannedRun,
    RunBegun,
    RunEnded,
    RunResult,
    SessionEnded,
    SessionStarted,
    owner,
)
from history.jsonl import encode
from history.run_folder import Run
from history.verdict import Anomaly, Verdict

FIRST: Final = datetime(2026, 1, 1, 22, tzinfo=UTC)
WORKLOADS: Final = ("queue", "transactions", "copier", "groups", "send-modes", "fencing")
NEMESES: Final = ("none", "partition", "kill", "pause", "power:one", "wire:produce", "client", "failover")
VERSIONS: Final = ("3.9.1", "4.0.2", "4.1.2", "4.2.1", "4.3.1", "4.4.0")
FOUND: Final = ("lost-write", "torn-txn", "aborted-read", "group-skip", "duplicate")
KNOWN: Final = ("", "KAFKA-17754", "KAFKA-20734")
TEMPLATES: Final = ("queue", "transactions")
ENGINES: Final = ("spark", "process")
GOAL_S: Final = 60.0


def make(results: Path, nights: int, runs: int, templates: Sequence[Path], chance: random.Random) -> None:
    """Write the year."""
    shapes = [msgspec.json.decode(Run(folder).verdict.read_bytes(), type=Verdict) for folder in templates]
    configs = [msgspec.json.decode(Run(folder).config.read_bytes()) for folder in templates]
    for night in range(nights):
        begun = FIRST + timedelta(days=night)
        many = runs * (night + 1) // nights - runs * night // nights
        made = [chance.randrange(len(shapes)) for _ in range(many)]
        _night(results, begun, [(shapes[one], configs[one]) for one in made], chance)


def _night(
    results: Path, begun: datetime, made: Sequence[tuple[Verdict, dict[str, Any]]], chance: random.Random
) -> None:
    name = f"{begun:%Y%m%dT%H%M%SZ}"
    version = chance.choice(VERSIONS)
    events: list[msgspec.Struct] = [
        SessionStarted(at=_at(begun), seed=chance.randrange(2**31), budget_s=3600, canary="acks1", matrix={})
    ]
    now, spent = begun, 0.0
    for number, (shape, config) in enumerate(made, 1):
        task = PlannedRun(
            why="canary" if number == 1 else "matrix",
            workload=chance.choice(WORKLOADS),
            nemesis=chance.choice(NEMESES),
            preset="acks1" if number == 1 else "safe",
            seed=chance.randrange(2**31),
        )
        begins = RunBegun(at=_at(now), spent_s=spent, number=number, task=task, command=["inquest", "run"])
        result = _run(results, now, task, version, shape, config, chance)
        now, spent = now + timedelta(seconds=result.seconds), spent + result.seconds
        events += [begins, RunEnded(at=_at(now), spent_s=spent, number=number, outcome=result)]
        mark = owner(name, begins)
        if result.state == "anomaly":
            Run(results / result.folder).owner.write_text(mark)
    events.append(SessionEnded(at=_at(now), spent_s=spent, code=0))
    folder = results / FOLDER / name
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes(encode(events))


def _run(
    results: Path, now: datetime, task: PlannedRun, version: str, shape: Verdict, config: dict[str, Any],
    chance: random.Random,
) -> RunResult:  # fmt: skip
    name = f"{now:%Y%m%dT%H%M%SZ}-{task.workload}-{task.nemesis}-{task.seed}".replace(":", "-")
    config = config | {
        "sut": "kafka", "simulated": None, "kafka": {"version": version}, "seed": task.seed,
        "workload": task.workload, "nemesis": task.nemesis, "preset": task.preset,
    }  # fmt: skip
    code, found = 0, {}
    if chance.random() < 0.05:
        code = 1
        anomaly = chance.choice(FOUND)
        found[anomaly] = Anomaly(
            title="", literature="", meaning="", count=3, disallowed=3, allowed=False, why="",
            known_bug=chance.choice(KNOWN),
        )  # fmt: skip
    liveness = msgspec.structs.replace(shape.liveness, available=chance.uniform(0.7, 1))
    verdict = msgspec.structs.replace(
        shape, run=name, seed=task.seed, config=config, anomalies=shape.anomalies | found, exit_code=code,
        valid=not code, recovery_s=chance.uniform(0.5, 9), liveness=liveness,
        expect={"lost-write": True} if task.preset == "acks1" else {},
    )  # fmt: skip
    run = Run(results / name)
    run.folder.mkdir(parents=True)
    run.verdict.write_bytes(msgspec.json.format(msgspec.json.encode(verdict)))
    run.config.write_bytes(msgspec.json.encode(config))
    if code:
        run.report.write_text("<!doctype html>")
    return RunResult.of(verdict, STATES[code], code=code, seconds=chance.uniform(50, 80), folder=name)


def _at(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds")


def templates(folder: Path) -> list[Path]:
    """A simulated run of each of a few workloads."""
    for workload in TEMPLATES:
        words = ["run", "--sut", "simulated", "--workload", workload, "--nemesis", "partition,kill,pause"]
        words += ["--duration", "60", "--seed", "1", "--results", str(folder), "--engine", "process"]
        done = subprocess.run(
            program("harness.cli.main", *words), env=environment(), capture_output=True, check=False
        )
        if done.returncode:
            sys.exit(done.stderr.decode())
    return sorted(path.parent for path in folder.glob("2*/verdict.json"))


def index(results: Path, engine: str) -> tuple[float, float, float]:
    """Make the index in a fresh process: wall and CPU seconds until it is there, and peak memory in bytes."""
    (results / NAME).unlink(missing_ok=True)
    usage, wall, cpu, begin = Usage(), 0.0, 0.0, time.monotonic()
    process = subprocess.Popen(
        program("benchmarks.nights", "--index", engine, "--keep", str(results)),
        env=environment(), start_new_session=True,
    )  # fmt: skip
    while process.poll() is None:
        usage.sample(process.pid)
        if not wall and (results / NAME).exists():
            wall, cpu = time.monotonic() - begin, sum(usage.cpu.values())
        time.sleep(0.05)
    if process.returncode:
        sys.exit(process.returncode)
    return wall, cpu, usage.peak_rss


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--keep", type=Path, help="make, or find, the year here")
    parser.add_argument("--engine", choices=ENGINES, action="append")
    parser.add_argument("--index", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.index:
        with chosen(options.keep, spark=options.index == "spark") as ready:
            build(options.keep, ready.workers)
            begin = time.monotonic()
            build(options.keep, ready.workers)
            print(f"{ready.title}: warm {time.monotonic() - begin:.1f} s;", end=" ", flush=True)
        return
    pages, slow = set(), False
    with tempfile.TemporaryDirectory() as temporary:
        results = options.keep or Path(temporary) / "year"
        if not (results / FOLDER).is_dir():
            made = templates(Path(temporary) / "templates")
            make(results, options.nights, options.runs, made, random.Random(1))
        for engine in options.engine or ENGINES:
            load = os.getloadavg()[0]
            wall, cpu, peak = index(results, engine)
            pages.add((results / NAME).read_bytes())
            slow |= wall > GOAL_S
            print(f"cold {wall:.1f} s, {cpu:.1f} CPU s, {peak / 2**30:.2f} GiB; load before {load:.1f}")
    print(f"goal, {GOAL_S:g} s: {'missed' if slow else 'met'}; pages alike: {len(pages) == 1}")
    sys.exit(len(pages) > 1)


if __name__ == "__main__":
    main()
