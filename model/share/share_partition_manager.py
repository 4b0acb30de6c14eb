"""A broker as leader of share partitions: sessions of members, fetches that wait, state that is read and
written (Kafka's SharePartitionManager, ShareSessionCache, DelayedShareFetch, PersisterStateManager).

A member has one session with each broker: its requests are numbered, and the session ends with its last
request or with its connection; what the member holds of its partitions is available again then. Where a
connection over which a session began has ended, and no session of the group is left, its share partitions go
from memory: the next fetch has them read again. A fetch waits until something can be acquired or its time has
run out, with its session or without; it is looked at again with every change of a share partition and with
every tick. The state of a share partition is read before anything of it is given out, and written one change
after the other; what fails is tried again, `ATTEMPTS` times in all.

Once it is stored that a record is being archived, its letter is written, and then it is stored as archived. A
leader that reads that a record is being archived writes the letter again. Of a share partition that went from
memory, letters are ended before the state is read again: else they are written twice, or what is to be
archived is given out meanwhile (planted bug `letters-of-forgotten-group`; Kafka 4.4.0 reads at once).
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from model.errors import NO_ERROR, KafkaError, Refused
from model.log.unified_log import RecordBatch
from model.protocol.messages import Partition
from model.protocol.requests import Answer, ErrorResponse, Handlers
from model.protocol.share_messages import (
    Acknowledgements,
    AcquiredRecords,
    ReadShareGroupState,
    ReadShareGroupStateResponse,
    ShareAcknowledge,
    ShareAcknowledgeResponse,
    SharedPartition,
    ShareFetch,
    ShareFetchResponse,
    StateBatch,
    WriteShareGroupState,
)
from model.replication.node import NodeState
from model.replication.replica import Replica
from model.share.dead_letter_queue import DeadLetterQueue
from model.share.record_states import RecordState
from model.share.share_coordinator import ShareCoordinator, key_of
from model.share.share_partition import SharePartition, Transition

ATTEMPTS: Final = 5
BACKOFF_MS: Final = 200
"""After the first failure; twice as long after each further one (Kafka's begins at a second)."""
FENCED: Final = (KafkaError.FENCED_LEADER_EPOCH, KafkaError.FENCED_STATE_EPOCH)
RETRIED: Final = (
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
)
LAST: Final = -1
"""Session epoch of the last request of a session."""

Stored = Callable[[KafkaError], None]
"""Gets the outcome of a change."""


def unheard(error: KafkaError) -> None:
    """No member waits for the outcome."""


@dataclass(slots=True)
class Change:
    """A change that is to be stored. done: gets the outcome once."""

    transition: Transition
    done: Stored


@dataclass(slots=True)
class LedShare:
    """A share partition that this broker leads. ready: its state was read. asking: a request to the share
    coordinator is under way. attempts: of the read, or of the first of `changes`, that failed; pause: the
    next one is not made before. letters: runs of records whose letters are being written, or that are not
    stored as archived yet."""

    share: SharePartition
    ready: bool = False
    asking: bool = False
    gone: bool = False
    attempts: int = 0
    pause: int = 0
    letters: int = 0
    changes: deque[Change] = field(default_factory=deque)

    def failed(self, now: int) -> bool:
        """An attempt failed; whether it was the last."""
        self.attempts += 1
        self.pause = now + BACKOFF_MS * 2 ** min(self.attempts - 1, ATTEMPTS)
        return self.attempts >= ATTEMPTS


@dataclass(slots=True)
class ShareSession:
    """connection: over which its first request came. epoch: of its newest request. partitions: of its newest
    fetch."""

    connection: int
    epoch: int = 0
    partitions: Sequence[Partition] = ()


@dataclass(slots=True, eq=False)
class DelayedShareFetch:
    """A fetch that waits. errors: outcome of what it said, by partition."""

    request: ShareFetch
    answer: Answer
    until: int
    errors: dict[Partition, KafkaError]


Key = tuple[str, Partition]
"""Group and partition."""


class SharePartitionManager:
    """See the module. `led` by group and partition, `sessions` by group and member. `began`: by connection,
    groups of sessions that began over it. `forgotten`: share partitions that went from memory with changes
    that are still to be stored."""

    def __init__(self, node: NodeState, coordinator: ShareCoordinator) -> None:
        self.node = node
        self.bugs = node.settings.bugs
        self.coordinator = coordinator
        self.led: dict[Key, LedShare] = {}
        self.sessions: dict[tuple[str, str], ShareSession] = {}
        self.waiting: list[DelayedShareFetch] = []
        self.began: dict[int, set[str]] = {}
        self.forgotten: list[LedShare] = []
        self.letters = DeadLetterQueue(node)
        self.former: list[LedShare] = []
        """Share partitions that are another leader's by now (planted bug)."""

    def register(self, handlers: Handlers) -> None:
        """Add its handlers."""
        handlers.on(ShareFetch, self._fetch, ShareFetchResponse)
        handlers.on(ShareAcknowledge, self._acknowledge, ShareAcknowledgeResponse)

    def became(self, tp: Partition) -> None:
        """The leadership of a partition may have changed: what another leader epoch handed out is not known
        any more."""
        replica = self.node.leader_of(tp)
        epoch = replica.state.leader_epoch if replica is not None else -1
        for led in [led for (_, at), led in self.led.items() if at == tp]:
            if led.share.leader_epoch != epoch:
                self._drop(led, KafkaError.NOT_LEADER_OR_FOLLOWER)

    def tick(self) -> None:
        """Every 100 ms: locks end, what failed is tried again, fetches are late."""
        for led in list(self.led.values()):
            if led.ready and (late := led.share.expire(self.node.now)).changed:
                self._store(led, late, unheard)
            self._go_on(led)
        self.forgotten = [led for led in self.forgotten if led.changes or led.letters]
        for led in self.forgotten:
            self._go_on(led)
        for led in self.former:
            self._archive(led, led.share.expire(self.node.now))
        self.letters.tick()
        self._look()

    # ---- sessions

    def disconnected(self, connection: int) -> None:
        """A connection is closed: the sessions over it end (KIP-932; SharePartitionManager's
        ConnectionDisconnectListener)."""
        for (group, member), session in list(self.sessions.items()):
            if session.connection == connection:
                self._end_session(group, member)
        for group in sorted(self.began.pop(connection, ())):
            if not self._has_session(group):
                self._forget(group)

    def _has_session(self, group: str) -> bool:
        """Some member of a group has a session here."""
        return any(name == group for name, _ in self.sessions)

    def _forget(self, group: str) -> None:
        """No member has a session here: its share partitions go; what is to be stored of them still is
        (SharePartitionManager.ShareGroupListenerImpl.onGroupEmpty)."""
        self.waiting = [one for one in self.waiting if one.request.group != group]
        for (name, tp), led in list(self.led.items()):
            if name == group:
                del self.led[name, tp]
                led.gone = not led.changes and not led.letters
                self.forgotten.append(led)

    def _session(self, request: ShareFetch | ShareAcknowledge) -> None:
        """Take a request for the next of its session.

        Raises: Refused (SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH).
        """
        key, epoch = (request.group, request.member), request.session_epoch
        if epoch == 0:
            if isinstance(request, ShareAcknowledge):
                raise Refused(KafkaError.INVALID_SHARE_SESSION_EPOCH)
            connection = self.node.connection
            self.sessions[key] = ShareSession(connection, partitions=request.partitions)
            self.began.setdefault(connection, set()).add(request.group)
            return
        session = self.sessions.get(key)
        if session is None:
            raise Refused(KafkaError.SHARE_SESSION_NOT_FOUND)
        if epoch != LAST and epoch != session.epoch + 1:
            raise Refused(KafkaError.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = epoch
        if epoch != LAST and isinstance(request, ShareFetch):
            session.partitions = request.partitions

    def _end_session(self, group: str, member: str) -> None:
        """What the member holds here is available again."""
        session = self.sessions.pop((group, member), None)
        for tp in session.partitions if session is not None else ():
            led = self.led.get((group, tp))
            if led is not None and led.ready and (back := led.share.release(member)).changed:
                self._store(led, back, unheard)

    # ---- acknowledging

    def _acknowledge(self, request: ShareAcknowledge, answer: Answer) -> None:
        """Key 79."""
        self._session(request)

        def done(errors: dict[Partition, KafkaError]) -> None:
            if request.session_epoch == LAST:
                self._end_session(request.group, request.member)
            answer(ShareAcknowledgeResponse(NO_ERROR, errors))

        self._said(request.group, request.member, request.said, done)

    def _said(
        self,
        group: str,
        member: str,
        said: Acknowledgements,
        done: Callable[[dict[Partition, KafkaError]], None],
    ) -> None:
        """Acknowledge, and tell the outcome of each partition once all are known."""
        errors: dict[Partition, KafkaError] = {}

        def outcome(tp: Partition, error: KafkaError) -> None:
            errors[tp] = error
            if len(errors) == len(said):
                done(errors)

        for tp, batches in said.items():
            try:
                led = self._ready(group, tp)
                transition = led.share.acknowledge(member, batches, self.node.now)
            except Refused as refused:
                outcome(tp, refused.error)
                continue
            self._store(led, transition, lambda error, tp=tp: outcome(tp, error))  # type: ignore[misc]
        if not said:
            done(errors)

    def _ready(self, group: str, tp: Partition) -> LedShare:
        """A share partition whose state was read.

        Raises: Refused (UNKNOWN_TOPIC_OR_PARTITION: it was not fetched from yet, or is another leader's).
        """
        led = self.led.get((group, tp))
        if led is None or not led.ready:
            raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
        return led

    # ---- fetching

    def _fetch(self, request: ShareFetch, answer: Answer) -> None:
        """Key 78."""
        self._session(request)

        def done(errors: dict[Partition, KafkaError]) -> None:
            if request.session_epoch == LAST:
                self._end_session(request.group, request.member)
                parts = {tp: SharedPartition(NO_ERROR, error) for tp, error in errors.items()}
                answer(ShareFetchResponse(NO_ERROR, parts))
                return
            if not self._has_session(request.group):
                answer(ShareFetchResponse(NO_ERROR))  # its share partitions are gone
                return
            until = self.node.now + request.max_wait_ms
            self.waiting.append(DelayedShareFetch(request, answer, until, errors))
            self._look()

        self._said(request.group, request.member, request.said, done)

    def _look(self) -> None:
        """Answer the fetches that need not wait."""
        self.waiting = [one for one in self.waiting if not self._answered(one)]

    def _answered(self, waiting: DelayedShareFetch) -> bool:
        request = waiting.request
        parts: dict[Partition, SharedPartition] = {}
        for tp in request.partitions:
            error, batches, acquired = self._acquire(request, tp)
            said = waiting.errors.get(tp, NO_ERROR)
            if error is not NO_ERROR or said is not NO_ERROR or acquired:
                parts[tp] = SharedPartition(error, said, batches, acquired)
        if not parts and self.node.now < waiting.until:
            return False
        waiting.answer(ShareFetchResponse(NO_ERROR, parts))
        return True

    def _acquire(
        self, request: ShareFetch, tp: Partition
    ) -> tuple[KafkaError, Sequence[RecordBatch], Sequence[AcquiredRecords]]:
        """What a member is given of one partition now."""
        replica = self.node.leader_of(tp)
        if replica is None:
            return KafkaError.NOT_LEADER_OR_FOLLOWER, (), ()
        led = self._of(request.group, tp, replica)
        if not led.ready or request.most <= 0:  # SharePartition.acquire
            return NO_ERROR, (), ()
        log, until = replica.log, self._readable(replica)
        led.share.trim(log.start)
        first = led.share.next_offset(until, request.member)
        if first < 0:
            return NO_ERROR, (), ()
        batches = log.read(first, until, min(request.most, led.share.room(first)))
        committed = self.node.settings.share_committed
        aborted = log.aborted_between(first, until) if committed else ()
        acquired = led.share.acquire(request.member, batches, first, aborted, self.node.now)
        return NO_ERROR, batches, acquired

    def _readable(self, replica: Replica) -> int:
        """Where what share groups get ends."""
        high = replica.high_watermark
        if not self.node.settings.share_committed or "share-open-acquired" in self.bugs:
            return high
        return replica.log.stable(high)

    # ---- the state of share partitions

    def _of(self, group: str, tp: Partition, replica: Replica) -> LedShare:
        """The share partition; where it is new its state is read."""
        led = self.led.get((group, tp))
        if led is None:
            share = SharePartition(group, tp, replica.state.leader_epoch, self.node.settings)
            led = self.led[group, tp] = LedShare(share)
            self._go_on(led)
        return led

    def _drop(self, led: LedShare, error: KafkaError) -> None:
        """It is another leader's; changes that were not stored yet may still be."""
        led.gone = True
        if "letters-by-former-leader" in self.bugs:
            for change in led.changes:
                led.share.complete(change.transition, stored=False)
            self.former.append(led)
        place = led.share.group, led.share.partition
        if self.led.get(place) is led:
            del self.led[place]
        changes, led.changes = led.changes, deque()
        for change in changes:
            change.done(error)

    def _store(self, led: LedShare, transition: Transition, done: Stored) -> None:
        if "share-answered-unstored" in self.bugs:
            self._ended(led, Change(transition, done), NO_ERROR)
            return
        if not transition.changed:
            done(NO_ERROR)
            return
        if "letters-before-stored" in self.bugs:
            self._write(led, transition, RecordState.ARCHIVING)
        led.changes.append(Change(transition, done))
        self._go_on(led)

    def _go_on(self, led: LedShare) -> None:
        """Ask the share coordinator for what comes next, if anything does."""
        if led.gone or led.asking or self.node.now < led.pause or (led.ready and not led.changes):
            return
        if not led.ready and self._leaves_letters(led):
            return
        share = led.share
        error, node = self.coordinator.coordinator(key_of(share.group, share.partition))
        if error is not NO_ERROR:
            self._failed(led, error)
            return
        led.asking = True
        place = share.group, share.partition
        channel = f"share {share.group} {share.partition[0]}-{share.partition[1]}"
        if not led.ready:
            read = ReadShareGroupState(*place, share.leader_epoch)
            self.node.ask(node, channel, read, lambda answer: self._was_read(led, answer))
            return
        batches = led.changes[0].transition.batches
        write = WriteShareGroupState(*place, share.state_epoch, share.leader_epoch, share.start, batches)
        self.node.ask(node, channel, write, lambda answer: self._was_written(led, answer))

    def _was_read(self, led: LedShare, answer: ReadShareGroupStateResponse | None) -> None:
        led.asking = False
        if led.gone:
            return
        if answer is None or answer.error is not NO_ERROR:
            self._failed(led, answer.error if answer is not None else KafkaError.REQUEST_TIMED_OUT)
            return
        replica = self.node.leader_of(led.share.partition)
        assert replica is not None, "a share partition goes with its leader"
        beginning = replica.log.start  # share.auto.offset.reset=earliest
        if "share-begins-at-the-end" in self.bugs:
            beginning = replica.high_watermark
        led.share.initialise(answer, beginning)
        led.ready, led.attempts = True, 0
        resumed = Transition(dict(led.share.records))
        self._archive(led, resumed, written="letters-not-resumed" in self.bugs)
        self._look()

    def _was_written(self, led: LedShare, answer: ErrorResponse | None) -> None:
        led.asking = False
        if led.gone:
            return
        error = answer.error if answer is not None else KafkaError.REQUEST_TIMED_OUT
        if error is not NO_ERROR:
            self._failed(led, error)
            return
        self._decided(led, NO_ERROR)

    def _failed(self, led: LedShare, error: KafkaError) -> None:
        """An attempt failed. A leader that is fenced leads no more; the read of a state is tried for ever."""
        if error in FENCED:
            self._drop(led, KafkaError.NOT_LEADER_OR_FOLLOWER)
            return
        if "share-failed-write-counts" in self.bugs and led.changes:
            self._decided(led, NO_ERROR)
            return
        retried = error in RETRIED or error is KafkaError.REQUEST_TIMED_OUT
        if (led.failed(self.node.now) or not retried) and led.changes:
            self._decided(led, error)

    def _decided(self, led: LedShare, error: KafkaError) -> None:
        """The first change is stored, or will not be tried again."""
        change = led.changes.popleft()
        led.attempts = led.pause = 0
        self._ended(led, change, error)
        self._go_on(led)
        self._look()

    def _ended(self, led: LedShare, change: Change, error: KafkaError) -> None:
        led.share.complete(change.transition, stored=error is NO_ERROR)
        change.done(error)
        if error is NO_ERROR and "letters-of-returned" in self.bugs:
            self._write(led, change.transition, RecordState.AVAILABLE)
        if error is NO_ERROR:
            self._archive(led, change.transition, written="letters-before-stored" in self.bugs)

    # ---- dead letters

    def _archive(self, led: LedShare, transition: Transition, *, written: bool = False) -> None:
        """Archive what is being archived, after its letters. Where this broker leads no more, or in another
        epoch, that is up to who reads the state next."""
        replica = self.node.leader_of(led.share.partition)
        leads = replica is not None and replica.state.leader_epoch == led.share.leader_epoch
        if not leads and "letters-by-former-leader" not in self.bugs:
            return
        for run in transition.archiving:
            led.letters += 1
            done = partial(self._written, led, run)
            if written:
                done()
            else:
                self.letters.write(led.share.group, led.share.partition, run, done)

    def _written(self, led: LedShare, run: StateBatch) -> None:
        """The letters of a run are written, or given up: it is archived all the same."""

        def stored(error: KafkaError) -> None:
            led.letters -= 1

        if led.gone:
            stored(NO_ERROR)
        else:
            self._store(led, led.share.archive(run), stored)

    def _write(self, led: LedShare, transition: Transition, state: RecordState) -> None:
        """Write letters of records in this state, which stay in it (planted bugs)."""
        for run in transition.batches:
            if run.state == state:
                self.letters.write(led.share.group, led.share.partition, run, lambda: None)

    def _leaves_letters(self, led: LedShare) -> bool:
        """The same share partition went from memory with letters that are to be written."""
        if "letters-of-forgotten-group" in self.bugs:
            return False
        place = led.share.group, led.share.partition
        return any(
            place == (one.share.group, one.share.partition)
            and (one.letters or any(change.transition.archiving for change in one.changes))
            for one in self.forgotten
        )
