"""What is shown is printable, whoever chose the words; and nothing else writes to a terminal."""

import ast
import unicodedata
from pathlib import Path

import pytest
from rich.console import Console

from core.terminal import printable, say, show, show_lines
from harness.run.progress import Display

ROOT = Path(__file__).parents[2]
ROOMS = ("core", "history", "model", "scenarios", "workloads", "nemesis", "checkers", "harness", "inquest")
EVIL = "topic\x1b]0;owned\x07\x1b[2J\rVALID: no\nVALID: no forbidden anomaly\x9b31m\u202e\u2028\udcff\x00"
WRITERS = {
    "core/terminal.py": "the one place",
    "harness/cli/doctor.py": "a table",
    "harness/cli/recordings.py": "an export is data",
    "harness/cli/tables.py": "a table",
    "harness/cli/verdict.py": "the status of a check",
    "harness/clients/worker_main.py": "the log of a worker",
    "harness/explore/result.py": "a table",
    "harness/guided/main.py": "the display of its run, on the log of its parent",
    "harness/run/progress.py": "the display",
    "harness/modelled/real/node_main.py": "the log of a node",
    "harness/processes/parent.py": "a pipe",
    "harness/protocol/definitions.py": "a generator of a file",
}
"""Modules that write to a standard stream or a console, and why."""


def test_a_text_of_others_is_one_printable_line(capsys: pytest.CaptureFixture[str]) -> None:
    show(EVIL)
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out[:-1].isprintable()
    assert "VALID" in out  # escaped, not dropped
    assert r"\x1b" in out
    assert r"\n" in out


def test_every_control_and_format_character_is_escaped() -> None:
    controls = [chr(n) for n in range(0x110000) if unicodedata.category(chr(n)) in ("Cc", "Cf", "Zl", "Zp")]
    assert all(printable(f"a{one}b").isprintable() for one in controls)


@pytest.mark.parametrize("text", ["", "plain", "Wörter · é — 漢字 ✓", "a  b"])
def test_words_stay_as_they_are(text: str) -> None:
    assert printable(text) == text


def test_a_message_of_several_lines_cannot_begin_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"broken: {EVIL}\n\tat kafka.Kafka")
    first, *others = capsys.readouterr().err.splitlines()
    assert first.startswith("inquest: broken: ")
    assert others
    assert all(line.startswith("  ") and line.isprintable() for line in others)


def test_lines_that_were_put_together_stay_lines(capsys: pytest.CaptureFixture[str]) -> None:
    show_lines("a\nb\x1b")
    assert capsys.readouterr().out == "a\nb\\x1b\n"


@pytest.mark.parametrize("terminal", [False, True])
def test_the_display_of_a_run_is_printable(capsys: pytest.CaptureFixture[str], terminal: bool) -> None:
    display = Display(Console(stderr=True, force_terminal=terminal, highlight=False))
    display.say(EVIL)
    display.close()
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert not {"\x07", "\x9b", "\r", "\u202e"} & set(err)
    assert "]0;owned" in err
    assert "\x1b]" not in err


@pytest.mark.sampled(24)
def test_nothing_else_writes_to_a_terminal() -> None:
    found = set()
    for room in ROOMS:
        for file in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Name) and node.id in ("print", "Console"):
                    found.add(file.relative_to(ROOT).as_posix())
                if isinstance(node, ast.Attribute) and ast.unparse(node) in (
                    "typer.echo",
                    "typer.secho",
                    "sys.stdout",
                    "sys.stderr",
                    "traceback.print_exc",
                ):
                    found.add(file.relative_to(ROOT).as_posix())
    assert found == WRITERS.keys()
