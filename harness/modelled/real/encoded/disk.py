"""The disk of a node: everything that is durable, in one file that only grows.

Before it sends anything a node writes what its broker changed, as one record. It writes into the page cache
and never waits for the medium: the file survives a SIGKILL of the process. What a power loss would leave is
in it as well, as the place up to which each log was flushed. A record that a SIGKILL cut off ends the file;
so the changes of one record are there all or none.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from harness.modelled.real.encoded.model_values import pack, unpack
from harness.modelled.real.encoded.records import WireRecords
from model.broker import Durable
from model.coordinator.transaction_metadata import TransactionRecord
from model.log.unified_log import RecordBatch, UnifiedLog
from model.protocol.messages import Partition
from model.settings import Settings

_LENGTH: Final = struct.Struct(">I")
BATCHES, LOG, GONE, QUORUM, NODE = "batches", "log", "gone", "quorum", "node"
"""Kinds of changes: batches from a number on, what else a log says, a log that was deleted, the quorum's
state and entries from a number on, the checkpoint, the clean epoch and ids of topics."""


@dataclass(slots=True)
class _Written:
    """What the file has of one log."""

    batches: list[RecordBatch] = field(default_factory=list)
    start: int = -1
    flushed: int = -1
    epochs: int = 0
    epoch: tuple[int, int] | None = None
    """How many leader epochs, and the newest."""


class Disk:
    """The file of a running node."""

    def __init__(self, path: Path, settings: Settings) -> None:
        """Read the file. Raises: OSError."""
        self.durable, whole = _read(path, settings)
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
        os.truncate(self._file, whole)
        os.lseek(self._file, 0, os.SEEK_END)
        self._logs: dict[Partition, _Written] = {}
        self._quorum: tuple[object, ...] = ()
        self._entries: list[tuple[int, object]] = []
        self._checkpoint: dict[Partition, int] = {}
        self._clean = -1
        self._topic_ids: dict[Partition, int] = {}
        self._changes()  # everything that was read is written

    def save(self) -> None:
        """Write what changed. Raises: OSError."""
        changes = self._changes()
        if changes:
            data = pack(changes)
            os.write(self._file, _LENGTH.pack(len(data)) + data)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _changes(self) -> list[tuple[object, ...]]:
        durable, found = self.durable, list[tuple[object, ...]]()
        for tp, log in durable.logs.items():
            known = self._logs.get(tp)
            if known is None:
                known = self._logs[tp] = _Written()
            mine, batches = known.batches, log.batches
            # in place, and without calls: this is done for every log, before everything that is sent
            if len(mine) != len(batches) or (batches and batches[-1] is not mine[-1]):
                keep = _common(mine, batches)
                found.append((BATCHES, tp, keep, tuple(batches[keep:])))
                mine[keep:] = batches[keep:]
            epochs = log.epochs
            if (
                log.start != known.start
                or log.flushed != known.flushed
                or len(epochs) != known.epochs
                or (epochs and epochs[-1] != known.epoch)
            ):
                known.start, known.flushed = log.start, log.flushed
                known.epochs, known.epoch = len(epochs), epochs[-1] if epochs else None
                found.append((LOG, tp, log.start, log.flushed, tuple(epochs)))
        if len(self._logs) > len(durable.logs):
            for tp in [tp for tp in self._logs if tp not in durable.logs]:
                del self._logs[tp]
                found.append((GONE, tp))
        self._node(found)
        return found

    def _node(self, found: list[tuple[object, ...]]) -> None:
        durable = self.durable
        entries, state = durable.entries, (durable.quorum_epoch, durable.voted)
        if state != self._quorum or _differ(self._entries, entries):
            keep = _common(self._entries, entries)
            self._quorum = state
            self._entries[keep:] = entries[keep:]
            found.append((QUORUM, *state, keep, tuple(entries[keep:])))
        node = durable.clean_epoch, durable.checkpoint, durable.topic_ids
        if node != (self._clean, self._checkpoint, self._topic_ids):
            self._clean, self._checkpoint = durable.clean_epoch, dict(durable.checkpoint)
            self._topic_ids = dict(durable.topic_ids)
            found.append((NODE, self._clean, self._checkpoint, self._topic_ids))


def _differ(known: Sequence[object], now: Sequence[object]) -> bool:
    """Whether a list changed, as far as length and last element tell."""
    return len(known) != len(now) or (bool(now) and now[-1] is not known[-1])


def _common(known: Sequence[object], now: Sequence[object]) -> int:
    """How many elements from the begin are the same."""
    keep = min(len(known), len(now))
    if keep == len(known) and keep and now[keep - 1] is known[-1]:
        return keep
    while keep and known[keep - 1] is not now[keep - 1]:
        keep -= 1
    return keep


def load(path: Path, settings: Settings, later_ms: int) -> Durable:
    """What a node left on its disk; nothing, where there is no file. later_ms: added to every time.

    Raises: OSError, ValueError.
    """
    return _read(path, settings, later_ms)[0]


def _read(path: Path, settings: Settings, later_ms: int = 0) -> tuple[Durable, int]:
    """What the file holds, and where its last whole record ends."""
    durable, whole = Durable(), 0
    batches: dict[Partition, list[RecordBatch]] = {}
    rest: dict[Partition, tuple[int, int, tuple[tuple[int, int], ...]]] = {}
    for change, end in _changes_of(path):
        whole = end
        match change:
            case (kind, tp, keep, added) if kind == BATCHES:
                batches.setdefault(tp, [])[keep:] = [_later(batch, later_ms) for batch in added]
            case (kind, tp, start, flushed, epochs) if kind == LOG:
                rest[tp] = (start, flushed, epochs)
                batches.setdefault(tp, [])
            case (kind, tp) if kind == GONE:
                batches.pop(tp, None)
            case (kind, epoch, voted, keep, added) if kind == QUORUM:
                durable.quorum_epoch, durable.voted = epoch, voted
                durable.entries[keep:] = added
            case (kind, clean, checkpoint, topic_ids) if kind == NODE:
                durable.clean_epoch, durable.checkpoint = clean, checkpoint
                durable.topic_ids = topic_ids
    for tp, its in batches.items():
        durable.logs[tp] = _log(its, rest.get(tp, (0, 0, ())), settings)
    return durable, whole


def _later(batch: RecordBatch, ms: int) -> RecordBatch:
    """The batch with times of another clock."""
    if not ms:
        return batch
    records = tuple(
        one._replace(updated=one.updated + ms, started=one.started + ms if one.started >= 0 else -1)
        if isinstance(one, TransactionRecord)
        else one
        for one in (() if isinstance(batch.records, WireRecords) else batch.records)
    )
    return replace(batch, records=records or batch.records, appended_ms=batch.appended_ms + ms)


def _changes_of(path: Path) -> Iterator[tuple[Any, int]]:
    """Each change in the file, and where its record ends."""
    data = path.read_bytes() if path.exists() else b""
    at = 0
    while at + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        end = at + _LENGTH.size + length
        if end > len(data):
            return
        for change in unpack(data[at + _LENGTH.size : end]):
            yield change, end
        at = end


def _log(
    batches: list[RecordBatch], rest: tuple[int, int, tuple[tuple[int, int], ...]], settings: Settings
) -> UnifiedLog:
    log = UnifiedLog(settings.era, settings.bugs)
    start, flushed, epochs = rest
    log.end = batches[0].base if batches else start
    for batch in batches:
        log.copy(batch)
    log.start, log.flushed, log.epochs[:] = start, flushed, epochs
    return log
