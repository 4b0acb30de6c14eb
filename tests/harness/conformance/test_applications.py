"""Whole runs with an application on brokers of the model: each wrong one is found, the right one is clean."""

import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from core.errors import ExitCode
from tests.harness.conformance.postgresql import Server
from tests.harness.conformance.test_runs import inquest
from tests.processes import alive
from tests.waiting import until

pytestmark = pytest.mark.slow
COPIER = [sys.executable, "examples/applications/copier.py"]
AGGREGATOR = [sys.executable, "examples/applications/aggregator.py"]
SINK = [sys.executable, "examples/applications/sink.py"]
CRASH = "client:crash@member"
AGGREGATE = ("--set", 'app={"shape":"aggregate"}')
SPLIT = ("--set", 'app={"shape":"flat-map","outputs":2}')
WORK_S = "0.12"
"""Three instances copy 25 records a second and get as many: each is at work whenever a crash hits it."""
UNDECIDED = "UNKNOWN: no forbidden anomaly found, but not everything could be decided"


def run(tmp_path: Path, command: list[str], nemesis: str, *words: str) -> tuple[int, str]:
    where = ("--sut", "model", "--results", str(tmp_path), "--engine", "process", "--seed", "5")
    # Between faults the group is to work again, which takes the 6 s of a session: else no crash hits a copy.
    short = ("--duration", "30", "--rate", "3", "--set", "fault_s=2", "--set", "calm_s=8")
    return inquest(
        tmp_path, "run", *where, *short, "--nemesis", nemesis, "--app", shlex.join(command), *words
    )


@pytest.mark.sampled(48)
@pytest.mark.parametrize(
    ("kind", "nemesis", "words", "code", "said"),
    [
        ("right", f"{CRASH},kill", (), ExitCode.VALID, "VALID: no forbidden anomaly"),
        ("at-least-once", CRASH, (), ExitCode.ANOMALY, "first eos-duplicate"),
        ("at-least-once", CRASH, ("--set", "commit=after"), ExitCode.VALID, "VALID: no forbidden anomaly"),
        ("at-most-once", CRASH, (), ExitCode.ANOMALY, "first eos-loss"),
        ("newest-first", "none", ("--set", "commit=after"), ExitCode.ANOMALY, "first nonmonotonic-copy"),
        ("uncommitted", "none", (), ExitCode.ANOMALY, "first phantom-read"),
        ("split-right", f"{CRASH},kill", SPLIT, ExitCode.VALID, "VALID: no forbidden anomaly"),
        ("split-at-least-once", CRASH, SPLIT, ExitCode.ANOMALY, "first eos-duplicate"),
        ("split-at-most-once", CRASH, SPLIT, ExitCode.ANOMALY, "first eos-loss"),
    ],
)
def test_each_application_has_its_verdict(
    tmp_path: Path, kind: str, nemesis: str, words: tuple[str, ...], code: ExitCode, said: str
) -> None:
    ended, output = run(tmp_path, [*COPIER, kind, WORK_S], nemesis, *words)
    assert ended == code, output
    assert said in output


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("kind", "nemesis", "code", "said"),
    [
        ("right", f"{CRASH},kill", ExitCode.VALID, "VALID: no forbidden anomaly"),
        ("at-least-once", CRASH, ExitCode.ANOMALY, "first eos-duplicate"),
        ("forgets", CRASH, ExitCode.ANOMALY, "first eos-loss"),
        ("dirty", "none", ExitCode.ANOMALY, "first phantom-read"),
    ],
)
def test_each_aggregator_has_its_verdict(
    tmp_path: Path, kind: str, nemesis: str, code: ExitCode, said: str
) -> None:
    ended, output = run(tmp_path, [*AGGREGATOR, kind, WORK_S], nemesis, *AGGREGATE)
    assert ended == code, output
    assert said in output


@pytest.mark.sampled(48)
def test_an_effect_whose_input_was_not_committed_is_found(tmp_path: Path) -> None:
    effects = shlex.join([*SINK, "show"])
    sink = [*SINK, "one-behind"]
    ended, output = run(tmp_path, sink, "none", "--effects", effects, "--duration", "3")
    assert ended == ExitCode.ANOMALY, output
    assert "first eos-uncommitted" in output


@pytest.mark.sampled(48)
@pytest.mark.parametrize(
    ("kind", "code", "said"),
    [
        ("plain", ExitCode.ANOMALY, "first eos-duplicate"),
        ("early", ExitCode.ANOMALY, "first eos-loss"),
        ("unique", ExitCode.VALID, "VALID: no forbidden anomaly"),
        ("offsets", ExitCode.VALID, "VALID: no forbidden anomaly"),
    ],
)
def test_each_sink_has_its_verdict(tmp_path: Path, kind: str, code: ExitCode, said: str) -> None:
    effects = shlex.join([*SINK, "show"])
    ended, output = run(tmp_path, [*SINK, kind, WORK_S], CRASH, "--effects", effects)
    assert ended == code, output
    assert said in output


