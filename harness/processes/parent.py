"""The harness as its programs see it (`child`): commands on standard input, lines to standard output."""

import asyncio
import contextlib
import os
import signal
import sys
from functools import partial
from typing import Final

import msgspec

from harness.processes.child import ChildLine

LONGEST: Final = 1 << 24
"""Of a command, in bytes."""


def tell(line: ChildLine) -> None:
    """Write one line. Raises: BrokenPipeError, where the harness is gone."""
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


async def commands() -> asyncio.StreamReader:
    """Standard input, for a program with a loop of events."""
    reader = asyncio.StreamReader(limit=LONGEST)
    protocol = partial(asyncio.StreamReaderProtocol, reader)
    await asyncio.get_running_loop().connect_read_pipe(protocol, sys.stdin)
    return reader


def until_gone() -> None:
    """Block until standard input ends: the harness wants no more, or is gone."""
    with contextlib.suppress(OSError):
        while os.read(sys.stdin.fileno(), 4096):
            pass


def ignore_ctrl_c() -> None:
    """Ctrl-C is the harness's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
