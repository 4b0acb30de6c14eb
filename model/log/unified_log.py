"""One replica's log of one partition: batches, leader epochs, producer state, transactions.

A `UnifiedLog` knows nothing of replication (who leads, how far others are): its owner passes the high
watermark where that matters. Offsets are of records; a batch occupies base to last, both included.

Modelled as Kafka does it: the leader-epoch cache (KIP-101), producer state with the last batches of each
producer id (KIP-98), markers, the aborted index and the first unstable offset, the unflushed tail. Not
modelled: segments, indexes, compression, timestamps of clients, retention by time.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from model.eras import Era
from model.errors import KafkaError, Refused
from model.log.leader_epoch_file_cache import LeaderEpochFileCache

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PRODUCER: Final = -1
SEQUENCES: Final = 2**31
"""Sequence numbers wrap here."""

COMMIT: Final = "commit"
ABORT: Final = "abort"


class Removed(Enum):
    """What compaction leaves in the place of a record: its offset."""

    REMOVED = "removed"


REMOVED: Final = Removed.REMOVED


class RecordBatch(msgspec.Struct, frozen=True):
    """Records that were appended together. `control` is COMMIT or ABORT for a marker (one record, no
    payload), else "". `epoch`: leader epoch under which the leader appended it, at `appended_ms`.
    transaction_version: of a marker, by which its transaction ends; Kafka does not store it.
    delete_horizon_ms: when compaction may remove its tombstones, -1 = it was not compacted with any."""

    base: int
    epoch: int
    records: Sequence[object]
    producer_id: int = NO_PRODUCER
    producer_epoch: int = NO_EPOCH
    sequence: int = NO_SEQUENCE
    transactional: bool = False
    control: str = ""
    coordinator_epoch: int = -1
    appended_ms: int = 0
    transaction_version: int = 0
    delete_horizon_ms: int = -1

    @property
    def size(self) -> int:
        """Offsets that it occupies."""
        return 1 if self.control else len(self.records)

    @property
    def last(self) -> int:
        """Offset of its last record."""
        return self.base if self.control else self.base + len(self.records) - 1

    @property
    def last_sequence(self) -> int:
        """Sequence of its last record."""
        if self.sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.sequence + len(self.records) - 1) % SEQUENCES


def alike(one: RecordBatch, other: RecordBatch) -> bool:
    """Whether two batches are the same, but for records that compaction removed from either."""
    if one is other or one == other:
        return True
    pairs = zip(one.records, other.records, strict=False)
    same = all(a == b or a is REMOVED or b is REMOVED for a, b in pairs)
    return (
        same
        and len(one.records) == len(other.records)
        and replace(one, records=(), delete_horizon_ms=-1) == replace(other, records=(), delete_horizon_ms=-1)
    )


class AbortedTxn(NamedTuple):
    """An entry of the aborted index: the transaction that began at `first` ended by an abort at `last`.
    last_stable: last stable offset then, if the marker were replicated at once; answers of fetches, which do
    not have it nor `last`, have -1. Left out: Kafka's followers note a higher one where they append several
    batches at once, and its fetches end the look-up at such an entry (known bug aborted-index-skips)."""

    producer_id: int
    first: int
    last: int
    last_stable: int = -1


class CompletedTxn(NamedTuple):
    """A transaction whose marker stands at `last`; undecided for readers until that is replicated."""

    first: int
    last: int


class BatchMetadata(NamedTuple):
    """A batch that a producer's state remembers; one of a group coordinator has no sequence. base, last: its
    offsets."""

    first_sequence: int
    last_sequence: int
    base: int
    last: int


@dataclass(slots=True)
class ProducerStateEntry:
    """What a log knows of one producer id.

    batches: its newest, oldest first. began: first offset of its open transaction, -1 = none. seen_ms: when
    its newest batch or marker was appended.
    """

    epoch: int = NO_EPOCH
    batches: list[BatchMetadata] = field(default_factory=list)
    began: int = -1
    coordinator_epoch: int = -1
    seen_ms: int = 0

    @property
    def last_sequence(self) -> int:
        """Of its newest batch under the present epoch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerSnapshotEntry(NamedTuple):
    """A producer in a snapshot, as Kafka writes it; -1 = none. offset_delta: how many offsets its newest
    batch has before the last one. timestamp: `ProducerStateEntry.seen_ms`."""

    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    first_offset_of_transaction: int


