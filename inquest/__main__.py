"""The command `inquest`, also as `python -m inquest`."""

import os
import signal
from contextlib import suppress
from types import FrameType
from typing import NoReturn


def main() -> None:
    """Run the command. Ctrl-C before its own handlers are there, and after its exit code is known, ends the
    process without a traceback; where the signal was ignored, as by nohup, it stays ignored."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, _interrupted)
    from harness.cli.main import main as command  # most of a second

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        command()
    except KeyboardInterrupt:
        _interrupted()
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupted(_number: int = signal.SIGINT, _frame: FrameType | None = None) -> NoReturn:
    """No exception: one that is raised in an import can come out as another one, or be lost. Nor the stream,
    which may be in the middle of a write."""
    with suppress(OSError):
        os.write(2, b"inquest: interrupted\n")
    os._exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
