"""A node's data directory, or the ones that it has → the tables of evidence.

Read a copy, or the directory of a node that has ended: files that change meanwhile look damaged. Left out:
indexes by offset and time (they follow from the batches), directories that wait for their deletion
(`-delete`) or replace others (`-future`), strays (`-stray`), and `bootstrap.checkpoint`, whose records the
metadata log begins with. What of a partition's files belongs to its log: `partition_files`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa

from core.internal_topics import GROUP_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from harness.evidence import (
    checkpoints,
    control,
    coordinator_records,
    metadata_records,
    partition_files,
    producer_state,
    segments,
    share_records,
)
from harness.evidence.damage import Damages
from history import evidence_tables
from history.evidence_tables import PER_NODE, PER_PARTITION

T = TypeVar("T")
Place = tuple[str, int]
"""Topic and number of a partition."""
PARTITION: Final = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]+)")
SEGMENT: Final = re.compile(r"[0-9]{20}\.log")
SNAPSHOT: Final = re.compile(rf"{partition_files.OFFSET}-[0-9]{{10}}\.checkpoint")
"""A snapshot of the metadata log."""
MOST: Final = 2**31 - 1
"""No partition has a greater number."""
QUORUM_STATE: Final = "quorum-state"
META: Final = "meta.properties"


def read(
    folder: Path,
    node: int,
    take: int = 0,
    at_ns: int = -1,
    why: str = evidence_tables.END,
    others: Sequence[Path] = (),
    wanted: Callable[[str], bool] = lambda topic: True,
) -> dict[str, pa.Table]:
    """The tables of a node by their name (PER_PARTITION and PER_NODE), with the columns of `schema`.

    folder: the one with the metadata log. take, at_ns, why: of `TAKES`. others: further log
    directories of the node. A replica that was moved between two stands in both for a moment, with the same
    batches: it is read once. wanted: the topics whose partitions are read.

    A file that cannot be read as a whole is a row of `damage`, with its path below the folder; the rest of
    it, and all other files, are read.
    """
    tables = _Directories((folder, *others), node, take, wanted).read()
    return tables | {
        "takes": evidence_tables.table(evidence_tables.schema("takes"), [(take, node, at_ns, why)])
    }


def log_directories(folder: Path) -> list[Path]:
    """The log directories of a node in what was copied of it: those folders that have Kafka's mark of one
    (`meta.properties`), the one with the metadata log first; the folder, where none has. Raises: OSError."""
    marked = sorted(path.parent for path in folder.rglob(META))
    marked.sort(key=lambda one: not _folder(one, (metadata_records.TOPIC, 0)).is_dir())
    return marked or [folder]


class _Directories:
    def __init__(self, folders: Sequence[Path], node: int, take: int, wanted: Callable[[str], bool]) -> None:
        self._folders = folders
        self._folder = folders[0]
        self._node = node
        self._take = take
        self._wanted = wanted
        self._damages = Damages()
        self._unread = Damages()
        """Of records of whole batches. Such a file may be damaged further on."""
        self._found: dict[str, list[pa.Table]] = {name: [] for name in (*PER_PARTITION, *PER_NODE)}

    def read(self) -> dict[str, pa.Table]:
        homes = self._homes()
        cleaned: dict[Place, int] = {}
        for place, folder in sorted(homes.items(), key=lambda one: one[1].name):
            cleaned[place] = self._partition(folder, *place)
        for name in checkpoints.OFFSETS:
            ends = self._ends(name, homes)
            if name == checkpoints.CLEANER:
                ends = ends | {place: max(to, ends.get(place, 0)) for place, to in cleaned.items() if to}
            for (topic, partition), value in ends.items():
                rows = evidence_tables.table(evidence_tables.ENDS, [(checkpoints.OFFSETS[name], value)])
                self._add("ends", rows, topic, partition)
        self._add("nodes", self._about_the_node())
        damage = [(self._named(one.file), one.position, one.why) for one in (*self._damages, *self._unread)]
        self._add("damage", evidence_tables.table(evidence_tables.DAMAGE, sorted(damage)))
        return {
            name: pa.concat_tables(found) if found else evidence_tables.schema(name).empty_table()
            for name, found in self._found.items()
        }

    def _homes(self) -> dict[Place, Path]:
        """Where each partition is; of two folders, the one whose log ends later: a failed directory keeps
        what the node has elsewhere by now."""
        found: dict[Place, list[Path]] = {}
        for folder in (path for directory in self._folders for path in directory.iterdir() if path.is_dir()):
            named = None if folder in self._folders else PARTITION.fullmatch(folder.name)
            if named and int(named["partition"]) <= MOST and self._wanted(named["topic"]):
                found.setdefault((named["topic"], int(named["partition"])), []).append(folder)
        return {
            place: folders[0] if len(folders) == 1 else max(folders, key=partition_files.log_end)
            for place, folders in found.items()
        }

    def _ends(self, name: str, homes: Mapping[Place, Path]) -> dict[Place, int]:
        """A checkpoint: of each partition what the log directory says that has it, else one that has no log
        of it: the partition was moved from there. What a directory with another log of it says is about that
        one. How far a log is cleaned, any may say: the directory that gets it notes that later."""
        found: dict[Place, int] = {}
        nothing: dict[Place, int] = {}
        for directory in self._folders:
            for place, value in self._tried(checkpoints.offsets, directory / name, nothing).items():
                if not self._wanted(place[0]):
                    continue
                home = homes[place].parent if place in homes else None
                if name == checkpoints.CLEANER:
                    found[place] = max(value, found.get(place, 0))
                elif home == directory or not (place in found or _folder(directory, place).is_dir()):
                    found[place] = value
        return found

    def _named(self, file: Path) -> str:
        """A file as it is named below its log directory; one of a further directory with that in front."""
        directory = next(one for one in self._folders if file.is_relative_to(one))
        return str(file.relative_to(directory if directory == self._folder else directory.parent))

    def _tried(self, read: Callable[[Path, Damages], T], path: Path, otherwise: T) -> T:
        """What `read` makes of a file; `otherwise` where it is missing, or cannot be opened (a damage)."""
        if not path.exists():
            return otherwise
        try:
            return read(path, self._damages)
        except OSError as error:
            self._damages.note(path, 0, f"it cannot be read: {error.strerror}")
            return otherwise

    def _partition(self, folder: Path, topic: str, partition: int) -> int:
        """Returns how far files show that the cleaner had come; 0 = none does."""

        def add(name: str, rows: pa.Table) -> None:
            self._add(name, rows, topic, partition)

        files = partition_files.partition_files(folder)
        logs = files.logs
        for path in logs:
            self._segment(path, topic, add)
        if topic == metadata_records.TOPIC:
            for path in sorted(folder.glob("*.checkpoint")):
                if SNAPSHOT.fullmatch(path.name):
                    self._add(
                        "metadata", self._tried(self._snapshot, path, evidence_tables.METADATA.empty_table())
                    )
        for path in files.snapshots:
            add(
                "producers",
                self._tried(producer_state.producers, path, evidence_tables.PRODUCERS.empty_table()),
            )
        for path in files.indexes:
            add("aborted", self._tried(producer_state.aborted, path, evidence_tables.ABORTED.empty_table()))
        epochs = folder / checkpoints.LEADER_EPOCHS
        add("epochs", self._tried(checkpoints.leader_epochs, epochs, evidence_tables.EPOCHS.empty_table()))
        topic_id = self._tried(checkpoints.topic_id, folder / checkpoints.PARTITION_METADATA, None)
        start = segments.offset_of(logs[0]) if logs else -1
        row: evidence_tables.Row = (topic_id, start, len(logs), sum(path.stat().st_size for path in logs))
        add("partitions", evidence_tables.table(evidence_tables.PARTITIONS, [row]))
        return files.cleaned_to

    def _segment(self, path: Path, topic: str, add: Callable[[str, pa.Table], None]) -> None:
        segment = self._tried(self._batches, path, None)
        if segment is None:
            return
        add("batches", segment.table())
        add("control", control.read(segment, self._unread))
        if topic == TRANSACTION_TOPIC:
            add("transaction_log", coordinator_records.transactions(segment, self._unread))
        elif topic == GROUP_TOPIC:
            offsets, groups = coordinator_records.groups(segment, self._unread)
            add("offset_log", offsets)
            add("group_log", groups)
        elif topic == SHARE_STATE_TOPIC:
            add("share_log", share_records.states(segment, self._unread))
        elif topic == metadata_records.TOPIC:
            self._add("metadata", metadata_records.read(segment, self._unread))

    @staticmethod
    def _batches(path: Path, damages: Damages) -> segments.Segment:
        segment = segments.read(path)
        if segment.damage:
            damages.note(path, segment.damage.position, segment.damage.why)
        return segment

    def _snapshot(self, path: Path, damages: Damages) -> pa.Table:
        segment = self._batches(path, damages)
        return metadata_records.read(segment, self._unread, segments.offset_of(path))

    def _about_the_node(self) -> pa.Table:
        clean = [one / checkpoints.CLEAN_SHUTDOWN for one in self._folders]
        quorum = self._folder / f"{metadata_records.TOPIC}-0" / QUORUM_STATE
        row: evidence_tables.Row = (
            all(one.exists() for one in clean),
            self._tried(checkpoints.broker_epoch, clean[0], None),
            self._tried(_text, quorum, None),
            self._tried(_text, self._folder / META, None),
        )
        return evidence_tables.table(evidence_tables.NODES, [row])

    def _add(self, name: str, rows: pa.Table, topic: str = "", partition: int = -1) -> None:
        """Rows of a table, with the columns in front that say where they were found."""
        self._found[name].append(evidence_tables.placed(name, rows, self._take, self._node, topic, partition))


def _folder(directory: Path, place: Place) -> Path:
    topic, partition = place
    return directory / f"{topic}-{partition}"


def _text(path: Path, damages: Damages) -> str | None:
    """A file as text. Raises: OSError."""
    try:
        return path.read_text()
    except UnicodeDecodeError as error:
        damages.note(path, error.start, "text is not UTF-8")
        return None
