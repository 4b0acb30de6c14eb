"""The data directory of a node, copied out of its container without the broker's help."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from core.errors import ClusterError
from harness.kafka.broker_config import DATA
from harness.kafka.containers.engine import explained

if TYPE_CHECKING:
    from docker.models.containers import Container

LEFT_OUT: Final = frozenset({".index", ".timeindex"})
"""Indexes by offset and time: they follow from the batches, and a killed broker leaves 20 MB a partition."""
CHUNK: Final = 2 << 20


def copy_data(container: "Container", into: Path) -> None:
    """Copy a node's data directory, without indexes, so that `into` has the folders of its partitions.

    The node has ended or is frozen: the engine cannot copy a file that shrinks meanwhile.
    Raises: ClusterError; part of the files may then be there.
    """
    what = f"the data of {container.name} could not be copied"
    into.mkdir(parents=True, exist_ok=True)
    with explained(what):
        chunks, _ = container.get_archive(DATA, chunk_size=CHUNK)
        try:
            with tarfile.open(fileobj=io.BufferedReader(_Stream(iter(chunks))), mode="r|") as archive:
                for member in archive:
                    path = PurePosixPath(member.name)
                    if member.isfile() and path.suffix not in LEFT_OUT:
                        member.name = str(path.relative_to(path.parts[0]))
                        archive.extract(member, into, set_attrs=False, filter="data")
        except tarfile.TarError as error:
            raise ClusterError(f"{what}: {error}") from error


class _Stream(io.RawIOBase):
    """Chunks as a file that can be read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview", /) -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        taken = self._rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self._rest = self._rest[len(taken) :]
        return len(taken)
