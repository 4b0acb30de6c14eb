"""The transaction coordinator: transactional ids, their producer ids and epochs, two-phase commit.

A broker coordinates the transactional ids that fall into the partitions of `__transaction_state` that it
leads. Every change is appended to that log first and takes effect when all in-sync replicas have it: EndTxn
is answered once the prepare record is committed, then the markers go out, then the complete record.
"""

from collections.abc import Callable, Sequence
from typing import Final

from core.internal_topics import GROUP_TOPIC
from core.java_hash import java_hash
from model.coordinator.producer_id_manager import ProducerIdManager
from model.coordinator.transaction_metadata import (
    COMPLETE_ABORT,
    ENDED,
    ONGOING,
    PREPARE_ABORT,
    PREPARED,
    TransactionMetadata,
    TransactionRecord,
)
from model.coordinator.transaction_state_manager import Done, TransactionStateManager
from model.errors import NO_ERROR, KafkaError, Refused
from model.log.unified_log import NO_PRODUCER
from model.protocol.coordinator_messages import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    AddPartitionsToTxnResponse,
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsResponse,
    EndTxn,
    InitProducerId,
    ProducerIdResponse,
    TransactionRequest,
)
from model.protocol.messages import Partition
from model.protocol.requests import Answer, ErrorResponse, Handlers, Response
from model.replication.node import NodeState
from model.replication.replica_manager import ReplicaManager

ABORTED: Final = (PREPARE_ABORT, COMPLETE_ABORT)