class ProducerStateManager:
    """What a log knows of its producers, by the batches in it: Kafka's ProducerStateManager, with the checks
    of its ProducerAppendInfo.

    ongoing: first offset of each open transaction by producer id, oldest first. aborted, completed:
    transactions whose marker is in the log. The caller says when a batch is appended.
    """

    def __init__(self, era: Era, bugs: frozenset[str] = frozenset()) -> None:
        self.era = era
        self.bugs = bugs
        self.producers: dict[int, ProducerStateEntry] = {}
        self.ongoing: dict[int, int] = {}
        self.aborted: list[AbortedTxn] = []
        self.completed: list[CompletedTxn] = []

    def clear(self) -> None:
        """Nothing is known."""
        self.producers.clear()
        self.ongoing.clear()
        self.aborted.clear()
        self.completed.clear()

    def snapshot(self) -> dict[int, ProducerSnapshotEntry]:
        """What a snapshot of this moment has, by producer id (ProducerStateManager.writeSnapshot)."""
        found = {}
        for producer_id, known in self.producers.items():
            last = (NO_SEQUENCE, -1, 0)
            if known.batches:
                newest = known.batches[-1]
                last = (newest.last_sequence, newest.last, newest.last - newest.base)
            state = (known.seen_ms, known.coordinator_epoch, known.began)
            found[producer_id] = ProducerSnapshotEntry(known.epoch, *last, *state)
        return found

    def check(self, batch: RecordBatch, *, client: bool = True) -> None:
        """Whether a leader appends this batch, which it does not recognise. client: a client sent it, else a
        coordinator did, whose sequences are not checked (AppendOrigin).

        Raises: Refused (sequence, producer epoch, coordinator epoch, open transaction).
        """
        if batch.control:
            self._check_marker(batch)
        else:
            self._check_sequence(batch, client=client)
            self._check_transaction(batch)

    def recognised(self, batch: RecordBatch) -> BatchMetadata | None:
        """The remembered batch that this one is again."""
        producer = self.producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            return None
        if batch.sequence == NO_SEQUENCE:
            return None
        if "repeats-not-recognised" in self.bugs:
            return None
        first = batch.sequence
        for sent in producer.batches:
            if sent.first_sequence == first and sent.last_sequence == batch.last_sequence:
                return sent
        return None

    def _check_sequence(self, batch: RecordBatch, *, client: bool) -> None:
        """ProducerAppendInfo.checkProducerEpoch and checkSequence. What the model's group coordinator writes
        for a producer has no sequence."""
        producer = self.producers.get(batch.producer_id)
        numbered = client and batch.sequence != NO_SEQUENCE
        if producer is None or producer.epoch == NO_EPOCH:
            if self.era.unknown_producer_refused and numbered and batch.sequence > 0:
                raise Refused(KafkaError.UNKNOWN_PRODUCER_ID)
            return
        if batch.producer_epoch < producer.epoch and "old-epoch-appended" not in self.bugs:
            raise Refused(KafkaError.INVALID_PRODUCER_EPOCH)
        if not numbered or "sequence-not-checked" in self.bugs:
            return
        if "repeats-not-recognised" in self.bugs and batch.sequence <= producer.last_sequence:
            return
        if batch.producer_epoch > producer.epoch:
            if batch.sequence != 0:
                raise Refused(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "a new epoch begins at 0")
            return
        if batch.sequence != (producer.last_sequence + 1) % SEQUENCES:
            raise Refused(
                KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, f"{batch.sequence} after {producer.last_sequence}"
            )

    def begins_wrong(self, batch: RecordBatch) -> bool:
        """Whether a batch of a transaction of version 2 begins what the log knows nothing of, and not at 0
        (KAFKA-18202)."""
        return self.era.begins_at_zero and batch.sequence > 0 and batch.producer_id not in self.producers

    def _check_transaction(self, batch: RecordBatch) -> None:
        """ProducerAppendInfo.appendDataBatch: a producer writes nothing else in its transaction."""
        producer = self.producers.get(batch.producer_id)
        if producer is not None and producer.began >= 0 and not batch.transactional:
            raise Refused(KafkaError.INVALID_TXN_STATE, "a transaction is open")

    def _check_marker(self, marker: RecordBatch) -> None:
        """ProducerAppendInfo.checkProducerEpoch and checkCoordinatorEpoch."""
        producer = self.producers.get(marker.producer_id)
        if producer is None or "late-marker-appended" in self.bugs:
            return
        if marker.producer_epoch < producer.epoch:
            raise Refused(KafkaError.INVALID_PRODUCER_EPOCH)
        late = marker.producer_epoch == producer.epoch and producer.began >= 0
        if late and self.era.marker_epoch_rises and marker.transaction_version >= 2:
            # Of the transaction before: this one's marker has the next epoch (KAFKA-19446). Without an
            # open transaction it is a marker that was written already (KAFKA-19999).
            raise Refused(KafkaError.INVALID_PRODUCER_EPOCH)
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise Refused(KafkaError.TRANSACTION_COORDINATOR_FENCED)

    def learn(self, batch: RecordBatch) -> None:
        """What an appended batch says of its producer (no checks: followers and reloading too)."""
        producer = self.producers.get(batch.producer_id)
        if producer is None:
            producer = self.producers[batch.producer_id] = ProducerStateEntry()
        producer.seen_ms = batch.appended_ms
        if batch.producer_epoch != producer.epoch:
            producer.epoch = batch.producer_epoch
            producer.batches = []
        if batch.control:
            producer.coordinator_epoch = batch.coordinator_epoch
            if producer.began >= 0:
                self.completed.append(CompletedTxn(producer.began, batch.base))
                del self.ongoing[batch.producer_id]
                if batch.control == ABORT:
                    stable = self.first_ongoing(batch.base + 1)
                    self.aborted.append(AbortedTxn(batch.producer_id, producer.began, batch.base, stable))
                producer.began = -1
            return
        sent = producer.batches
        sent.append(BatchMetadata(batch.sequence, batch.last_sequence, batch.base, batch.last))
        if len(sent) > self.era.remembered_batches:
            del sent[0]
        if batch.transactional and producer.began < 0:
            producer.began = self.ongoing[batch.producer_id] = batch.base

    def first_ongoing(self, otherwise: int) -> int:
        """First offset of the oldest open transaction; `otherwise` where none is open."""
        return next(iter(self.ongoing.values())) if self.ongoing else otherwise


