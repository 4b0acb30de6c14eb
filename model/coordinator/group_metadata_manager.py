"""The log of the group coordinator and its state in memory: groups and committed offsets.

The state is the replay of a partition of `__consumer_offsets`: the newest record of a key counts. Groups are
replayed to the end of the log, offsets as far as they are committed (before 4.0: all that a new coordinator
finds in the log). Offsets that a transaction committed are pending until its marker: a commit makes them
effective, an abort drops them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from core.internal_topics import GROUP_TOPIC
from model.coordinator.classic_group import ClassicGroup, GroupRecord
from model.coordinator.consumer_group import ConsumerGroup
from model.coordinator.consumer_group_records import (
    CLASSIC,
    GROUP,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupTombstone,
    OfConsumerGroup,
)
from model.coordinator.coordinator_runtime import CoordinatorRuntime
from model.eras import Era
from model.errors import NO_ERROR, KafkaError, Refused
from model.log.unified_log import COMMIT, RecordBatch, UnifiedLog
from model.protocol.messages import Partition
from model.replication.node import NodeState
from model.replication.replica import Replica
from model.replication.replica_manager import ReplicaManager

Key = tuple[str, Partition]
"""Group and partition."""


TOMBSTONE: Final = -1


class OffsetRecord(NamedTuple):
    """`group` reads `partition` on from `offset`; the last record that it read had `leader_epoch`. With
    TOMBSTONE as its offset nothing is committed any more."""

    group: str
    partition: Partition
    offset: int
    leader_epoch: int = -1


class CommitRecordMetadataAndOffset(NamedTuple):
    """A committed offset. `at`: where its record stands in the log."""

    offset: int
    at: int
    leader_epoch: int


NOTHING: Final = CommitRecordMetadataAndOffset(-1, -1, -1)
TARGETS: Final = (ConsumerGroupTargetAssignmentMember, ConsumerGroupTargetAssignmentMetadata)


@dataclass(slots=True)
class CommittedOffsets:
    """See the module. `applied`: everything below this offset of the log is in here.

    pending: by producer id."""

    bugs: frozenset[str]
    applied: int = 0
    committed: dict[Key, CommitRecordMetadataAndOffset] = field(default_factory=dict)
    pending: dict[int, dict[Key, CommitRecordMetadataAndOffset]] = field(default_factory=dict)
    late: dict[Key, CommitRecordMetadataAndOffset] = field(default_factory=dict)
    """With a planted bug: committed, and not effective before `settle`."""

    def apply(self, log: UnifiedLog, until: int) -> None:
        """Replay on as far as `until`, the high watermark."""
        self.applied = max(self.applied, log.start)
        for batch in log.read(self.applied, until, until) if self.applied < until else ():
            if batch.control:
                self._end(batch)
            else:
                self._add(batch)
            self.applied = batch.last + 1

    def _add(self, batch: RecordBatch) -> None:
        early = "offsets-visible-before-commit" in self.bugs  # and they stay when it is aborted
        pending = batch.transactional and not early
        for n, record in enumerate(batch.records):
            if not isinstance(record, OffsetRecord):
                continue
            found = CommitRecordMetadataAndOffset(record.offset, batch.base + n, record.leader_epoch)
            key = (record.group, record.partition)
            if pending:
                self.pending.setdefault(batch.producer_id, {})[key] = found
            else:
                self.committed[key] = found

    def _end(self, marker: RecordBatch) -> None:
        ended = self.pending.pop(marker.producer_id, {})
        effective = marker.control == COMMIT
        if "offsets-of-aborted-txn" in self.bugs:
            effective = True  # input counts as processed whose output was taken back
        if "offsets-of-committed-txn-dropped" in self.bugs:
            effective = False  # input is processed again
        if not effective:
            return
        if "offsets-applied-late" in self.bugs:
            self.late |= ended  # the marker was answered before (KAFKA-17507)
            return
        self._effective(ended)

    def drop(self, producer_id: int, group: str, partitions: Iterable[Partition]) -> None:
        """With a planted bug: a transaction's offsets are forgotten, though the log has them."""
        held = self.pending.get(producer_id, {})
        for tp in partitions:
            held.pop((group, tp), None)

    def settle(self) -> None:
        """Some time has passed."""
        self._effective(self.late)
        self.late = {}

    def _effective(self, ended: dict[Key, CommitRecordMetadataAndOffset]) -> None:
        for key, found in ended.items():
            # A record that was written later counts, though it took effect earlier.
            if found.at > self.committed.get(key, NOTHING).at:
                self.committed[key] = found

    def written(self, log: UnifiedLog) -> "CommittedOffsets":
        """As the whole log has them, committed or not."""
        if self.applied >= log.end:
            return self
        pending = {producer_id: dict(held) for producer_id, held in self.pending.items()}
        whole = replace(self, committed=dict(self.committed), pending=pending, late=dict(self.late))
        whole.apply(log, log.end)
        return whole

    def of(self, group: str, partition: Partition) -> CommitRecordMetadataAndOffset:
        """The committed offset, NOTHING = none."""
        return self.committed.get((group, partition), NOTHING)

    def unstable(self, group: str, partitions: Sequence[Partition], log: UnifiedLog) -> bool:
        """These offsets are about to change: a transaction whose end is not known holds them, or a commit
        in the tail of the log is not replicated yet."""
        wanted = {(group, tp) for tp in partitions}
        if any(key in wanted for held in self.pending.values() for key in held):
            return True
        return bool(wanted & self._tail(log))

    def held(self, log: UnifiedLog) -> set[Key]:
        """What groups have offsets of, those of open transactions and the tail of the log too."""
        return {key for offsets in (self.committed, *self.pending.values()) for key in offsets} | self._tail(
            log
        )

    def _tail(self, log: UnifiedLog) -> set[Key]:
        """What the log has offsets of behind `applied`."""
        tail = log.read(self.applied, log.end, log.end) if self.applied < log.end else ()
        records = (record for batch in tail for record in batch.records)
        return {(record.group, record.partition) for record in records if isinstance(record, OffsetRecord)}


