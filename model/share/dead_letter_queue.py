"""A broker as writer of dead letters (KIP-1191; Kafka's ShareGroupDLQStateManager).

The letter of a record says which group gave it up, and has a copy of it. It goes to the partition of the
queue whose number is that of the record's partition, modulo the number of the queue's partitions, with
acks=all and without idempotence. Where no answer comes, or one of a broker that does not lead, it is sent
again, `ATTEMPTS` times in all; every other error ends it. Who has it written hears of the end, however it
came.

An offset at which a transaction's marker stands gets no letter. Kafka 4.4.0 writes one (planted bug
`letters-of-markers`).

Left out: the making of a queue that is not there; letters of several runs in one request; the jitter between
attempts; what one request may hold at most.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from model.errors import NO_ERROR, KafkaError
from model.log.unified_log import REMOVED, RecordBatch
from model.protocol.messages import Partition, Produce, ProduceResponse
from model.protocol.share_messages import StateBatch
from model.replication.node import NodeState

ATTEMPTS: Final = 5
BACKOFF_MS: Final = 1000
"""After the first attempt; twice as long after each further one."""


class LetterRecord(NamedTuple):
    """A record of a dead-letter queue. copy: the record that it is of, None = headers only."""

    group: str
    partition: Partition
    offset: int
    times: int
    copy: object


@dataclass(slots=True, eq=False)
class Letters:
    """Those of one run of records. number: of the partition that it is in. done: called at the end. pause: no
    attempt before."""

    records: tuple[LetterRecord, ...]
    number: int
    done: Callable[[], None]
    attempts: int = 0
    pause: int = 0


class DeadLetterQueue:
    """See the module. `waiting` for the next attempt."""

    def __init__(self, node: NodeState) -> None:
        self.node = node
        self.topic = node.settings.share_letters
        self.bugs = node.settings.bugs
        self.waiting: list[Letters] = []

    def write(self, group: str, tp: Partition, run: StateBatch, done: Callable[[], None]) -> None:
        """Write the letters of a run of records; `done` is called once they are written or given up."""
        found = (self._letter(group, tp, at, run.times) for at in range(run.first, run.last + 1))
        records = tuple(one for one in found if one is not None)
        if "letters-of-first-only" in self.bugs:
            records = records[:1]
        if records:
            self._ask(Letters(records, tp[1], done))
        else:
            done()

    def tick(self) -> None:
        """Every 100 ms: what failed is tried again."""
        due = [one for one in self.waiting if one.pause <= self.node.now]
        self.waiting = [one for one in self.waiting if one.pause > self.node.now]
        for letters in due:
            self._ask(letters)

    def _letter(self, group: str, tp: Partition, offset: int, times: int) -> LetterRecord | None:
        """None = a marker stands there."""
        batch = self._batch(tp, offset)
        if batch is not None and batch.control and "letters-of-markers" not in self.bugs:
            return None
        if "letters-with-next-copy" in self.bugs:
            batch, copied = self._batch(tp, offset + 1), offset + 1
        else:
            copied = offset
        kept = batch.records[copied - batch.base] if batch is not None and not batch.control else None
        return LetterRecord(group, tp, offset, times, None if kept is REMOVED else kept)

    def _batch(self, tp: Partition, offset: int) -> RecordBatch | None:
        """The batch of a record. None = this broker leads its partition no more, or has it no more."""
        replica = self.node.leader_of(tp)
        if replica is None or not replica.log.start <= offset < replica.log.end:
            return None
        return next((one for one in replica.log.read(offset, replica.log.end, 1) if one.base <= offset), None)

    def _ask(self, letters: Letters) -> None:
        letters.attempts += 1
        partitions = self.node.image.partitions
        count = sum(topic == self.topic for topic, _ in partitions)
        tp = self.topic, letters.number % max(count, 1)
        leader = partitions[tp].leader if tp in partitions else -1
        if leader < 0:
            self._failed(letters)
            return
        timeout_ms = self.node.settings.request_timeout_ms
        request = Produce(-1, {tp: RecordBatch(-1, -1, letters.records)}, timeout_ms=timeout_ms)
        channel = f"letters {tp[1]}"
        self.node.ask(leader, channel, request, lambda answer: self._answered(letters, tp, answer))

    def _answered(self, letters: Letters, tp: Partition, answer: ProduceResponse | None) -> None:
        error = answer.results[tp][0] if answer is not None else KafkaError.REQUEST_TIMED_OUT
        if answer is None or error is KafkaError.NOT_LEADER_OR_FOLLOWER:
            self._failed(letters)
        elif error is NO_ERROR and "letters-sent-twice" in self.bugs and letters.attempts == 1:
            self._ask(letters)
        else:
            letters.done()

    def _failed(self, letters: Letters) -> None:
        """Try again later, if that was not the last attempt."""
        if letters.attempts < ATTEMPTS:
            letters.pause = self.node.now + BACKOFF_MS * 2 ** (letters.attempts - 1)
            self.waiting.append(letters)
        else:
            letters.done()
