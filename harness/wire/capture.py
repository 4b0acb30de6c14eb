"""The capture as the harness holds it: one process that records all frames on a run's network."""

import contextlib
import shutil
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from core.errors import ClusterError
from core.programs import environment, program
from harness.wire.capture_main import Told, Watch
from harness.wire.capture_main import __name__ as PROGRAM
from history.evidence import PER_RUN

END_S: Final = 30.0
"""How long it may write what it has seen."""
IMPOSSIBLE: Final = (
    "messages cannot be captured: {why}; that takes root, or CAP_NET_RAW and CAP_NET_ADMIN, on the machine of"
    " the Docker engine: run Inquest there with these rights, or without capture"
)


class Capture:
    """A running capture, in a session of its own. It ends with this process."""

    def __init__(self, watch: Watch) -> None:
        """Start it; returns when it looks. Raises: ClusterError, and nothing is left but the folder."""
        self._into = Path(watch.into)
        self.packets = self.lost = 0
        try:
            self._into.mkdir(parents=True, exist_ok=True)
            self._process = subprocess.Popen(
                program(PROGRAM),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env=environment(),
            )
        except OSError as error:
            raise ClusterError(IMPOSSIBLE.format(why=error)) from error
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(msgspec.json.encode(watch) + b"\n")
            self._process.stdin.flush()
        told = self._told()
        if told is None or told.error:
            self.stop()
            raise ClusterError(IMPOSSIBLE.format(why=told.error if told else "its process ended"))

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def trouble(self) -> str:
        """Why it looks no more; "" = it does."""
        ended = self._process.poll()
        return "" if ended is None else f"the capture of messages has ended with exit code {ended}"

    def finish(self, evidence: Path) -> str:
        """End it, and put its tables into a folder of evidence, where there is one; why they are missing."""
        self._end()
        try:
            told = self._told()
            if told is None or self._process.wait(END_S):
                return "the capture of messages failed: its tables are not whole"
            self.packets, self.lost = told.packets, told.lost
            if not evidence.exists():
                return "messages were captured, and no logs of brokers to compare them with were taken"
            for name in PER_RUN:
                (self._into / f"{name}.parquet").replace(evidence / f"{name}.parquet")
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"the capture of messages: {error}"
        finally:
            self.stop()
        return ""

    def stop(self) -> None:
        """End it, and remove what it has written; idempotent, never raises."""
        self._end()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        shutil.rmtree(self._into, ignore_errors=True)

    def _end(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _told(self) -> Told | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return msgspec.json.decode(line, type=Told) if line else None
