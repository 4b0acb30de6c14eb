"""The log of the transaction coordinator, and what is in memory of it: loading, appending, both phases."""

from collections.abc import Callable
from typing import Final

from core.internal_topics import TRANSACTION_TOPIC
from model.coordinator.coordinator_runtime import CoordinatorRuntime
from model.coordinator.transaction_marker_channel_manager import (
    PendingCompleteTxn,
    TransactionMarkerChannelManager,
)
from model.coordinator.transaction_metadata import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    TransactionMetadata,
    TransactionRecord,
    TransactionTombstone,
)
from model.errors import NO_ERROR, KafkaError, Refused
from model.replication.node import MarkersSentAfterLoading, NodeState, ignore
from model.replication.replica import Replica
from model.replication.replica_manager import ReplicaManager

Done = Callable[[KafkaError], None]
EXPIRY_TIMEOUT_MS: Final = 5000


class TransactionStateManager(CoordinatorRuntime):
    """See the module. `known`: transactional ids by partition of the log. controller(): -1 unknown."""

    def __init__(
        self, node: NodeState, replica_manager: ReplicaManager, controller: Callable[[], int]
    ) -> None:
        count = node.settings.transaction_partitions
        super().__init__(node, replica_manager, TRANSACTION_TOPIC, count, controller)
        self.known: dict[int, dict[str, TransactionMetadata]] = {}
        self.markers = TransactionMarkerChannelManager(node, self._marked)
        self._again: list[PendingCompleteTxn] = []

    def tick(self) -> None:
        """Load; send and append again what failed."""
        self.load()
        again, self._again = self._again, []
        for ending in again:
            self._marked(ending)
        self.markers.pump()

    # ---- leadership

    def _forget(self, number: int) -> None:
        self.known.pop(number, None)
        self.markers.forget(number)
        self._again = [ending for ending in self._again if ending.number != number]

    def _may_load(self, replica: Replica) -> bool:
        """Nothing is appended while it loads, so the log's end is the end of what it reads."""
        era = self.node.settings.era
        return not era.acts_when_committed or replica.high_watermark >= replica.log.end

    def _replay(self, number: int, replica: Replica) -> None:
        """Finish what was prepared."""
        found: dict[str, TransactionRecord] = {}
        for _, _, record in replica.log.records():
            if "coordinator-forgets-on-load" in self.bugs:
                break  # what was open is never ended
            if isinstance(record, TransactionTombstone):
                found.pop(record.transactional_id, None)
            else:
                assert isinstance(record, TransactionRecord)
                found[record.transactional_id] = record
        # An end that was answered is undone.
        if "prepared-becomes-ongoing-on-load" in self.bugs:
            found = {tid: r._replace(state=ONGOING) if r.state in PREPARED else r for tid, r in found.items()}
        if "prepared-aborts-on-load" in self.bugs:
            found = {
                tid: r._replace(state=PREPARE_ABORT) if r.state is PREPARE_COMMIT else r
                for tid, r in found.items()
            }
        most = self.node.settings.producer_epoch_max
        ids_logged = self.node.settings.era.ids_logged
        known = {
            tid: TransactionMetadata(record.loaded(ids_logged=ids_logged), most)
            for tid, record in found.items()
        }
        self.known[number] = known
        for transaction in known.values():
            if transaction.state in PREPARED:
                self._sends(number, transaction.record)
                if "markers-lost-on-load" in self.bugs:  # complete, as if all of them were written
                    transaction.record = transaction.record._replace(partitions=())
                self.markers.add(number, self.epochs[number], transaction)

    def _sends(self, number: int, decision: TransactionRecord) -> None:
        line = MarkersSentAfterLoading(
            self.node.now,
            self.node.me,
            number,
            self.epochs[number],
            decision.transactional_id,
            decision.producer_id,
            decision.epoch,
            decision.state is PREPARE_COMMIT,
            decision.partitions,
            decision.updated,
        )
        self.node.server_log.append(line)

    def at(self, transactional_id: str) -> int:
        """The partition of the log that the id belongs to, which is loaded here.

        Raises: Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS).
        """
        number = self.number(transactional_id)
        self.check(number)
        return number

    def find(self, transactional_id: str) -> tuple[int, TransactionMetadata]:
        """The partition and the state of an id, without a check of the client.

        Raises: Refused (also INVALID_PRODUCER_ID_MAPPING).
        """
        number = self.at(transactional_id)
        transaction = self.known[number].get(transactional_id)
        if transaction is None:
            raise Refused(KafkaError.INVALID_PRODUCER_ID_MAPPING)
        return number, transaction

    def write(
        self,
        number: int,
        transaction: TransactionMetadata,
        record: TransactionRecord,
        done: Done,
        *,
        retried: bool = False,
    ) -> None:
        """Append a prepared change; take it over when it is committed, or take it back. retried: the
        caller tries again where the log was only not available."""
        epoch, tid = self.epochs[number], record.transactional_id

        def written(error: KafkaError) -> None:
            here = self.epochs.get(number) == epoch
            if not here or self.known[number].get(tid) is not transaction:
                done(KafkaError.NOT_COORDINATOR)
                return
            if error is NO_ERROR:
                transaction.complete(record)
            elif not (retried and error is KafkaError.COORDINATOR_NOT_AVAILABLE):
                transaction.pending = None
            done(error)

        self.append(number, self._logged(record, transaction.record), record.timeout_ms, written)

    def _logged(self, record: TransactionRecord, before: TransactionRecord) -> tuple[TransactionRecord]:
        """What a change writes into the log: its record, where no planted bug damages it."""
        if "complete-keeps-partitions" in self.bugs and record.state in (COMPLETE_COMMIT, COMPLETE_ABORT):
            record = record._replace(partitions=before.partitions)
        if "added-partitions-logged-alone" in self.bugs and record.state is before.state is ONGOING:
            added = set(record.partitions) - set(before.partitions)
            record = record._replace(partitions=tuple(sorted(added)))
        if "epoch-logged-twice-raised" in self.bugs and record.state is EMPTY and before.epoch >= 0:
            record = record._replace(epoch=record.epoch + 1)
        if record.state not in PREPARED:
            return (record,)
        if "prepare-loses-a-partition" in self.bugs:
            record = record._replace(partitions=record.partitions[1:])
        if "prepare-with-old-epoch" in self.bugs:
            record = record._replace(epoch=record.epoch - 1)
        if "begin-moves" in self.bugs:
            record = record._replace(started=record.started + 1)
        return (record,)

    def end(
        self, number: int, transaction: TransactionMetadata, record: TransactionRecord, done: Done
    ) -> None:
        """Both phases; `done` after the first."""
        epoch = self.epochs[number]
        if "commit-before-prepare-logged" in self.bugs:
            done(NO_ERROR)  # the next coordinator may not know of it
            done = ignore

        def prepared(error: KafkaError) -> None:
            done(error)
            if error is NO_ERROR:
                self.markers.add(number, epoch, transaction)

        self.write(number, transaction, record, prepared)

    def _marked(self, ending: PendingCompleteTxn) -> None:
        """All markers are written: the second phase ends with the complete record."""
        if self.epochs.get(ending.number) != ending.coordinator_epoch:
            return

        def written(error: KafkaError) -> None:
            if error is KafkaError.COORDINATOR_NOT_AVAILABLE:
                self._again.append(ending)

        self.write(ending.number, ending.transaction, ending.complete, written, retried=True)

    def expire(self, number: int, transaction: TransactionMetadata) -> None:
        """Forget an id that was not used for long."""
        epoch, tid = self.epochs[number], transaction.record.transactional_id
        transaction.prepare_dead()

        def written(error: KafkaError) -> None:
            if self.epochs.get(number) != epoch:
                return
            if error is NO_ERROR:
                self.known[number].pop(tid, None)
            else:
                transaction.pending = None

        self.append(number, (TransactionTombstone(tid),), EXPIRY_TIMEOUT_MS, written)