class TransactionCoordinator:
    """See the module. controller(): the node that is it, -1 unknown."""

    def __init__(
        self, node: NodeState, replica_manager: ReplicaManager, controller: Callable[[], int]
    ) -> None:
        settings = node.settings
        self.node = node
        self.bugs = settings.bugs
        self.server_version = settings.era.server_transaction_version
        self.client_version = settings.era.client_transaction_version
        self.ids = ProducerIdManager(node, controller)
        self.log = TransactionStateManager(node, replica_manager, controller)
        self._scan_at = 0

    def register(self, handlers: Handlers) -> None:
        """Add its handlers."""
        handlers.on(InitProducerId, self.init_producer_id, ProducerIdResponse)
        handlers.on(AddPartitionsToTxn, self.add_partitions, AddPartitionsToTxnResponse)
        handlers.on(AddOffsetsToTxn, self.add_offsets)
        handlers.on(EndTxn, self.end_txn, ProducerIdResponse)
        handlers.at_once(DescribeTransactions, self._describe)

    # ---- InitProducerId

    def init_producer_id(self, request: InitProducerId, answer: Answer) -> None:
        """Key 22: a producer id and an epoch, which fences the previous owner of the id."""
        tid = request.transactional_id
        if tid is None:
            answer(ProducerIdResponse(NO_ERROR, self.ids.take(), 0))
            return
        timeout = request.timeout_ms
        if not 0 < timeout <= self.node.settings.transaction_max_timeout_ms:
            raise Refused(KafkaError.INVALID_TRANSACTION_TIMEOUT)
        number = self.log.at(tid)
        transaction = self.log.known[number].get(tid)
        if transaction is None:
            fresh = TransactionRecord(tid, self.ids.take(), timeout, updated=self.node.now)
            transaction = TransactionMetadata(fresh, self.node.settings.producer_epoch_max)
            self.log.known[number][tid] = transaction
        if transaction.pending is not None:
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        if not self._owns(transaction, request):
            raise Refused(KafkaError.PRODUCER_FENCED)
        if transaction.state in PREPARED:
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        if transaction.state is ONGOING and "init-leaves-open" in self.bugs:
            record = transaction.record._replace(epoch=transaction.record.epoch + 1)
            transaction.record = record  # its successor continues with the open transaction
            answer(ProducerIdResponse(NO_ERROR, record.producer_id, record.epoch))
            return
        if transaction.state is ONGOING:
            # Its predecessor's transaction is aborted first; the client asks again meanwhile.
            again = KafkaError.CONCURRENT_TRANSACTIONS
            self._fence(number, transaction, lambda error: answer(ProducerIdResponse(error or again)))
            return
        record = self._next(transaction, request)

        def written(error: KafkaError) -> None:
            told = (record.producer_id, record.epoch) if error is NO_ERROR else ()
            answer(ProducerIdResponse(error, *told))

        self.log.write(number, transaction, record, written)

    def _owns(self, transaction: TransactionMetadata, request: InitProducerId) -> bool:
        """A client that has an id already (KIP-360) must have the newest one, or one whose epochs were
        used up and whose successor it has not learnt."""
        known = transaction.record
        if request.producer_id < 0 or known.epoch < 0 or request.producer_id == known.producer_id:
            return True
        exhausted = request.producer_epoch >= transaction.most - 1
        return request.producer_id == known.previous_id and exhausted

    def _next(self, transaction: TransactionMetadata, request: InitProducerId) -> TransactionRecord:
        now, timeout = self.node.now, request.timeout_ms
        expected = request.producer_epoch if request.producer_id >= 0 else None
        before = transaction.record.epoch
        record = transaction.prepare_init(self.ids.take, timeout, expected, now)
        if "zombie-not-fenced" in self.bugs and record.epoch > before:  # two clients with one epoch
            record = record._replace(epoch=max(before, 0))
        return record

    def _fence(self, number: int, transaction: TransactionMetadata, done: Done, *, bump: bool = True) -> None:
        """Abort the open transaction under a higher epoch, so that its producer cannot continue."""
        version = self.server_version  # no client asked for this end
        next_id = self._next_id(transaction, version)
        transaction.prepare_fence()
        commit = "timeout-commits" in self.bugs  # what was there of it
        record = transaction.prepare_end(
            commit, self.node.now, version, next_id=next_id, fence=True, bump=bump
        )

        def fenced(error: KafkaError) -> None:
            transaction.fence_failed = version < 2 and error is not NO_ERROR
            done(error)

        self.log.end(number, transaction, record, fenced)

    def _next_id(self, transaction: TransactionMetadata, version: int) -> int:
        """The producer id that follows this transaction, where its own has no epoch left."""
        return self.ids.take() if version >= 2 and transaction.exhausted else NO_PRODUCER

    # ---- AddPartitions, AddOffsets

    def add_partitions(self, request: AddPartitionsToTxn, answer: Answer) -> None:
        """Key 24: partitions join the transaction, which begins with the first; or a leader asks.

        All or none: a partition that this broker has not heard of yet would be taken for a deleted one when
        the markers are written, and its transaction would hang (KafkaApis).
        """
        if any(tp not in self.node.image.partitions for tp in request.partitions):
            raise Refused(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
        if request.verify:
            answer(AddPartitionsToTxnResponse(NO_ERROR, self._verified(request)))
        else:
            self._add(request, request.partitions, lambda error: answer(AddPartitionsToTxnResponse(error)))

    def add_offsets(self, request: AddOffsetsToTxn, answer: Answer) -> None:
        """Key 25: as AddPartitions, of the partition that holds the group's offsets."""
        number = java_hash(request.group) % self.node.settings.offsets_partitions
        self._add(request, ((GROUP_TOPIC, number),), lambda error: answer(ErrorResponse(error)))

    def _may_join(self, transaction: TransactionMetadata, request: TransactionRequest[Response]) -> None:
        known = transaction.record
        if known.producer_id != request.producer_id:
            raise Refused(KafkaError.INVALID_PRODUCER_ID_MAPPING)
        if known.epoch != request.producer_epoch and "old-epoch-appended" not in self.bugs:
            raise Refused(KafkaError.PRODUCER_FENCED)

    def _add(self, request: TransactionRequest[Response], added: Sequence[Partition], done: Done) -> None:
        number, transaction = self.log.find(request.transactional_id)
        known = transaction.record
        if transaction.pending is not None and self.node.settings.era.pending_first:
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        self._may_join(transaction, request)
        if transaction.pending is not None or transaction.state in PREPARED:
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        if transaction.state is ONGOING and set(added) <= set(known.partitions):
            done(NO_ERROR)
            return
        record = transaction.prepare_add(added, self.node.now, self.client_version)
        if "partitions-not-logged" in self.bugs:  # the next coordinator does not know them
            transaction.complete(record)
            done(NO_ERROR)
            return
        self.log.write(number, transaction, record, done)

    def _verified(self, request: AddPartitionsToTxn) -> dict[Partition, KafkaError]:
        """Which partitions belong to the transaction (KIP-890, part 1). What is pending does not matter:
        the leader looks once more when it appends."""
        _, transaction = self.log.find(request.transactional_id)
        self._may_join(transaction, request)
        if transaction.state in PREPARED:
            raise Refused(KafkaError.CONCURRENT_TRANSACTIONS)
        mine = transaction.record.partitions
        return {tp: NO_ERROR if tp in mine else KafkaError.TRANSACTION_ABORTABLE for tp in request.partitions}

    # ---- EndTxn

    def end_txn(self, request: EndTxn, answer: Answer) -> None:
        """Key 26. From transaction version 2 on the answer brings the next epoch."""

        def ended(error: KafkaError) -> None:
            newer = error is NO_ERROR and self.client_version >= 2
            answer(ProducerIdResponse(error, *((told.producer_id, told.epoch) if newer else ())))

        number, transaction = self.log.find(request.transactional_id)
        decided = self._decide(transaction, request)
        if decided is not None:
            told = transaction.record
            ended(decided)
            return
        version = self.client_version
        next_id = self._next_id(transaction, version)
        record = transaction.prepare_end(request.commit, self.node.now, version, next_id=next_id)
        told = record._replace(producer_id=next_id, epoch=0) if next_id >= 0 else record
        self.log.end(number, transaction, record, ended)

    def _decide(self, transaction: TransactionMetadata, request: EndTxn) -> KafkaError | None:
        producer_id, epoch = request.producer_id, request.producer_epoch
        if request.commit and transaction.state in ABORTED and "late-commit-answered" in self.bugs:
            return NO_ERROR  # it was aborted when its time had run out
        if "end-txn-ignores-epoch" in self.bugs and transaction.state is ONGOING:
            epoch = transaction.record.epoch  # a fenced producer ends its successor's transaction
        if transaction.pending is not None and self.client_version >= 2:
            return KafkaError.CONCURRENT_TRANSACTIONS
        if producer_id != transaction.record.producer_id:
            overflow = self.client_version >= 2 and transaction.repeats_overflow(producer_id, epoch)
            if not overflow:
                return KafkaError.INVALID_PRODUCER_ID_MAPPING
        if self.client_version >= 2:
            return transaction.end_v2(producer_id, epoch, request.commit)
        return transaction.end_v1(epoch, request.commit)

    # ---- questions

    def _describe(self, request: DescribeTransactions) -> DescribeTransactionsResponse:
        """Key 65."""
        return DescribeTransactionsResponse({tid: self._described(tid) for tid in request.transactional_ids})

    def _described(self, transactional_id: str) -> DescribedTransaction:
        try:
            number = self.log.at(transactional_id)
        except Refused as refused:
            return DescribedTransaction(refused.error)
        transaction = self.log.known[number].get(transactional_id)
        if transaction is None:
            return DescribedTransaction(KafkaError.TRANSACTIONAL_ID_NOT_FOUND)
        known = transaction.record
        return DescribedTransaction(
            NO_ERROR, known.state.value, known.producer_id, known.epoch, known.timeout_ms, known.partitions
        )

    # ---- time

    def tick(self) -> None:
        """Load, send again what failed; at intervals look for what timed out or expired."""
        self.log.tick()
        if self.node.now >= self._scan_at:
            self._scan_at = self.node.now + self.node.settings.transaction_scan_ms
            for number, known in self.log.known.items():
                for transaction in list(known.values()):
                    self._overdue(number, transaction)

    def _overdue(self, number: int, transaction: TransactionMetadata) -> None:
        record, now = transaction.record, self.node.now
        if transaction.pending is not None:
            return
        if transaction.state is ONGOING and record.started + record.timeout_ms < now:
            bump = "timeout-does-not-bump-epoch" not in self.bugs  # its producer continues
            try:
                self._fence(number, transaction, lambda _: None, bump=bump)
            except Refused:
                return  # no producer id in hand: next time
        elif (
            transaction.state in ENDED
            and record.updated + self.node.settings.transactional_id_expiration_ms < now
        ):
            self.log.expire(number, transaction)