@pytest.mark.sampled(38)
@pytest.mark.parametrize(
    ("kind", "nemesis", "code", "said"),
    [
        ("plain", CRASH, ExitCode.ANOMALY, "first eos-duplicate"),
        ("early", CRASH, ExitCode.ANOMALY, "first eos-loss"),
        ("one-behind", "none", ExitCode.ANOMALY, "first eos-uncommitted"),
        ("unique", f"{CRASH},kill", ExitCode.VALID, "VALID: no forbidden anomaly"),
        ("offsets", f"{CRASH},kill", ExitCode.VALID, "VALID: no forbidden anomaly"),
    ],
)
def test_each_sink_with_postgresql_has_its_verdict(
    tmp_path: Path, server: Server, kind: str, nemesis: str, code: ExitCode, said: str
) -> None:
    ended, output = run(tmp_path, *with_postgresql(kind, nemesis, server))
    assert ended == code, output
    assert said in output


@pytest.mark.sampled(38)
@pytest.mark.parametrize("kind", ["unique", "offsets"])
def test_a_database_that_dies_and_comes_back_makes_no_right_sink_wrong(
    tmp_path: Path, server: Server, kind: str
) -> None:
    """What it makes of a wrong one: test_sink.py."""
    before = set(server.rows())
    with ThreadPoolExecutor() as pool:
        running = pool.submit(run, tmp_path, *with_postgresql(kind, "none", server), "--duration", "15")
        for rows in (20, 60, 100):
            until(partial(more_than, rows, server, before), f"{rows} rows are written")
            server.crash()
            server.start()
        ended, output = running.result()
    assert ended == ExitCode.VALID, output
    logs = [log.read_text() for log in tmp_path.glob("2*/application/instance-*.log")]
    assert len(logs) == 3
    assert all("server closed the connection unexpectedly" in log for log in logs)


def with_postgresql(kind: str, nemesis: str, server: Server) -> tuple[list[str], str, str, str]:
    """Of `run`: the sink, the nemesis, and its effects."""
    where = ["--database", server.url]
    return [*SINK, kind, WORK_S, *where], nemesis, "--effects", shlex.join([*SINK, "show", *where])


def more_than(rows: int, server: Server, before: set[str]) -> bool:
    """Tables of runs that were not there before have more rows."""
    return sum(count for schema, count in server.rows().items() if schema not in before) > rows


@pytest.mark.sampled(8)
def test_effects_that_cannot_be_listed_are_named(tmp_path: Path) -> None:
    sink = [*SINK, "unique"]
    ended, output = run(
        tmp_path, sink, "none", "--effects", "sh -c 'echo broken >&2; exit 3'", "--duration", "1"
    )
    assert ended == ExitCode.UNKNOWN, output
    assert "--effects sh: it ended with exit code 3: broken" in output


@pytest.mark.sampled(8)
def test_an_instance_that_ends_on_its_own_is_named(tmp_path: Path) -> None:
    ends = [sys.executable, "-c", "import time; time.sleep(3); print('no more'); raise SystemExit(4)"]
    ended, output = run(tmp_path, ends, "none", "--duration", "4")
    assert ended == ExitCode.UNKNOWN, output
    assert UNDECIDED in output
    assert "were lost: the application ended with exit code 4; its last line: no more" in output


@pytest.mark.sampled(19)
def test_an_application_that_does_nothing_is_not_called_valid(tmp_path: Path) -> None:
    ended, output = run(tmp_path, ["sleep", "1000"], "none", "--duration", "1")
    assert ended == ExitCode.UNKNOWN, output


@pytest.mark.sampled(27)
def test_nothing_of_an_application_outlives_a_harness_that_is_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = (
        f"import os, subprocess, time; c = subprocess.Popen(['sleep', '1000']); f = open({str(pids)!r}, 'a')"
    )
    script += "; f.write(f'{os.getpid()} {c.pid} '); f.flush(); time.sleep(1000)"
    app = shlex.join([sys.executable, "-c", script])
    words = [
        "run",
        "--sut",
        "model",
        "--results",
        str(tmp_path / "results"),
        "--nemesis",
        "none",
        "--app",
        app,
    ]
    harness = subprocess.Popen(
        [sys.executable, "-m", "harness.cli.main", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until(lambda: pids.exists() and len(pids.read_text().split()) == 6, "all instances run")
        started = [int(pid) for pid in pids.read_text().split()]
        assert all(alive(pid) for pid in started)
    finally:
        harness.kill()
        harness.wait()
    until(lambda: not any(alive(pid) for pid in started), "all are gone")