@dataclass(slots=True)
class LoadedPartition:
    """One partition of `__consumer_offsets` that this broker coordinates. groups: classic ones. committed:
    consumer groups as far as their records are replicated. last: the newest append that waits for that."""

    offsets: CommittedOffsets
    groups: dict[str, ClassicGroup] = field(default_factory=dict)
    consumer_groups: dict[str, ConsumerGroup] = field(default_factory=dict)
    committed: dict[str, ConsumerGroup] = field(default_factory=dict)
    last: "PendingAppend | None" = None

    def replay(self, record: object, now: int, era: Era) -> None:
        """The next record of a group. Members of classic groups have a whole session from now on."""
        if isinstance(record, GroupRecord):
            self.groups[record.group] = ClassicGroup.restored(record, now)
        elif isinstance(record, GroupTombstone) and record.what == CLASSIC:
            self.groups.pop(record.group, None)
        elif isinstance(record, GroupTombstone) and record.what == GROUP:
            self.consumer_groups.pop(record.group, None)
        elif isinstance(record, GroupTombstone):
            if record.group in self.consumer_groups:
                self.consumer_groups[record.group].replay(record)
        elif isinstance(record, OfConsumerGroup):
            new = ConsumerGroup.new(record.group, era)
            self.consumer_groups.setdefault(record.group, new).replay(record)


@dataclass(slots=True)
class PendingAppend:
    """Records that are not replicated yet, below the offset `end`. after: what is answered when they are, or
    with their error. error: they were not replicated in time; the log has them nonetheless."""

    end: int = 0
    error: KafkaError = NO_ERROR
    after: list[Callable[[KafkaError], None]] = field(default_factory=list)


