"""A command of the user's, run to its end: a hook, what lists effects, or what reaches a cluster's pods."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Final

from core.errors import ClusterError, Unanswered

LINES: Final = 3
"""Last lines of what a program wrote that an error repeats."""
HELD: Final = "; something that it started holds its output: send that elsewhere (>FILE 2>&1)"
REST_S: Final = 2.0
"""The output of a program that was ended is at hand by then, unless something else holds it."""


def finish(
    what: str,
    command: Sequence[str],
    deadline_s: float,
    around: Mapping[str, str] | None = None,
    hide: Callable[[str], str] = lambda text: text,
    during: Callable[[int], AbstractContextManager[object]] = nullcontext,
    *,
    alone: bool = False,
) -> tuple[int, bytes, bytes]:
    """Exit code, output, and error output. It has a session of its own: where it does not end in time, or its
    output does not, all that it started there is ended with it. what: the subject of errors. around:
    variables that its environment has as well. hide: takes secrets out of the text of an error.
    during: is entered with its process id while it runs. alone: whatever it started there ends with it.

    Raises: ClusterError, where it cannot be started; Unanswered, with its last lines.
    """
    try:
        running = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(around or {})},
            start_new_session=True,
        )
    except OSError as error:
        raise ClusterError(f"{what}: {error}") from error
    with during(running.pid):
        try:
            out, said = _output(running, what, deadline_s, hide)
        finally:
            if alone:
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
    return running.returncode, out, said


def _output(
    running: "subprocess.Popen[bytes]", what: str, deadline_s: float, hide: Callable[[str], str]
) -> tuple[bytes, bytes]:
    """Raises: Unanswered."""
    try:
        return running.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        out, said, held = _rest(running)
        lines = last(out + said, hide)
        late = f"did not end within {deadline_s:g} s"
        if running.poll() != -signal.SIGKILL:
            late, held = f"ended, but its output did not within {deadline_s:g} s", True
        raise Unanswered(f"{what} {late}{held * HELD}{': ' if lines else ''}{lines}") from None


def _rest(running: "subprocess.Popen[bytes]") -> tuple[bytes, bytes, bool]:
    """What a program wrote that was ended, and whether something in another session holds its output: that
    may run for ever."""
    try:
        return *running.communicate(timeout=REST_S), False
    except subprocess.TimeoutExpired as late:
        for pipe in (running.stdout, running.stderr):
            assert pipe is not None
            pipe.close()
        return late.output or b"", late.stderr or b"", True


def last(output: bytes, hide: Callable[[str], str] = lambda text: text) -> str:
    """The last lines, as one. hide: see `finish`."""
    return " ".join(hide(output.decode(errors="replace")).strip().splitlines()[-LINES:])
