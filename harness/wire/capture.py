"""The capture as the harness holds it: one program that records all frames on a run's network."""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from core.errors import ClusterError
from harness.processes.child import Child, Program
from harness.wire.capture_main import CaptureLine, Watch
from history.evidence_tables import PER_RUN

NAME: Final = "the capture of messages"
START_S: Final = 20.0
END_S: Final = 30.0
"""How long it may write what it has seen."""


class Capture:
    """A running capture."""

    def __init__(self, watch: Watch, running: Program, copy: Callable[[Path], None]) -> None:
        """Returns when it looks. running: its program. copy: brings the tables of `watch.into` into a folder
        of this machine. Raises: ClusterError, and the program has ended."""
        self._copy = copy
        self._last = CaptureLine()
        self._child = Child(running, NAME, CaptureLine, self._hear)
        try:
            self._child.call(watch, START_S)
        except ClusterError as error:
            self.stop()
            raise ClusterError(f"messages cannot be captured: {error}") from error

    @property
    def packets(self) -> int:
        """How many it saw; known when it has finished."""
        return self._last.packets

    @property
    def lost(self) -> int:
        """How many it did not see, for want of time; known when it has finished."""
        return self._last.lost

    @property
    def pid(self) -> int:
        """Of its process, on the machine that it runs on."""
        return self._child.pid

    def trouble(self) -> str:
        """Why it looks no more; "" = it does."""
        return self._child.trouble()

    def finish(self, evidence: Path, copies: Path) -> str:
        """End it, and put its tables into a folder of evidence, where there is one; why they are missing.
        copies: a folder that exists only meanwhile."""
        self._child.end_input()
        try:
            if self._child.wait(END_S) or not self._last.whole:
                return f"{NAME} failed: its tables are not whole"
            if not evidence.exists():
                return "messages were captured, and no logs of brokers to compare them with were taken"
            self._copy(copies)
            for name in PER_RUN:
                (copies / f"{name}.parquet").replace(evidence / f"{name}.parquet")
        except (ClusterError, OSError) as error:
            for name in PER_RUN:  # with a part of them, nothing of the evidence would be judged
                with contextlib.suppress(OSError):
                    (evidence / f"{name}.parquet").unlink(missing_ok=True)
            return f"{NAME}: {error}"
        finally:
            shutil.rmtree(copies, ignore_errors=True)
            self.stop()
        return ""

    def stop(self) -> None:
        """End it; idempotent, never raises."""
        self._child.end(END_S)

    def _hear(self, line: CaptureLine) -> None:
        self._last = line