class GroupMetadataManager(CoordinatorRuntime):
    """See the module. `loaded` by number of the partition. controller(): -1 unknown."""

    def __init__(
        self, node: NodeState, replica_manager: ReplicaManager, controller: Callable[[], int]
    ) -> None:
        count = node.settings.offsets_partitions
        super().__init__(node, replica_manager, GROUP_TOPIC, count, controller)
        self.loaded: dict[int, LoadedPartition] = {}

    def _forget(self, number: int) -> None:
        gone = self.loaded.pop(number, None)
        for group in gone.groups.values() if gone is not None else ():
            group.dismiss(KafkaError.NOT_COORDINATOR)

    def _replay(self, number: int, replica: Replica) -> None:
        """Groups as they were written last, offsets as the era has it
        (GroupMetadataManager.doLoadGroupsAndOffsets, CoordinatorLoaderImpl)."""
        offsets, written = CommittedOffsets(self.bugs), replica.log.records()
        if "groups-forget-on-load" in self.bugs:
            # Readers begin again where nothing is committed.
            offsets.applied, written = replica.log.end, iter(())
        waits = self.node.settings.era.offsets_when_committed
        offsets.apply(replica.log, replica.high_watermark if waits else replica.log.end)
        loaded = self.loaded[number] = LoadedPartition(offsets)
        unknown = TARGETS if "targets-unknown-on-load" in self.bugs else ()
        for _, _, record in written:
            if not isinstance(record, unknown):
                loaded.replay(record, self.node.now, self.node.settings.era)
        for known in loaded.consumer_groups.values():
            if "owners-forgotten-on-load" in self.bugs:
                known.forget_owners()
            known.restart(self.node.now)
        loaded.committed = dict(loaded.consumer_groups)
        if "generation-forgotten-on-load" in self.bugs:
            for group in loaded.groups.values():
                group.generation = 0

    def at(self, group: str) -> tuple[int, LoadedPartition]:
        """The partition of the group, which is loaded here, with everything that is committed.

        Raises: Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS).
        """
        number = self.number(group)
        self.check(number)
        loaded = self.loaded[number]
        replica = self.node.replicas[self.partition(number)]
        loaded.offsets.apply(replica.log, replica.high_watermark)
        return number, loaded

    def write(self, number: int, records: tuple[object, ...], done: Callable[[KafkaError], None]) -> bool:
        """Append, and call `done` when it is replicated; whether the log has taken it. Without records: when
        everything is that was appended here before (CoordinatorRuntime, "pending writes"). What was not
        replicated in time stays pending: the coordinator has acted upon it, and must not yet say so."""
        loaded = self.loaded[number]
        replica = self.node.replicas[self.partition(number)]
        before = loaded.last
        if before is not None and before.error is not NO_ERROR and replica.high_watermark >= before.end:
            before = loaded.last = None
        if not records:
            if before is None or before.error is not NO_ERROR:
                done(NO_ERROR if before is None else before.error)
            else:
                before.after.append(done)
            return True
        pending = loaded.last = PendingAppend(after=[done])
        end = replica.log.end

        def decided(error: KafkaError) -> None:
            pending.error = error
            if loaded.last is pending and error is NO_ERROR:
                loaded.last = None
            for each in pending.after:
                each(error)

        self.append(number, records, self.timeout_ms, decided)
        if replica.log.end > end:
            pending.end = replica.log.end
            return True
        loaded.last = before
        return False

    def member(self, loaded: LoadedPartition, name: str, member: str, generation: int) -> ClassicGroup:
        """The group, if this is a member of its present generation.

        Raises: Refused (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION).
        """
        group = loaded.groups.get(name)
        if group is None or member not in group.members:
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
        if generation != group.generation:
            raise Refused(KafkaError.ILLEGAL_GENERATION)
        return group

    def tick(self) -> None:
        """Load."""
        self.load()
        for loaded in self.loaded.values():
            loaded.offsets.settle()

    @property
    def timeout_ms(self) -> int:
        """Of an append."""
        return self.node.settings.request_timeout_ms
