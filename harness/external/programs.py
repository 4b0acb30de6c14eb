"""A program of the user's, run to its end: a hook, or the command that reaches a cluster's pods."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from core.errors import ClusterError, Unanswered

LINES: Final = 3
"""Last lines of what a program wrote that an error repeats."""


def finish(
    what: str,
    command: Sequence[str],
    deadline_s: float,
    around: Mapping[str, str] | None = None,
    hide: Callable[[str], str] = lambda text: text,
) -> tuple[int, str, str]:
    """Exit code, output, and error output. It has a session of its own: where it does not end in time, all
    that it started is ended with it. what: the subject of errors. around: variables that its environment has
    as well. hide: takes secrets out of a text.

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
    try:
        out, said = running.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        out, said = running.communicate()
        lines = last(hide((out + said).decode(errors="replace")))
        raise Unanswered(
            f"{what} did not end within {deadline_s:g} s{': ' if lines else ''}{lines}"
        ) from None
    return running.returncode, hide(out.decode(errors="replace")), hide(said.decode(errors="replace"))


def last(text: str) -> str:
    """The last lines, as one."""
    return " ".join(text.strip().splitlines()[-LINES:])
