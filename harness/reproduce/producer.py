"""A transactional producer by hand: one request at a time, to a chosen broker.

It speaks transaction version 1, as librdkafka does: the producer itself adds partitions to its
transaction (KIP-98); or version 2, where brokers add them, and each end raises the epoch (KIP-890). It
repeats a request after a retriable error, as clients do, and says each answer.
"""

import datetime
import time
from collections.abc import Callable, Mapping

from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnResponse
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse
from kio.schema.end_txn.v3.response import EndTxnResponse
from kio.schema.end_txn.v5.response import EndTxnResponse as EndedAndBumped
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.response import FindCoordinatorResponse
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.produce.v12.response import ProduceResponse as ProducedAndAdded
from kio.static.protocol import Payload

from core.errors import ClusterError
from core.op import TopicPartition
from harness.brokers.admin.connection import AdminError, Brokers, R
from harness.protocol.batches import sent_batch
from harness.protocol.payloads import Message
from harness.protocol.topics import in_topics, numbers_in_topics

TIMEOUT = datetime.timedelta(seconds=60)
"""Of the transaction: longer than any schedule takes to its end."""
TRANSACTION_KEY = 1
"""FindCoordinator's type of key for a transactional id."""
ANSWER_S = 40.0
"""Longer than a broker waits for its followers (request.timeout.ms of the stage)."""
RETRY_S = 60.0
PAUSE_S = 0.1


class RequestRefused(ClusterError):
    """A broker answered with an error that no repetition cures, or with nothing else until the deadline.

    answer: the last one, such as PRODUCER_FENCED.
    """

    def __init__(self, message: str, answer: str) -> None:
        super().__init__(message)
        self.answer = answer


