"""Eras: which of Kafka's historical behaviours is in force.

Each switch is one change of the protocol, named for what it does when it is on; an era is a named set of
switches, by the release that it stands for. Switches are independent as far as they were in Kafka, so that
a scenario can have exactly one of them.
"""

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Era:
    """Switches. The defaults are the modern protocol (4.4), with clients that speak it.

    truncate_by_epoch: KIP-101 (0.11): a follower asks the leader where its epoch ends, and cuts back to
        there; else to its own high watermark.
    epoch_walk: KIP-279 (2.0): the leader answers with its largest epoch up to the asked one, and the
        follower keeps asking until both agree; else the follower cuts once, by an unknown epoch to its
        high watermark.
    epoch_when_led: KAFKA-7415 (2.0.1): a new leader notes where its epoch begins when it becomes leader; else
        at its first write: until then it has no answer for a follower whose newest epoch is later than its
        last noted one, and that one cuts back to its high watermark.
    fenced_fetch: KIP-320 (2.1): a fetch carries the leader epoch, and is refused by a leader of another;
        offsets are committed with the leader epoch of what was read; metadata tell it, and no client goes
        back to an older one (Java: since 2.2), else it believes whatever came last.
    joined_in_epoch: KAFKA-7128 (2.0.1): a replica joins the in-sync set when it reached the begin of the
        leader's epoch; else the leader's high watermark, which may be behind, is enough.
    offset_not_available: KIP-207 (2.2): a new leader does not tell the end of its log before the high
        watermark has reached the begin of its epoch; else the end that clients receive may go back.
    fenced_offsets: KIP-447 (2.5): offsets in a transaction are taken from members of the present
        generation only, and are not answered while the transaction is open; else the coordinator checks
        neither, and fencing is up to the transactional id: a copier needs one id per input partition, and
        one that has an id per process, as copiers here have, is not exactly-once.
    read_before_known: KAFKA-8400 (2.4): a fetch of a follower that could not be read says nothing of it; else
        the leader does not know its log end any more.
    moves_by_new_ends: since 2.4 a follower's fetch moves the high watermark only where it shows another end
        of its log (Partition.updateFollowerFetchState); else each may, also long after what held it back.
    followers_serve: KIP-392 (2.4): a follower answers a consumer's Fetch, up to the high watermark that it
        knows; else only the leader does.
    named_elsewhere: KAFKA-6796 (2.0; for ends of epochs KAFKA-7347, 2.1): a broker without a replica of a
        partition that exists says that it does not lead; else that it knows no such partition.
    awaits_eligible: KAFKA-15021 (3.6): the high watermark waits outside of the in-sync set for who may join
        it; else for each that was caught up a moment ago, also where it is fenced or has shut down.
    committed_by_minimum: KAFKA-15583 (3.7): the high watermark stands still below the minimum, which is at
        most the number of replicas; else it moves, and a minimum above that refuses all acks=all.
    eligible_replicas: KIP-966 (4.1): replicas that left the in-sync set while it was at its minimum may
        still be elected.
    unclean_by_setting: KAFKA-12670 (3.9): KRaft heeds unclean.leader.election.enable, as the controller of
        the ZooKeeper era does; else unclean elections are up to an operator.
    epoch_by_shrink: KRaft with a metadata version before 3.6 (KAFKA-15021): the leader epoch rises with every
        in-sync set that lacks a member of the one before.
    whole_reassignment: KAFKA-15665 (3.8): a reassignment ends when all replicas that it leaves are in sync;
        else when those are that it added.
    resigns_alone: KAFKA-15489 (3.7): a controller from which no majority of the quorum fetches resigns; else
        it holds itself for the active one as long as it is cut off.
    pre_vote: KIP-996 (4.0): a voter that hears of no leader asks first who would vote for it, in its epoch;
        else it raises the epoch with each time-out, and deposes the leader when it comes back.
    idempotence: KIP-98 (0.11).
    remembered_batches: batches of a producer that are recognised when sent again: 5 since 1.0
        (KAFKA-5494), before that 1.
    unknown_producer_refused: 0.11 to 2.4: a producer that the log does not know must begin at sequence 0,
        else UNKNOWN_PRODUCER_ID; later any sequence is taken (KIP-360).
    verification: KIP-890 part 1 (3.6): a leader asks the coordinator before it appends the first record of
        a transaction.
    verified_by_epoch: 4.0 (UnifiedLog.hasOngoingTransaction): a batch of another epoch than the open
        transaction's has to be verified; else an open transaction of the producer id is enough.
    server_transaction_version: 1, or 2 (KIP-890 part 2, 4.0): what the cluster has finalized
        (transaction.version). Coordinators fence and abort by it where no client asked for the end.
    client_transaction_version: what clients speak, at most that of the cluster; librdkafka speaks 1. With 2
        the epoch is bumped with every transaction, and leaders add their partitions to it themselves.
    marker_epoch_rises: KIP-1228 (4.2): the marker of an end by transaction version 2 needs a higher epoch
        than the open transaction, so that one of an earlier transaction does not end it (KAFKA-19446).
    pending_first: KAFKA-18660 (4.0): while a change of a transactional id is pending, a client that
        adds a partition has to wait before its producer id and epoch are looked at (one that ends a
        transaction of version 2 in any era); else a producer is refused for good that begins a transaction
        with the new id which the end of its last one brought.
    begins_at_zero: KAFKA-18202 (4.1), with clients of transaction version 2: a transaction of a producer
        that the log does not know must begin at sequence 0, else OUT_OF_ORDER_SEQUENCE_NUMBER.
    old_epoch_first: KAFKA-19690 (3.9.2, 4.0.2, 4.1.1): a batch of an older producer epoch is refused with
        INVALID_PRODUCER_EPOCH, which clients survive, before its verification is looked at.
    ids_logged: KAFKA-20310 (4.3): the transaction log has the producer ids before and after the present one,
        so that a coordinator that loads knows them; else it does not learn them.
    leaderless_deleted: KAFKA-20734 (4.3): a coordinator takes a partition that has no leader just then for
        deleted, and leaves the transaction's marker out there for good; else it waits for a leader.
    offsets_when_committed: KIP-848, KAFKA-16973 (4.0): a new group coordinator answers an offset that it read
        in its log once that is committed; the one before (the default up to 3.9) answers it at once, and
        makes a group for a TxnOffsetCommit that it refuses.
    stable_at_batch: KAFKA-17803 (4.0): where the begin of an open transaction was deleted, the last stable
        offset is the base of the batch that holds the log start; else the log start.
    unloads_late: KAFKA-20634 (4.0.0 to 4.3.0): a group coordinator that leads no more takes the high
        watermark that it hears as a follower for that of its own records, and answers what was cut off.
    acts_when_committed: no release has it: a transaction coordinator that loads answers
        COORDINATOR_LOAD_IN_PROGRESS, and neither sends markers nor ends what timed out, until everything that
        it has read is committed (docs/findings/uncommitted-transaction-state.md); else it acts at once.
    consumer_groups: KIP-848, 4.0.
    committed_by_assignment: KIP-1251 (4.3): a member of such a group commits in an earlier epoch of its own,
        too, where it has had the partitions since then; else in its present one only.
    rejoins_with_epoch_zero: since 4.2 a member that a consumer group has may join again; else that is an
        epoch which it has left, and it is fenced until its session has ended
        (GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid).
    begins_in_epoch_one: since 4.3 a consumer group begins with epoch 1, and its first member makes that 2
        (ModernGroup, TargetAssignmentMetadata.INITIAL); else with 0.
    revoking_described: since 4.3 ConsumerGroupDescribe counts what a member has still to give up among its
        partitions (ConsumerGroupMember.asConsumerGroupDescribeMember).
    assignments_spaced: KIP-1263 (4.3): targets of such a group are computed at most once in
        group.consumer.assignment.interval.ms; else with each change.
    assignor_raises_epoch: since 4.4 such a group gets a new epoch where its members prefer another assignor
        (GroupMetadataManager.hasPreferredServerAssignorChanged); else the next epoch is computed with it.
    share_groups: KIP-932, 4.1.
    share_locks_renewed: KIP-1222 (4.2): a member may say that it needs a record for longer.
    share_counts_kept: KAFKA-19972 (4.2): what a member held when its session ended keeps its delivery count;
        else the delivery is taken back.
    share_members_even: since 4.2 all partitions of a share group have equally many members: members by
        partitions, rounded up (SimpleHomogeneousAssignmentBuilder); else each has one at least, and each
        member has one.
    share_dead_letters: KIP-1191 (4.4): a share group may have a dead-letter queue.
    share_start_rises: apache/kafka#23074 (4.4): a write of share state that comes late leaves the start
        offset where it is; else it sets it back, and what had ended in between is delivered again.
    zookeeper: until 3.x: brokers register in ZooKeeper, the controller is elected there, and leaders write
        in-sync sets themselves; else a metadata quorum (KRaft).
    """

    truncate_by_epoch: bool = True
    epoch_walk: bool = True
    epoch_when_led: bool = True
    fenced_fetch: bool = True
    joined_in_epoch: bool = True
    offset_not_available: bool = True
    fenced_offsets: bool = True
    read_before_known: bool = True
    moves_by_new_ends: bool = True
    followers_serve: bool = True
    named_elsewhere: bool = True
    awaits_eligible: bool = True
    committed_by_minimum: bool = True
    eligible_replicas: bool = True
    unclean_by_setting: bool = True
    epoch_by_shrink: bool = False
    whole_reassignment: bool = True
    resigns_alone: bool = True
    pre_vote: bool = True
    idempotence: bool = True
    remembered_batches: int = 5
    unknown_producer_refused: bool = False
    verification: bool = True
    verified_by_epoch: bool = True
    server_transaction_version: int = 2
    client_transaction_version: int = 2
    marker_epoch_rises: bool = True
    pending_first: bool = True
    begins_at_zero: bool = True
    old_epoch_first: bool = True
    ids_logged: bool = True
    leaderless_deleted: bool = True
    offsets_when_committed: bool = True
    stable_at_batch: bool = True
    unloads_late: bool = False
    acts_when_committed: bool = False
    consumer_groups: bool = True
    committed_by_assignment: bool = True
    rejoins_with_epoch_zero: bool = True
    begins_in_epoch_one: bool = True
    revoking_described: bool = True
    assignments_spaced: bool = True
    assignor_raises_epoch: bool = True
    share_groups: bool = True
    share_locks_renewed: bool = True
    share_counts_kept: bool = True
    share_members_even: bool = True
    share_dead_letters: bool = True
    share_start_rises: bool = True
    zookeeper: bool = False


