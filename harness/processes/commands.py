"""A program of this machine that runs for a bounded time, and ends well or is one clear error."""

import subprocess
from collections.abc import Mapping, Sequence

from core.errors import ClusterError


def output(
    command: Sequence[str],
    within_s: float,
    failed: str,
    *,
    given: str = "",
    environment: Mapping[str, str] | None = None,
    lines: int = 10,
    instead: str = "",
) -> str:
    """What a command writes to standard output. given: its standard input. environment: None = that of this
    process.

    Raises: ClusterError, where it cannot be started, ends badly or takes longer: `failed`, why (of a bad end
    the last lines of its standard error), and `instead`.
    """
    try:
        done = subprocess.run(
            command,
            input=given,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=within_s,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"{failed}: {error}{instead}") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-lines:] or [f"exit code {done.returncode}"]
        raise ClusterError(f"{failed}: " + "\n".join(said) + instead)
    return done.stdout
