"""A partition of `__transaction_state`, as coordinators write it: the records of each transactional id.

A coordinator that did not hear whether a record was committed continues from the state before, and the record
may stand in the log all the same, as in Kafka. So a record may follow any earlier one that the same
coordinator (the same leader epoch) may still have in memory; a coordinator that loads begins from the last.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from core.java_hash import java_hash
from model.accepting.refusal import Refusal
from model.coordinator.transaction_metadata import (
    ABORTED_WITHOUT_PARTITIONS,
    BEFORE,
    EMPTY,
    ENDED,
    ONGOING,
    PREPARE_ABORT,
    PREPARED,
    TransactionRecord,
    TransactionState,
    TransactionTombstone,
)
from model.log.unified_log import NO_EPOCH, NO_PRODUCER

STATE: Final = "transaction-state-follows"
PARTITIONS: Final = "transaction-partitions-kept"
PRODUCER_ID: Final = "transaction-producer-id"
EPOCH: Final = "transaction-producer-epoch"
TIMES: Final = "transaction-times-kept"
PLACE: Final = "transactional-id-place"
OWNER: Final = "producer-id-has-one-owner"
FOLLOWING: Final = (STATE, PARTITIONS, PRODUCER_ID, EPOCH, TIMES)
"""Rules about two records of an id."""
COMPLETED: Final = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
PRODUCER_EPOCH_MAX: Final = 32_767
UNKNOWN_EPOCH: Final = -2
"""`TransactionRecord.last_epoch` where it is not known: Kafka does not write it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a log keeps. most: the largest producer epoch. next_ids: `TransactionRecord.next_id` (4.3,
    KAFKA-20310)."""

    most: int = PRODUCER_EPOCH_MAX
    next_ids: bool = True


@dataclass(slots=True)
class TransactionLog:
    """See the module. number, count: of the partition, and how many there are; 0 = unknown. whole: nothing
    is missing before the first record. asked: rule -> records that it could have refused.

    known: by transactional id, the leader epoch of the newest record, and the records that its coordinator
    may have in memory. owners: transactional id by producer id.
    """

    kept: Kept = field(default_factory=Kept)
    number: int = 0
    count: int = 0
    whole: bool = True
    asked: Counter[str] = field(default_factory=Counter)
    known: dict[str, tuple[int, list[TransactionRecord]]] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)

    def forget(self) -> None:
        """Records are missing here, or cannot be read."""
        self.whole = False
        self.known.clear()

    def forget_one(self, transactional_id: str) -> None:
        """A record of this id cannot be read."""
        self.whole = False
        self.known.pop(transactional_id, None)

    def add(
        self, offset: int, leader_epoch: int, record: TransactionRecord | TransactionTombstone
    ) -> Iterator[Refusal]:
        """The next record; it counts from there on, refused or not."""
        tid = record.transactional_id
        if self.count:
            self.asked[PLACE] += 1
            belongs = java_hash(tid) % self.count
            if belongs != self.number:
                why = f"{described(record)}: the hash of its id names partition {belongs}"
                yield Refusal(rule=PLACE, offset=offset, why=why)
        if isinstance(record, TransactionTombstone):
            yield from self._expired(offset, leader_epoch, tid)
            return
        self.asked[OWNER] += 1
        owner = self.owners.setdefault(record.producer_id, tid)
        if owner != tid:
            why = f"{described(record)} has the producer id of transactional id {owner}"
            yield _refused(OWNER, offset, why, None, record)
        candidates = self._candidates(leader_epoch, tid)
        if not candidates and self.whole:
            candidates = [_created(record)]
        elif not candidates:
            self.known[tid] = (leader_epoch, [record])
            return
        self.asked.update(FOLLOWING)
        before = [known for known in candidates if broken(known, record, self.kept) is None]
        if not before:
            newest = candidates[-1]
            wrong = broken(newest, record, self.kept)
            assert wrong is not None
            why = f"{described(record)}; the model's coordinator does not write it: {wrong[1]}"
            yield _refused(wrong[0], offset, why, newest, record)
        self.known[tid] = (leader_epoch, [*before, _remembered(before, record)])

    def _candidates(self, leader_epoch: int, tid: str) -> list[TransactionRecord]:
        """What the coordinator of this epoch may have in memory."""
        epoch, candidates = self.known.get(tid, (leader_epoch, []))
        if epoch == leader_epoch:
            return candidates
        # A coordinator that loads does not learn the epoch before (KAFKA-20357).
        return [last._replace(last_epoch=NO_EPOCH) for last in candidates[-1:]]

    def _expired(self, offset: int, leader_epoch: int, tid: str) -> Iterator[Refusal]:
        candidates = self._candidates(leader_epoch, tid)
        self.known.pop(tid, None)
        if not candidates:
            return
        self.asked[STATE] += 1
        if not any(known.state in ENDED for known in candidates):
            why = f"{tid}: a tombstone; the model's coordinator forgets no id in {candidates[-1].state}"
            yield _refused(STATE, offset, why, candidates[-1], candidates[-1])


def _created(record: TransactionRecord) -> TransactionRecord:
    """What a coordinator makes of an id that it does not know, before its first record."""
    return TransactionRecord(record.transactional_id, record.producer_id, record.timeout_ms)


def _remembered(before: list[TransactionRecord], record: TransactionRecord) -> TransactionRecord:
    """A record with the epoch before it, as far as that follows from the records before."""
    if record.last_epoch != UNKNOWN_EPOCH:
        return record
    lasts = {known.last_epoch for known in before}
    epochs = {known.epoch for known in before}
    if record.state in PREPARED:
        known = epochs if record.version >= 2 else {UNKNOWN_EPOCH}
    elif record.state is not EMPTY:
        known = lasts
    else:  # the first record of an id has none before it; else it is up to what the client asked
        known = {NO_EPOCH} if epochs == {NO_EPOCH} else {UNKNOWN_EPOCH}
    return record._replace(last_epoch=known.pop() if len(known) == 1 else UNKNOWN_EPOCH)


def _refused(
    rule: str, offset: int, why: str, before: TransactionRecord | None, record: TransactionRecord
) -> Refusal:
    return Refusal(
        rule=rule,
        offset=offset,
        why=why,
        before="" if before is None else described(before),
        producer_id=record.producer_id,
        producer_epoch=record.epoch,
    )


def described(record: TransactionRecord | TransactionTombstone) -> str:
    """A record in words."""
    if isinstance(record, TransactionTombstone):
        return f"{record.transactional_id}: a tombstone"
    partitions = ", ".join(f"{topic}-{number}" for topic, number in sorted(record.partitions))
    version = f", version {record.version}" if record.version >= 2 else ""
    return (
        f"{record.transactional_id}: {record.state} of producer {record.producer_id} epoch {record.epoch}"
        f"{version}, partitions [{partitions}]"
    )


# ---- one record after another

Wrong = tuple[str, str]
"""A rule, and how a record breaks it."""


def broken(before: TransactionRecord, after: TransactionRecord, kept: Kept) -> Wrong | None:
    """The first rule that forbids one record of a transactional id after another, None = it may follow
    (TransactionMetadata.completeTransitionTo)."""
    return (
        _state(before, after)
        or _partitions(before, after)
        or _producer(before, after, kept)
        or _times(before, after)
    )


def _state(before: TransactionRecord, after: TransactionRecord) -> Wrong | None:
    if before.epoch == NO_EPOCH and after.state is not EMPTY:
        return (STATE, f"the first record of an id is {EMPTY}")
    legal = before.state in BEFORE[after.state] or (
        # The client may have begun nothing.
        after.state is PREPARE_ABORT and after.version >= 2 and before.state in ABORTED_WITHOUT_PARTITIONS
    )
    # The fence before an abort is never logged: PrepareAbort follows Ongoing then, too.
    return None if legal else (STATE, f"{after.state} does not follow {before.state}")


def _partitions(before: TransactionRecord, after: TransactionRecord) -> Wrong | None:
    had, has = {*before.partitions}, {*after.partitions}
    if after.state is ONGOING and not had <= has:
        return (PARTITIONS, "a transaction loses partitions")
    if after.state in PREPARED and had != has:
        return (PARTITIONS, "the prepare record has other partitions than its transaction")
    if after.state in ENDED and has:
        return (PARTITIONS, "no transaction is open, and it has partitions")
    return None


def _producer(before: TransactionRecord, after: TransactionRecord, kept: Kept) -> Wrong | None:
    if after.previous_id not in (NO_PRODUCER, before.producer_id):
        return (PRODUCER_ID, f"the producer id before is said to be {after.previous_id}")
    if after.producer_id != before.producer_id:
        return _rotated(before, after, kept)
    legal = _epochs(before, after, kept)
    if after.epoch in legal:
        return None
    wanted = " or ".join(map(str, legal)) or "no epoch of this producer id"
    return (EPOCH, f"epoch {after.epoch} after {before.epoch}, where {wanted} has to follow")


def _rotated(before: TransactionRecord, after: TransactionRecord, kept: Kept) -> Wrong | None:
    used_up = before.epoch >= kept.most - 1
    if after.state in COMPLETED and kept.next_ids:
        legal = after.producer_id == before.next_id
    else:
        legal = used_up and after.state in (EMPTY, *COMPLETED)
    if not legal:
        return (PRODUCER_ID, f"another producer id, where {before.producer_id} has epochs left")
    return None if after.epoch == 0 else (EPOCH, f"a new producer id begins with epoch {after.epoch}")


def _epochs(before: TransactionRecord, after: TransactionRecord, kept: Kept) -> tuple[int, ...]:
    """Epochs that may follow under the same producer id."""
    if after.state is EMPTY:
        # InitProducerId raises the epoch; one that was sent again by a client with an epoch does not.
        unknown = UNKNOWN_EPOCH in (after.last_epoch, before.last_epoch)
        again = before.last_epoch != NO_EPOCH and (unknown or after.last_epoch == before.last_epoch)
        return (before.epoch, before.epoch + 1) if again else (before.epoch + 1,)
    if after.state in PREPARED and after.version >= 2:
        return (min(before.epoch + 1, kept.most),)
    if after.state is PREPARE_ABORT:  # of a fence, or of a client
        return (before.epoch, before.epoch + 1)
    return (before.epoch,)


def _times(before: TransactionRecord, after: TransactionRecord) -> Wrong | None:
    if after.state is EMPTY:
        wanted = -1
    elif before.state in ENDED:  # it begins
        wanted = after.updated
    else:
        wanted = before.started
    if after.started != wanted:
        return (TIMES, f"it began at {after.started}, and not at {wanted}")
    if after.state is not EMPTY and after.timeout_ms != before.timeout_ms:
        return (TIMES, f"time-out {after.timeout_ms} ms after {before.timeout_ms} ms")
    return None
