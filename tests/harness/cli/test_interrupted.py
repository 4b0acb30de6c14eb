"""SIGTERM and Ctrl-C in the middle of each command: 130, one line, no traceback."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path

import pytest

from core.config import run_config
from core.programs import environment, program
from harness.cli.verdict import Engine, judge
from harness.compose import record
from harness.nights.session_log import RunResult
from harness.processes.interrupts import Interrupts
from harness.run.progress import silent
from history.run_folder import Run
from tests.harness.cli.bad_input import command, no_traceback

SMALL = {"sut": "simulated", "seed": 5, "duration_s": 6, "rate": 10, "nemesis": "kill", "producers": 1}
COMMANDS: dict[str, tuple[list[str], str]] = {
    "run": (["run", "--sut", "simulated"], "harness.systems.record"),
    "demo": (["demo"], "harness.systems.record"),
    "client-test": (["client-test", "true"], "harness.conformance.suite.perform"),
    "check": (["check", "run"], "checkers.api.check"),
    "check, the report": (["check", "run"], "harness.report.build"),
    "check of histories": (["check", "--history", "file"], "checkers.api.check_portable"),
    "report": (["report", "run"], "harness.report.build"),
    "import": (["recording", "import", "jsonl", "file"], "checkers.recordings.formats.import_files"),
    "export": (["recording", "export", "run"], "checkers.recordings.export.events_of"),
    "soak": (["soak", "--budget", "10m", "--matrix", "matrix"], "harness.soak.runs.Performer.perform"),
    "serve": (["serve", "--port", "0", "--results", "."], "harness.soak.serve.Server.serve_forever"),
    "list": (["list"], "harness.cli.catalogue.lists"),
    "doctor": (["doctor"], "harness.cli.doctor.examine"),
    "setup": (["setup"], "harness.containers.engine.ensure"),
    "spark-package": (["spark-package", "made"], "checkers.engine.shipped.package"),
    "sql": (["sql", "select 1", "--results", "run"], "checkers.engine.spark.spark"),
    "replay": (["recording", "replay", "run"], "harness.modelled.virtual.run_folder.differences"),
    "shrink": (["recording", "shrink", "run"], "harness.explore.shrink.findings"),
    "explore": (["model", "explore", "--seeds", "3", "--processes", "1"], "harness.explore.exploration.make"),
    "reproduce": (["bugs", "reproduce", "acks1"], "harness.reproduce.attempts.attempts"),
    "contract": (["model", "contract"], "harness.contract.cluster.compare"),
}
MATRIX = 'presets = ["safe"]\ncanary = "acks1"\nworkloads = ["queue"]\nnemeses = ["none"]\n'


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return record(run_config(SMALL), results=tmp_path_factory.mktemp("recorded"), display=silent()).run


@pytest.fixture
def here(recorded: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with a run; the handlers of signals are as before afterwards."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").symlink_to(recorded.folder)
    (tmp_path / "file").write_text(json.dumps([]))
    (tmp_path / "matrix").write_text(MATRIX)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield tmp_path
    for number, handler in before.items():
        signal.signal(number, handler)


def struck(number: signal.Signals) -> Callable[..., object]:
    """A part of a command, in which the signal comes."""

    def work(*_: object, **__: object) -> object:
        os.kill(os.getpid(), number)
        return RunResult(state="interrupted", code=130, seconds=1.0)  # a soak's handler waits for its run

    return work


@pytest.mark.sampled(10)
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
@pytest.mark.parametrize(("words", "part"), COMMANDS.values(), ids=COMMANDS)
def test_every_command_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, words: list[str], part: str, number: signal.Signals
) -> None:
    monkeypatch.setattr(part, struck(number))
    monkeypatch.setenv("INQUEST_CLIENT", "")  # `client-test` sets it; it is taken back at the end
    ended = command(*words)
    no_traceback(ended)
    assert ended.code == 130, ended
    said = [line for line in ended.err.splitlines() if line.startswith("inquest: ")]
    if words[:2] != ["model", "explore"]:  # it prints what it has found
        assert said, ended


@pytest.mark.usefixtures("here")
def test_no_command_is_forgotten() -> None:
    listed = command("--help").out
    names = {words[0] for words, _ in COMMANDS.values()}
    assert all(name in listed for name in names)
    from harness.cli.main import app

    groups = app.registered_groups
    inside = sum(len(group.typer_instance.registered_commands) for group in groups if group.typer_instance)
    assert len(names) == len(app.registered_commands) + len(groups)
    assert (
        len(
            {tuple(words[:2]) for words, _ in COMMANDS.values() if words[0] in ("recording", "model", "bugs")}
        )
        == inside
    )


@pytest.mark.sampled(8)
def test_a_process_of_its_own(here: Path) -> None:
    (here / "results").mkdir()
    words = program("harness.cli.main", "serve", "--port", "0", "--results", "results")
    with subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as serving:
        assert serving.stdout is not None
        assert serving.stdout.readline().startswith("http://")
        serving.send_signal(signal.SIGTERM)
        _, err = serving.communicate(timeout=60)
    assert (serving.returncode, err) == (130, "inquest: interrupted\n")


def test_a_handler_of_a_run_takes_precedence() -> None:
    with Interrupts(immediate=False) as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.asked.is_set()


EARLY = """
import os, signal, sys
class AtImport:
    def find_spec(self, name, path=None, target=None):
        if name == "core.errors":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, AtImport())
"""
LATE = """
import atexit, os, signal
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
"""


def started(before: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """The command `inquest` in a process of its own, as its script starts it, from a shell that does not
    ignore Ctrl-C."""
    begun = (
        f"import signal, sys; sys.argv[:] = {['inquest', *words]}\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)"
    )
    code = f"{begun}\n{before}\nfrom inquest.__main__ import main\nmain()"
    return subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment(), capture_output=True, text=True, check=False
    )


def test_ctrl_c_while_the_command_is_imported() -> None:
    ended = started(EARLY, "list", "presets")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "inquest: interrupted\n")


def test_ctrl_c_after_the_exit_code_is_known() -> None:
    ended = started(LATE, "list", "presets")
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")
    assert "acks1" in ended.stdout


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    ignored = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    ended = started(f"{ignored}{EARLY}{LATE}", "list", "presets")
    assert (ended.returncode, ended.stderr) == (0, "")


class Struck(io.StringIO):
    """Standard output, where the signal comes with the first thing that is written."""

    def write(self, text: str) -> int:
        written = super().write(text)
        os.kill(os.getpid(), signal.SIGINT)
        return written


def test_ctrl_c_in_the_last_lines_finds_them_whole(here: Path) -> None:
    plain, struck_in = io.StringIO(), Struck()
    with redirect_stdout(plain):
        judge(Run(here / "run"), Engine.of("process", None))
    with redirect_stdout(struck_in), suppress(KeyboardInterrupt):
        judge(Run(here / "run"), Engine.of("process", None))
    assert "\nrepeat: " in plain.getvalue()
    assert struck_in.getvalue() == plain.getvalue()
