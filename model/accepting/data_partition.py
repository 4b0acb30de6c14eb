"""A log that producers write to, as the model's leader appends it: sequences, epochs, markers.

Each batch goes through `UnifiedLog.append`, as in a leader: the model appends it at its offset, knows it
again, or refuses it. What a log does not show is not asked: whether a coordinator verified a transaction, and
the version of a transaction where the caller does not know it (`RecordBatch.transaction_version` 0).
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from model.accepting.refusal import Refusal
from model.eras import Era
from model.errors import KafkaError, Refused
from model.log.unified_log import (
    NO_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    ProducerStateEntry,
    RecordBatch,
    UnifiedLog,
)

SEQUENCE: Final = "sequence-follows"
NO_REPEAT: Final = "no-repeated-batch"
EPOCH_BEGINS: Final = "epoch-begins-at-zero"
UNKNOWN_BEGINS: Final = "unknown-producer-begins-at-zero"
PRODUCER_EPOCH: Final = "producer-epoch-rises"
PLAIN_IN_TRANSACTION: Final = "plain-batch-in-transaction"
MARKER_EPOCH: Final = "marker-producer-epoch"
COORDINATOR_EPOCH: Final = "marker-coordinator-epoch"

_DATA_RULES: Final = {
    KafkaError.INVALID_PRODUCER_EPOCH: PRODUCER_EPOCH,
    KafkaError.INVALID_TXN_STATE: PLAIN_IN_TRANSACTION,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER: SEQUENCE,
    KafkaError.UNKNOWN_PRODUCER_ID: UNKNOWN_BEGINS,
}
_MARKER_RULES: Final = {
    KafkaError.INVALID_PRODUCER_EPOCH: MARKER_EPOCH,
    KafkaError.TRANSACTION_COORDINATOR_FENCED: COORDINATOR_EPOCH,
}


KEPT: Final = 1000
"""Batches after which the old ones are deleted, as retention would: only the state after them counts."""


class DataPartition:
    """See the module. log: as the model has it after the last batch, its old batches deleted. asked: rule ->
    batches that it could have refused. gaps: offsets before which nothing is known."""

    def __init__(self, era: Era, *, numbered: bool = True) -> None:
        """numbered: clients write; else a coordinator does, whose sequences no broker checks
        (AppendOrigin.COORDINATOR)."""
        self.era = era
        self.numbered = numbered
        self.log = UnifiedLog(era)
        self.asked: Counter[str] = Counter()
        self.gaps: list[int] = []
        self._by_marker: set[int] = set()
        """Producers that have nothing but a marker since the gap: their sequences are not known."""

    def forget(self, base: int) -> None:
        """Batches before this offset are missing, or were deleted: nothing is known of any producer, and any
        sequence may follow."""
        self.gaps.append(base)
        self._by_marker.clear()
        aborted = self.log.aborted
        self.log = UnifiedLog(replace(self.era, unknown_producer_refused=False, begins_at_zero=False))
        self.log.restart(base)
        self.log.aborted.extend(aborted)

    def add(self, batch: RecordBatch) -> Refusal | None:
        """The next batch of the log. What is refused counts all the same from there on: its followers have
        it, too."""
        log = self.log
        if batch.base != log.end:
            self.forget(batch.base)
            log = self.log
        known = log.producers.get(batch.producer_id)
        if batch.producer_id != NO_PRODUCER:
            if self._continues_unseen(batch, known):
                log.copy(batch)
                return None
            self._ask(batch, known)
        rule = error = ""
        try:
            if batch.transaction_version >= 2 and self._begins_wrong(batch):
                error = f"a producer that the log does not know begins at {batch.sequence}"
                rule = UNKNOWN_BEGINS
            elif (sent := log.append(batch, batch.epoch, client=self.numbered)).base != batch.base:
                rule, error = NO_REPEAT, f"it stands at offset {sent.base} already"
        except Refused as refused:
            rule = (_MARKER_RULES if batch.control else _DATA_RULES)[refused.error]
            error = str(refused)
        if not rule:
            if len(log.batches) >= KEPT and not self.era.unknown_producer_refused:
                log.delete_before(log.end)
            return None
        if rule == SEQUENCE and known is not None and known.epoch != batch.producer_epoch:
            rule = EPOCH_BEGINS
        refusal = self._refused(rule, batch, known, error)
        log.copy(batch)
        return refusal

    def _continues_unseen(self, batch: RecordBatch, known: ProducerStateEntry | None) -> bool:
        """Whether what this batch follows stood before the gap, under the same epoch."""
        if batch.control:
            if known is None and self.gaps:
                self._by_marker.add(batch.producer_id)
            return False
        if known is None or batch.producer_id not in self._by_marker:
            return False
        self._by_marker.discard(batch.producer_id)
        return known.epoch == batch.producer_epoch

    def _ask(self, batch: RecordBatch, known: ProducerStateEntry | None) -> None:
        """Count the rules that could refuse this batch."""
        asked = self.asked
        numbered = self.numbered and batch.sequence != NO_SEQUENCE
        if batch.control:
            if known is not None:
                asked[MARKER_EPOCH] += 1
                if known.coordinator_epoch >= 0:
                    asked[COORDINATOR_EPOCH] += 1
        elif known is None or known.epoch == NO_EPOCH:
            if numbered and batch.transaction_version >= 2 and self.era.begins_at_zero:
                asked[UNKNOWN_BEGINS] += 1
        else:
            asked[PRODUCER_EPOCH] += 1
            if numbered and known.epoch == batch.producer_epoch:
                asked[SEQUENCE] += 1
                asked[NO_REPEAT] += 1
            elif numbered:
                asked[EPOCH_BEGINS] += 1
            if known.began >= 0:
                asked[PLAIN_IN_TRANSACTION] += 1

    def _begins_wrong(self, batch: RecordBatch) -> bool:
        """What a leader asks before it appends records of version 2."""
        return self.numbered and not batch.control and self.log.producer_states.begins_wrong(batch)

    def _refused(
        self, rule: str, batch: RecordBatch, known: ProducerStateEntry | None, error: str
    ) -> Refusal:
        return Refusal(
            rule=rule,
            offset=batch.base,
            why=f"{described(batch)}; the model refuses it: {error}",
            before=state_of(known),
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
        )


def described(batch: RecordBatch) -> str:
    """A batch in words."""
    who = f"producer {batch.producer_id} epoch {batch.producer_epoch}"
    if batch.control:
        return f"{batch.control} marker of {who} by coordinator epoch {batch.coordinator_epoch}"
    kind = "transactional" if batch.transactional else "plain"
    return f"{kind} batch of {who}, sequences {batch.sequence} to {batch.last_sequence}"


def state_of(known: ProducerStateEntry | None) -> str:
    """What the log knew of a producer, in words."""
    if known is None:
        return "the log does not know the producer"
    sent = ", ".join(f"{b.first_sequence}-{b.last_sequence} at {b.base}" for b in known.batches)
    open_ = f"transaction open since {known.began}" if known.began >= 0 else "no transaction open"
    return (
        f"producer epoch {known.epoch}, coordinator epoch {known.coordinator_epoch}, {open_}, "
        f"sequences {sent or 'of this epoch none'}"
    )
