"""The evidence of modelled nodes: the tables of `history.evidence` from what is durable.

What a disk has is there as Kafka writes it, above all what a crash or a power loss left. What coordinators
wrote becomes Kafka's bytes, which the reader of real logs reads (`harness.evidence`). Positions and sizes
are made up, and fit to each other; a checksum is one of the batch's content, so that replicas of a batch have
the same. A producer snapshot stands at the end of every log, as after a clean shutdown. Not there: what the
model does not have, such as the metadata of a ZooKeeper era, or the files of the host.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from crc32c import crc32c
from msgspec.structs import replace

from core.internal_topics import GROUP_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from harness.evidence.coordinator_records import group_row, transaction_row
from harness.evidence.share_records import share_row
from harness.modelled.shared.base_time import BASE_MS
from harness.modelled.shared.coordinator_records import log_records
from harness.modelled.shared.disk_copy import DiskCopy
from harness.modelled.shared.metadata_log import NO_TIMESTAMP, TOPIC, MetadataLogRecord, records
from harness.modelled.shared.topic_uuids import topic_id
from history.evidence import merged
from history.evidence_tables import NO_PRODUCER, PER_NODE, PER_PARTITION, PRODUCERS, Row, schema, table
from model.eras import Era
from model.log.unified_log import ABORT, REMOVED, RecordBatch, UnifiedLog
from model.protocol.messages import Partition
from model.settings import Settings

HEADER: Final = 61
"""Bytes of a batch's header."""
LEADER_CHANGE: Final = (2, "LEADER_CHANGE")
METADATA_LOG: Final = (TOPIC, 0)
COORDINATED: Final = {
    TRANSACTION_TOPIC: ("transaction_log",),
    GROUP_TOPIC: ("offset_log", "group_log"),
    SHARE_STATE_TOPIC: ("share_log",),
}
"""Tables with what coordinators wrote, by topic."""


def tables(takes: Iterable[Sequence[DiskCopy]], settings: Settings, era: str) -> dict[str, pa.Table]:
    """What the disks of modelled nodes have, take by take."""
    shared = _Shared(settings.era)
    return merged(
        [
            _Node(number, disk, settings, era, shared).tables()
            for number, disks in enumerate(takes)
            for disk in disks
        ]
    )


class _Shared:
    """What is the same of a batch in all replicas: its size and checksum, and what a coordinator wrote."""

    def __init__(self, era: Era) -> None:
        self._era = era
        self._known: dict[int, tuple[RecordBatch, int, int]] = {}
        self._rows: dict[int, tuple[RecordBatch, list[tuple[str, Row]]]] = {}

    def rows(self, topic: str, batch: RecordBatch) -> list[tuple[str, Row]]:
        """A batch of a coordinator as the reader of Kafka's logs has its bytes: rows, each with the name of
        its table."""
        if id(batch) not in self._rows:
            records = log_records(batch, self._era, BASE_MS)
            if topic == TRANSACTION_TOPIC:
                rows = [("transaction_log", transaction_row(record)) for record in records]
            elif topic == SHARE_STATE_TOPIC:
                rows = [("share_log", share_row(record)) for record in records]
            else:
                rows = [("offset_log" if of else "group_log", row) for of, row in map(group_row, records)]
            self._rows[id(batch)] = batch, rows
        return self._rows[id(batch)][1]

    def of(self, batch: RecordBatch) -> tuple[int, int]:
        """Bytes of the batch, and their checksum; the leader epoch does not count (as in Kafka)."""
        known = self._known.get(id(batch))
        if known is None:
            content = repr(
                replace(batch, base=0, epoch=0, transaction_version=0, delete_horizon_ms=-1)
            ).encode()
            known = self._known[id(batch)] = (batch, HEADER + len(content), crc32c(content))
        return known[1:]


