"""A program that the harness holds by its standard input and output: commands, lines, pauses and ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from core.errors import ClusterError
from core.programs import environment
from harness.processes.child import Child, ChildLine, start, tail
from tests.processes import alive, state
from tests.waiting import until

DEADLINE_S = 60.0
PROGRAM = """
import os, signal, sys, time
import msgspec
from harness.processes.child import ChildLine
from harness.processes.parent import tell
for done, text in enumerate(sys.stdin, 1):
    match msgspec.json.decode(text):
        case {"say": "cut off"}:
            os.write(1, b'{"done": 9')
            os.kill(os.getpid(), signal.SIGKILL)
        case {"say": "nonsense"}:
            os.write(1, b"nonsense\\n")
        case {"say": "latin"}:
            os.write(1, b'{"error": "Zeit\\xfc"}\\n')
        case {"say": "deep"}:
            os.write(1, b'{"error": ' + b"[" * 100000 + b"\\n")
        case {"say": "deaf"}:
            tell(ChildLine(done=done))
            time.sleep(600)
        case {"say": "nothing"}:
            pass
        case {"say": "no"}:
            tell(ChildLine(error="it cannot"))
        case {"say": "end"}:
            sys.exit(3)
        case _:
            tell(ChildLine(done=done))
"""


class Say(msgspec.Struct, frozen=True):
    say: str = ""


@pytest.fixture
def lines() -> list[ChildLine]:
    return []


@pytest.fixture
def child(lines: list[ChildLine]) -> Iterator[Child[ChildLine]]:
    running = start([sys.executable, "-P", "-c", PROGRAM])
    child = Child(running, "the program", ChildLine, lines.append)
    yield child
    child.strike()
    child.close()


def test_a_call_returns_when_it_was_carried_out(child: Child[ChildLine], lines: list[ChildLine]) -> None:
    for number in (1, 2):
        child.call(Say(), DEADLINE_S)
        assert lines[-1] == ChildLine(done=number)
    assert (child.ended, child.trouble()) == (None, "")


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("end", "the program has ended with exit code 3"),
        ("cut off", "the program has ended with exit code -9"),
        ("no", "it cannot"),
        ("nonsense", "the program wrote something else than a line: b'nonsense"),
        ("latin", "the program wrote something else than a line: b'.*Zeit"),
        ("deep", "the program wrote something else than a line: b'"),
    ],
)
def test_a_call_that_is_not_carried_out_says_why(child: Child[ChildLine], what: str, says: str) -> None:
    with pytest.raises(ClusterError, match=says):
        child.call(Say(what), DEADLINE_S)


def test_a_call_ends_with_its_deadline_and_a_late_answer_is_none_of_a_later_call(
    child: Child[ChildLine],
) -> None:
    with pytest.raises(ClusterError, match=r"the program did not answer within 0\.1 s"):
        child.call(Say("nothing"), 0.1)
    child.call(Say(), DEADLINE_S)


def test_a_command_to_one_that_has_ended_is_no_error(child: Child[ChildLine]) -> None:
    child.tell(Say("end"))
    assert child.wait(DEADLINE_S) == 3
    child.tell(Say())
    child.resume()
    child.signal(signal.SIGTERM)
    child.close()
    child.tell(Say())


def test_waiting_for_lines_ends_with_the_program(child: Child[ChildLine]) -> None:
    child.tell(Say("end"))
    assert not child.until(lambda: False, DEADLINE_S)


def test_it_ends_with_its_input(child: Child[ChildLine]) -> None:
    child.end(DEADLINE_S)
    assert child.ended == 0
    child.end(DEADLINE_S)


def test_one_that_does_not_end_is_killed(child: Child[ChildLine]) -> None:
    child.call(Say("deaf"), DEADLINE_S)
    child.end(0.1)
    assert child.ended == -signal.SIGKILL


def test_a_paused_one_goes_on_where_it_was(child: Child[ChildLine], lines: list[ChildLine]) -> None:
    child.call(Say(), DEADLINE_S)
    child.pause()
    child.pause()  # no-op
    assert state(child.pid) == "T"
    assert child.paused is not None
    child.tell(Say())
    child.resume()
    assert child.until(lambda: ChildLine(done=2) in lines, DEADLINE_S)


def test_one_whose_guard_was_killed_is_resumed_all_the_same(child: Child[ChildLine]) -> None:
    child.pause()
    assert child.paused is not None
    os.kill(child.paused.pid, signal.SIGKILL)
    child.resume()
    child.call(Say(), DEADLINE_S)


def test_one_that_is_gone_cannot_be_paused(child: Child[ChildLine]) -> None:
    child.tell(Say("end"))
    child.wait(DEADLINE_S)
    with pytest.raises(ProcessLookupError, match="it is gone"):
        child.pause()


PARENT = """
import sys, time
from harness.processes.child import Child, ChildLine, start
child = Child(start([sys.executable, "-c", "import sys; sys.stdin.read()"]), "it", ChildLine, print)
child.pause()
print(child.pid, flush=True)
time.sleep(600)
"""


def test_none_outlives_a_harness_that_was_killed_not_even_a_paused_one() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=environment()
    ) as harness:
        assert harness.stdout is not None
        pid = int(harness.stdout.readline())
        harness.kill()
    until(lambda: not alive(pid), "it lives on")


def test_the_last_words_of_a_log(tmp_path: Path) -> None:
    assert tail(tmp_path / "none") == ""
    assert "directory" in tail(tmp_path)
    log = tmp_path / "log"
    log.write_bytes(b"x" * 100_000 + b"\nthe end\xff")
    assert tail(log).splitlines()[-1] == "the end\N{REPLACEMENT CHARACTER}"
    assert len(tail(log)) < 20_000
