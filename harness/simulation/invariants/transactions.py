"""What has to hold of committed transactional records: of the transaction log and of markers.

A coordinator that did not hear whether a record was committed continues from the state before, and the record
may stand in the log all the same, as in Kafka. So a record may follow any earlier one that the same
coordinator (the same leader epoch) may still have in memory; a coordinator that loads begins from the last.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from harness.simulation.invariants.weaknesses import Mechanisms
from model.coordinator.transaction_metadata import (
    ABORTED_WITHOUT_PARTITIONS,
    BEFORE,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    TransactionRecord,
    TransactionState,
    TransactionTombstone,
)
from model.log.unified_log import COMMIT, NO_EPOCH, NO_PRODUCER, RecordBatch, UnifiedLog
from model.protocol.messages import Partition
from model.settings import Settings

Report = Callable[[str, object, Callable[[], str]], None]
"""Name of the invariant, where it broke (only the first break there is kept), the text."""
Blame = Callable[[str, str, int, Mapping[Partition, bool], Callable[[], str]], None]
"""A break that a known weakness may explain: name of the invariant, name of the weakness ("" = none does),
producer id, how the transaction ended in which partitions, the text."""
COMPLETED = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


@dataclass(slots=True)
class Decisions:
    """Of all transactions of the cluster: (producer id, epoch) -> whether commits and aborts of it were
    decided. A decision counts once it is committed, or a coordinator has read it: that one acts upon it.

    ended: (producer id, epoch of the records) -> by the own marker, in which partitions, by a commit or not.
    numbered: each transaction has an epoch of its own, and no late marker ends the next one.
    """

    settings: Settings
    report: Report
    blame: Blame
    mechanisms: Mechanisms
    made: set[tuple[int, int, bool]] = field(default_factory=set)
    ended: dict[tuple[int, int], dict[Partition, bool]] = field(default_factory=dict)
    numbered: bool = field(init=False)

    def __post_init__(self) -> None:
        era = self.settings.era
        self.numbered = era.client_transaction_version >= 2 and era.marker_epoch_rises

    def loaded(self, tp: Partition, log: UnifiedLog, high_watermark: int) -> None:
        """A coordinator has loaded this partition of the transaction log."""
        self.mechanisms.loaded(tp, log, high_watermark)
        for _, _, record in log.records():
            assert isinstance(record, TransactionRecord | TransactionTombstone)
            self.decide(record)

    def decide(self, record: TransactionRecord | TransactionTombstone) -> None:
        """A coordinator may act upon this record."""
        if isinstance(record, TransactionRecord) and record.state in PREPARED:
            commit = record.state is PREPARE_COMMIT
            self.made.add((record.producer_id, record.epoch, commit))

    def own_marker(self, tp: Partition, producer_id: int, epoch: int, *, commit: bool) -> None:
        """The transaction of this epoch has ended in a partition, by its own marker."""
        ended = self.ended.setdefault((producer_id, epoch), {})
        ended[tp] = commit
        if len(set(ended.values())) > 1:
            name = self.mechanisms.ended_twice(producer_id, epoch)
            text = f"transaction {producer_id}/{epoch} is committed and aborted: {ended}"
            self.blame("decisions-agree", name, producer_id, ended, lambda: text)

    def no_marker(self, tp: Partition, producer_id: int, epoch: int, why: str) -> None:
        """The transaction of this epoch gets no marker of its own in a partition."""
        name = self.mechanisms.unmarked(tp, producer_id, epoch)
        text = f"{tp[0]}-{tp[1]}: transaction {producer_id}/{epoch} {why}"
        self.blame("own-marker", name, producer_id, {tp: False}, lambda: text)

    def of(self, tp: Partition, *, log: bool) -> "Committed":
        """What is committed in a partition. log: it is one of the transaction log."""
        return TransactionLog(tp, self) if log else Committed(tp, self)


@dataclass(slots=True)
class Committed:
    """Markers of one partition. `producers`: producer and coordinator epoch by producer id. `open`: producer
    epoch of the records of an open transaction, by producer id. whole: nothing of the log was lost."""

    tp: Partition
    decisions: Decisions
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    whole: bool = True

    def begin_anew(self, batches: Iterable[RecordBatch]) -> None:
        """Only these are left: an unclean election."""
        self.whole = False
        self.producers.clear()
        for batch in batches:
            self._learn(batch)

    def add(self, batch: RecordBatch) -> None:
        """The next committed batch."""
        if batch.producer_id == NO_PRODUCER:
            return
        known = self.producers.get(batch.producer_id)
        if known is not None and batch.producer_epoch < known[0]:
            self._broken(batch, f"after producer epoch {known[0]}")
        if batch.control:
            if known is not None and batch.coordinator_epoch < known[1]:
                self._broken(batch, f"after coordinator epoch {known[1]}")
            decided = (batch.producer_id, batch.producer_epoch, batch.control == COMMIT)
            if decided not in self.decisions.made:
                self._broken(batch, "no coordinator decided that")
        if self.decisions.numbered and self.whole:
            self._follow(batch)
        self._learn(batch)

    def _follow(self, batch: RecordBatch) -> None:
        """An open transaction ends by its own marker, which has the next epoch."""
        producer_id, epoch = batch.producer_id, batch.producer_epoch
        began = self.open.get(producer_id)
        if began is not None and (epoch != began + 1 if batch.control else epoch != began):
            why = f"is open when {batch.control or 'a record'} of epoch {epoch} comes"
            self.decisions.no_marker(self.tp, producer_id, began, why)
        elif began is not None and batch.control:
            self.decisions.own_marker(self.tp, producer_id, began, commit=batch.control == COMMIT)
        if batch.control:
            self.open.pop(producer_id, None)
        elif batch.transactional:
            self.open[producer_id] = epoch

    def _learn(self, batch: RecordBatch) -> None:
        if batch.producer_id == NO_PRODUCER:
            return
        coordinator = batch.coordinator_epoch
        if not batch.control:
            coordinator = self.producers.get(batch.producer_id, (-1, -1))[1]
        self.producers[batch.producer_id] = (batch.producer_epoch, coordinator)

    def _broken(self, batch: RecordBatch, why: str) -> None:
        self.decisions.report(
            "markers",
            self.tp,
            lambda: (
                f"{self.tp[0]}-{self.tp[1]}: {batch.control or 'records'} of producer "
                f"{batch.producer_id}/{batch.producer_epoch} by coordinator epoch "
                f"{batch.coordinator_epoch} at offset {batch.base}: {why}"
            ),
        )


@dataclass(slots=True)
class TransactionLog(Committed):
    """A partition of the transaction log. `known`: by transactional id, the leader epoch of the newest
    record, and the records that its coordinator may have in memory."""

    known: dict[str, tuple[int, list[TransactionRecord]]] = field(default_factory=dict)

    def begin_anew(self, batches: Iterable[RecordBatch]) -> None:
        """Only these are left: an unclean election."""
        self.known.clear()
        self.whole = False

    def add(self, batch: RecordBatch) -> None:
        """The next committed batch."""
        self.decisions.mechanisms.committed.setdefault(self.tp, {})[batch.base] = batch.epoch
        for record in batch.records:
            if isinstance(record, TransactionTombstone):
                self.known.pop(record.transactional_id, None)
            elif isinstance(record, TransactionRecord):
                self._add(batch, record)

    def _add(self, batch: RecordBatch, record: TransactionRecord) -> None:
        tid = record.transactional_id
        epoch, candidates = self.known.get(tid, (batch.epoch, []))
        if epoch != batch.epoch:
            candidates = candidates[-1:]
        most = self.decisions.settings.producer_epoch_max
        before = [known for known in candidates if follows(known, record, most)]
        unknown = not candidates and (record.state is EMPTY or not self.whole)
        if not before and not unknown:
            last = candidates[-1] if candidates else None
            self.decisions.report(
                "transaction-states",
                tid,
                lambda: f"{tid}: at offset {batch.base} of {self.tp[0]}-{self.tp[1]} {record} follows {last}",
            )
        self.known[tid] = (batch.epoch, [*before, record])
        self.decisions.decide(record)


def follows(before: TransactionRecord, after: TransactionRecord, most: int) -> bool:
    """Whether one record of a transactional id may follow another. most: the largest producer epoch."""
    empty = after.state is PREPARE_ABORT and after.version >= 2  # the client may have begun nothing
    legal = before.state in BEFORE[after.state] or (
        # The fence before an abort is never logged: PrepareAbort follows Ongoing then, too.
        empty and before.state in ABORTED_WITHOUT_PARTITIONS
    )
    if not legal:
        return False
    if after.state is ONGOING and not {*before.partitions} <= {*after.partitions}:
        return False
    if after.state in PREPARED and after.partitions != before.partitions:
        return False
    if after.producer_id != before.producer_id:
        rotated = after.state in COMPLETED and after.producer_id == before.next_id
        used_up = after.state is EMPTY and before.epoch >= most - 1
        return after.epoch == 0 and after.producer_id > before.producer_id and (rotated or used_up)
    if after.state is EMPTY:
        # InitProducerId raises the epoch; one that was sent again by a client with an epoch does not.
        again = after.last_epoch == before.last_epoch != NO_EPOCH
        return after.epoch == before.epoch + 1 or (after.epoch == before.epoch and again)
    if after.state in PREPARED and after.version >= 2:
        return after.epoch == min(before.epoch + 1, most)
    if after.state in PREPARED:
        return before.epoch <= after.epoch <= before.epoch + 1
    return after.epoch == before.epoch
