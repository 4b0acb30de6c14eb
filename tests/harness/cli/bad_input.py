"""Bad input to a command, in this process: one printable line on stderr, the documented exit code
(docs/architecture.md), no traceback, no end without an answer.

    ended = refused(["check", folder], code=64, said=["config.json"])

Not here: the cases (`test_bad_recordings`, and a table for each other command).
"""

import io
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from harness.cli import main

DEADLINE_S = 60.0
"""A command that does not end by then hangs: a pipe that nobody writes to, a file without an end."""


@dataclass(slots=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str


class Hangs(BaseException):
    """The command did not end. No `except Exception` of the command takes it for its own."""


def command(*words: str | Path, deadline_s: float = DEADLINE_S) -> Ended:
    """A command to its end. Fails where it does not end in time; raises what `main` lets pass."""
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    with redirect_stdout(out), redirect_stderr(err), _deadline(deadline_s):
        try:
            main.main(partial(main.app, [*map(str, words)]))
        except SystemExit as ended:
            code = ended.code
    assert isinstance(code, int), f"the command ended without an exit code: {code!r}"
    return Ended(code, out.getvalue(), err.getvalue())


def refused(
    words: Sequence[str | Path], *, code: int = 64, said: Sequence[str] = (), deadline_s: float = DEADLINE_S
) -> Ended:
    """A command that has to end with one line and this code. said: what the line has to name."""
    ended = command(*words, deadline_s=deadline_s)
    one_line(ended, code=code, said=said)
    return ended


def one_line(ended: Ended, *, code: int, said: Sequence[str] = ()) -> None:
    """An end with one line on stderr and this code."""
    shown = f"exit {ended.code}\nstdout: {ended.out[:2000]}\nstderr: {ended.err[:4000]}"
    no_traceback(ended)
    assert ended.code == code, shown
    lines = ended.err.splitlines()
    assert len(lines) == 1, shown
    assert lines[0].startswith("inquest: "), shown
    assert len(lines[0]) < 2000, f"a line of {len(lines[0])} characters"
    for word in said:
        assert word in lines[0], f"{word!r} is not named\n{shown}"


def no_traceback(ended: Ended) -> None:
    """Nothing of the harness itself is shown, and nothing that a terminal acts upon."""
    shown = f"exit {ended.code}\nstdout: {ended.out[:2000]}\nstderr: {ended.err[:4000]}"
    assert "Traceback" not in ended.err, shown
    assert "a fault of the harness" not in ended.err, shown
    for text in (ended.out, ended.err):
        raw = {one for one in text if not one.isprintable()} - {"\n"}
        assert not raw, f"not printable: {raw}\n{shown}"


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    def late(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"no end within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
