"""A producer as real ones are: batches, a window of requests, retries, idempotence, transactions.

Records are queued by partition, put into batches, and sent to the leaders, at most `in_flight` requests at a
time to each. A refused or unanswered batch is sent again, in its order, until its delivery time has run out.
An idempotent producer numbers its batches; one that gives a numbered batch up bumps its epoch before it
sends to that partition again (KIP-360). With a transactional id, ends of transactions are asked for again on
a new connection when no answer comes, as librdkafka and the Java client do.

Left out: what clients do where OUT_OF_ORDER_SEQUENCE_NUMBER (or UNKNOWN_PRODUCER_ID, until 2.4) is the answer
and no older batch is undecided. Here the batch fails. An idempotent Java producer without a transactional id
sends it again, in the end renumbered in a new epoch (TransactionManager.canRetry); librdkafka is finished
where the batch is the next one, else it sends again in a new epoch, too (rd_kafka_handle_Produce_error).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from model.client.client_metadata import BACKOFF_MS, RETRIABLE, ClientMetadata, KafkaClient
from model.errors import NO_ERROR, KafkaError
from model.log.unified_log import NO_EPOCH, NO_PRODUCER, NO_SEQUENCE, RecordBatch
from model.protocol.coordinator_messages import InitProducerId, ProducerIdResponse
from model.protocol.messages import Partition, Produce, ProduceResponse
from model.replication.node import Ask

FENCED: Final = frozenset({KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})
"""Answers to a batch of a transaction after which the producer is finished. (The first one: librdkafka. A
Java client is finished when the coordinator says so at the end of the transaction.)"""


class Delivered(NamedTuple):
    """What happened to one record. error NONE: acknowledged at `offset` (-1 = unknown)."""

    token: int
    error: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """Times in milliseconds. `retries`: per batch. `batch`: most records of one; a
    smaller one waits `linger_ms` for more. transaction_version: from 2
    on leaders add their partitions to the transaction themselves, and the client asks for none.

    What librdkafka does, and Java clients do not. implicit_acks: an acknowledged batch acknowledges all that
    were sent to its partition before. bump_renumbers: before it raises its epoch it waits for all
    answers, and what has to be sent again then gets new sequences (librdkafka #4953).
    """

    acks: int = -1
    idempotent: bool = True
    transactional_id: str | None = None
    transaction_timeout_ms: int = 10_000
    transaction_version: int = 1
    in_flight: int = 5
    retries: int = 1_000_000
    linger_ms: int = 0
    batch: int = 50
    delivery_ms: int = 10_000
    request_ms: int = 2_000
    implicit_acks: bool = False
    bump_renumbers: bool = False
    bugs: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """A batch on its way. `sequence` is given when it is sent first."""

    tp: Partition
    records: tuple[object, ...]
    tokens: tuple[int, ...]
    until: int
    sequence: int = NO_SEQUENCE
    producer_id: int = NO_PRODUCER
    producer_epoch: int = NO_EPOCH
    sent: int = 0
    not_before: int = 0


@dataclass(slots=True)
class PartitionLane:
    """One partition of a producer. `queue`: to be sent, in order; `flying`: sent, unanswered, in order.

    producer_id, epoch, next: identity and sequence of the next new batch. broken: a numbered batch was
    given up, so that its sequence may be missing: the lane needs a new identity, once every other
    numbered batch is decided."""

    queue: deque[ProducerBatch] = field(default_factory=deque)
    flying: list[ProducerBatch] = field(default_factory=list)
    epoch: int = NO_EPOCH
    producer_id: int = NO_PRODUCER
    next: int = 0
    broken: bool = False

    @property
    def numbered(self) -> bool:
        """A batch with a sequence is not decided yet."""
        return bool(self.flying) or any(p.sequence != NO_SEQUENCE for p in self.queue)


class Producer(KafkaClient):
    """See the module. `fatal`: code of the error that ended it, "" = none."""

    def __init__(self, settings: ProducerSettings, bootstrap: Sequence[int]) -> None:
        super().__init__(ClientMetadata(bootstrap))
        self.settings = settings
        self.fatal = ""
        self.producer_id = NO_PRODUCER
        self.producer_epoch = NO_EPOCH
        self.delivered: list[Delivered] = []
        self.lanes: dict[Partition, PartitionLane] = {}
        self._flights: dict[str, tuple[int, ProducerBatch]] = {}
        """By channel: the node, and what it is sent."""
        self._number = 0
        self._id_pause = 0

    # ---- what the application does

    def send(self, tp: Partition, records: Sequence[tuple[object, int]], now: int) -> None:
        """Queue records: (payload, token) each; a `Delivered` follows for each token."""
        lane = self.lanes.setdefault(tp, PartitionLane())
        most = self.settings.batch
        rest = self._fill(lane, records, now) if self.settings.linger_ms else records
        for at in range(0, len(rest), most):
            part = rest[at : at + most]
            batch = ProducerBatch(
                tp,
                tuple(payload for payload, _ in part),
                tuple(token for _, token in part),
                now + self.settings.delivery_ms,
            )
            if len(part) < most:
                batch.not_before = now + self.settings.linger_ms
            lane.queue.append(batch)

    def _fill(
        self, lane: PartitionLane, records: Sequence[tuple[object, int]], now: int
    ) -> Sequence[tuple[object, int]]:
        """Put records into the batch that still lingers, if there is one; the records left over."""
        last = lane.queue[-1] if lane.queue else None
        if last is None or last.sent or last.not_before <= now:
            return records
        room = self.settings.batch - len(last.records)
        last.records += tuple(payload for payload, _ in records[:room])
        last.tokens += tuple(token for _, token in records[:room])
        if len(last.records) == self.settings.batch:
            last.not_before = 0
        return records[room:]

    def purge(self, code: str) -> None:
        """Give up what was never sent (an abort). What was sent gets its answer, or its time has run out."""
        for lane in self.lanes.values():
            for pending in lane.queue:
                if not pending.sent:
                    self._finish(pending, code)
            lane.queue = deque(pending for pending in lane.queue if pending.sent)

    def drop(self, code: str) -> None:
        """Give up everything (a fatal error)."""
        for lane in self.lanes.values():
            for pending in (*lane.flying, *lane.queue):
                self._finish(pending, code)
            lane.queue.clear()
            lane.flying.clear()

    @property
    def idle(self) -> bool:
        """Nothing is queued or under way."""
        return not any(lane.queue or lane.flying for lane in self.lanes.values())

    # ---- time and answers

    def pump(self, now: int) -> None:
        """Send what can be sent."""
        self.out += self.cluster.requests(now)
        if self.fatal:
            return
        self._expire(now)
        if self.settings.idempotent and self.producer_id == NO_PRODUCER:
            self._get_id(now)
            return
        if self.settings.bump_renumbers and any(lane.broken for lane in self.lanes.values()):
            if any(lane.flying for lane in self.lanes.values()):
                return
            self._raise_epoch()
        for tp, lane in self.lanes.items():
            if lane.broken and not lane.numbered:
                if not self._stale(lane):
                    self._raise_epoch()
                    continue
                lane.broken = False
            if lane.queue:
                self._drain(tp, now)

    def _stale(self, lane: PartitionLane) -> bool:
        return (lane.producer_id, lane.epoch) != (self.producer_id, self.producer_epoch)

    def _raise_epoch(self) -> None:
        """KIP-360: a new epoch, in which sequences begin at 0. The client raises it on its own; a copy of
        what it has given up is then of an old epoch, and refused behind records of the new one."""
        if self.settings.transactional_id is None:
            self.producer_epoch += 1
        if self.settings.bump_renumbers:
            for lane in self.lanes.values():
                lane.broken = False
                for pending in lane.queue:
                    pending.sequence = NO_SEQUENCE  # the log cannot know it again

    def _get_id(self, now: int) -> None:
        waits = "init" in self._under_way or now < self._id_pause
        if not waits and self.settings.transactional_id is None:
            self._ask(self.cluster.any_node(), "init", InitProducerId(None, 0), self._got_id)

    def _drain(self, tp: Partition, now: int) -> None:
        lane = self.lanes[tp]
        limit = self.settings.in_flight
        while lane.queue and not self._muted(tp):
            node, _ = self.cluster.leaders.get(tp, (-1, -1))
            first = lane.queue[0]
            if node < 0:
                self.cluster.wanted = True
                return
            if first.not_before > now:
                return
            flights = self._flights
            if len(flights) >= limit and sum(to == node for to, _ in flights.values()) >= limit:
                return
            again = first.sent > 0
            if lane.broken and not again:
                return
            if again and lane.flying and first.sequence > lane.flying[0].sequence:
                return  # retries go one by one, the oldest first
            if not again and lane.flying and any(p.sent > 1 for p in lane.flying):
                return  # nothing new before what is sent again was answered
            lane.queue.popleft()
            self._number_batch(lane, first)
            self._fly(node, lane, first)

    def _muted(self, tp: Partition) -> bool:
        """With one request in flight nothing follows a batch that has no answer, not even to another leader
        (Java: `Sender.guaranteeMessageOrder`)."""
        if self.settings.in_flight > 1:
            return False
        return any(flying.tp == tp for _, flying in self._flights.values())

    def _number_batch(self, lane: PartitionLane, pending: ProducerBatch) -> None:
        bumped = "bump-in-flight" in self.settings.bugs and self._stale(lane)
        if bumped and pending.sequence != NO_SEQUENCE:
            pending.sequence = NO_SEQUENCE  # it may stand in the log already
        if not self.settings.idempotent or pending.sequence != NO_SEQUENCE:
            return
        if self._stale(lane) and (bumped or not lane.numbered):
            lane.producer_id, lane.epoch, lane.next = self.producer_id, self.producer_epoch, 0
        pending.producer_id, pending.producer_epoch = lane.producer_id, lane.epoch
        pending.sequence = lane.next
        lane.next += len(pending.records)

    def _fly(self, node: int, lane: PartitionLane, pending: ProducerBatch) -> None:
        pending.sent += 1
        self._number += 1
        channel = f"produce {self._number}"
        tid = self.settings.transactional_id
        identity = (pending.producer_id, pending.producer_epoch, pending.sequence)
        batch = RecordBatch(-1, -1, pending.records, *identity, transactional=tid is not None)
        acks = self.settings.acks
        if acks == -1 and "asks-the-leader-only" in self.settings.bugs:
            acks = 1
        request = Produce(acks, {pending.tp: batch}, tid, self.settings.request_ms)
        if acks == 0:
            self.out.append(Ask(node, channel, request))
            self._finish(pending, "")
            return
        lane.flying.append(pending)
        lane.flying.sort(key=lambda p: p.sequence)
        self._flights[channel] = (node, pending)
        self._ask(node, channel, request, partial(self._landed, channel))

    def _expire(self, now: int) -> None:
        """Give up batches whose delivery time has run out, in flight or not: an answer that comes later
        is of no use (Java: `Sender.getExpiredInflightBatches`; librdkafka: a request waits no longer than
        its messages)."""
        told = "" if "expiry-is-an-ack" in self.settings.bugs else "_MSG_TIMED_OUT"
        for lane in self.lanes.values():
            if not lane.flying and (not lane.queue or lane.queue[0].until > now):
                continue
            late = [pending for pending in lane.flying if pending.until <= now]
            for pending in late:
                lane.flying.remove(pending)
            while lane.queue and lane.queue[0].until <= now and not lane.flying:
                late.append(lane.queue.popleft())
            for pending in late:
                lane.broken |= pending.sequence != NO_SEQUENCE
                self._finish(pending, told)

    def _got_id(self, answer: ProducerIdResponse | None, now: int) -> None:
        if answer is None or answer.error is not NO_ERROR:
            self._id_pause = now + BACKOFF_MS
            return
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    def _landed(self, channel: str, answer: ProduceResponse | None, now: int) -> None:
        _, pending = self._flights.pop(channel)
        lane = self.lanes[pending.tp]
        if pending not in lane.flying:
            return  # given up meanwhile
        lane.flying.remove(pending)
        error, base = KafkaError.REQUEST_TIMED_OUT, -1
        if answer is not None:
            error, base = answer.results[pending.tp]
        if answer is None and "silence-is-an-ack" in self.settings.bugs:
            error = NO_ERROR
        if error in (NO_ERROR, KafkaError.DUPLICATE_SEQUENCE_NUMBER):
            self._finish(pending, "", base)
            if self.settings.implicit_acks:
                self._acknowledge_older(lane, pending)
        elif self._again(lane, pending, error):
            pending.not_before = now + BACKOFF_MS
            if "retry-gets-new-sequence" in self.settings.bugs:
                pending.sequence = NO_SEQUENCE  # the broker cannot know it again
            self._requeue(lane, pending)
            self.cluster.wanted = True
        else:
            self._refused(pending, error)

    def _acknowledge_older(self, lane: PartitionLane, acknowledged: ProducerBatch) -> None:
        for pending in [*lane.flying, *lane.queue]:
            if 0 <= pending.sequence < acknowledged.sequence:
                (lane.flying if pending in lane.flying else lane.queue).remove(pending)
                self._finish(pending, "")

    def _again(self, lane: PartitionLane, pending: ProducerBatch, error: KafkaError) -> bool:
        if pending.sent > self.settings.retries:
            return False
        if error is KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # One before it is under way or will be sent again: then this one fits.
            older = [p for p in (*lane.flying, *lane.queue) if 0 <= p.sequence < pending.sequence]
            return bool(older)
        return error in RETRIABLE

    def _requeue(self, lane: PartitionLane, pending: ProducerBatch) -> None:
        at = 0
        while (
            self.settings.idempotent
            and at < len(lane.queue)
            and 0 <= lane.queue[at].sequence < pending.sequence
        ):
            at += 1
        lane.queue.insert(at, pending)

    def _refused(self, pending: ProducerBatch, error: KafkaError) -> None:
        self._finish(pending, error.name)
        if self.settings.transactional_id is not None and error in FENCED:
            self.fatal = error.name
        elif self.settings.idempotent:
            self.lanes[pending.tp].broken = True

    def _finish(self, pending: ProducerBatch, error: str, base: int = -1) -> None:
        for n, token in enumerate(pending.tokens):
            self.delivered.append(Delivered(token, error, base + n if base >= 0 else -1))
