"""The second phase of a transaction: markers into all its partitions.

`TransactionMarkerChannelManager` is the coordinator's side: it sends each marker to the leader until the
leader has answered, and reports when a transaction has all its markers. `write_markers` is the leader's
side: it appends them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from core.internal_topics import GROUP_TOPIC
from model.coordinator.group_metadata_manager import GroupMetadataManager
from model.coordinator.transaction_metadata import PREPARE_COMMIT, TransactionMetadata, TransactionRecord
from model.errors import NO_ERROR, KafkaError
from model.log.unified_log import ABORT, COMMIT, RecordBatch
from model.protocol.coordinator_messages import TxnMarker, WriteTxnMarkers, WriteTxnMarkersResponse
from model.protocol.messages import Partition
from model.protocol.requests import Answer
from model.replication.node import MarkersCancelled, MarkersLeftOut, NodeState
from model.replication.replica_manager import ReplicaManager

UNKNOWN: Final = -1
"""No leader just now."""
DELETED: Final = -2
GIVEN_UP: Final = (KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.TRANSACTION_COORDINATOR_FENCED)
"""Another coordinator or a later epoch has taken over."""


@dataclass(slots=True, eq=False)
class PendingCompleteTxn:
    """A transaction whose markers are being written. number, coordinator_epoch: of the transaction log.
    complete: what is logged when all are."""

    number: int
    coordinator_epoch: int
    transaction: TransactionMetadata
    complete: TransactionRecord
    commit: bool
    left: list[Partition]

    def marker(self, tps: Sequence[Partition]) -> TxnMarker:
        """The marker for some of its partitions."""
        known = self.transaction.record
        return TxnMarker(
            known.producer_id, known.epoch, self.coordinator_epoch, self.commit, tuple(tps), known.version
        )


@dataclass(slots=True)
class TransactionMarkerChannelManager:
    """See the module. `done`: called with transactions that have all their markers. One request is under
    way to each broker (`flights`: node -> its markers)."""

    node: NodeState
    done: Callable[[PendingCompleteTxn], None]
    endings: dict[str, PendingCompleteTxn] = field(default_factory=dict)
    flights: dict[int, list[tuple[PendingCompleteTxn, list[Partition]]]] = field(default_factory=dict)

    def add(self, number: int, coordinator_epoch: int, transaction: TransactionMetadata) -> None:
        """The prepare record of the transaction is committed: write its markers."""
        record, now = transaction.record, self.node.now
        commit = record.state is PREPARE_COMMIT
        bugs = self.node.settings.bugs
        left = list(record.partitions)
        if "marker-skips-a-partition" in bugs and len(left) > 1:
            left.pop()  # it stays open there
        if "commit-writes-abort" in bugs:
            commit = False  # the client believes that it is committed
        if "abort-answers-commit" in bugs:
            commit = True  # the client believes that it is aborted
        complete = transaction.prepare_complete(now)
        ending = PendingCompleteTxn(number, coordinator_epoch, transaction, complete, commit, left)
        self.endings[record.transactional_id] = ending
        self.pump()

    def forget(self, number: int) -> None:
        """This broker coordinates that partition of the transaction log no more."""
        self.endings = {tid: e for tid, e in self.endings.items() if e.number != number}

    def pump(self) -> None:
        """Send what is not under way; report what has ended."""
        if not self.endings:
            return
        flying = {(ending, tp) for flight in self.flights.values() for ending, tps in flight for tp in tps}
        by_leader: dict[int, list[tuple[PendingCompleteTxn, list[Partition]]]] = {}
        for tid, ending in list(self.endings.items()):
            groups = self._by_leader(tp for tp in ending.left if (ending, tp) not in flying)
            if gone := groups.pop(DELETED, []):
                self._leave_out(ending, gone)
            groups.pop(UNKNOWN, None)
            for leader, tps in groups.items():
                by_leader.setdefault(leader, []).append((ending, tps))
            if not ending.left:
                del self.endings[tid]
                self.done(ending)
        for leader, flight in by_leader.items():
            if leader not in self.flights:
                self._send(leader, flight)

    def _by_leader(self, tps: Iterable[Partition]) -> dict[int, list[Partition]]:
        """Partitions by the node to which their markers go, `UNKNOWN` or `DELETED`."""
        groups: dict[int, list[Partition]] = {}
        for tp in tps:
            state = self.node.image.partitions.get(tp)
            leader = state.leader if state is not None else DELETED
            if leader == UNKNOWN and self.node.settings.era.leaderless_deleted:
                leader = DELETED
            groups.setdefault(leader, []).append(tp)
        return groups

    def _leave_out(self, ending: PendingCompleteTxn, gone: Sequence[Partition]) -> None:
        """These partitions are deleted, as far as the coordinator can tell."""
        known, node = ending.transaction.record, self.node
        for tp in gone:
            ending.left.remove(tp)
            ending.transaction.marked(tp)
        names = (known.transactional_id, known.producer_id, known.epoch)
        node.server_log.append(MarkersLeftOut(node.now, node.me, *names, tuple(gone)))

    def _send(self, leader: int, flight: list[tuple[PendingCompleteTxn, list[Partition]]]) -> None:
        self.flights[leader] = flight
        markers = tuple(ending.marker(tps) for ending, tps in flight)
        then = partial(self._answered, leader, self.node.now)
        self.node.ask(leader, f"markers {leader}", WriteTxnMarkers(markers), then)

    def _answered(self, leader: int, made: int, answer: WriteTxnMarkersResponse | None) -> None:
        """A leader's answer to a request made then, or none. What failed is sent again with the next tick, to
        who leads then."""
        node, timeout = self.node, self.node.settings.request_timeout_ms
        if answer is None and node.now - made >= timeout:  # else the broker was down: nothing was in flight
            node.server_log.append(MarkersCancelled(node.now, node.me, leader, made, timeout))
        # After one failure the transaction stays open there.
        lossy = "markers-not-retried" in self.node.settings.bugs
        failed = False
        for ending, tps in self.flights.pop(leader):
            known = ending.transaction.record
            tid = known.transactional_id
            if self.endings.get(tid) is not ending:
                continue  # this coordinator has lost it meanwhile
            for tp in tps:
                error = KafkaError.REQUEST_TIMED_OUT
                if answer is not None:
                    error = answer.results[known.producer_id, tp]
                if error in GIVEN_UP:
                    self.endings.pop(tid, None)
                elif error is NO_ERROR or lossy:
                    ending.left.remove(tp)
                    if "complete-keeps-partitions" not in self.node.settings.bugs:
                        ending.transaction.marked(tp)
                else:
                    failed = True
        if not failed:
            self.pump()


def write_markers(
    node: NodeState,
    replica_manager: ReplicaManager,
    group_log: GroupMetadataManager,
    request: WriteTxnMarkers,
    answer: Answer,
) -> None:
    """Key 27: append a marker of each transaction to each of its partitions, and answer when all in-sync
    replicas have them. From 4.0 on the group coordinator writes those of its partitions: it has to have
    loaded (KafkaApis.handleWriteTxnMarkersRequest)."""
    results: dict[tuple[int, Partition], KafkaError] = {}
    wanted = sum(len(marker.partitions) for marker in request.markers)

    def appended(producer_id: int, found: dict[Partition, tuple[KafkaError, int]]) -> None:
        for tp, (error, _) in found.items():
            results[producer_id, tp] = error
        if len(results) == wanted:
            answer(WriteTxnMarkersResponse(results))

    for marker in request.markers:
        batches = {tp: _batch(node, marker, tp) for tp in marker.partitions}
        refused = {
            tp: KafkaError.NOT_LEADER_OR_FOLLOWER
            for tp in marker.partitions
            if tp[0] == GROUP_TOPIC
            and node.settings.era.offsets_when_committed
            and not group_log.coordinates(tp[1])
        }
        done = partial(appended, marker.producer_id)
        replica_manager.append(batches, -1, node.settings.request_timeout_ms, done, refused=refused)


def _batch(node: NodeState, marker: TxnMarker, tp: Partition) -> RecordBatch:
    epoch = marker.coordinator_epoch
    if "marker-of-a-later-coordinator" in node.settings.bugs:
        epoch += 1000
    if "marker-by-old-coordinator-accepted" in node.settings.bugs:  # no fence at the leader
        replica = node.replicas.get(tp)
        known = replica.log.producers.get(marker.producer_id) if replica is not None else None
        epoch = max(epoch, known.coordinator_epoch if known is not None else -1)
    return RecordBatch(
        -1,
        -1,
        (),
        marker.producer_id,
        marker.producer_epoch,
        control=COMMIT if marker.commit else ABORT,
        coordinator_epoch=epoch,
        transaction_version=marker.transaction_version,
    )
