"""A node of the model as the harness holds it: its process, and what it was asked to do."""

import contextlib
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from core.cluster import Cut, NodeEnd
from core.errors import ClusterError
from core.programs import environment, program
from harness.kafka.node_ends import described
from harness.processes import guard
from harness.served.node import NodeSettings
from harness.served.node_main import FAILED, Cuts, Told
from harness.served.node_main import __name__ as PROGRAM

CALL_S: Final = 5.0
END_S: Final = 5.0
TAIL_BYTES: Final = 16_384
LOG: Final = "server.log"
"""The log of a node in its folder, over all its processes."""


class NodeProcess:
    """One node: at most one process at a time, in a session of its own. folder: of its disk and its log.

    powerless: with its last process it lost what was not flushed."""

    def __init__(self, settings: NodeSettings) -> None:
        self.number = settings.me
        self.folder = Path(settings.folder)
        self.powerless = False
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._changed = threading.Condition()
        self._told = Told()
        self._paused: guard.Guard | None = None
        self._number = 0

    @property
    def log(self) -> Path:
        """Its log."""
        return self.folder / LOG

    @property
    def pid(self) -> int:
        """Process id of its last process, -1 = there was none."""
        return -1 if self._process is None else self._process.pid

    @property
    def is_up(self) -> bool:
        """Its process runs, or is paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def crashed(self) -> bool:
        """Its last process has ended, and not in order."""
        return self._process is not None and self._process.poll() not in (None, 0)

    @property
    def serves(self) -> bool:
        """It listens for clients."""
        return self.is_up and self._told.serves

    def end(self) -> NodeEnd:
        """How its last process ended; it has."""
        assert self._process is not None
        code = self._process.wait()
        return described(
            self.number, exit_code=code, signal=max(0, -code), log=_tail(self.log), own_program=True
        )

    def trouble(self) -> str:
        """Why it can no longer be judged: its program failed, "" = it did not."""
        if self._process is not None and self._process.poll() == FAILED:
            return f"the program of node {self.number} failed: {self._told.error or f'see its {LOG}'}"
        return ""

    def start(self, cuts: Sequence[Cut]) -> None:
        """Start its process with what is on its disk; these cuts are in force. Raises: ClusterError."""
        self.wait()
        settings = msgspec.structs.replace(self._settings, powerless=self.powerless, cuts=tuple(cuts))
        self.powerless = False
        self._told = Told()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(
                    program(PROGRAM),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                    env=environment(),
                )
        except OSError as error:
            raise ClusterError(f"node {self.number} was not started: {error}") from error
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        self._write(msgspec.json.encode(settings))

    def kill(self) -> None:
        """SIGKILL; returns when it has ended. No-op where it does not run; never raises."""
        self.strike()
        self.wait()

    def strike(self) -> None:
        """SIGKILL."""
        if self.is_up:
            assert self._process is not None
            self._process.kill()

    def wait(self) -> None:
        """Until it has ended; its pipes are closed."""
        if self._process is not None:
            self._process.wait()
            self._reader.join(END_S)
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):
                    pipe.close()
        self._release()

    def terminate(self) -> None:
        """SIGTERM: a clean shutdown begins."""
        if self.is_up:
            assert self._process is not None
            self._process.send_signal(signal.SIGTERM)

    def finish(self, seconds: float) -> None:
        """Until it has ended, killed after these seconds."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        self.kill()

    def pause(self) -> None:
        """SIGSTOP; it continues when the harness dies. Raises: ClusterError."""
        if not self.is_up or self._paused is not None:
            return
        assert self._process is not None
        try:
            self._paused = guard.pause(self._process.pid)
        except (OSError, TimeoutError) as error:
            if self.is_up:
                raise ClusterError(f"node {self.number}: {error}") from error

    def resume(self) -> None:
        """SIGCONT. No-op where it is not paused."""
        self._release()

    def _release(self) -> None:
        paused, self._paused = self._paused, None
        if paused is not None:
            paused.release()

    def cut(self, cuts: Sequence[Cut]) -> None:
        """These cuts are in force, and no others; a paused node takes them in when it continues.

        Raises: ClusterError."""
        if not self.is_up:
            return
        self._number += 1
        self._write(msgspec.json.encode(Cuts(number=self._number, cuts=tuple(cuts))))
        if self._paused is not None:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._told.done >= self._number or not self.is_up, CALL_S)
            if self._told.done < self._number and self.is_up:
                raise ClusterError(f"node {self.number} did not answer within {CALL_S:g} s")

    def _write(self, line: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            if self.is_up:
                raise ClusterError(f"node {self.number}: {error}") from error

    def _read(self, process: "subprocess.Popen[bytes]") -> None:
        """Take in what it tells, until it ends."""
        assert process.stdout is not None
        decode = msgspec.json.Decoder(Told).decode
        for line in process.stdout:
            told = decode(line)
            with self._changed:
                self._told = Told(
                    serves=self._told.serves or told.serves,
                    done=max(self._told.done, told.done),
                    error=self._told.error or told.error,
                )
                self._changed.notify_all()
        process.wait()
        with self._changed:
            self._changed.notify_all()


def _tail(log: Path) -> str:
    """The end of a log; where it cannot be read, the reason."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError as error:
        return str(error)
