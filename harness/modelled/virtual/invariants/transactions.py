"""What has to hold of committed records of producers: of the transaction log, of batches and of markers.

What one log can say alone, `model.accepting` judges; here is what needs several logs.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from harness.modelled.virtual.invariants.weaknesses import Mechanisms
from model.accepting import transaction_log
from model.accepting.data_partition import DataPartition
from model.accepting.refusal import Refusal
from model.coordinator.transaction_metadata import (
    PREPARE_COMMIT,
    PREPARED,
    TransactionRecord,
    TransactionTombstone,
)
from model.log.unified_log import COMMIT, NO_PRODUCER, RecordBatch, UnifiedLog
from model.protocol.messages import Partition
from model.settings import Settings

Report = Callable[[str, object, Callable[[], str]], None]
"""Name of the invariant, where it broke (only the first break there is kept), the text."""
Blame = Callable[[str, str, int, Mapping[Partition, bool], Callable[[], str]], None]
"""A break that a known weakness may explain: name of the invariant, name of the weakness ("" = none does),
producer id, how the transaction ended in which partitions, the text."""


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

    def of(self, tp: Partition, *, log: bool) -> "PartitionFates":
        """What is committed in a partition. log: it is one of the transaction log."""
        return TransactionLogFates(tp, self) if log else PartitionFates(tp, self)


@dataclass(slots=True)
class PartitionFates:
    """Batches of one partition. accepted: what the model says of the log so far. `open`: producer epoch of
    the records of an open transaction, by producer id. whole: nothing of the log was lost."""

    tp: Partition
    decisions: Decisions
    accepted: DataPartition = field(init=False)
    open: dict[int, int] = field(default_factory=dict)
    whole: bool = True

    def __post_init__(self) -> None:
        self.accepted = DataPartition(self.decisions.settings.era)

    def begin_anew(self, batches: Iterable[RecordBatch]) -> None:
        """Only these are left: an unclean election."""
        self.whole = False
        self.accepted = DataPartition(self.decisions.settings.era)
        for batch in batches:
            self.accepted.add(batch)

    def add(self, batch: RecordBatch) -> None:
        """The next committed batch."""
        refusal = self.accepted.add(batch)
        if batch.producer_id == NO_PRODUCER:
            return
        if refusal is not None:
            name = "markers" if batch.control else "batches"
            self._broken(name, batch, f"{refusal.why} ({refusal.before})")
        if batch.control:
            decided = (batch.producer_id, batch.producer_epoch, batch.control == COMMIT)
            if decided not in self.decisions.made:
                self._broken("markers", batch, "no coordinator decided that")
        if self.decisions.numbered and self.whole:
            self._follow(batch)

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

    def _broken(self, name: str, batch: RecordBatch, why: str) -> None:
        self.decisions.report(
            name,
            self.tp,
            lambda: (
                f"{self.tp[0]}-{self.tp[1]}: {batch.control or 'records'} of producer "
                f"{batch.producer_id}/{batch.producer_epoch} by coordinator epoch "
                f"{batch.coordinator_epoch} at offset {batch.base}: {why}"
            ),
        )


@dataclass(slots=True)
class TransactionLogFates(PartitionFates):
    """A partition of the transaction log."""

    records: transaction_log.TransactionLog = field(init=False)

    def __post_init__(self) -> None:
        settings = self.decisions.settings
        kept = transaction_log.Kept(most=settings.producer_epoch_max, ids_logged=settings.era.ids_logged)
        self.records = transaction_log.TransactionLog(kept)

    def begin_anew(self, batches: Iterable[RecordBatch]) -> None:
        """Only these are left: an unclean election."""
        self.records.forget()

    def add(self, batch: RecordBatch) -> None:
        """The next committed batch."""
        self.decisions.mechanisms.committed.setdefault(self.tp, {})[batch.base] = batch.epoch
        for record in batch.records:
            if isinstance(record, TransactionRecord | TransactionTombstone):
                self._add(batch, record)

    def _add(self, batch: RecordBatch, record: TransactionRecord | TransactionTombstone) -> None:
        for refusal in self.records.add(batch.base, batch.epoch, record):
            self._refused(record.transactional_id, refusal)
        self.decisions.decide(record)

    def _refused(self, tid: str, refusal: Refusal) -> None:
        where = f"offset {refusal.offset} of {self.tp[0]}-{self.tp[1]}"
        text = f"{where}: {refusal.why} (before: {refusal.before})"
        self.decisions.report("transaction-states", tid, lambda: text)
