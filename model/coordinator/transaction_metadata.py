"""The state of one transactional id, and how it may change (Kafka's TransactionMetadata).

A change has two steps: `prepare_…` gives the record to append and marks the change as pending, `complete`
takes it over once the record is committed. While a change is pending no other one may begin.

    Empty → Ongoing → PrepareCommit → CompleteCommit → Ongoing → …
                    → PrepareEpochFence → PrepareAbort → CompleteAbort → …
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from model.errors import NO_ERROR, KafkaError, Refused
from model.log.unified_log import NO_EPOCH, NO_PRODUCER
from model.protocol.messages import Partition


class TransactionState(StrEnum):
    """Kafka's names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"


EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
PREPARE_EPOCH_FENCE, DEAD = TransactionState.PREPARE_EPOCH_FENCE, TransactionState.DEAD
PREPARED: Final = (PREPARE_COMMIT, PREPARE_ABORT)
ENDED: Final = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
"""States without a transaction."""

BEFORE: Final[dict[TransactionState, tuple[TransactionState, ...]]] = {
    EMPTY: ENDED,
    ONGOING: (ONGOING, *ENDED),
    PREPARE_COMMIT: (ONGOING,),
    PREPARE_ABORT: (ONGOING, PREPARE_EPOCH_FENCE),
    COMPLETE_COMMIT: (PREPARE_COMMIT,),
    COMPLETE_ABORT: (PREPARE_ABORT,),
    PREPARE_EPOCH_FENCE: (ONGOING,),
    DEAD: ENDED,
}
"""State -> the states that it may follow (TransactionState.validPreviousStates)."""
ABORTED_WITHOUT_PARTITIONS: Final = ENDED
"""What else PrepareAbort may follow, from transaction version 2 on: the client does not know whether
its transaction has begun at the coordinator."""


