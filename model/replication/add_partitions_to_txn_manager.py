"""A leader makes sure that a transaction is open before its first record is appended (KIP-890).

Before the first batch of a transaction in a partition its leader asks the transaction's coordinator: whether
the partition belongs to the open transaction (part 1), or, from transaction version 2 on, to add it (part
2). The guard that a question leaves must still be there when the batch is appended: a marker that came
between takes it away (KAFKA-14884), if it is of the same transaction.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from core.internal_topics import TRANSACTION_TOPIC
from core.java_hash import java_hash
from model.errors import NO_ERROR, KafkaError, Refused
from model.log.unified_log import NO_SEQUENCE, RecordBatch
from model.protocol.coordinator_messages import AddPartitionsToTxn, AddPartitionsToTxnResponse
from model.protocol.messages import Partition
from model.replication.node import NodeState

Then = Callable[[Mapping[Partition, int], Mapping[Partition, KafkaError]], None]
"""What follows: guards of what may be appended, and errors of what may not, by partition."""


class VerificationStateEntry(NamedTuple):
    """Of a producer id in a partition: that its transaction is being verified. `lowest`: the lowest
    sequence that waits for it."""

    token: int
    leader_epoch: int
    producer_epoch: int
    lowest: int


@dataclass(slots=True)
class AddPartitionsToTxnManager:
    """See the module. One question is under way for a transactional id: what else comes for it waits, so
    that batches stay in their order."""

    node: NodeState
    guards: dict[tuple[Partition, int], VerificationStateEntry] = field(default_factory=dict)
    behind: dict[str, deque[tuple[Mapping[Partition, RecordBatch], Then]]] = field(default_factory=dict)
    numbers: int = 0

    def needs(self, tp: Partition, batch: RecordBatch) -> bool:
        """The batch would begin a transaction in this partition, and that is to be verified."""
        settings = self.node.settings
        if not batch.transactional or batch.control:
            return False
        if not settings.era.verification and settings.era.client_transaction_version < 2:
            return False
        if "verification-skipped" in settings.bugs:
            return False  # records may follow the end of their transaction
        replica = self.node.leader_of(tp)
        if replica is None:
            return False  # refused anyway
        known = replica.log.producers.get(batch.producer_id)
        if known is None or known.began < 0:
            return True
        return settings.era.verified_by_epoch and known.epoch != batch.producer_epoch

    def begin(self, transactional_id: str, batches: Mapping[Partition, RecordBatch], then: Then) -> None:
        """Ask where that is needed; `then` at once where it is not."""
        wanted = {tp: batch for tp, batch in batches.items() if self.needs(tp, batch)}
        stale = {tp for tp, batch in wanted.items() if self._stale(tp, batch)}
        if not wanted:
            then({}, {})
        elif transactional_id in self.behind:
            self.behind[transactional_id].append((batches, then))
        elif stale:
            refused = dict.fromkeys(stale, KafkaError.INVALID_PRODUCER_EPOCH)
            asked = {tp: batch for tp, batch in wanted.items() if tp not in stale}
            if not asked:
                then({}, refused)
                return
            self._ask(transactional_id, asked, lambda guards, errors: then(guards, {**errors, **refused}))
        else:
            self._ask(transactional_id, wanted, then)

    def _stale(self, tp: Partition, batch: RecordBatch) -> bool:
        """The batch is of an older producer epoch than the newest in the log, so the coordinator is not even
        asked (UnifiedLog.maybeStartTransactionVerification)."""
        settings = self.node.settings
        if not settings.era.old_epoch_first or "old-epoch-appended" in settings.bugs:
            return False
        known = self.node.replicas[tp].log.producers.get(batch.producer_id)
        return known is not None and batch.producer_epoch < known.epoch

    def _ask(self, transactional_id: str, wanted: Mapping[Partition, RecordBatch], then: Then) -> None:
        node = self.node
        number = java_hash(transactional_id) % node.settings.transaction_partitions
        state = node.image.partitions.get((TRANSACTION_TOPIC, number))
        if state is None or state.leader < 0:
            then({}, dict.fromkeys(wanted, KafkaError.COORDINATOR_NOT_AVAILABLE))
            return
        first = next(iter(wanted.values()))
        tokens = {tp: self._guard(tp, batch) for tp, batch in wanted.items()}
        self.numbers += 1
        self.behind.setdefault(transactional_id, deque())
        verify = node.settings.era.client_transaction_version < 2
        request = AddPartitionsToTxn(
            transactional_id, first.producer_id, first.producer_epoch, tuple(wanted), verify
        )
        node.ask(
            state.leader, f"verify {self.numbers}", request, partial(self._answered, request, tokens, then)
        )

    def _guard(self, tp: Partition, batch: RecordBatch) -> int:
        key = (tp, batch.producer_id)
        epoch = self.node.replicas[tp].state.leader_epoch
        known = self.guards.get(key)
        if known is None or known.leader_epoch != epoch:
            self.numbers += 1
            known = VerificationStateEntry(self.numbers, epoch, batch.producer_epoch, batch.sequence)
        elif known.producer_epoch < batch.producer_epoch:
            known = known._replace(producer_epoch=batch.producer_epoch, lowest=batch.sequence)
        elif known.producer_epoch == batch.producer_epoch:
            known = known._replace(lowest=min(known.lowest, batch.sequence))
        self.guards[key] = known
        return known.token

    def _answered(
        self,
        request: AddPartitionsToTxn,
        tokens: Mapping[Partition, int],
        then: Then,
        answer: AddPartitionsToTxnResponse | None,
    ) -> None:
        errors = {}
        for tp in tokens:
            error = KafkaError.REQUEST_TIMED_OUT
            if answer is not None:
                error = answer.parts.get(tp, answer.error)
            if error is not NO_ERROR:
                errors[tp] = self._told(error)
        then({tp: token for tp, token in tokens.items() if tp not in errors}, errors)
        waiting = self.behind.pop(request.transactional_id, deque())
        while waiting:
            self.begin(request.transactional_id, *waiting.popleft())
            if request.transactional_id in self.behind:
                self.behind[request.transactional_id].extend(waiting)
                break

    def _told(self, error: KafkaError) -> KafkaError:
        """The error that the coordinator's becomes (AddPartitionsToTxnManager)."""
        if error is KafkaError.PRODUCER_FENCED:
            return KafkaError.INVALID_PRODUCER_EPOCH
        if error is KafkaError.TRANSACTION_ABORTABLE:
            return KafkaError.INVALID_TXN_STATE  # clients of transaction version 1 know no other
        return error

    # ---- at the append

    def check(self, tp: Partition, batch: RecordBatch, token: int) -> None:
        """May this batch be appended now? token: of its verification, -1 = it had none. A batch that
        is in the log already needs none (UnifiedLog.analyzeAndValidateProducerState).

        While a producer id is being verified, the lowest sequence that waits for it counts for every batch of
        the id, also for one outside of transactions (ProducerAppendInfo.checkSequence).

        Raises: Refused (INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, OUT_OF_ORDER_SEQUENCE_NUMBER).
        """
        replica = self.node.leader_of(tp)
        if replica is None or replica.log.recognised(batch) is not None:
            return
        before = replica.log.producers.get(batch.producer_id)
        settings = self.node.settings
        old = before is not None and batch.producer_epoch < before.epoch
        old = old and "old-epoch-appended" not in settings.bugs
        guard = self.guards.get((tp, batch.producer_id))
        if guard is not None and guard.leader_epoch != replica.state.leader_epoch:
            guard = None
        if self.needs(tp, batch):
            if old and settings.era.old_epoch_first:
                raise Refused(KafkaError.INVALID_PRODUCER_EPOCH)
            if guard is None or guard.token != token:
                raise Refused(KafkaError.INVALID_TXN_STATE, "no open transaction is verified")
        if old:
            raise Refused(KafkaError.INVALID_PRODUCER_EPOCH)
        if guard is None or batch.sequence == NO_SEQUENCE:
            return
        newer = settings.era.client_transaction_version >= 2
        if newer and replica.log.producer_states.begins_wrong(batch):
            raise Refused(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "an unknown one begins at 0")
        if batch.sequence > guard.lowest:
            raise Refused(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "an earlier one is waiting")

    def wrote(self, tp: Partition, batch: RecordBatch) -> None:
        """A batch or a marker of this producer was appended: what was verified is used up.

        Not so where each transaction has its own epoch and the marker's is that of the guard: the transaction
        that is being verified is the next one, which began while this marker was on its way (KAFKA-18575,
        KAFKA-18654, both 4.0.0).
        """
        key = (tp, batch.producer_id)
        guard = self.guards.get(key)
        by_epoch = self.node.settings.era.client_transaction_version >= 2 and bool(batch.control)
        if by_epoch and guard is not None and guard.producer_epoch == batch.producer_epoch:
            return
        self.guards.pop(key, None)
