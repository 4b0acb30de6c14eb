"""Compaction of one log: of each key only the newest record stays (Kafka's LogCleaner and Cleaner).

A record that goes leaves its offset behind (`REMOVED`), so that offsets, batches, epochs and what is known of
producers stay as they were. Only what lies below the last stable offset and the active segment is compacted:
what is open or not committed stays, records of aborted transactions go. A tombstone stays for a time after it
was compacted first (KIP-534). Markers stay, and so do headers of batches: Kafka removes them, too, in time.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec.structs import replace

from model.log.unified_log import REMOVED, RecordBatch, UnifiedLog

Key = Callable[[object], Hashable]


class KeyedRecord(NamedTuple):
    """A record of a client with its key. tombstone: it deletes the key; `payload` is then what its headers
    hold."""

    key: bytes
    payload: object
    tombstone: bool


def record_key(record: object) -> Hashable:
    """Of a record of an application."""
    assert isinstance(record, KeyedRecord)
    return record.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """How a log is compacted; times in milliseconds.

    roll_ms: a segment is closed by the first batch that comes so long after its own first one (log.roll.ms);
    0 = no segment is active. ratio: share of records that were not compacted yet from which on there is
    something to do. tombstones_ms: how long tombstones stay (delete.retention.ms), -1 = for ever.
    """

    roll_ms: int = 0
    ratio: float = 0.0
    tombstones_ms: int = -1
    bugs: frozenset[str] = frozenset()


AT_ONCE: Final = Cleaning()


def compact(log: UnifiedLog, high_watermark: int, key: Key, how: Cleaning = AT_ONCE, now: int = 0) -> int:
    """Remove what is superseded, deleted or aborted; how many records went."""
    end = min(log.stable(high_watermark), _active(log, how.roll_ms))
    if not _worth_it(log, end, how, now):
        return 0
    stay = _staying(log, end, key, how)
    removed = 0
    for at, batch in enumerate(log.batches):
        if batch.base >= end:
            break
        if batch.control:
            continue
        new = _compacted(batch, stay, how, now)
        removed += sum(a is not b for a, b in zip(new.records, batch.records, strict=True))
        log.batches[at] = new
    log.cleaned = max(log.cleaned, end)
    return removed


def _active(log: UnifiedLog, roll_ms: int) -> int:
    """Where the active segment begins."""
    base, first = log.start, log.batches[0].appended_ms if log.batches else 0
    for batch in log.batches:
        if batch.appended_ms - first > roll_ms:
            base, first = batch.base, batch.appended_ms
    return base if roll_ms else log.end


def _worth_it(log: UnifiedLog, end: int, how: Cleaning, now: int) -> bool:
    """Enough was never compacted, or the time of tombstones has ended."""
    dirty = end - log.cleaned
    if dirty > 0 and dirty >= how.ratio * (end - log.start):
        return True
    return any(0 <= batch.delete_horizon_ms <= now for batch in log.batches if batch.base < log.cleaned)


def _staying(log: UnifiedLog, end: int, key: Key, how: Cleaning) -> set[int]:
    """Offsets of the newest record of each key."""
    newest: dict[Hashable, int] = {}
    for batch in _counting(log, end, how):
        for n, record in enumerate(batch.records):
            if record is REMOVED:
                continue
            if "tombstones-delete-nothing" in how.bugs and _is_tombstone(record):
                newest[key(record), "deleted"] = batch.base + n
            elif "oldest-of-a-key-stays" in how.bugs:
                newest.setdefault(key(record), batch.base + n)
            else:
                newest[key(record)] = batch.base + n
    return set(newest.values())


def _counting(log: UnifiedLog, end: int, how: Cleaning) -> Iterator[RecordBatch]:
    """Batches below `end` that are not of an aborted transaction."""
    for batch in log.batches:
        if batch.control or batch.base >= end:
            continue
        gone = batch.transactional and any(
            a.producer_id == batch.producer_id and a.first <= batch.base <= a.last for a in log.aborted
        )
        if not gone or "aborted-stays-as-plain" in how.bugs:
            yield batch


def _compacted(batch: RecordBatch, stay: set[int], how: Cleaning, now: int) -> RecordBatch:
    """What is left of a batch; tombstones count down from the first time on."""
    left = [record if batch.base + n in stay else REMOVED for n, record in enumerate(batch.records)]
    horizon = batch.delete_horizon_ms
    if how.tombstones_ms >= 0 and any(map(_is_tombstone, left)):
        if horizon < 0:
            horizon = now + how.tombstones_ms
        elif now >= horizon:
            left = [REMOVED if _is_tombstone(record) else record for record in left]
    elif horizon >= 0:
        horizon = -1
    plain = "aborted-stays-as-plain" in how.bugs
    return replace(
        batch, records=tuple(left), delete_horizon_ms=horizon, transactional=batch.transactional and not plain
    )


def _is_tombstone(record: object) -> bool:
    return isinstance(record, KeyedRecord) and record.tombstone