class _Node:
    """The tables of one disk."""

    def __init__(self, take: int, disk: DiskCopy, settings: Settings, era: str, shared: _Shared) -> None:
        self._where: Row = (take, disk.node)
        self._disk = disk
        self._settings = settings
        self._shared = shared
        self._rows: dict[str, list[Row]] = defaultdict(list)
        zookeeper = settings.era.zookeeper
        self._metadata = [] if zookeeper else records(disk.durable.entries, settings, era)

    def tables(self) -> dict[str, pa.Table]:
        durable = self._disk.durable
        for tp, log in sorted(durable.logs.items()):
            self._log(tp, log)
        if not self._settings.era.zookeeper:
            self._metadata_log()
        self._add("nodes", [self._about_the_node()])
        self._add("takes", [(self._disk.ns, why) for why in (self._disk.why, self._disk.ended) if why])
        return {name: table(schema(name), self._rows[name]) for name in (*PER_PARTITION, *PER_NODE)}

    def _add(self, name: str, rows: Iterable[Row], tp: Partition | None = None) -> None:
        where = self._where if tp is None else (*self._where, *tp)
        self._rows[name] += [(*where, *row) for row in rows]

    def _about_the_node(self) -> Row:
        durable, state = self._disk.durable, None
        if not self._settings.era.zookeeper:
            state = json.dumps(
                {"leaderId": -1, "leaderEpoch": durable.quorum_epoch, "votedId": durable.voted}
            )
        clean = durable.clean_epoch >= 0
        return clean, None, state, None

    # ---- logs

    def _log(self, tp: Partition, log: UnifiedLog) -> None:
        topic = tp[0]
        start = log.batches[0].base if log.batches else log.start
        sizes = [self._shared.of(batch) for batch in log.batches]
        batches = _placed(start, log.batches, sizes)
        self._add("batches", batches, tp)
        self._add("control", map(_marker, (batch for batch in log.batches if batch.control)), tp)
        if topic in COORDINATED:
            data = (batch for batch in log.batches if not batch.control)
            rows = [row for batch in data for row in self._shared.rows(topic, batch)]
            for name in COORDINATED[topic]:
                self._add(name, (row for where, row in rows if where == name), tp)
        if self._settings.era.truncate_by_epoch:  # before KIP-101 there was no leader-epoch-checkpoint
            self._add("epochs", log.epochs, tp)
        self._add("ends", self._ends(tp, log), tp)
        self._add("producers", _producers(log), tp)
        self._add("aborted", _aborted(start, log), tp)
        self._partition(tp, start, sum(size for size, _ in sizes))

    def _ends(self, tp: Partition, log: UnifiedLog) -> Iterator[Row]:
        yield "recovery-point", log.flushed
        yield "log-start", log.start
        if log.cleaned:
            yield "cleaner", log.cleaned
        if tp in self._disk.durable.checkpoint:
            yield "replication", self._disk.durable.checkpoint[tp]

    def _partition(self, tp: Partition, start: int, size: int) -> None:
        number = self._disk.durable.topic_ids.get(tp, 0)
        known = None if self._settings.era.zookeeper else topic_id(tp[0], number)
        self._add("partitions", [(known, start, 1, size)], tp)

    def _metadata_log(self) -> None:
        self._add("metadata", (record.row() for record in self._metadata if record.name))
        batches = [_metadata_batch(record) for record in self._metadata]
        sizes = [self._shared.of(batch) for batch in batches]
        self._add("batches", _placed(0, batches, sizes), METADATA_LOG)
        control = [record for record in self._metadata if not record.name]
        self._add(
            "control",
            [
                (one.offset, one.leader_epoch, NO_TIMESTAMP, -1, -1, *LEADER_CHANGE, 0, None, None)
                for one in control
            ],
            METADATA_LOG,
        )
        epochs = {one.leader_epoch: one.offset for one in reversed(self._metadata)}
        self._add("epochs", sorted(epochs.items()), METADATA_LOG)
        self._partition(METADATA_LOG, 0, sum(size for size, _ in sizes))


def _placed(start: int, batches: Sequence[RecordBatch], sizes: Iterable[tuple[int, int]]) -> Iterator[Row]:
    """Rows of `batches`. Of a batch whose records compaction removed, Kafka keeps the header where it is the
    newest of its producer; the others it does not keep."""
    position = 0
    newest = {batch.producer_id: batch.base for batch in batches}
    for batch, (size, crc) in zip(batches, sizes, strict=True):
        left = 1 if batch.control else len(batch.records) - batch.records.count(REMOVED)
        if not left and (batch.producer_id < 0 or newest[batch.producer_id] != batch.base):
            continue
        time = _time(batch)
        yield (
            start,
            position,
            size,
            batch.base,
            batch.last,
            batch.epoch,
            batch.producer_id,
            batch.producer_epoch,
            batch.sequence,
            left,
            time,
            time,
            getattr(batch.records, "compression", 0),
            False,
            batch.transactional or (bool(batch.control) and batch.producer_id >= 0),
            bool(batch.control),
            batch.delete_horizon_ms >= 0,
            crc,
            True,
        )
        position += size


def _time(batch: RecordBatch) -> int:
    return NO_TIMESTAMP if batch.appended_ms == NO_TIMESTAMP else BASE_MS + batch.appended_ms


def _wall(ms: int) -> int:
    """A time of the model as the wall clock has it, -1 = none."""
    return ms if ms < 0 else BASE_MS + ms


def _metadata_batch(record: MetadataLogRecord) -> RecordBatch:
    control = "" if record.name else LEADER_CHANGE[1]
    content = (record.name, json.dumps(record.fields))
    return RecordBatch(
        record.offset, record.leader_epoch, (content,), control=control, appended_ms=NO_TIMESTAMP
    )


def _marker(batch: RecordBatch) -> Row:
    kind = (0, "ABORT") if batch.control == ABORT else (1, "COMMIT")
    body = json.dumps({"coordinatorEpoch": batch.coordinator_epoch})
    place = batch.base, batch.epoch, _time(batch), batch.producer_id, batch.producer_epoch
    return *place, *kind, 0, batch.coordinator_epoch, body


def _producers(log: UnifiedLog) -> Iterator[Row]:
    """The snapshot at its end; of a log to which nothing came Kafka has none."""
    known = log.producer_states.snapshot()
    for producer_id, entry in sorted(known.items()):
        yield log.end, producer_id, *entry._replace(timestamp=_wall(entry.timestamp))
    if log.end and not known:
        yield log.end, *(NO_PRODUCER,) * (len(PRODUCERS) - 1)


def _aborted(segment: int, log: UnifiedLog) -> Iterator[Row]:
    """The index goes with the segment that has the markers."""
    for one in log.aborted:
        if one.last >= segment:
            yield segment, *one