# Each has what the next one has, but for what came with that.
V4_4: Final = Era()
V4_3: Final = replace(V4_4, assignor_raises_epoch=False, share_dead_letters=False, share_start_rises=False)
V4_2: Final = replace(
    V4_3,
    ids_logged=False,
    leaderless_deleted=False,
    unloads_late=True,
    committed_by_assignment=False,
    begins_in_epoch_one=False,
    revoking_described=False,
    assignments_spaced=False,
)
V4_1: Final = replace(
    V4_2,
    marker_epoch_rises=False,
    share_locks_renewed=False,
    share_counts_kept=False,
    share_members_even=False,
    rejoins_with_epoch_zero=False,
)
V4_0: Final = replace(V4_1, eligible_replicas=False, begins_at_zero=False, share_groups=False)
V3_9: Final = replace(
    V4_0,
    pre_vote=False,
    verified_by_epoch=False,
    server_transaction_version=1,
    client_transaction_version=1,
    pending_first=False,
    old_epoch_first=False,
    consumer_groups=False,
    offsets_when_committed=False,
    stable_at_batch=False,
    unloads_late=False,
)
V3_6: Final = replace(
    V3_9, committed_by_minimum=False, whole_reassignment=False, unclean_by_setting=False, resigns_alone=False
)
V3_3: Final = replace(V3_6, verification=False, epoch_by_shrink=True, awaits_eligible=False)
V2_4: Final = replace(
    V3_3,
    unclean_by_setting=True,
    epoch_by_shrink=False,
    fenced_offsets=False,
    unknown_producer_refused=True,
    zookeeper=True,
)
V2_0: Final = replace(
    V2_4,
    fenced_fetch=False,
    offset_not_available=False,
    read_before_known=False,
    moves_by_new_ends=False,
    followers_serve=False,
)
V0_11: Final = replace(
    V2_0,
    epoch_walk=False,
    epoch_when_led=False,
    joined_in_epoch=False,
    named_elsewhere=False,
    remembered_batches=1,
)
V0_10: Final = replace(V0_11, truncate_by_epoch=False, idempotence=False)

