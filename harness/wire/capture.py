"""The capture as the harness holds it: one program that records all frames on a run's network."""

import contextlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from core.errors import ClusterError
from harness.wire.capture_main import Told, Watch
from harness.wire.child import Child
from history.evidence import PER_RUN

END_S: Final = 30.0
"""How long it may write what it has seen."""


class Capture:
    """A running capture."""

    def __init__(self, watch: Watch, child: Child, copy: Callable[[Path], None]) -> None:
        """Returns when it looks. child: the program, which runs. copy: brings the tables of `watch.into` into
        a folder of this machine. Raises: ClusterError, and the program has ended."""
        self._process, self._copy = child, copy
        self.packets = self.lost = 0
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(msgspec.json.encode(watch) + b"\n")
            self._process.stdin.flush()
        told = self._told()
        if told is None or told.error:
            self.stop()
            raise ClusterError(f"messages cannot be captured: {told.error if told else 'its program ended'}")

    @property
    def pid(self) -> int:
        """Of its process, on the machine that it runs on."""
        return self._process.pid

    def trouble(self) -> str:
        """Why it looks no more; "" = it does."""
        ended = self._process.poll()
        return "" if ended is None else f"the capture of messages has ended with exit code {ended}"

    def finish(self, evidence: Path, copies: Path) -> str:
        """End it, and put its tables into a folder of evidence, where there is one; why they are missing.
        copies: a folder that exists only meanwhile."""
        self._end()
        try:
            told = self._told()
            if told is None or self._process.wait(END_S):
                return "the capture of messages failed: its tables are not whole"
            self.packets, self.lost = told.packets, told.lost
            if not evidence.exists():
                return "messages were captured, and no logs of brokers to compare them with were taken"
            self._copy(copies)
            for name in PER_RUN:
                (copies / f"{name}.parquet").replace(evidence / f"{name}.parquet")
        except (ClusterError, OSError, subprocess.TimeoutExpired) as error:
            return f"the capture of messages: {error}"
        finally:
            shutil.rmtree(copies, ignore_errors=True)
            self.stop()
        return ""

    def stop(self) -> None:
        """End it; idempotent, never raises."""
        self._end()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # of an engine that answers no more
                self._process.wait(END_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _told(self) -> Told | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return msgspec.json.decode(line, type=Told) if line else None