class UnifiedLog:
    """See the module. `end` is the log end offset (LEO), `start` the first offset that is there."""

    def __init__(self, era: Era, bugs: frozenset[str] = frozenset()) -> None:
        self.era = era
        self.bugs = bugs
        self.batches: list[RecordBatch] = []
        self._bases: list[int] = []
        self.start = 0
        self.end = 0
        self.cleaned = 0
        """Below, the log was compacted."""
        self.flushed = 0
        """What a power loss leaves: everything below."""
        self.epochs = LeaderEpochFileCache(era)
        self.producer_states = ProducerStateManager(era, bugs)
        self.producers = self.producer_states.producers
        self.aborted = self.producer_states.aborted
        self.completed = self.producer_states.completed

    # ---- appending

    def append(self, batch: RecordBatch, epoch: int, *, client: bool = True) -> RecordBatch:
        """As the leader of `epoch`: give the batch its offsets; the batch as it stands in the log.

        A batch that its producer's state remembers is not appended again: the remembered one is
        returned, recognisable by its base. client: see `ProducerStateManager.check`; a coordinator's batches
        are not recognised either.

        Raises: Refused (sequence, producer epoch, coordinator epoch, open transaction), with nothing changed.
        """
        if batch.producer_id != NO_PRODUCER and self.era.idempotence:
            known = self.recognised(batch) if client and not batch.control else None
            if known is not None:
                return replace(batch, base=known.base, epoch=self.epochs.at(known.base))
            self.producer_states.check(batch, client=client)
        placed = batch
        if batch.base != self.end or batch.epoch != epoch:
            placed = replace(batch, base=self.end, epoch=epoch)
        self.copy(placed)
        return placed

    def copy(self, batch: RecordBatch) -> None:
        """As a follower: append a batch as the leader has it, which must begin at this log's end."""
        assert batch.base == self.end, f"a gap or an overlap: {batch.base} at {self.end}"
        base, late = batch.base, "epoch-cache-begins-late" in self.bugs
        self.epochs.take(batch.epoch, base + late)
        self.batches.append(batch)
        self._bases.append(base)
        self.end = base + 1 if batch.control else base + len(batch.records)
        if batch.producer_id != NO_PRODUCER:
            self.producer_states.learn(batch)

    def recognised(self, batch: RecordBatch) -> BatchMetadata | None:
        """The remembered batch that this one is again."""
        return self.producer_states.recognised(batch)

    # ---- looking

    def end_of(self, epoch: int) -> tuple[int, int]:
        """(largest epoch up to `epoch`, where it ends), see `LeaderEpochFileCache.end_of`."""
        return self.epochs.end_of(epoch, self.end)

    def first_unstable(self, high_watermark: int) -> int:
        """First offset of a transaction that is open, or whose marker is not replicated yet. Where that was
        deleted, the log start or the base of its batch (UnifiedLog.maybeIncrementFirstUnstableOffset)."""
        first = self.producer_states.first_ongoing(self.end)
        if self.completed and self.completed[-1].last >= high_watermark:
            for done in reversed(self.completed):
                if done.last < high_watermark:
                    break
                first = min(first, done.first)
        if first >= self.start:
            return first
        return self._bases[0] if self._bases and self.era.stable_at_batch else self.start

    def stable(self, high_watermark: int) -> int:
        """Last stable offset: readers at read_committed stop here."""
        first = self.first_unstable(high_watermark)
        return first if first < high_watermark else high_watermark

    def read(self, offset: int, until: int, most: int) -> list[RecordBatch]:
        """Whole batches from the one that holds `offset`, below `until`; at least one where there is
        any, else up to about `most` records."""
        found: list[RecordBatch] = []
        records = 0
        for at in range(max(0, bisect_right(self._bases, offset) - 1), len(self.batches)):
            batch = self.batches[at]
            if batch.base >= until or (found and records >= most):
                break
            if offset <= batch.last < until:
                found.append(batch)
                records += batch.size
        return found

    def aborted_between(self, offset: int, until: int) -> list[AbortedTxn]:
        """Aborted transactions that have records in [offset, until)."""
        if "aborted-index-by-first-offset" in self.bugs:  # none of those that began before
            return [a for a in self.aborted if offset <= a.first < until]
        return [a for a in self.aborted if a.last >= offset and a.first < until]

    def records(self) -> Iterator[tuple[int, RecordBatch, object]]:
        """(offset, batch, record) of every record, without markers and removed ones."""
        for batch in self.batches:
            if not batch.control:
                for n, record in enumerate(batch.records):
                    if record is not REMOVED:
                        yield batch.base + n, batch, record

    # ---- losing

    def truncate(self, to: int) -> None:
        """Cut the log back so that it ends at `to`, or at the begin of the batch that holds it. A log that
        begins later has nothing left, and begins at `to` (UnifiedLog.truncateTo).

        Epochs without a record are forgotten, since 2.8 also where there was nothing to cut
        (KAFKA-10706).
        """
        if to >= self.end:
            if not self.era.zookeeper:
                self.epochs.cut(self.end)
            return
        if to < self.start:
            self.restart(to)
            return
        keep = bisect_right(self._bases, to)
        while keep and self.batches[keep - 1].last >= to:
            keep -= 1
        del self.batches[keep:]
        del self._bases[keep:]
        self.end = max(self.batches[-1].last + 1 if self.batches else self.start, self.start)
        self.flushed = min(self.flushed, self.end)
        self.cleaned = min(self.cleaned, self.end)
        self.epochs.cut(self.end)
        if "producers-kept-by-truncation" in self.bugs:
            return
        self._reload()

    def lose(self, at: int) -> None:
        """The batch of this number is gone: no Kafka does that, a planted bug does."""
        del self.batches[at], self._bases[at]

    def expire_producers(self, before_ms: int) -> None:
        """Producers that wrote nothing since then are not known any more, but for those with an open
        transaction (ProducerStateManager.removeExpiredProducers)."""
        for producer_id, producer in list(self.producers.items()):
            if producer.seen_ms <= before_ms and producer.began < 0:
                del self.producers[producer_id]

    def flush(self) -> None:
        """Everything is on disk."""
        self.flushed = self.end

    def lose_power(self) -> int:
        """What was not flushed is gone; how many batches. The log start is known all the same
        (LogLoader.recoverLog)."""
        had = len(self.batches)
        self.truncate(max(self.flushed, self.start))
        return had - len(self.batches)

    def delete_before(self, offset: int) -> None:
        """DeleteRecords or retention: whole batches below `offset` go (in Kafka segments, some time after).
        What is known of producers stays until the log is read again; where unknown producers are refused
        (before KIP-360 and KAFKA-7190) they go with their last batch."""
        if offset <= self.start:
            return
        self.start = min(offset + ("deletes-one-too-many" in self.bugs), self.end)
        self.epochs.begin(self.start)
        gone = 0
        while gone < len(self.batches) and self.batches[gone].last < self.start:
            gone += 1
        del self.batches[:gone]
        del self._bases[:gone]
        if self.era.unknown_producer_refused or "producers-deleted-with-records" in self.bugs:
            left = {batch.producer_id for batch in self.batches}
            for producer_id, producer in list(self.producers.items()):
                if producer_id not in left and producer.began < 0:
                    del self.producers[producer_id]

    def restart(self, offset: int) -> None:
        """Throw everything away and begin at `offset`."""
        self.batches.clear()
        self._bases.clear()
        self.epochs.clear()
        self.start = self.end = self.flushed = self.cleaned = offset
        self._reload()

    def _reload(self) -> None:
        """Producer state from the batches that are left, as in Kafka where no snapshot stands behind the log
        start (ProducerStateManager.truncateAndReload)."""
        self.producer_states.clear()
        for batch in self.batches:
            if batch.producer_id != NO_PRODUCER:
                self.producer_states.learn(batch)
