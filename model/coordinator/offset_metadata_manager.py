"""Committing and fetching the offsets of consumer groups.

Offsets count once they are committed in the log, those of a transaction once its marker is (KIP-98, KIP-447).
"""

from collections.abc import Mapping
from typing import Final

from model.coordinator.classic_group import COMPLETING, EMPTY, ClassicGroup
from model.coordinator.consumer_group import ConsumerGroup
from model.coordinator.coordinator_runtime import SEEN_BY_CLIENTS
from model.coordinator.group_metadata_manager import (
    TOMBSTONE,
    CommittedOffsets,
    GroupMetadataManager,
    OffsetRecord,
)
from model.errors import NO_ERROR, KafkaError, Refused
from model.log.unified_log import RecordBatch
from model.protocol.coordinator_messages import (
    OffsetCommit,
    OffsetFetch,
    OffsetFetchResponse,
    TxnOffsetCommit,
)
from model.protocol.messages import Partition
from model.protocol.requests import Answer, ErrorResponse, Handlers
from model.replication.replica_manager import ReplicaManager

UNVERIFIED: Final = {KafkaError.REQUEST_TIMED_OUT: KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
"""Error of a verification -> what the client receives, who asks again without looking for the coordinator
(GroupMetadataManager.maybeConvertOffsetCommitError)."""


class OffsetMetadataManager:
    """See the module."""

    def __init__(self, log: GroupMetadataManager, replica_manager: ReplicaManager) -> None:
        self.node = log.node
        self.bugs = log.bugs
        self.log = log
        self.replica_manager = replica_manager

    def register(self, handlers: Handlers) -> None:
        """Add its handlers."""
        handlers.on(OffsetCommit, self.commit)
        handlers.on(TxnOffsetCommit, self.commit_in_transaction)
        handlers.on(OffsetFetch, self._fetch, OffsetFetchResponse)

    def commit(self, request: OffsetCommit, answer: Answer) -> None:
        """Key 8."""

        def done(error: KafkaError) -> None:
            answer(ErrorResponse(error))

        number = self._may_commit(request)
        acks = 1 if "offset-commit-not-replicated" in self.bugs else -1  # lost with the coordinator
        self.log.append(number, _records(request), self.log.timeout_ms, done, acks=acks)

    def _may_commit(self, request: OffsetCommit | TxnOffsetCommit) -> int:
        """ClassicGroup.validateOffsetCommit; the partition of the group. Raises: Refused."""
        number, loaded = self.log.at(request.group)
        transactional = isinstance(request, TxnOffsetCommit)
        if transactional and not self.node.settings.era.fenced_offsets:
            return number  # no check of the sender (2.4: GroupCoordinator.doCommitOffsets)
        if "generation-not-checked" in self.bugs:
            return number  # a member that was thrown out keeps committing
        consumers = loaded.consumer_groups.get(request.group)
        if consumers is not None:
            self._of_member(consumers, request)
            return number
        group = loaded.groups.get(request.group)
        empty = group is None or group.state is EMPTY
        if group is None and request.generation >= 0:
            newer = isinstance(request, OffsetCommit) and request.newer
            raise Refused(KafkaError.GROUP_ID_NOT_FOUND if newer else KafkaError.ILLEGAL_GENERATION)
        if request.generation < 0 and empty:
            # A client that assigns partitions by hand keeps its offsets here: a group without members.
            loaded.groups.setdefault(request.group, ClassicGroup(request.group))
            return number
        if request.generation >= 0 or request.member:
            group = self.log.member(loaded, request.group, request.member, request.generation)
        elif not transactional:
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
        if transactional or group is None:
            return number
        if group.state is COMPLETING:
            raise Refused(KafkaError.REBALANCE_IN_PROGRESS)
        # A commit is a sign of life, unless it is a transaction's (OffsetMetadataManager.commitOffset).
        group.members[request.member].heard = self.node.now
        return number

    def _of_member(self, group: ConsumerGroup, request: OffsetCommit | TxnOffsetCommit) -> None:
        """ConsumerGroup.validateOffsetCommit. Raises: Refused."""
        transactional = isinstance(request, TxnOffsetCommit)
        if request.generation < 0 and not group.members:
            return
        if transactional and request.generation < 0 and not request.member:
            return
        group.member(request.member)
        if isinstance(request, OffsetCommit) and not request.newer:
            raise Refused(KafkaError.UNSUPPORTED_VERSION)
        by_assignment = self.node.settings.era.committed_by_assignment
        try:
            group.may_commit(request.member, request.generation, request.offsets, by_assignment=by_assignment)
        except Refused as refused:
            if transactional and refused.error is KafkaError.STALE_MEMBER_EPOCH:
                raise Refused(KafkaError.ILLEGAL_GENERATION) from refused
            raise

    def commit_in_transaction(self, request: TxnOffsetCommit, answer: Answer) -> None:
        """Key 28: the offsets are pending until the marker of the transaction."""
        number, loaded = self.log.at(request.group)
        if not self.node.settings.era.offsets_when_committed:
            # The group exists from now on, accepted or not (GroupCoordinator.handleTxnCommitOffsets).
            loaded.groups.setdefault(request.group, ClassicGroup(request.group))
        tp = self.log.partition(number)
        batch = RecordBatch(
            -1, -1, _records(request), request.producer_id, request.producer_epoch, transactional=True
        )

        def done(results: Mapping[Partition, tuple[KafkaError, int]]) -> None:
            error = results[tp][0]
            answer(ErrorResponse(SEEN_BY_CLIENTS.get(error, error)))

        def verified(guards: Mapping[Partition, int], errors: Mapping[Partition, KafkaError]) -> None:
            try:
                # Membership counts now, not when the coordinator of the transaction was asked.
                if tp not in errors:
                    self._may_commit(request)
            except Refused as refused:
                answer(ErrorResponse(refused.error))
                return
            unverified = {where: UNVERIFIED.get(error, error) for where, error in errors.items()}

            def stored(results: Mapping[Partition, tuple[KafkaError, int]]) -> None:
                refused = results[tp][0] and not unverified
                if refused and "refused-commit-drops-pending-offsets" in self.bugs:
                    loaded.offsets.drop(request.producer_id, request.group, request.offsets)
                done(results)

            self.replica_manager.append(
                {tp: batch}, -1, self.log.timeout_ms, stored, guards=guards, refused=unverified
            )

        self.replica_manager.verification.begin(request.transactional_id, {tp: batch}, verified)

    def deleted(self, topic: str) -> None:
        """Write tombstones for the offsets of a deleted topic, as far as groups are coordinated here, those
        of open transactions too (OffsetMetadataManager.onPartitionsDeleted)."""
        for number, loaded in self.log.loaded.items():
            held = loaded.offsets.held(self.node.replicas[self.log.partition(number)].log)
            keys = sorted(key for key in held if key[1][0] == topic)
            if keys and "deleted-topic-keeps-offsets" not in self.bugs:
                tombstones = tuple(OffsetRecord(*key, TOMBSTONE) for key in keys)
                self.log.append(number, tombstones, self.log.timeout_ms, lambda _: None)

    def _fetch(self, request: OffsetFetch, answer: Answer) -> None:
        """Key 9. Offsets that are about to change are not answered (KIP-447). From 4.0 on such a fetch is as
        a write without records: it tells what is written, once that is committed."""
        number, loaded = self.log.at(request.group)
        tp, era = self.log.partition(number), self.node.settings.era
        stable = request.stable and era.fenced_offsets and "unstable-offsets-answered" not in self.bugs
        waits = stable and era.offsets_when_committed
        consumers = (loaded.consumer_groups if waits else loaded.committed).get(request.group)
        if consumers is not None:
            consumers.may_fetch(request.member, request.member_epoch)
        log = self.node.replicas[tp].log
        offsets = loaded.offsets.written(log) if waits else loaded.offsets
        made = self._found(request, offsets)
        if stable and offsets.unstable(request.group, request.partitions, log):
            made = OffsetFetchResponse(KafkaError.UNSTABLE_OFFSET_COMMIT)

        def committed(error: KafkaError) -> None:
            answer(made if error is NO_ERROR else OffsetFetchResponse(KafkaError.NOT_COORDINATOR))

        if waits:
            self.replica_manager.when_committed(tp, self.log.timeout_ms, committed)
        else:
            answer(made)

    def _found(self, request: OffsetFetch, offsets: CommittedOffsets) -> OffsetFetchResponse:
        known = {tp: offsets.of(request.group, tp) for tp in request.partitions}
        found = {tp: told.offset for tp, told in known.items()}
        if "offset-of-next-batch" in self.bugs:  # a member starts one record too far
            found = {tp: at + 1 if at > 0 else at for tp, at in found.items()}
        if "old-offset-answered" in self.bugs:
            found = {tp: max(at - 5, 0) if at > 0 else at for tp, at in found.items()}
        epochs = {
            tp: committed.leader_epoch for tp, committed in known.items() if committed.leader_epoch >= 0
        }
        return OffsetFetchResponse(NO_ERROR, found, epochs)


def _records(request: OffsetCommit | TxnOffsetCommit) -> tuple[OffsetRecord, ...]:
    return tuple(
        OffsetRecord(request.group, tp, offset, request.epochs.get(tp, -1))
        for tp, offset in sorted(request.offsets.items())
    )