ERAS: Final[dict[str, Era]] = {
    "0.10": V0_10,
    "0.11": V0_11,
    "2.0": V2_0,
    "2.4": V2_4,
    "3.3": V3_3,
    "3.6": V3_6,
    "3.9": V3_9,
    "4.0": V4_0,
    "4.1": V4_1,
    "4.2": V4_2,
    "4.2-tv1": replace(V4_2, client_transaction_version=1),
    "4.3": V4_3,
    "4.3-tv1": replace(V4_3, client_transaction_version=1),
    "4.4": V4_4,
    "4.4-tv1": replace(V4_4, client_transaction_version=1),
    "4.3-mended": replace(V4_3, leaderless_deleted=False, acts_when_committed=True),
}
"""Name -> era, oldest first. -tv1: the same brokers with clients that speak transaction version 1,
as librdkafka does. "4.3-mended": 4.3 without its two known weaknesses; no release is like that."""

METADATA_VERSION: Final = "metadata.version"
"""Feature of the metadata log that says which records it may have."""
LEVELS: Final = (
    (1, V3_3),
    (12, V3_6),
    (21, V3_9),
    (22, V4_0),
    (26, V4_1),
    (28, V4_2),
    (30, V4_3),
    (31, V4_4),
)
"""Metadata versions, by the number of the feature `metadata.version`, that an era begins with
(MetadataVersion.java: 12 = 3.6-IV0, 21 = 3.9-IV0, 22 = 4.0-IV0, 26 = 4.1-IV0, 28 = 4.2-IV0, 30 = 4.3-IV0, 31
= 4.4-IV0; 33 = 4.4-IV2, the newest of 4.4.0)."""


def of_metadata_version(level: int) -> Era:
    """The era of a cluster of this metadata version, as if its brokers were of the same release."""
    return [era for begin, era in LEVELS if begin <= max(level, 1)][-1]
