"""A partition of `__transaction_state`, as coordinators write it: the records of each transactional id.

A record is accepted if `TransactionMetadata`, from the state before, makes it for some cause: InitProducerId,
AddPartitions, EndTxn, a fence, the end of the markers. What the log does not tell is tried in all ways.

A coordinator that did not hear whether a record was committed continues from the state before, and the record
may stand in the log all the same, as in Kafka. So a record may follow any earlier one that the same
coordinator (the same leader epoch) may still have in memory; a coordinator that loads begins from the last.
On ZooKeeper the epoch also rises where the leader remains, and then it keeps what it has in memory.
What was in memory before the first record that is left of an id (the cleaner removed those before) is not
known: until another record follows one that is known, one that follows none of them followed that.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from core.java_hash import java_hash
from model.accepting.refusal import Refusal
from model.coordinator.transaction_metadata import (
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    PREPARED,
    TransactionMetadata,
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
    """What a log keeps. most: the largest producer epoch. ids_logged: see `Era`. fenced_again: each fence
    that could not be written raised the epoch in memory (before KAFKA-9666, 2.6), so that the next one that
    was may be any number of epochs later. over_epochs: a leader that remains one in another epoch loads
    nothing (before KRaft: Partition.makeLeader)."""

    most: int = PRODUCER_EPOCH_MAX
    ids_logged: bool = True
    fenced_again: bool = False
    over_epochs: bool = False


_InMemory = TransactionRecord | TransactionTombstone | None


@dataclass(slots=True)
class TransactionLog:
    """See the module. number, count: of the partition, and how many there are; 0 = unknown. whole: nothing
    is missing before the first record. asked: rule -> records that it could have refused.

    known: by transactional id, the leader epoch of the newest record, and the records that its coordinator
    may have in memory; the first may be one that is not known (None), the last the tombstone of an id that it
    does not know any more. owners: transactional id by producer id.
    """

    kept: Kept = field(default_factory=Kept)
    number: int = 0
    count: int = 0
    whole: bool = True
    asked: Counter[str] = field(default_factory=Counter)
    known: dict[str, tuple[int, list[_InMemory]]] = field(default_factory=dict)
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
        known = self._candidates(leader_epoch, tid)
        candidates = [_created(record) if isinstance(one, TransactionTombstone) else one for one in known]
        if not candidates and self.whole:
            candidates = [_created(record)]
        elif not candidates:
            self.known[tid] = (leader_epoch, [None, record])
            return
        for rule in FOLLOWING:
            self.asked[rule] += 1
        tried = [(known, following(known, record, self.kept)) for known in candidates if known]
        after = dict.fromkeys(one for _, made in tried for one in made) or {record: None}
        before: list[TransactionRecord | None] = [known for known, made in tried if made]
        newest = candidates[-1]
        if not before and None in candidates:
            before = [*candidates]
        elif not before:
            assert newest is not None, "what is not known comes first"
            rule, how = broken(newest, record, self.kept)
            why = f"{described(record)}; the model's coordinator does not write it: {how}"
            yield _refused(rule, offset, why, newest, record)
        self.known[tid] = (leader_epoch, [*(known for known in before if known not in after), *after])

    def _candidates(self, leader_epoch: int, tid: str) -> Sequence[_InMemory]:
        """What the coordinator of this epoch may have in memory."""
        epoch, candidates = self.known.get(tid, (leader_epoch, []))
        if epoch == leader_epoch:
            return candidates
        loaded: list[_InMemory] = [
            last.loaded(ids_logged=self.kept.ids_logged) if isinstance(last, TransactionRecord) else last
            for last in candidates[-1:]
            if last
        ]
        if not self.kept.over_epochs:
            return loaded
        return [*dict.fromkeys((*candidates, *loaded))]

    def _expired(self, offset: int, leader_epoch: int, tid: str) -> Iterator[Refusal]:
        candidates = self._candidates(leader_epoch, tid)
        known = [one for one in candidates if isinstance(one, TransactionRecord)]
        unused = [one for one in known if TransactionMetadata(one, self.kept.most).may_become(DEAD, 0)]
        unknown = None in candidates or not (candidates or self.whole)
        gone = TransactionTombstone(tid)
        self.known[tid] = (leader_epoch, [*([None] if unknown else []), *unused, gone])
        if unknown or not known:
            return
        self.asked[STATE] += 1
        if not unused:
            why = f"{tid}: a tombstone; the model's coordinator forgets no id in {known[-1].state}"
            yield _refused(STATE, offset, why, known[-1], known[-1])


def _created(record: TransactionRecord) -> TransactionRecord:
    """What a coordinator makes of an id that it does not know, before its first record."""
    return TransactionRecord(record.transactional_id, record.producer_id, record.timeout_ms)


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

_RULES: Final = {
    "partitions": PARTITIONS,
    "producer_id": PRODUCER_ID,
    "previous_id": PRODUCER_ID,
    "epoch": EPOCH,
    "last_epoch": EPOCH,
    "started": TIMES,
    "timeout_ms": TIMES,
}
"""Rules by the fields of a record that they are about; a refusal names the first one that differs."""
_NOT_SAID: Final = {"previous_id": NO_PRODUCER, "last_epoch": UNKNOWN_EPOCH}
"""What these fields have where the log does not say them."""


def following(before: TransactionRecord, after: TransactionRecord, kept: Kept) -> list[TransactionRecord]:
    """What the model's coordinator has in memory once the record which stands in the log next is committed:
    nothing where it does not write that one, several states where the log does not tell them apart."""
    found = []
    for known, made in _made(before, after, kept):
        if not (_unlike(made, after) or _used_again(before, made)):
            known.complete(made)
            found.append(known.record)
    return found


def broken(before: TransactionRecord, after: TransactionRecord, kept: Kept) -> tuple[str, str]:
    """The rule by which a record of a transactional id does not follow another, and how it breaks it."""
    made = [record for _, record in _made(before, after, kept)]
    if not made:
        return (STATE, f"{after.state} does not follow {before.state}")
    unlike = min((_unlike(one, after) for one in made), key=len)
    if not unlike:
        told = f"producer id {after.producer_id}, where another one has to follow its epoch {before.epoch}"
        return (_RULES["producer_id"], told)
    field = unlike[0]
    wanted = " or ".join(dict.fromkeys(str(getattr(one, field)) for one in made))
    name = field.replace("_", " ")
    return (_RULES[field], f"{name} {getattr(after, field)}, where {wanted} has to follow")


def _unlike(made: TransactionRecord, after: TransactionRecord) -> list[str]:
    """Fields that differ, of those that the log has."""
    return [
        name
        for name in _RULES
        if getattr(made, name) != (said := getattr(after, name)) and said != _NOT_SAID.get(name)
    ]


def _used_again(before: TransactionRecord, made: TransactionRecord) -> bool:
    """Whether a damaged log goes back to an earlier epoch of one producer id: Kafka takes unused ids."""
    return made.producer_id == before.producer_id and made.epoch < before.epoch


_Prepared = tuple[TransactionMetadata, TransactionRecord]
"""A state with a pending change, and the record that makes the change once it is committed."""


def _made(before: TransactionRecord, after: TransactionRecord, kept: Kept) -> Iterator[_Prepared]:
    """What the model's coordinator makes of a state, for each cause that may lead to the state after it. What
    a request brings, and the time, are as the record has them."""
    state, most = after.state, kept.most
    known = TransactionMetadata(before, most)
    begun = 0 <= before.epoch <= most or (state is EMPTY and before.epoch == NO_EPOCH)
    if not begun or not known.may_become(state, after.version):
        return
    if state is EMPTY:
        again = before.last_epoch if before.epoch < most else NO_EPOCH
        for expected in dict.fromkeys((None, before.epoch, again)):
            if expected != NO_EPOCH:
                asked = TransactionMetadata(before, most)
                new_id, timeout_ms = (lambda: after.producer_id), after.timeout_ms
                yield asked, asked.prepare_init(new_id, timeout_ms, expected, after.updated)
    elif state is ONGOING:
        yield known, known.prepare_add(after.partitions, after.updated, after.version)
    elif state in PREPARED:
        yield from _ended(known, after, kept)
    elif state in COMPLETED:
        if known.exhausted and before.next_id == NO_PRODUCER and not kept.ids_logged:
            another = after.producer_id != before.producer_id  # the log does not say which one follows
            known.record = before._replace(next_id=after.producer_id if another else NO_PRODUCER)
        yield known, known.prepare_complete(after.updated)


def _ended(known: TransactionMetadata, after: TransactionRecord, kept: Kept) -> Iterator[_Prepared]:
    """By EndTxn of its client; or by a fence, which from version 2 on makes the same record."""
    before, commit, version = known.record, after.state is PREPARE_COMMIT, after.version
    if version >= 2:
        answer = known.end_v2(before.producer_id, before.epoch, commit)
    else:
        answer = known.end_v1(before.epoch, commit)
    if answer is None:
        yield known, known.prepare_end(commit, after.updated, version, next_id=after.next_id)
    if version < 2 and not commit:
        raised = kept.fenced_again and after.epoch > before.epoch + 1
        unwritten = before._replace(epoch=after.epoch - 1) if raised else before
        fenced = TransactionMetadata(unwritten, known.most)
        fenced.prepare_fence()
        yield fenced, fenced.prepare_end(False, after.updated, version, next_id=after.next_id, fence=True)
