"""A node of the model as the harness holds it: its process, and what it was asked to do."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from core.capabilities import Cut
from core.cluster import NodeEnd
from core.errors import ClusterError
from core.programs import program
from harness.brokers.node_ends import described
from harness.modelled.real.node import NodeSettings
from harness.modelled.real.node_main import FAILED, Cuts, NodeLine
from harness.modelled.real.node_main import __name__ as PROGRAM
from harness.processes.child import Child, start, tail

CALL_S: Final = 5.0
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
        self._child: Child[NodeLine] | None = None
        self._serves = False

    @property
    def log(self) -> Path:
        """Its log."""
        return self.folder / LOG

    @property
    def pid(self) -> int:
        """Process id of its last process, -1 = there was none."""
        return -1 if self._child is None else self._child.pid

    @property
    def is_up(self) -> bool:
        """Its process runs, or is paused."""
        return self._child is not None and self._child.ended is None

    @property
    def crashed(self) -> bool:
        """Its last process has ended, and not in order."""
        return self._child is not None and self._child.ended not in (None, 0)

    @property
    def serves(self) -> bool:
        """It listens for clients."""
        return self.is_up and self._serves

    def end(self) -> NodeEnd:
        """How its last process ended; it has."""
        assert self._child is not None
        code = self._child.wait()
        assert code is not None
        return described(
            self.number, exit_code=code, signal=max(0, -code), log=tail(self.log), own_program=True
        )

    def trouble(self) -> str:
        """Why it can no longer be judged: its program failed, "" = it did not."""
        if self._child is not None and self._child.ended == FAILED:
            return f"the program of node {self.number} failed: {self._child.error or f'see its {LOG}'}"
        return ""

    def start(self, cuts: Sequence[Cut]) -> None:
        """Start its process with what is on its disk; these cuts are in force. Raises: ClusterError."""
        self.wait()
        settings = msgspec.structs.replace(self._settings, powerless=self.powerless, cuts=tuple(cuts))
        self.powerless = self._serves = False
        name = f"node {self.number}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            running = start(program(PROGRAM), log=self.log)
        except OSError as error:
            raise ClusterError(f"{name} was not started: {error}") from error
        self._child = Child(running, name, NodeLine, self._hear)
        self._child.tell(settings)

    def kill(self) -> None:
        """SIGKILL; returns when it has ended. No-op where it does not run; never raises."""
        self.strike()
        self.wait()

    def strike(self) -> None:
        """SIGKILL."""
        if self._child is not None:
            self._child.strike()

    def wait(self) -> None:
        """Until it has ended; its pipes are closed."""
        if self._child is not None:
            self._child.close()

    def terminate(self) -> None:
        """SIGTERM: a clean shutdown begins."""
        if self._child is not None:
            self._child.signal(signal.SIGTERM)

    def finish(self, seconds: float) -> bool:
        """Until it has ended; whether it had not after these seconds, and was killed."""
        if self._child is not None:
            self._child.wait(seconds)
        late = self.is_up
        self.kill()
        return late

    def pause(self) -> None:
        """SIGSTOP; it continues when the harness dies. Raises: ClusterError."""
        if self._child is None or not self.is_up:
            return
        try:
            self._child.pause()
        except OSError as error:
            if self.is_up:
                raise ClusterError(f"node {self.number}: {error}") from error

    def resume(self) -> None:
        """SIGCONT. No-op where it is not paused."""
        if self._child is not None:
            self._child.resume()

    def cut(self, cuts: Sequence[Cut]) -> None:
        """These cuts are in force, and no others; a paused node takes them in when it continues.

        Raises: ClusterError."""
        if self._child is None or not self.is_up:
            return
        command = Cuts(cuts=tuple(cuts))
        if self._child.paused is not None:
            self._child.tell(command)
            return
        try:
            self._child.call(command, CALL_S)
        except ClusterError:
            if self.is_up:
                raise

    def _hear(self, line: NodeLine) -> None:
        self._serves = self._serves or line.serves