class WireProducer:
    """One instance of a transactional id.

    asked: the broker that it asks for coordinators. version: of transactions, 1 or 2. timeout: of its
    transactions. acknowledged: the records that leaders acknowledged, (partition, offset) → value.
    """

    def __init__(
        self,
        brokers: Brokers,
        asked: int,
        transactional_id: str,
        say: Callable[[str], None],
        version: int = 1,
    ) -> None:
        self.transactional_id = transactional_id
        self.timeout = TIMEOUT
        self.acknowledged: dict[tuple[TopicPartition, int], str] = {}
        self._brokers, self._asked, self._say, self._version = brokers, asked, say, version
        self._id, self.epoch = -1, -1
        self._sequences: dict[TopicPartition, int] = {}

    @property
    def identity(self) -> dict[str, object]:
        """The fields of requests that say who it is."""
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self._id,
            "producer_epoch": self.epoch,
        }

    def call(self, node: int, response: type[R], /, **values: object) -> R:
        """Ask a broker: see `BrokerConnection.call`. Raises: AdminError."""
        with self._brokers.connect(node, ANSWER_S) as connection:
            return connection.call(response, **values)

    def coordinator(self) -> int:
        """Raises: AdminError; the number is -1 where the broker knows none."""
        answer = self.call(
            self._asked, FindCoordinatorResponse, key=self.transactional_id, key_type=TRANSACTION_KEY
        )
        return int(answer.node_id)

    def init(self, known: Mapping[str, object] | None = None) -> None:
        """InitProducerId, until it succeeds. known: see `init_once`. Raises: RequestRefused."""
        self.until_done("InitProducerId", lambda: self.init_once(known))

    def init_once(self, known: Mapping[str, object] | None = None) -> tuple[int, ErrorCode]:
        """Who was asked, and its answer. known: the identity whose next epoch it asks for (KIP-360); without
        one it begins again, as a new instance does. Raises: AdminError."""
        node = self.coordinator()
        wanted = known or {"transactional_id": self.transactional_id}
        answer = self.call(node, InitProducerIdResponse, transaction_timeout=self.timeout, **wanted)
        self._id, self.epoch = int(answer.producer_id), int(answer.producer_epoch)
        self._sequences.clear()
        return node, answer.error_code

    def add_once(self, tp: TopicPartition) -> tuple[int, ErrorCode]:
        """AddPartitionsToTxn: who was asked, and its answer. Raises: AdminError."""
        node = self.coordinator()
        answer = self.call(
            node,
            AddPartitionsToTxnResponse,
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=numbers_in_topics([tp]),
        )
        (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
        return node, result.partition_error_code

    def write(self, tp: TopicPartition, value: str, leader: int) -> None:
        """Add the partition to the transaction and write a record, until both succeed.

        Raises: RequestRefused.
        """
        if self._version < 2:
            self.until_done(f"AddPartitionsToTxn({tp.partition})", lambda: self.add_once(tp))
        self.send(tp, value, leader, self.batch(tp, value))

    def batch(self, tp: TopicPartition, value: str) -> bytes:
        """A batch with the next record of a partition, as the producer makes it now."""
        producer = (self._id, self.epoch, self._sequences.get(tp, 0))
        return sent_batch([value.encode()], time.time_ns() // 1_000_000, producer, transactional=True)

    def send(self, tp: TopicPartition, value: str, leader: int, batch: bytes) -> None:
        """Write the batch of a record, until that succeeds. Raises: RequestRefused."""
        self.until_done(f"Produce({tp.partition}, {value})", lambda: self.send_once(tp, value, leader, batch))

    def send_once(
        self, tp: TopicPartition, value: str, leader: int, batch: bytes, response: type[Payload] | None = None
    ) -> tuple[int, ErrorCode]:
        """Produce: who was asked, and its answer. response: kio's, of another version of the request than the
        producer's. Raises: AdminError."""
        part = {"index": tp.partition, "records": batch}
        response = response or (ProduceResponse if self._version < 2 else ProducedAndAdded)
        answer: Message = self.call(
            leader,
            response,
            transactional_id=self.transactional_id,
            acks=-1,
            timeout=datetime.timedelta(seconds=ANSWER_S - 10),
            topic_data=in_topics([(tp, part)], "partition_data"),
        )
        (result,) = answer.responses[0].partition_responses
        if result.error_code == ErrorCode.none:
            self._sequences[tp] = self._sequences.get(tp, 0) + 1
            self.acknowledged[tp, int(result.base_offset)] = value
        return leader, result.error_code

    def end(self, *, commit: bool) -> None:
        """EndTxn, until it is acknowledged. Raises: RequestRefused."""

        def once() -> tuple[int, ErrorCode]:
            node = self.coordinator()
            response: type[Payload] = EndTxnResponse if self._version < 2 else EndedAndBumped
            answer: Message = self.call(node, response, **self.identity, committed=commit)
            if self._version >= 2 and answer.error_code == ErrorCode.none:
                self._id, self.epoch = int(answer.producer_id), int(answer.producer_epoch)
                self._sequences.clear()
            return node, answer.error_code

        self.until_done(f"EndTxn({'commit' if commit else 'abort'})", once)

    def until_done(self, what: str, once: Callable[[], tuple[int, ErrorCode]]) -> None:
        """Ask until the answer is success, and say what was answered.

        Raises: RequestRefused.
        """
        answers: list[str] = []
        deadline = time.monotonic() + RETRY_S
        while True:
            final = done = False
            try:
                node, code = once()
                done = code == ErrorCode.none
                final = not done and not code.retriable
                answer = f"broker {node}: {code.name.upper()}"
            except (AdminError, KeyError):  # KeyError: there is no coordinator, node -1
                answer = "no answer"
            if answers[-1:] != [answer]:
                answers.append(answer)
            if done:
                self._say(f"{what} → {' → '.join(answers)}")
                return
            if final or time.monotonic() > deadline:
                raise RequestRefused(f"{what} → {' → '.join(answers)}", answer.rpartition(": ")[2])
            time.sleep(PAUSE_S)

    def described(self, node: int) -> str:
        """What a broker says of the transaction as its coordinator: `Ongoing 0,1`; an error in capitals."""
        try:
            answer = self.call(node, DescribeTransactionsResponse, transactional_ids=[self.transactional_id])
        except AdminError:
            return "NO_ANSWER"
        (one,) = answer.transaction_states
        if one.error_code != ErrorCode.none:
            return one.error_code.name.upper()
        partitions = sorted(int(number) for topic in one.topics for number in topic.partitions)
        return f"{one.transaction_state} {','.join(map(str, partitions))}".strip()
