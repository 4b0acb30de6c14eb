"""One share partition, as its leader has it in memory: locks, delivery counts, ends (Kafka's SharePartition).

    Available → Acquired → Acknowledged (ACCEPT) or Archived (REJECT, no record there, the limit)
                         → Archiving → Archived (REJECT, the limit: where the group has a dead-letter queue)
                         → Available (RELEASE, the lock's end, the member's end)
                         → Acquired (RENEW: its lock begins again, and nothing is stored)

Everything below `start` has ended; `end` is the next offset that no member was given. What changes is stored
first: until that is known, a record has its new state and cannot be acquired, and where it fails the old
state is in force again. The end of a lock waits for nothing. Kafka keeps one state for a batch while all its
records have the same; here each record has its own. No clock: the caller says what time it is, in ms.

Where the group has a dead-letter queue (KIP-1191), a record is Archiving in the share coordinator's log
before its letter is written, and Archived after that, whether it was written or given up; only then the start
passes it. A lock that ends at the limit waits for that, too. (Kafka 4.4.0 writes a letter at the end of a
lock also where nothing could be stored, and ends the locks of a leader that leads no more: planted bug
`letters-by-former-leader`.)

Left out: from 4.2 on Kafka delivers records apart that came back often (half the limit or more), so that a
bad one does not use up the deliveries of its neighbours (SharePartition.shouldThrottleRecordsDelivery).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from model.errors import KafkaError, Refused
from model.log.unified_log import AbortedTxn, RecordBatch
from model.protocol.messages import Partition
from model.protocol.share_messages import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRecords,
    ReadShareGroupStateResponse,
    StateBatch,
)
from model.settings import Settings
from model.share.record_states import RecordState, StoredState, gathered, spread

AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED
ARCHIVING = RecordState.ARCHIVING
ENDED: Final = (ACKNOWLEDGED, ARCHIVED)
SAID: Final = {
    AcknowledgeType.ACCEPT: ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.GAP: ARCHIVED,
}


@dataclass(slots=True)
class InFlightState:
    """Of one record. member: who holds it, "" = none. until: end of its lock. before: the state to go back to
    where the present one cannot be stored; None = it is stored, or need not be."""

    state: RecordState
    count: int
    member: str = ""
    until: int = 0
    before: "InFlightState | None" = None


@dataclass(frozen=True, slots=True)
class Transition:
    """Records whose states changed, and what is to be stored of them."""

    changed: dict[int, InFlightState] = field(default_factory=dict)

    @property
    def batches(self) -> tuple[StateBatch, ...]:
        """For the share coordinator."""
        return gathered({at: StoredState(one.state, one.count) for at, one in self.changed.items()})

    @property
    def archiving(self) -> tuple[StateBatch, ...]:
        """Those whose letters are to be written."""
        return tuple(one for one in self.batches if one.state == ARCHIVING)


class SharePartition:
    """See the module. leader_epoch: of the leader that has it. `records` by offset, from `start` on."""

    def __init__(self, group: str, partition: Partition, leader_epoch: int, settings: Settings) -> None:
        self.group = group
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.settings = settings
        self.bugs = settings.bugs
        self.state_epoch = 0
        self.start = 0
        self.end = 0
        self.records: dict[int, InFlightState] = {}
        self._gaps = False
        """Below `end` there may be something to acquire."""

    def initialise(self, stored: ReadShareGroupStateResponse, beginning: int) -> None:
        """As it is stored; `beginning`: where a group begins that nothing was stored of."""
        self.state_epoch = stored.state_epoch
        self.start = stored.start if stored.start >= 0 else beginning
        known = {at: of for at, of in spread(stored.batches).items() if at >= self.start}
        self.records = {at: InFlightState(of.state, of.times) for at, of in known.items()}
        self.end = max(known, default=self.start - 1) + 1
        if "share-gap-skipped" in self.bugs:
            for offset in range(self.start, self.end):
                self.records.setdefault(offset, InFlightState(ARCHIVED, 0))
        self._gaps = True
        self.move_start()

    # ---- acquiring

    def next_offset(self, until: int, member: str = "") -> int:
        """The first offset below `until` that can be acquired; -1 = none."""
        if self._gaps or "share-lock-ignored" in self.bugs:
            for offset in range(self.start, min(self.end, until)):
                if self._acquirable(offset, member):
                    return offset
            self._gaps = False
        return -1 if self.room(self.end) <= 0 or self.end >= until else self.end

    def room(self, first: int) -> int:
        """How many records may be in flight from this offset on."""
        return self.settings.share_in_flight - (first - self.start)

    def _acquirable(self, offset: int, member: str) -> bool:
        known = self.records.get(offset)
        if known is None:
            return True
        if "share-lock-ignored" in self.bugs and known.state is ACQUIRED and known.member != member:
            return known.before is None
        return known.state is AVAILABLE and known.before is None

    def acquire(
        self, member: str, batches: Iterable[RecordBatch], first: int, aborted: Sequence[AbortedTxn], now: int
    ) -> tuple[AcquiredRecords, ...]:
        """Give a member what can be acquired of these batches, from offset `first` on. Records of aborted
        transactions are archived at once; offsets of markers are given out, and the member says that there is
        no record."""
        given: list[AcquiredRecords] = []
        for batch in batches:
            gone = batch.transactional and _aborted(batch, aborted)
            for offset in range(max(batch.base, first, self.start), batch.last + 1):
                if not self._acquirable(offset, member):
                    continue
                if gone and "share-aborted-acquired" not in self.bugs:
                    self.records[offset] = InFlightState(ARCHIVED, 1)
                else:
                    _append(given, offset, self._give(member, offset, now))
            self.end = max(self.end, batch.last + 1)
        return tuple(given)

    def _give(self, member: str, offset: int, now: int) -> int:
        """Acquire a record for a member; its delivery count."""
        known = self.records.get(offset)
        count = known.count if known is not None else 0
        if known is None or "share-count-stands" not in self.bugs:
            count += 1
        self.records[offset] = InFlightState(ACQUIRED, count, member, now + self._lock_ms)
        return count

    @property
    def _lock_ms(self) -> int:
        return self.settings.share_lock_ms // (4 if "share-lock-short" in self.bugs else 1)

    # ---- ending

    def acknowledge(self, member: str, said: Iterable[AcknowledgementBatch], now: int) -> Transition:
        """What a member says of records that it holds; below `start` nothing is looked at.

        Raises: Refused (INVALID_REQUEST, INVALID_RECORD_STATE), and nothing has changed, but that locks are
            renewed which were looked at before (SharePartition.rollbackOrProcessStateUpdates).
        """
        said = tuple(said)
        renews = any(batch.kind is AcknowledgeType.RENEW for batch in said)
        if renews and not self.settings.era.share_locks_renewed:
            raise Refused(KafkaError.INVALID_REQUEST)
        ended: dict[int, RecordState] = {}
        for batch in said:
            if batch.last >= self.end and self.records:
                raise Refused(KafkaError.INVALID_REQUEST)  # fetchSubMapForAcknowledgementBatch
            for offset in range(max(batch.first, self.start), batch.last + 1):
                held = self._held_by(member, offset)
                if batch.kind is not AcknowledgeType.RENEW:
                    ended[offset] = self._said(batch.kind)
                elif "share-renewal-ignored" not in self.bugs:
                    held.until = now + self._lock_ms
        return Transition({offset: self._begin(offset, state) for offset, state in ended.items()})

    def _held_by(self, member: str, offset: int) -> InFlightState:
        """What the member has acquired. Raises: Refused (INVALID_RECORD_STATE)."""
        known = self.records.get(offset)
        if known is None or known.state is not ACQUIRED or known.before is not None:
            raise Refused(KafkaError.INVALID_RECORD_STATE)
        if known.member != member and "share-holder-not-checked" not in self.bugs:
            raise Refused(KafkaError.INVALID_RECORD_STATE)
        return known

    def _said(self, kind: AcknowledgeType) -> RecordState:
        if "share-release-ends" in self.bugs and kind is AcknowledgeType.RELEASE:
            return ACKNOWLEDGED
        if "share-reject-releases" in self.bugs and kind is AcknowledgeType.REJECT:
            return AVAILABLE
        return self._given_up if kind is AcknowledgeType.REJECT else SAID[kind]

    @property
    def _given_up(self) -> RecordState:
        """Of a record that was rejected, or has come to the limit."""
        return ARCHIVING if self.settings.share_letters else ARCHIVED

    def release(self, member: str) -> Transition:
        """A member has ended: what it holds is available again."""
        everyone = "share-release-of-all" in self.bugs
        mine = self._held(lambda one: everyone or one.member == member)
        kept = self.settings.era.share_counts_kept and "share-count-taken-back" not in self.bugs
        return Transition({offset: self._begin(offset, AVAILABLE, counts=kept) for offset in mine})

    def expire(self, now: int) -> Transition:
        """Locks have ended: these records are available again, whether that can be stored or not. What is on
        its way to the dead-letter queue stays with no member until that is stored."""
        late = self._held(lambda one: one.until <= now)
        if "share-lock-outlives" in self.bugs:
            late += [at for at, one in self.records.items() if one.state in ENDED and 0 < one.until <= now]
        changed = {offset: self._begin(offset, AVAILABLE) for offset in late}
        for one in changed.values():
            if one.state is ARCHIVING and one.before is not None:
                one.before.member = ""
            else:
                one.before = None
        return Transition(changed)

    def archive(self, run: StateBatch) -> Transition:
        """The letters of these records are written, or given up."""
        changed: dict[int, InFlightState] = {}
        for offset in range(run.first, run.last + 1):
            known = self.records.get(offset)
            if known is not None and known.state is ARCHIVING:
                changed[offset] = self.records[offset] = InFlightState(ARCHIVED, known.count)
        return Transition(changed)

    def _held(self, wanted: Callable[[InFlightState], bool]) -> list[int]:
        return [
            at
            for at, one in self.records.items()
            if one.state is ACQUIRED and one.before is None and wanted(one)
        ]

    def _begin(self, offset: int, state: RecordState, *, counts: bool = True) -> InFlightState:
        """A change that is not stored yet. A record that was delivered as often as it may be is archived
        where it came back, if its delivery counts."""
        before = self.records[offset]
        limit = 1 if "share-limit-early" in self.bugs else self.settings.share_deliveries
        come_back = state is AVAILABLE and counts
        if come_back and before.count >= limit and "share-limit-ignored" not in self.bugs:
            state = self._given_up
        count = before.count if counts else before.count - 1
        now = self.records[offset] = InFlightState(state, count, "", before.until, before)
        self._gaps = self._gaps or state is AVAILABLE
        return now

    def complete(self, transition: Transition, *, stored: bool) -> None:
        """A change is stored, or could not be."""
        for offset, one in transition.changed.items():
            if self.records.get(offset) is not one:
                continue
            if stored:
                one.before = None
            elif one.before is not None:
                self.records[offset] = one.before
        self._gaps = True
        self.move_start()

    # ---- the start

    def move_start(self) -> None:
        """Forget what has ended in front of everything that has not (maybeUpdateCachedStateAndOffsets)."""
        if "share-start-jumps" in self.bugs:
            ended = [at for at, one in self.records.items() if one.state in ENDED and one.before is None]
            self._forget_below(max(ended, default=self.start - 1) + 1)
            return
        for at in self._in_front():
            del self.records[at]
            self.start = at + 1

    def _in_front(self) -> Iterator[int]:
        for at in range(self.start, self.end):
            known = self.records.get(at)
            if known is None or known.state not in ENDED or known.before is not None:
                return
            yield at

    def trim(self, log_start: int) -> None:
        """The log begins later now (SharePartition.updateCacheAndOffsets)."""
        if log_start > self.start:
            self._forget_below(log_start)
            self.move_start()

    def _forget_below(self, offset: int) -> None:
        self.records = {at: one for at, one in self.records.items() if at >= offset}
        self.start = max(self.start, offset)
        self.end = max(self.end, self.start)


def _aborted(batch: RecordBatch, aborted: Iterable[AbortedTxn]) -> bool:
    """It belongs to one of these transactions."""
    return not batch.control and any(
        one.producer_id == batch.producer_id and one.first <= batch.base <= one.last for one in aborted
    )


def _append(given: list[AcquiredRecords], offset: int, count: int) -> None:
    last = given[-1] if given else None
    if last is not None and last.last == offset - 1 and last.times == count:
        given[-1] = last._replace(last=offset)
    else:
        given.append(AcquiredRecords(offset, offset, count))
