"""A results folder from outside: a soak repeats its failures, and only what a run of one's own could be."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import ConfigError
from harness.nights.session_log import FILE, FOLDER, read, sessions
from tests.harness.nights.made_sessions import LOST, outcome, task, write
from tests.harness.soak.fakes import Fakes, request, whys

NIGHT = "20260228T220000Z"


def repeated(results: Path, **of_task: Any) -> list[str]:
    """The kinds of runs of a soak after a night in which this run failed."""
    write(results, NIGHT, [(task(**of_task), outcome("anomaly", LOST))])
    fakes = Fakes(results)
    fakes.go(request(results, budget_s=900.0))
    return whys(sessions(results)[-1])


def test_a_failure_is_repeated(tmp_path: Path) -> None:
    assert repeated(tmp_path, settings={"client_settings": {"linger.ms": "1"}})[0] == "repeat"


@pytest.mark.parametrize(
    "settings",
    [
        {"client_settings": {"plugin.library.paths": "/tmp/x.so"}},
        {"client_settings": {"producer.ssl.engine.location": "/tmp/x.so"}},
        {"client_settings": {"test.mock.num.brokers": "3"}},
        {"client_settings": {"linger.ms": "1\n2"}},
        {"broker_settings": {"metric.reporters": "a.B"}},
        {"broker_settings": {"num.io.threads": "1\nmetric.reporters=a.B"}},
        {"broker_settings": {"num.io.threads": "1\\"}},
        {"kafka": "../../x"},
        {"sut": "abacus"},
        {"colour": "blue"},
        {"--results": "/"},
        {"seed": -1},
        {"nemesis": "schedule"},
        {"expect": ["nope"]},
        {"duration_s": 1e300},
        {"partitions": [[[[]]]]},
    ],
    ids=str,
)
def test_what_a_run_may_not_be_is_not_repeated(
    tmp_path: Path, settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "repeat" not in repeated(tmp_path, settings=settings)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "cannot be repeated" in line]
    assert line.isprintable()


@pytest.mark.parametrize(
    "names",
    [
        {"workload": "--master"},
        {"workload": "\x1b]0;x\x07"},
        {"nemesis": "kill\nVALID: all is well"},
        {"preset": "-"},
    ],
    ids=str,
)
def test_names_that_no_run_has_are_not_repeated(
    tmp_path: Path, names: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "repeat" not in repeated(tmp_path, **names)
    err = capsys.readouterr().err
    assert all(line.isprintable() for line in err.splitlines())
    assert all(line.startswith("inquest: ") for line in err.splitlines())


def night(results: Path) -> Path:
    write(results, NIGHT, [(task(), outcome("anomaly", LOST))])
    return results / FOLDER / NIGHT / FILE


def to_zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def to_passwords(path: Path) -> None:
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("place", [os.mkfifo, Path.mkdir, to_zero, to_passwords])
def test_a_log_that_is_no_file_is_no_session(tmp_path: Path, place: Callable[[Path], object]) -> None:
    path = night(tmp_path)
    path.unlink()
    place(path)
    assert read(path.parent) is None
    assert sessions(tmp_path) == []
    assert Fakes(tmp_path).go(request(tmp_path)) == 0


def test_a_log_without_end_is_no_session(tmp_path: Path) -> None:
    path = night(tmp_path)
    os.truncate(path, 1 << 40)  # a hole
    assert read(path.parent) is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"event":"run-ended"' + b'{"a":' * 100_000,
        b'{"event":"ended","at":"yesterday","spent_s":1,"code":0}',
        b'{"event":"interrupted","at":"2026-03-01T00:00:00+00:00","spent_s":1e999}',
        b'{"event":"nonsense"}',
        b"[" * 1_000_000,
        b"\xff\xfe",
        b"null",
    ],
    ids=lambda line: str(line[:40]),
)
def test_a_damaged_line_is_counted_and_left_out(tmp_path: Path, line: bytes) -> None:
    path = night(tmp_path)
    with path.open("ab") as file:
        file.write(line + b"\n")
    (session,) = sessions(tmp_path)
    assert session.damaged == 1
    assert len(session.attempts) == 1


def test_an_unfinished_night_of_another_matrix_is_not_taken_over(tmp_path: Path) -> None:
    lines = night(tmp_path).read_text().splitlines()
    an_hour_ago = {"at": "2026-03-01T21:00:00.000+00:00"}
    begun = [json.dumps(json.loads(line) | an_hour_ago) for line in lines[:2]]
    (tmp_path / FOLDER / NIGHT / FILE).write_text("\n".join(begun) + "\n")
    with pytest.raises(ConfigError, match="--new starts another session"):
        Fakes(tmp_path).go(request(tmp_path))
