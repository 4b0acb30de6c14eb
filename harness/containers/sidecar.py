"""A program of this code in a container of its own, in the network of a node or of the engine's machine.

The user need not be root: the engine makes the container. It is held by its standard input and output
(`harness.processes.child`), over a connection to the engine. A harness that dies loses the connection, so the
program's input ends, and the program with it; its container carries the run's labels, so that the reaper
removes it.

A program has no capability of the kernel but those that it asks for.
"""

import io
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from docker.errors import NotFound

from core.errors import ClusterError
from core.terminal import say
from harness.containers.data import copy_out
from harness.containers.engine import explained, sdk_errors

if TYPE_CHECKING:
    from docker import DockerClient

HOST: Final = "host"
"""The network of the engine's machine."""
UNKNOWN: Final = -1
"""Exit code of a program whose end the engine does not tell."""
STDERR: Final = 2
END_S: Final = 5.0
_HEADER: Final = struct.Struct(">BxxxL")


def beside(container: str) -> str:
    """The network of a container, by its id."""
    return f"container:{container}"


class Sidecar:
    """A `Program`. What it writes to standard error is said here."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def __init__(
        self,
        client: "DockerClient",
        image: str,
        module: str,
        *,
        network: str,
        labels: Mapping[str, str],
        capabilities: Sequence[str] = (),
    ) -> None:
        """Start it. image: of `code_image`. Raises: ClusterError, and nothing is left."""
        self._what = f"the sidecar container of {module.rpartition('.')[2]}"
        self._code: int | None = None
        self._ended = threading.Event()
        with explained(f"{self._what} could not be started"):
            self._container = client.containers.create(
                image,
                [module],
                stdin_open=True,
                network_mode=network,
                cap_drop=["ALL"],
                cap_add=list(capabilities),
                security_opt=["no-new-privileges"],
                labels=dict(labels),
            )
            try:
                self._raw = client.api.attach_socket(
                    str(self._container.id), {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
                )
                self._container.start()
            except BaseException:
                self._container.remove(force=True)
                raise
        end: socket.socket = getattr(self._raw, "_sock", self._raw)
        end.settimeout(None)
        self.stdin = io.BufferedWriter(_Input(end))  # type: ignore[type-var]
        reading, writing = os.pipe()
        self.stdout = os.fdopen(reading, "rb")
        self._reader = threading.Thread(target=self._read, args=(end, writing), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """See `Program`. Raises: ClusterError."""
        with explained(f"{self._what} could not be inspected"):
            self._container.reload()
        return int(self._container.attrs["State"]["Pid"])

    def poll(self) -> int | None:
        """See `Program`."""
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """See `Program`."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(self._what, timeout or 0.0)
        return UNKNOWN if self._code is None else self._code

    def kill(self) -> None:
        """See `Program`. Never raises: an engine that is gone has lost the connection, too."""
        with suppress(*sdk_errors()):
            self._container.kill()

    def copy(self, path: str, into: Path) -> None:
        """Copy a folder out of its container, also once it has ended. Raises: ClusterError, OSError."""
        copy_out(self._container, path, into)

    def remove(self) -> None:
        """Remove its container, which ends it; idempotent. Raises: ClusterError."""
        with explained(f"{self._what} could not be removed"), suppress(NotFound):
            self._container.remove(force=True, v=True)
        self._reader.join(END_S)

    def _read(self, end: socket.socket, writing: int) -> None:
        """Take apart what the engine sends as one stream, until it ends."""
        try:
            with end.makefile("rb") as stream, os.fdopen(writing, "wb", buffering=0) as output:
                while len(header := stream.read(_HEADER.size)) == _HEADER.size:
                    kind, size = _HEADER.unpack(header)
                    data = stream.read(size)
                    if kind == STDERR:
                        say(f"{self._what}: {data.decode(errors='replace').rstrip()}")
                    else:
                        with suppress(BrokenPipeError):  # the harness has closed it
                            output.write(data)
                self._code = self._exit_code()  # before the output ends: who reads its end may ask
        except OSError:
            self._code = UNKNOWN
        finally:
            self._code = UNKNOWN if self._code is None else self._code
            self._ended.set()
            self._raw.close()
            end.close()

    def _exit_code(self) -> int:
        try:
            with explained(self._what):
                return int(self._container.wait()["StatusCode"])
        except ClusterError:
            return UNKNOWN


class _Input(io.RawIOBase):
    """The half of a connection that leads to the program; its end is the end of the program's input."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def writable(self) -> bool:
        return True

    def write(self, data: "bytes | bytearray | memoryview", /) -> int:  # type: ignore[override]
        self._end.sendall(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            with suppress(OSError):
                self._end.shutdown(socket.SHUT_WR)