class TransactionRecord(NamedTuple):
    """What the coordinator knows of an id. `version`: transaction version by which it
    changed last: the client's, or the cluster's where no client asked.

    previous_id: producer id before the newest change. next_id: the id that follows once the transaction is
    complete, because the epochs of this one are used up. last_epoch: epoch before the present one, as the
    client knew it. started, updated: times. The log has all but the first three of these: see `loaded`.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    state: TransactionState = EMPTY
    partitions: tuple[Partition, ...] = ()
    started: int = -1
    updated: int = -1
    previous_id: int = NO_PRODUCER
    next_id: int = NO_PRODUCER
    version: int = 0

    def loaded(self, *, ids_logged: bool) -> "TransactionRecord":
        """What the next coordinator reads of it. It does not learn the epoch before (KAFKA-20357), and up to
        4.2 not which ids were before and are to follow (KAFKA-20310: the log has fields for them, which are
        not written): a client that asks once more for what it was given is fenced there."""
        known = self._replace(last_epoch=NO_EPOCH)
        return known if ids_logged else known._replace(previous_id=NO_PRODUCER, next_id=NO_PRODUCER)


class TransactionTombstone(NamedTuple):
    """The tombstone of an expired transactional id."""

    transactional_id: str


@dataclass(slots=True)
class TransactionMetadata:
    """See the module. `record`: the state; `pending`: the state that it is about to take.

    most: the epoch that is never given to a client (32767 in Kafka). fence_failed: the log did not take the
    record of a fence, whose epoch counts all the same (before transaction version 2; KAFKA-9666).
    """

    record: TransactionRecord
    most: int
    pending: TransactionState | None = None
    fence_failed: bool = False

    @property
    def state(self) -> TransactionState:
        """The state now."""
        return self.record.state

    @property
    def exhausted(self) -> bool:
        """No epoch of this producer id is left for clients; one remains to fence with."""
        return self.record.epoch >= self.most - 1

    # ---- changes

    def may_become(self, state: TransactionState, version: int) -> bool:
        """Whether the state may follow. version: transaction version of the change."""
        # Of version 2, the client may have begun nothing.
        return self.state in BEFORE[state] or (
            state is PREPARE_ABORT and version >= 2 and self.state in ABORTED_WITHOUT_PARTITIONS
        )

    def _named(self, state: TransactionState) -> str:
        return f"{self.record.transactional_id}: {self.state} → {state}"

    def _prepare(self, state: TransactionState, **changes: Any) -> TransactionRecord:
        assert self.pending is None, f"{self._named(state)} while → {self.pending} is pending"
        made = self.record._replace(state=state, previous_id=self.record.producer_id, **changes)
        assert self.may_become(state, made.version), f"{self._named(state)} is not a legal transition"
        assert state is DEAD or made.epoch >= 0, f"{self._named(state)} with epoch {made.epoch}"
        self.pending = state
        return made

    def complete(self, record: TransactionRecord) -> None:
        """The record is committed."""
        known, state = self.record, record.state
        assert self.pending is state, f"{self._named(state)}, but → {self.pending} is pending"
        same = record.producer_id == known.producer_id
        bumped = record.epoch in (known.epoch, known.epoch + 1)
        assert (same and bumped) or (not same and record.epoch == 0), (
            f"{self._named(state)}: {known.producer_id}/{known.epoch} → {record.producer_id}/{record.epoch}"
        )
        if state is ONGOING:
            assert set(known.partitions) <= set(record.partitions), f"{self._named(state)} loses partitions"
        self.record, self.pending = record, None

    def prepare_init(
        self, new_id: Callable[[], int], timeout_ms: int, expected: int | None, now: int
    ) -> TransactionRecord:
        """InitProducerId: the next epoch, or the first one of another producer id. expected: the epoch that
        the client has (KIP-360), None = it has none. new_id() gives an unused id.

        Raises: Refused (PRODUCER_FENCED; what new_id raises).
        """
        if self.exhausted and expected in (None, self.record.epoch):
            return self.prepare_rotation(new_id(), timeout_ms, now, asked=expected is not None)
        return self.prepare_increment(timeout_ms, expected, now)

    def prepare_increment(self, timeout_ms: int, expected: int | None, now: int) -> TransactionRecord:
        """The next epoch of the same producer id: see `prepare_init`.

        Raises: Refused (PRODUCER_FENCED).
        """
        known = self.record
        bumped, last = known.epoch + 1, NO_EPOCH
        if expected is not None:
            if known.epoch == NO_EPOCH or expected == known.epoch:
                last = known.epoch
            elif expected == known.last_epoch:
                bumped, last = known.epoch, known.last_epoch  # sent again
            else:
                raise Refused(KafkaError.PRODUCER_FENCED)
        assert bumped < self.most, f"{known.transactional_id}: no epoch is left"
        return self._prepare_empty(timeout_ms, now, epoch=bumped, last_epoch=last)

    def prepare_rotation(
        self, producer_id: int, timeout_ms: int, now: int, *, asked: bool
    ) -> TransactionRecord:
        """A new producer id: see `prepare_init`. asked: by a client with an epoch."""
        last = self.record.epoch if asked else NO_EPOCH
        return self._prepare_empty(timeout_ms, now, producer_id=producer_id, epoch=0, last_epoch=last)

    def _prepare_empty(self, timeout_ms: int, now: int, **identity: int) -> TransactionRecord:
        return self._prepare(EMPTY, timeout_ms=timeout_ms, partitions=(), started=-1, updated=now, **identity)

    def prepare_add(self, added: Iterable[Partition], now: int, version: int) -> TransactionRecord:
        """AddPartitions: the transaction begins or grows."""
        return self._prepare(
            ONGOING,
            partitions=tuple(sorted({*self.record.partitions, *added})),
            updated=now,
            started=self.record.started if self.state is ONGOING else now,
            version=version,
        )

    def prepare_fence(self) -> None:
        """The transaction's producer is to be fenced; `prepare_end` with `fence` follows at once."""
        self._prepare(PREPARE_EPOCH_FENCE)

    def prepare_end(
        self,
        commit: bool,
        now: int,
        version: int,
        *,
        next_id: int = NO_PRODUCER,
        fence: bool = False,
        bump: bool = True,
    ) -> TransactionRecord:
        """The first phase. The epoch rises from transaction version 2 on, and with a fence: once
        (KAFKA-19367). The client's is the one before, so that version 2 lets a producer that was fenced by
        a time-out have the next one; before that the raised epoch counts at once, and no client gets it.
        """
        known = self.record
        if fence:
            assert self.pending is PREPARE_EPOCH_FENCE, f"{known.transactional_id}: no fence"
            self.pending = None
        epoch, last = known.epoch, known.last_epoch
        if version >= 2 or fence:
            epoch = min(epoch + (bump and not self.fence_failed), self.most)
            last = known.epoch if version >= 2 else NO_EPOCH
        if fence and version < 2:
            self.record = known._replace(epoch=epoch, last_epoch=last)
        return self._prepare(
            PREPARE_COMMIT if commit else PREPARE_ABORT,
            epoch=epoch,
            last_epoch=last,
            updated=now,
            started=known.started if self.state is ONGOING else now,
            next_id=next_id,
            version=version,
        )

    def prepare_complete(self, now: int) -> TransactionRecord:
        """The second phase: all markers are written."""
        known, self.fence_failed = self.record, False
        rotated = known.next_id != NO_PRODUCER
        return self._prepare(
            COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT,
            producer_id=known.next_id if rotated else known.producer_id,
            epoch=0 if rotated else known.epoch,
            next_id=NO_PRODUCER,
            partitions=(),
            updated=now,
        )

    def marked(self, tp: Partition) -> None:
        """A partition has its marker: from now on it is not one of the transaction's, but in the log."""
        left = tuple(one for one in self.record.partitions if one != tp)
        self.record = self.record._replace(partitions=left)

    def prepare_dead(self) -> TransactionRecord:
        """The id expired."""
        return self._prepare(DEAD, partitions=())

    # ---- what EndTxn meets

    def end_v1(self, epoch: int, commit: bool) -> KafkaError | None:
        """What a client's EndTxn is answered (NONE: it is ended already), None = end it.

        Before transaction version 2: one epoch has many transactions, so a late EndTxn ends whichever is
        open (KAFKA-17754).
        """
        if epoch != self.record.epoch:
            return KafkaError.PRODUCER_FENCED
        if self.pending is not None:
            return KafkaError.CONCURRENT_TRANSACTIONS
        return self._end_by_state(commit)

    def _end_by_state(self, commit: bool) -> KafkaError | None:
        if self.state is ONGOING:
            return None
        if self.state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT):
            return NO_ERROR
        if self.state is (PREPARE_COMMIT if commit else PREPARE_ABORT):
            return KafkaError.CONCURRENT_TRANSACTIONS
        return KafkaError.INVALID_TXN_STATE

    def end_v2(self, producer_id: int, epoch: int, commit: bool) -> KafkaError | None:
        """As `end_v1`, with an epoch for each transaction (KIP-890): a repeated EndTxn has the epoch before,
        and an abort with the present one is of a transaction that nothing was added to."""
        known = self.record
        overflowed = self.repeats_overflow(producer_id, epoch)
        again = known.epoch == epoch + 1 or overflowed
        if self.state in PREPARED:
            valid = known.epoch == epoch + 1
        elif self.state in (COMPLETE_COMMIT, COMPLETE_ABORT):
            valid = again or epoch == known.epoch
        else:
            valid = epoch == known.epoch
        if not valid:
            return KafkaError.PRODUCER_FENCED
        if self.state in ENDED and not again:
            return KafkaError.INVALID_TXN_STATE if commit else None
        return self._end_by_state(commit)

    def repeats_overflow(self, producer_id: int, epoch: int) -> bool:
        """An EndTxn, sent again, that used up the last epoch of the producer id before."""
        known = self.record
        return known.previous_id == producer_id and epoch == self.most - 1 and known.epoch == 0
