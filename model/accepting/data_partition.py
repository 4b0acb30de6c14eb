"""A log that producers write to, as the model's leader decides it: sequences, epochs, markers.

The decisions are those of `model.log.unified_log.ProducerStateManager`, and nothing of the log is kept but
its state. What a log does not show is not asked: whether a coordinator verified a transaction, and the
version of a transaction where the caller does not know it (`RecordBatch.transaction_version` 0).
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from model.accepting.refusal import Refusal
from model.eras import Era
from model.errors import KafkaError, Refused
from model.log.unified_log import (
    ABORT,
    NO_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    ProducerStateEntry,
    ProducerStateManager,
    RecordBatch,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedAbort:
    """What the aborted index says of a transaction. at_least: the last stable offset is that or one of a
    transaction after the marker: a follower that copies several batches at once has seen its begin."""

    producer_id: int
    first: int
    last: int
    last_stable: int
    at_least: bool


class DataPartition:
    """See the module. `states`: of producers after the last batch. asked: rule -> batches that it could have
    refused. aborted: what the aborted index has of the log."""

    def __init__(self, era: Era, *, numbered: bool = True) -> None:
        """numbered: clients write; else a coordinator does, whose sequences no broker checks
        (AppendOrigin.COORDINATOR)."""
        self.era = era
        self.numbered = numbered
        self.states = ProducerStateManager(era)
        self.asked: Counter[str] = Counter()
        self.aborted: list[IndexedAbort] = []
        self._open: dict[int, int] = {}

    def forget(self) -> None:
        """Batches are missing here: nothing is known of any producer, and any sequence may follow."""
        self.states = ProducerStateManager(
            replace(self.era, unknown_producer_refused=False, begins_at_zero=False)
        )
        self._open.clear()

    def add(self, batch: RecordBatch) -> Refusal | None:
        """The next batch of the log. What is refused counts all the same from there on: its followers have
        it, too."""
        if batch.producer_id == NO_PRODUCER:
            return None
        known = self.states.producers.get(batch.producer_id)
        refusal = self._marker(batch, known) if batch.control else self._data(batch, known)
        self.states.learn(batch)
        return refusal

    def _data(self, batch: RecordBatch, known: ProducerStateEntry | None) -> Refusal | None:
        asked, states = self.asked, self.states
        numbered = self.numbered and batch.sequence != NO_SEQUENCE
        rule = error = ""
        if known is None or known.epoch == NO_EPOCH:
            if numbered and batch.transaction_version >= 2 and self.era.begins_at_zero:
                asked[UNKNOWN_BEGINS] += 1
                if states.begins_wrong(batch):
                    rule, error = (
                        UNKNOWN_BEGINS,
                        f"a producer that the log does not know begins at {batch.sequence}",
                    )
        else:
            asked[PRODUCER_EPOCH] += 1
            if numbered and known.epoch == batch.producer_epoch:
                asked[SEQUENCE] += 1
                asked[NO_REPEAT] += 1
            elif numbered:
                asked[EPOCH_BEGINS] += 1
            if known.began >= 0:
                asked[PLAIN_IN_TRANSACTION] += 1
        if numbered and known is not None and (sent := states.recognised(batch)) is not None:
            rule, error = NO_REPEAT, f"it stands at offset {sent.base} already"
        elif not rule:
            rule, error = self._checked(
                batch if numbered else batch._replace(sequence=NO_SEQUENCE), _DATA_RULES
            )
        if batch.transactional and batch.producer_id not in self._open:
            self._open[batch.producer_id] = batch.base
        if not rule:
            return None
        if rule == SEQUENCE and known is not None and known.epoch != batch.producer_epoch:
            rule = EPOCH_BEGINS
        return self._refused(rule, batch, known, error)

    def _marker(self, batch: RecordBatch, known: ProducerStateEntry | None) -> Refusal | None:
        if known is not None:
            self.asked[MARKER_EPOCH] += 1
            if known.coordinator_epoch >= 0:
                self.asked[COORDINATOR_EPOCH] += 1
        rule, error = self._checked(batch, _MARKER_RULES)
        began = self._open.pop(batch.producer_id, -1)
        if batch.control == ABORT and began >= 0:
            other = next(iter(self._open.values()), batch.base)  # dicts keep the order of begins
            alone = other >= batch.base
            stable = batch.base + 1 if alone else other
            self.aborted.append(
                IndexedAbort(
                    producer_id=batch.producer_id,
                    first=began,
                    last=batch.base,
                    last_stable=stable,
                    at_least=alone,
                )
            )
        return self._refused(rule, batch, known, error) if rule else None

    def _checked(self, batch: RecordBatch, rules: dict[KafkaError, str]) -> tuple[str, str]:
        """The rule that the batch breaks, and how; "" = none."""
        try:
            self.states.check(batch)
        except Refused as refused:
            return rules[refused.error], str(refused)
        return "", ""

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


def last_data(known: ProducerStateEntry) -> tuple[int, int, int]:
    """What a snapshot has of a producer's newest batch: last sequence, last offset, offsets before that."""
    if not known.batches:
        return (NO_SEQUENCE, -1, 0)
    newest = known.batches[-1]
    return (newest.last_sequence, newest.last, newest.last - newest.base)
