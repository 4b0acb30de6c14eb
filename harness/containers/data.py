"""Folders of containers, copied out of them; files of a node that has ended, changed there."""

import io
import shutil
import tarfile
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from core.errors import ClusterError
from harness.containers.engine import explained

if TYPE_CHECKING:
    from docker.models.containers import Container

DATA: Final = "/data"
"""A node's log directory, in its container."""
SECOND: Final = "/data-2"
"""The second log directory of a broker that has two: a link to SECOND_DISK, or to nothing once it failed."""
SECOND_DISK: Final = "/disk-2"
"""Where its files are."""
DIRECTORIES: Final = (DATA, SECOND_DISK)
"""Where the files of a node's log directories are."""
NOWHERE: Final = "/dev/null"
FILLER: Final = "space.filler"
"""A file that leaves no space on a disk."""
LEFT_OUT: Final = frozenset({".index", ".timeindex", ".filler"})
"""Indexes by offset and time: they follow from the batches, and a killed broker leaves 20 MB a partition."""
CHUNK: Final = 2 << 20


@dataclass(frozen=True, slots=True)
class Limit:
    """How much may be copied of one node, in bytes, and in how many seconds."""

    bytes: int
    seconds: float


UNLIMITED: Final = Limit(1 << 62, 1e9)
SHUT_DOWN: Final = (0, 143)
"""Exit codes of a node that ended in order (143 = by SIGTERM), and of one that never ran."""
AT_KILL: Final = Limit(2 << 30, 10.0)
"""Bytes that all takes of one run may read at kills; how long one may hold up the start of its nodes."""
AT_END: Final = Limit(1 << 30, 60.0)
"""Of each node, when its run has ended."""
AT_POWER_LOSS: Final = Limit(1 << 30, 30.0)
"""Of one node that lost power, to find what it had not flushed."""


def copy_data(container: "Container", into: Path, limit: Limit = UNLIMITED, folder: str = DATA) -> int:
    """Copy a node's data directory, without indexes, so that `into` has the folders of its partitions.

    The node has ended or is frozen: the engine cannot copy a file that shrinks meanwhile.
    Returns the number of bytes. Raises: ClusterError, OSError; part of the files may then be there.
    """
    return copy_out(container, folder, into, limit, LEFT_OUT)


def copies(into: Path, directories: int) -> list[Path]:
    """Where `copy_directories` puts a node's log directories."""
    return [into / str(number) for number in range(directories)]


def copy_directories(container: "Container", into: Path, directories: int, limit: Limit) -> int:
    """Copy the first log directories of a node; the number of bytes. Raises: as `copy_data`."""
    copied = 0
    for directory, folder in zip(DIRECTORIES, copies(into, directories), strict=False):
        left = Limit(limit.bytes - copied, limit.seconds / directories)
        copied += copy_data(container, folder, left, directory)
    return copied


def copy_out(
    container: "Container", folder: str, into: Path, limit: Limit = UNLIMITED, left_out: Collection[str] = ()
) -> int:
    """Copy the files of a container's folder, but for those whose names end so; the number of bytes. The
    copies are this user's. Raises: as `copy_data`."""
    what = f"the data of {container.name} could not be copied"
    deadline, copied = time.monotonic() + limit.seconds, 0
    into.mkdir(parents=True, exist_ok=True)
    with explained(what):
        chunks, _ = container.get_archive(folder, chunk_size=CHUNK)
        try:
            with tarfile.open(fileobj=io.BufferedReader(_Stream(iter(chunks))), mode="r|") as archive:
                for member in archive:
                    path = PurePosixPath(member.name)
                    if time.monotonic() > deadline:
                        raise ClusterError(f"{what} within {limit.seconds:.0f} s")
                    if member.isfile() and path.suffix not in left_out:
                        copied += member.size
                        if copied > limit.bytes:
                            raise ClusterError(f"{what}: they are more than {limit.bytes >> 20} MiB")
                        _extract(archive, member, into, path.relative_to(path.parts[0]))
        except tarfile.TarError as error:
            raise ClusterError(f"{what}: {error}") from error
    return copied


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, into: Path, path: PurePosixPath) -> None:
    """Write a regular file's content, and none of its attributes. (`filter` of `TarFile.extract` is not in
    every Python 3.11.) Raises: tarfile.TarError, for a name that leads out of the folder; OSError."""
    if ".." in path.parts:
        raise tarfile.TarError(f"{member.name!r} leads out of the folder")
    target = into / path
    target.parent.mkdir(parents=True, exist_ok=True)
    source = archive.extractfile(member)
    assert source is not None
    with source, target.open("wb") as file:
        shutil.copyfileobj(source, file, CHUNK)


def put_files(container: "Container", files: Mapping[str, bytes], folder: str = DATA) -> None:
    """Replace files of a node's folder. files: content by path below it. Raises: ClusterError."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode, member.mtime = len(content), 0o644, time.time()
            archive.addfile(member, io.BytesIO(content))
    _put(container, folder, packed.getvalue())


def link_second(container: "Container", *, works: bool) -> None:
    """The second log directory of a container, which may run, leads to its files, or nowhere: then every new
    file there is refused, and a file that is open stays so. Raises: ClusterError."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        disk, link = tarfile.TarInfo(SECOND_DISK[1:]), tarfile.TarInfo(SECOND[1:])
        disk.type, disk.mode, link.type = tarfile.DIRTYPE, 0o755, tarfile.SYMTYPE
        link.linkname = SECOND_DISK if works else NOWHERE
        archive.addfile(disk)
        archive.addfile(link)
    _put(container, "/", packed.getvalue())


def _put(container: "Container", folder: str, archive: bytes) -> None:
    with explained(f"files of {container.name} could not be changed"):
        if not container.put_archive(folder, archive):
            raise ClusterError(f"the engine did not take files for {container.name}")


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
