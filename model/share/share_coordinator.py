"""The share coordinator: how far each share partition got, in a log.

A partition of `__share_group_state` is coordinated by its leader, and has the state of the share partitions
whose key falls there. A snapshot (ShareSnapshot) has the whole state of a share partition, an update
(ShareUpdate) what changed since; after `Settings.share_updates` of them comes a snapshot. The state is the
replay of the log to its end, what is not committed included; a request is answered once its record is.

Leader epochs distinguish leaders: who reads with a newer one fences all before it. The state
epoch tells one life of a group's state from the next; the model's groups have one life, with state epoch 0,
since they are neither initialised by the group coordinator (InitializeShareGroupState) nor deleted.
Source: KIP-932; ShareCoordinatorShard, ShareGroupOffset.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from core.internal_topics import SHARE_STATE_TOPIC
from model.coordinator.coordinator_runtime import CoordinatorRuntime
from model.errors import NO_ERROR, KafkaError, Refused
from model.protocol.messages import Partition
from model.protocol.requests import Answer, ErrorResponse, Handlers
from model.protocol.share_messages import (
    ReadShareGroupState,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummary,
    ReadShareGroupStateSummaryResponse,
    StateBatch,
    WriteShareGroupState,
)
from model.replication.node import NodeState
from model.replication.replica import Replica
from model.replication.replica_manager import ReplicaManager
from model.share.record_states import StoredState, combined, gathered, spread

Key = tuple[str, Partition]
"""Group and partition."""
NOT_BEGUN: Final = -1
"""Start offset of a share partition without stored state."""


class ShareSnapshot(NamedTuple):
    """The whole state of a share partition. snapshot_epoch: rises with every snapshot."""

    group: str
    partition: Partition
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start: int
    batches: tuple[StateBatch, ...]


class ShareUpdate(NamedTuple):
    """What changed since the snapshot of this epoch, or the update after it."""

    group: str
    partition: Partition
    snapshot_epoch: int
    leader_epoch: int
    start: int
    batches: tuple[StateBatch, ...]


@dataclass(slots=True)
class ShareGroupOffset:
    """What is stored of a share partition. states: of records from `start` on. updates: since the newest
    snapshot."""

    snapshot_epoch: int = -1
    state_epoch: int = 0
    leader_epoch: int = -1
    start: int = NOT_BEGUN
    states: dict[int, StoredState] = field(default_factory=dict)
    updates: int = 0

    @property
    def batches(self) -> tuple[StateBatch, ...]:
        """`states` as runs."""
        return gathered(self.states)

    def apply(self, record: ShareSnapshot | ShareUpdate, *, merges: bool = True) -> None:
        """Replay a record. merges: an update leaves what it does not name."""
        if isinstance(record, ShareSnapshot) or not merges:
            self.states = {}
        if isinstance(record, ShareSnapshot):
            self.snapshot_epoch, self.state_epoch, self.updates = record.snapshot_epoch, record.state_epoch, 0
        else:
            self.updates += 1
        self.leader_epoch = max(self.leader_epoch, record.leader_epoch)
        self.start = record.start
        states = combined(self.states, spread(record.batches))
        self.states = {at: state for at, state in states.items() if at >= self.start}


@dataclass(slots=True)
class LoadedState:
    """A partition of `__share_group_state` that this broker coordinates. applied: the log below this offset
    is in here."""

    merges: bool = True
    applied: int = 0
    shares: dict[Key, ShareGroupOffset] = field(default_factory=dict)

    def apply(self, replica: Replica) -> None:
        """Replay to the end of the log."""
        log = replica.log
        self.applied = max(self.applied, log.start)
        for batch in log.read(self.applied, log.end, log.end) if self.applied < log.end else ():
            for record in batch.records:
                assert isinstance(record, ShareSnapshot | ShareUpdate)
                key = record.group, record.partition
                self.shares.setdefault(key, ShareGroupOffset()).apply(record, merges=self.merges)
            self.applied = batch.last + 1


class ShareCoordinator(CoordinatorRuntime):
    """See the module. `loaded` by number of the partition. controller(): -1 unknown."""

    def __init__(
        self, node: NodeState, replica_manager: ReplicaManager, controller: Callable[[], int]
    ) -> None:
        count = node.settings.share_state_partitions
        super().__init__(node, replica_manager, SHARE_STATE_TOPIC, count, controller)
        self.loaded: dict[int, LoadedState] = {}
        self.fell: list[tuple[int, Key]] = []
        """When a write set a start offset back, and which."""

    def register(self, handlers: Handlers) -> None:
        """Add its handlers."""
        handlers.on(ReadShareGroupState, self._read, ReadShareGroupStateResponse)
        handlers.on(WriteShareGroupState, self._write)
        handlers.at_once(ReadShareGroupStateSummary, self._summarise, ReadShareGroupStateSummaryResponse)

    def _forget(self, number: int) -> None:
        self.loaded.pop(number, None)

    def _replay(self, number: int, replica: Replica) -> None:
        loaded = self.loaded[number] = LoadedState("share-update-replaces" not in self.bugs)
        if "share-state-forgotten-on-load" in self.bugs:
            loaded.applied = replica.log.end
        loaded.apply(replica)

    def tick(self) -> None:
        """Load."""
        self.load()

    def at(self, group: str, partition: Partition) -> tuple[int, ShareGroupOffset]:
        """Where the state of a share partition is, and the state as it is in the log.

        Raises: Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS).
        """
        number = self.number(key_of(group, partition))
        self.check(number)
        loaded = self.loaded[number]
        loaded.apply(self.node.replicas[self.partition(number)])
        return number, loaded.shares.get((group, partition), ShareGroupOffset())

    def _fence(self, known: ShareGroupOffset, leader_epoch: int, state_epoch: int) -> None:
        """Raises: Refused (FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH)."""
        if leader_epoch < known.leader_epoch and "share-old-leader-writes" not in self.bugs:
            raise Refused(KafkaError.FENCED_LEADER_EPOCH)
        if state_epoch < known.state_epoch:
            raise Refused(KafkaError.FENCED_STATE_EPOCH)

    def _read(self, request: ReadShareGroupState, answer: Answer) -> None:
        """Key 84: a newer leader epoch is stored before the state is answered
        (readStateAndMaybeUpdateLeaderEpoch)."""
        number, known = self.at(request.group, request.partition)
        self._fence(known, request.leader_epoch, known.state_epoch)
        told = ReadShareGroupStateResponse(NO_ERROR, known.state_epoch, known.start, known.batches)
        if request.leader_epoch == known.leader_epoch:
            answer(told)
            return

        def written(error: KafkaError) -> None:
            answer(told if error is NO_ERROR else ReadShareGroupStateResponse(error))

        record = self._record(request.group, request.partition, known, request.leader_epoch, known.start, ())
        self._append(number, record, written)

    def _write(self, request: WriteShareGroupState, answer: Answer) -> None:
        """Key 85."""
        number, known = self.at(request.group, request.partition)
        self._fence(known, request.leader_epoch, request.state_epoch)
        start = request.start
        if start < known.start and self.node.settings.era.share_start_rises:
            start = known.start
        elif start < known.start:
            self.fell.append((self.node.now, (request.group, request.partition)))
        what = request.group, request.partition, known, request.leader_epoch
        record = self._record(*what, start, tuple(request.batches))
        self._append(number, record, lambda error: answer(ErrorResponse(error)))

    def _record(
        self,
        group: str,
        partition: Partition,
        known: ShareGroupOffset,
        leader_epoch: int,
        start: int,
        batches: tuple[StateBatch, ...],
    ) -> ShareSnapshot | ShareUpdate:
        """A snapshot, where there is none yet or enough updates; else an update
        (generateShareStateRecord)."""
        epoch = known.snapshot_epoch
        if epoch >= 0 and known.updates < self.node.settings.share_updates:
            return ShareUpdate(group, partition, epoch, leader_epoch, start, batches)
        states = combined(known.states, spread(batches))
        whole = gathered({at: state for at, state in states.items() if at >= start})
        return ShareSnapshot(group, partition, epoch + 1, known.state_epoch, leader_epoch, start, whole)

    def _append(
        self, number: int, record: ShareSnapshot | ShareUpdate, done: Callable[[KafkaError], None]
    ) -> None:
        acks = 1 if "share-state-not-replicated" in self.bugs else -1
        self.append(number, (record,), self.node.settings.request_timeout_ms, done, acks=acks)

    def _summarise(self, request: ReadShareGroupStateSummary) -> ReadShareGroupStateSummaryResponse:
        """Key 87."""
        start = self.at(request.group, request.partition)[1].start
        return ReadShareGroupStateSummaryResponse(NO_ERROR, start)


def key_of(group: str, partition: Partition) -> str:
    """What places a share partition in `__share_group_state` (SharePartitionKey.asCoordinatorKey, which has
    the id of the topic in the place of its name)."""
    return f"{group}:{partition[0]}:{partition[1]}"
