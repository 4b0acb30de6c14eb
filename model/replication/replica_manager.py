"""A broker as leader: produce and fetch, and the requests that wait (Kafka's purgatory).

A produce with acks=all waits until the high watermark has passed its records; a fetch waits until there is
something to bring or its time has run out. Both are looked at again whenever a partition that they concern
moved. A deletion of records waits until followers fetch with the new log start offset.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from core.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from model.errors import NO_ERROR, KafkaError, Refused
from model.log.unified_log import NO_PRODUCER, RecordBatch
from model.protocol.messages import (
    DeleteRecords,
    DeleteRecordsResponse,
    Fetch,
    FetchedPartition,
    FetchPartition,
    FetchResponse,
    ListOffsets,
    ListOffsetsResponse,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochResponse,
    Partition,
    Produce,
    ProduceResponse,
)
from model.protocol.requests import Answer
from model.replication.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from model.replication.node import NodeState
from model.replication.replica import Replica
from model.replication.replication_quota import ReplicationQuota

Done = Callable[[dict[Partition, tuple[KafkaError, int]]], None]
"""What to do with the results of an append that waited: by partition, error and base offset."""

RETRIED: Final = frozenset(
    {
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
"""Errors of a verification that a producer receives as NOT_ENOUGH_REPLICAS, so that it sends again."""
INTERNAL_TOPICS: Final = (TRANSACTION_TOPIC, GROUP_TOPIC)
NO_GUARDS: Final[Mapping[Partition, int]] = {}
NO_ERRORS: Final[Mapping[Partition, KafkaError]] = {}


class DelayedProduce(msgspec.Struct, eq=False):
    """An append that waits. `needs`: high watermark by partition. unloaded: the group coordinator that
    wrote knows that it is none any more."""

    needs: dict[Partition, int]
    results: dict[Partition, tuple[KafkaError, int]]
    until: int
    done: Done
    unloaded: bool = False


class DelayedDeleteRecords(msgspec.Struct, eq=False):
    """A deletion that waits for followers. `needs`: low watermark by partition."""

    needs: dict[Partition, int]
    results: dict[Partition, tuple[KafkaError, int]]
    until: int
    answer: Answer


class DelayedFetch(msgspec.Struct, eq=False):
    """A fetch that waits."""

    request: Fetch
    answer: Answer
    until: int
    answered: bool = False


@dataclass(slots=True)
class ReplicaManager:
    """Requests to the partitions that this broker leads. `fetched` is called with each partition
    that a follower outside of the in-sync set fetched from, and the follower."""

    node: NodeState
    fetched: Callable[[Partition, int], None]
    verification: AddPartitionsToTxnManager = field(init=False)
    appends: dict[Partition, list[DelayedProduce]] = field(default_factory=dict)
    parked: dict[Partition, list[DelayedFetch]] = field(default_factory=dict)
    deletions: list[DelayedDeleteRecords] = field(default_factory=list)
    quota: ReplicationQuota = field(default_factory=ReplicationQuota)
    """Of what followers are served."""

    def __post_init__(self) -> None:
        self.verification = AddPartitionsToTxnManager(self.node)

    def _led(self, tp: Partition, *, of_epochs: bool = False) -> Replica:
        """The replica that leads (ReplicaManager.getPartitionOrError). of_epochs: the question is where an
        epoch ends.

        Raises: Refused.
        """
        replica, era = self.node.replicas.get(tp), self.node.settings.era
        if replica is not None and replica.state.leader == replica.me:
            return replica
        elsewhere = tp in self.node.image.partitions and era.named_elsewhere
        if replica is None and not (elsewhere and (era.fenced_fetch or not of_epochs)):
            raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
        raise Refused(KafkaError.NOT_LEADER_OR_FOLLOWER)

    def _asked(
        self, tp: Partition, part: FetchPartition, *, consumer: bool = False, of_epochs: bool = False
    ) -> Replica:
        """The replica that answers a question with a leader epoch, which is looked at first
        (Partition.getLocalLog). consumer: it is a consumer's Fetch. of_epochs: see `_led`.

        Raises: Refused.
        """
        replica = self.node.replicas.get(tp)
        if replica is not None:
            if stale := self._stale(replica, part):
                raise Refused(stale)
            if consumer and self.node.settings.era.followers_serve:
                return replica
        return self._led(tp, of_epochs=of_epochs)

    # ---- produce

    def produce(self, request: Produce, answer: Answer) -> None:
        """Key 0."""

        def done(results: dict[Partition, tuple[KafkaError, int]]) -> None:
            if request.acks != 0:
                answer(ProduceResponse(results))

        tid, acks = request.transactional_id, request.acks
        self.append_verified(tid, request.batches, acks, request.timeout_ms, done)

    def append_verified(
        self,
        transactional_id: str | None,
        batches: Mapping[Partition, RecordBatch],
        acks: int,
        timeout_ms: int,
        done: Done,
    ) -> None:
        """`append`, after asking the coordinator of the transaction where that is needed (KIP-890)."""
        if transactional_id is None:
            self.append(batches, acks, timeout_ms, done)
            return

        def then(guards: Mapping[Partition, int], errors: Mapping[Partition, KafkaError]) -> None:
            refused = {tp: self._unverified(error) for tp, error in errors.items()}
            self.append(batches, acks, timeout_ms, done, guards=guards, refused=refused)

        self.verification.begin(transactional_id, batches, then)

    def _unverified(self, error: KafkaError) -> KafkaError:
        """What a producer receives where a verification failed (ReplicaManager.handleProduceAppend)."""
        newer = self.node.settings.era.client_transaction_version >= 2
        if error in RETRIED or (error is KafkaError.CONCURRENT_TRANSACTIONS and not newer):
            return KafkaError.NOT_ENOUGH_REPLICAS
        return error

    def append(
        self,
        batches: Mapping[Partition, RecordBatch],
        acks: int,
        timeout_ms: int,
        done: Done,
        *,
        guards: Mapping[Partition, int] = NO_GUARDS,
        refused: Mapping[Partition, KafkaError] = NO_ERRORS,
    ) -> None:
        """Append as leader, and call `done` when that is decided: at once, or with acks -1 when the
        high watermark has passed. guards, refused: what verification brought."""
        results: dict[Partition, tuple[KafkaError, int]] = {}
        needs: dict[Partition, int] = {}
        for tp, batch in batches.items():
            if tp in refused:
                results[tp] = (refused[tp], -1)
                continue
            error, placed = self._append_one(tp, batch, acks, guards.get(tp, -1))
            results[tp] = (error, placed.base if placed else -1)
            if placed is not None and acks == -1:
                needs[tp] = placed.last + 1
        for tp, (error, _) in results.items():
            if error is NO_ERROR:
                self.moved(tp)
        waiting = DelayedProduce(needs, results, self.node.now + timeout_ms, done)
        if "ack-before-replication" in self.node.settings.bugs:
            waiting.needs = {}
        if not self._settle(waiting):
            for tp in waiting.needs:
                self.appends.setdefault(tp, []).append(waiting)

    def when_committed(self, tp: Partition, timeout_ms: int, done: Callable[[KafkaError], None]) -> None:
        """Call `done` when the high watermark has passed all that the log of a leader has now, or with the
        error of an append that is not replicated."""
        replica = self.node.replicas[tp]
        if replica.high_watermark >= replica.log.end:
            done(NO_ERROR)
            return
        needs, until = {tp: replica.log.end}, self.node.now + timeout_ms
        waiting = DelayedProduce(needs, {tp: (NO_ERROR, -1)}, until, lambda found: done(found[tp][0]))
        self.appends.setdefault(tp, []).append(waiting)

    def _append_one(
        self, tp: Partition, batch: RecordBatch, acks: int, guard: int
    ) -> tuple[KafkaError, RecordBatch | None]:
        checked = batch.producer_id != NO_PRODUCER and not batch.control
        check = partial(self.verification.check, tp, batch, guard) if checked else None
        try:
            replica = self._led(tp)
            end = replica.log.end
            placed = replica.append(replace(batch, appended_ms=self.node.now), acks, check)
        except Refused as refused:
            return refused.error, None
        appended = placed.base == end  # a batch that is in the log already leaves its guard
        if appended and (batch.transactional or batch.control):
            self.verification.wrote(tp, batch)
        replica.advance(self.node.now)
        return NO_ERROR, placed

    def _settle(self, waiting: DelayedProduce) -> bool:
        """Take out what is decided; whether all is, and `done` was called. A new epoch of the same leader
        decides nothing (Partition.checkEnoughReplicasReachOffset)."""
        for tp, needed in list(waiting.needs.items()):
            replica = self.node.leader_of(tp) or self._unloading(tp, waiting)
            if replica is None:
                # Whether the record survives is not known here (KAFKA-13574).
                waiting.results[tp] = (KafkaError.NOT_LEADER_OR_FOLLOWER, -1)
            elif replica.high_watermark >= needed:
                few = len(replica.acknowledging) < replica.min_isr
                if few and "min-isr-ignored" not in self.node.settings.bugs:
                    after = KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND
                    waiting.results[tp] = (after, waiting.results[tp][1])
            elif self.node.now >= waiting.until:
                waiting.results[tp] = (KafkaError.REQUEST_TIMED_OUT, -1)
            else:
                continue
            del waiting.needs[tp]
        if waiting.needs:
            return False
        waiting.done(waiting.results)
        return True

    def _unloading(self, tp: Partition, waiting: DelayedProduce) -> Replica | None:
        """The replica of a group coordinator that leads no more and was not unloaded yet: that happens in
        the background (here: with its next tick). Until then it listens to the high watermark
        (CoordinatorPartitionWriter.ListenerAdapter)."""
        late = tp[0] == GROUP_TOPIC and self.node.settings.era.unloads_late and not waiting.unloaded
        return self.node.replicas.get(tp) if late else None

    # ---- fetch

    def fetch(self, request: Fetch, answer: Answer) -> None:
        """Key 1, from followers and consumers."""
        node = self.node
        brings = request.max_wait_ms <= 0 or not self._brings_nothing(request)
        # before the leader counts what the fetch shows: the answer bears the high watermark of then
        read = self._read(request) if brings else None  # (Partition.fetchRecords)
        if request.replica >= 0 and not self._of_the_past(request):
            for tp, part in request.parts.items():
                replica = node.leader_of(tp)
                if replica is None or self._stale(replica, part):
                    continue
                if replica.log.start <= part.offset <= replica.log.end:
                    who, epoch = request.replica, request.broker_epoch
                    moved = replica.fetched_by(who, part.offset, node.now, epoch, part.start)
                    if request.replica not in replica.state.isr:
                        self.fetched(tp, request.replica)
                    if moved:
                        self.moved(tp)
                else:
                    replica.fetched_out_of_range(request.replica)
            self._settle_deletions()
        if read is not None and (not read[1] or request.max_wait_ms <= 0):
            answer(read[0])
            return
        parked = DelayedFetch(request, answer, node.now + request.max_wait_ms)
        for tp in request.parts:
            self.parked.setdefault(tp, []).append(parked)

    def _of_the_past(self, request: Fetch) -> bool:
        """A fetch of a follower's process before the one that is registered now (KIP-903)."""
        known = self.node.image.brokers.get(request.replica)
        return known is not None and 0 <= request.broker_epoch < known.epoch

    def _brings_nothing(self, request: Fetch) -> bool:
        """Whether the answer is certainly empty now, without making it: most fetches that wait are looked at
        many times."""
        replicas, follows = self.node.replicas, request.replica >= 0
        of_any = not follows and self.node.settings.era.followers_serve
        for tp, part in request.parts.items():
            replica = replicas.get(tp)
            if replica is None:
                return False
            state, log, offset = replica.state, replica.log, part.offset
            if (state.leader != replica.me and not of_any) or self._stale(replica, part):
                return False
            if follows:
                if offset != log.end:
                    return False
            elif not log.start <= offset <= log.end or offset < self._readable(replica, request):
                return False
        return True

    def _read(self, request: Fetch) -> tuple[FetchResponse, bool]:
        """The answer as it is now, and whether it brings nothing."""
        parts: dict[Partition, FetchedPartition] = {}
        empty, left = True, request.most
        for tp, part in request.parts.items():
            found = self._read_one(tp, part, request, left)
            if found.batches or found.error is not NO_ERROR:
                empty = False
                left -= sum([batch.size for batch in found.batches])
            parts[tp] = found
        return FetchResponse(parts), empty

    def _read_one(self, tp: Partition, part: FetchPartition, request: Fetch, left: int) -> FetchedPartition:
        try:
            replica = self._asked(tp, part, consumer=request.replica < 0)
        except Refused as refused:
            return FetchedPartition(refused.error)
        log, high, offset = replica.log, replica.high_watermark, part.offset
        if offset > log.end or offset < log.start:
            end = log.end if request.replica >= 0 else -1
            return FetchedPartition(KafkaError.OFFSET_OUT_OF_RANGE, (), high, -1, log.start, (), end)
        until = self._readable(replica, request)
        batches = log.read(offset, until, left) if left > 0 and offset < until else ()
        if batches and request.replica >= 0 and self._throttled(tp, batches, request.replica, replica):
            batches = ()
        # to the log's end: Kafka ends its search at an entry of the offset index, and a short log has none
        aborted = log.aborted_between(offset, log.end) if request.committed and batches else ()
        stable = until if request.committed else log.stable(high)
        return FetchedPartition(NO_ERROR, batches, high, stable, log.start, aborted)

    def _throttled(
        self, tp: Partition, batches: Sequence[RecordBatch], follower: int, replica: Replica
    ) -> bool:
        """Whether a follower is not served: it is not in sync, and the rate is spent."""
        now = self.node.now
        if follower not in replica.isr and self.quota.throttles(tp, now):
            return True
        self.quota.record(tp, batches, now)
        return False

    def _readable(self, replica: Replica, request: Fetch) -> int:
        """Where what this reader gets ends."""
        log = replica.log
        if request.replica >= 0:
            return log.end
        if "reads-above-hw" in replica.bugs:
            return log.stable(log.end) if request.committed else log.end
        if request.committed and "lso-ignores-open" not in replica.bugs:
            return log.stable(replica.high_watermark)
        return replica.high_watermark  # with that bug records of open transactions are read as if committed

    def _stale(self, replica: Replica, part: FetchPartition) -> KafkaError | None:
        """The fetch is of another topic of the name (KIP-516), or of another leader epoch than the one that
        is led here (KIP-320)."""
        if part.topic_id not in (-1, replica.topic_id):
            return KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        epoch = replica.state.leader_epoch
        if part.leader_epoch in (-1, epoch) or not self.node.settings.era.fenced_fetch:
            return None
        older = part.leader_epoch < epoch
        return KafkaError.FENCED_LEADER_EPOCH if older else KafkaError.UNKNOWN_LEADER_EPOCH

    # ---- what was waiting

    def moved(self, tp: Partition) -> None:
        """Records, high watermark or leadership of a partition changed: look at who waits for it."""
        appends = self.appends.get(tp)
        if appends:
            self.appends[tp] = []
            left = [waiting for waiting in appends if tp in waiting.needs and not self._settle(waiting)]
            self.appends[tp] = left + self.appends[tp]
        parked = self.parked.pop(tp, None)
        if parked:
            left_parked = [fetch for fetch in parked if not self._unpark(fetch)]
            if left_parked:
                self.parked[tp] = left_parked + self.parked.get(tp, [])

    def _unpark(self, parked: DelayedFetch, *, late: bool = False) -> bool:
        """Answer a fetch that has something now, or is late; whether it is done with."""
        if parked.answered:
            return True
        if not late and self._brings_nothing(parked.request):
            return False
        found, empty = self._read(parked.request)
        if empty and not late:
            return False
        parked.answered = True
        parked.answer(found)
        return True

    def tick(self) -> None:
        """Answer requests whose time has run out."""
        now = self.node.now
        self._settle_deletions()
        for tp, waits in self.appends.items():
            if not waits:
                continue
            gone = self.node.leader_of(tp) is None
            for waiting in waits:
                waiting.unloaded |= gone
            if gone or any(w.until <= now for w in waits):
                self.appends[tp] = [w for w in waits if tp in w.needs and not self._settle(w)]
        for tp, fetches in list(self.parked.items()):
            left = [
                f for f in fetches if not f.answered and (f.until > now or not self._unpark(f, late=True))
            ]
            if left:
                self.parked[tp] = left
            else:
                del self.parked[tp]

    # ---- deletion

    def delete_records(self, request: DeleteRecords, answer: Answer) -> None:
        """Key 21: answered when all replicas on live brokers have deleted as well
        (ReplicaManager.deleteRecords)."""
        waiting = DelayedDeleteRecords({}, {}, self.node.now + request.timeout_ms, answer)
        for tp, offset in request.offsets.items():
            try:
                replica = self._deletes(tp)
                wanted = replica.high_watermark if offset == -1 else offset
                replica.delete_before(wanted)
            except Refused as refused:
                waiting.results[tp] = (refused.error, -1)
                continue
            waiting.needs[tp] = wanted
            waiting.results[tp] = (NO_ERROR, replica.low_watermark(self.node.image.alive()))
        if not self._settle_deletion(waiting):
            self.deletions.append(waiting)

    def _deletes(self, tp: Partition) -> Replica:
        """The replica that leads. Raises: Refused."""
        if tp[0] in INTERNAL_TOPICS:
            raise Refused(KafkaError.INVALID_TOPIC_EXCEPTION)
        return self._led(tp)

    def _settle_deletions(self) -> None:
        """Answer those that wait for nothing more."""
        if self.deletions:
            self.deletions = [one for one in self.deletions if not self._settle_deletion(one)]

    def _settle_deletion(self, waiting: DelayedDeleteRecords) -> bool:
        """Take out what is decided; whether all is, and was answered (DelayedDeleteRecords.tryComplete)."""
        alive = self.node.image.alive()
        for tp, needed in list(waiting.needs.items()):
            replica = self.node.leader_of(tp)
            if replica is None:
                waiting.results[tp] = (KafkaError.NOT_LEADER_OR_FOLLOWER, -1)
            elif (low := replica.low_watermark(alive)) >= needed:
                waiting.results[tp] = (NO_ERROR, low)
            elif self.node.now >= waiting.until:
                waiting.results[tp] = (KafkaError.REQUEST_TIMED_OUT, waiting.results[tp][1])
            else:
                continue
            del waiting.needs[tp]
        if waiting.needs:
            return False
        waiting.answer(DeleteRecordsResponse(waiting.results))
        return True

    # ---- other questions

    def epoch_ends(self, request: OffsetForLeaderEpoch) -> OffsetForLeaderEpochResponse:
        """Key 23: where an epoch ends in the leader's log."""
        parts: dict[Partition, tuple[KafkaError, int, int]] = {}
        for tp, (current, asked) in request.parts.items():
            try:
                replica = self._asked(tp, FetchPartition(0, current), of_epochs=True)
                parts[tp] = (NO_ERROR, *replica.log.end_of(asked))
            except Refused as refused:
                parts[tp] = (refused.error, -1, -1)
        return OffsetForLeaderEpochResponse(parts)

    def list_offsets(self, request: ListOffsets) -> ListOffsetsResponse:
        """Key 2."""
        parts: dict[Partition, tuple[KafkaError, int]] = {}
        for tp in request.parts:
            try:
                replica = self._led(tp)
                latest = partial(replica.latest_offset, committed=request.committed)
                parts[tp] = (NO_ERROR, replica.log.start if request.earliest else latest())
            except Refused as refused:
                parts[tp] = (refused.error, -1)
        return ListOffsetsResponse(parts)
