"""The registry of reproductions: a known bug, and the schedule with a bad side, which shows it, and a good
side, which does not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from checkers.checks.dead_letters import ACCEPTED as LETTER_OF_ACCEPTED
from checkers.checks.dead_letters import PHANTOM as LETTER_OF_NOTHING
from checkers.checks.durability import LOST
from checkers.checks.isolation import ABORTED
from checkers.checks.send_order import BETWEEN_OPS as DISORDER
from checkers.checks.uniqueness import DUPLICATE
from core.presets import SHARE_LIMIT
from harness.reproduce.aborted_index import skipping_index
from harness.reproduce.answers import (
    NEW_GROUPS,
    SCAN,
    PerformedRequest,
    asked_again,
    gathered,
    late_permission,
    no_member,
    opened_again,
    refused_and_dropped,
)
from harness.reproduce.cluster import PerformedWait
from harness.reproduce.coordinators import (
    PerformedCommit,
    PerformedTransaction,
    followed,
    late_record,
    leaderless,
    uncommitted_abort,
    uncommitted_partition,
)
from harness.reproduce.dead_letters import PerformedLetters, by_former_leader, of_markers
from harness.reproduce.deleted_topics import PerformedDeletion, survives
from harness.reproduce.fenced_offsets import stored_late
from harness.reproduce.in_sync_sets import SOON, pending_expansion
from harness.reproduce.late_requests import PerformedEndings, doubted_end, late_end, late_marker
from harness.reproduce.lost_directory import waits
from harness.reproduce.mixed_versions import mixed_markers
from harness.reproduce.sendings import (
    Sent,
    alone,
    cancelled_reassignment,
    epoch_bump,
    last_replica,
    late_produce,
    moved,
    refused_first,
    removed_replica,
    unclean,
)
from harness.reproduce.share_members import PerformedDeliveries, given_back, read_again, unread_id
from harness.reproduce.stage import Deaths
from harness.reproduce.three_brokers import PATIENT as SLOW_TO_HEAR
from harness.reproduce.three_brokers import (
    QUICK,
    PerformedReplicas,
    truncation_divergence,
    truncation_loss,
    unknown_epoch,
)

Performed = (
    PerformedTransaction
    | PerformedCommit
    | PerformedDeletion
    | PerformedDeliveries
    | PerformedEndings
    | PerformedLetters
    | PerformedReplicas
    | PerformedRequest
    | PerformedWait
    | Sent
)
"""What a schedule left, to be judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A known bug.

    title: what a user loses. bad, good: what the sides are. versions: of Kafka, for bad and good. settings:
    of the brokers on the bad and the good side.
    play: performs a run (its name, whether it is the good side). left_out: the coordinator's log says so when
    the bug happens: it leaves out markers (`history.broker_logs`). label: of the findings that the bug causes
    in runs of a workload (`checkers.known_bugs`), or of what Kafka permits (`rates`). wire: clients reach the
    brokers through the proxy that knows frames. between: brokers reach each other through such proxies, too;
    controllers: and the controller. deaths: how its coordinators may lose their partition (--deaths). shows:
    the classes of anomalies of the bad side, of records whose fate tells: these and no others. on_zookeeper:
    its cluster is that of `three_brokers`, else that of `stage`. log_dirs: log directories of each broker
    there. upgrade: the later version that some brokers get on the bad and the good side.
    """

    title: str
    bad: str
    good: str
    versions: tuple[str, str]
    play: Callable[[Any, str, bool], Performed]
    label: str
    left_out: bool = False
    settings: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
    wire: bool = False
    between: bool = False
    controllers: bool = False
    deaths: tuple[Deaths, ...] = (Deaths.KILL,)
    shows: frozenset[str] = frozenset()
    on_zookeeper: bool = False
    log_dirs: int = 1
    upgrade: tuple[str, str] = ("", "")


PATIENT = {"offsets.commit.timeout.ms": "30000"}
"""A coordinator does not give the commit up before the schedule ends."""
IDEMPOTENT = "the same with an idempotent producer"
SAME_END = "the same late request, and both transactions end the same way"
LATE_END = "the network delays EndTxn of a transaction until the next one has written; librdkafka 2.16"
REBUILT = (
    "the application makes a new client with the same transactional id instead, before librdkafka asks again"
    " (preset rebuild-on-doubt)"
)
BY_EPOCH = "Kafka 0.11 asks the leader where the follower's leader epoch ends (KIP-101)"
NO_LAG = "the same failovers without the follower that lags"

REPRODUCTIONS = {
    "aborted-index-skips": Reproduction(
        title="A broker is restarted and leads again: readers at read_committed get aborted records.",
        bad="transactions are aborted, and another producer commits, while the broker is down",
        good="the same when the broker is in sync again",
        versions=("4.4.0", "4.4.0"),
        play=skipping_index,
        label="aborted-index-skips",
        shows=frozenset([ABORTED]),
    ),
    "acks1": Reproduction(
        title="A leader that is cut off acknowledges a record alone (acks=1): the next leader lacks it.",
        bad="acks=1",
        good="acks=all, min.insync.replicas=2",
        versions=("4.4.0", "4.4.0"),
        play=alone,
        label="acks1",
        shows=frozenset([LOST]),
    ),
    "acks1-moved": Reproduction(
        title="A leader is moved, and nothing fails: the next leader lacks acknowledged records (acks=1).",
        bad="acks=1; elections of preferred leaders",
        good="the same elections, and an idempotent producer (acks=all)",
        versions=("4.4.0", "4.4.0"),
        play=moved,
        label="acks1",
        shows=frozenset([LOST]),
    ),
    "cancelled-reassignment": Reproduction(
        title="A reassignment is cancelled and made again; the leader is shut down: all is lost.",
        bad="a replica is down; one that the cancelled request had added was in sync, and is throttled later",
        good="the same with min.insync.replicas=1",
        versions=("4.4.0", "4.4.0"),
        play=cancelled_reassignment,
        label="removed-replica",
        shows=frozenset([LOST]),
    ),
    "deleted-topic-offsets": Reproduction(
        title="A group passes over records of a new topic: it has offsets of the deleted one of that name.",
        bad="the topic is deleted just when its group's coordinator changes",
        good="the topic is deleted first, and its group's coordinator changes then",
        versions=("4.4.0", "4.4.0"),
        play=survives,
        label="deleted-topic-offsets",
        deaths=(Deaths.KILL, Deaths.ELECTION),
    ),
    "duplicate": Reproduction(
        title="A request comes late, and its client has sent it again: the record is in the log twice.",
        bad="the network delays a Produce; a producer without idempotence",
        good=IDEMPOTENT,
        versions=("4.4.0", "4.4.0"),
        play=late_produce,
        label="no-idempotence",
        wire=True,
        shows=frozenset([DUPLICATE]),
    ),
    "fenced-offsets": Reproduction(
        title="A commit of offsets comes when its producer is fenced: a group has offsets that were aborted.",
        bad="Kafka 1.1.1: the coordinator of groups stores it behind the marker, and the next one commits it",
        good="Kafka 2.4.1 refuses it",
        versions=("1.1.1", "2.4.1"),
        play=stored_late,
        label="fenced-offsets",
        on_zookeeper=True,
    ),
    "kafka-14402": Reproduction(
        title="A record arrives after the end of its transaction: readers wait there for ever.",
        bad="brokers do not verify transactions (transaction.partition.verification.enable=false)",
        good="brokers verify them, Kafka's default since 3.6",
        versions=("3.9.1", "3.9.1"),
        play=late_record,
        label="KAFKA-14402",
        settings=({"transaction.partition.verification.enable": "false"}, {}),
    ),
    "kafka-15591": Reproduction(
        title="A producer's first record in a partition is reported as delivered, and is not in the log.",
        bad="the first of five requests in flight is refused (by the proxy); a partition new to the producer",
        good="the partition has a record of the producer already",
        versions=("4.4.0", "4.4.0"),
        play=partial(refused_first, idempotent=True),
        label="KAFKA-15591",
        wire=True,
        shows=frozenset([LOST]),
    ),
    "kafka-17754-abort": Reproduction(
        title="A late abort of one transaction aborts the next one, whose commit is acknowledged.",
        bad=LATE_END,
        good=SAME_END,
        versions=("4.4.0", "4.4.0"),
        play=partial(late_end, first_commits=False),
        label="KAFKA-17754",
        wire=True,
        shows=frozenset([LOST]),
    ),
    "kafka-17754-commit": Reproduction(
        title="A late commit of one transaction commits the next one, whose abort is acknowledged.",
        bad=LATE_END,
        good=SAME_END,
        versions=("4.4.0", "4.4.0"),
        play=partial(late_end, first_commits=True),
        label="KAFKA-17754",
        wire=True,
        shows=frozenset([ABORTED]),
    ),
    "kafka-17754-doubt": Reproduction(
        title="A commit times out, and the application asks again: the late request commits the next one.",
        bad="the network delays EndTxn; the application calls commit_transaction again",
        good=REBUILT,
        versions=("4.4.0", "4.4.0"),
        play=partial(doubted_end, by_library=False),
        label="KAFKA-17754",
        wire=True,
        shows=frozenset([ABORTED]),
    ),
    "kafka-17754-timeout": Reproduction(
        title="A commit has no answer, and librdkafka asks again: the late request commits the next one.",
        bad="the network delays EndTxn; librdkafka sends it again after socket.timeout.ms",
        good=REBUILT,
        versions=("4.4.0", "4.4.0"),
        play=partial(doubted_end, by_library=True),
        label="KAFKA-17754",
        wire=True,
        shows=frozenset([ABORTED]),
    ),
    "kafka-18060": Reproduction(
        title="A transaction commits offsets of a group of KIP-848, and names no member: it is refused.",
        bad="Kafka 3.9.1 with the groups of KIP-848 (group.coordinator.rebalance.protocols=classic,consumer);"
        " TxnOffsetCommit of version 2, which names none",
        good="the same on Kafka 4.0.2",
        versions=("3.9.1", "4.0.2"),
        play=no_member,
        label="KAFKA-18060",
        settings=(NEW_GROUPS, {}),
    ),
    "kafka-19367": Reproduction(
        title="InitProducerId over an open transaction raises the epoch once too often.",
        bad="Kafka 4.0.0: the abort raises the epoch once more, which InitProducerId has raised already",
        good="Kafka 4.0.2 raises it once for the abort, and once for the new instance",
        versions=("4.0.0", "4.0.2"),
        play=opened_again,
        label="KAFKA-19367",
    ),
    "kafka-19446": Reproduction(
        title="A late marker of an abort aborts the next transaction, whose commit is acknowledged.",
        bad="the network delays a coordinator's WriteTxnMarkers until the next transaction has written;"
        " transaction version 1, as librdkafka speaks it",
        good="the same late request, and transaction version 2",
        versions=("4.4.0", "4.4.0"),
        play=late_marker,
        label="KAFKA-19446",
        wire=True,
        between=True,
        shows=frozenset([LOST]),
    ),
    "kafka-19632": Reproduction(
        title="The preferred leader is elected: a share group delivers again what a member accepted.",
        bad="Kafka 4.1 delivers a batch from its beginning, though a member accepted that and more of it",
        good="Kafka 4.2.0 begins at the first record that has not ended",
        versions=("4.1.2", "4.2.0"),
        play=read_again,
        label="KAFKA-19632",
        settings=(SHARE_LIMIT, SHARE_LIMIT),
    ),
    "kafka-19690": Reproduction(
        title="A record comes when the time of its transaction is up: an error that ends the producer.",
        bad="Kafka 4.1.0: the leader hears late that the record may be written, and the marker is there",
        good="Kafka 4.1.1 looks at the producer's epoch first",
        versions=("4.1.0", "4.1.1"),
        play=late_permission,
        label="KAFKA-19690",
        settings=(SCAN, SCAN),
        wire=True,
        between=True,
    ),
    "kafka-19846": Reproduction(
        title="A member of a share group whose id has a slash or a plus gets no record, ever.",
        bad="Kafka 4.1 reads ids as base64 for URLs; librdkafka 2.16 writes the other one",
        good="Kafka 4.2.0 takes any id",
        versions=("4.1.2", "4.2.0"),
        play=unread_id,
        label="KAFKA-19846",
        settings=(SHARE_LIMIT, SHARE_LIMIT),
    ),
    "kafka-19972": Reproduction(
        title="A record whose members die is delivered for ever: its delivery count does not rise.",
        bad="Kafka 4.1 lowers the delivery count when the session of a member ends",
        good="Kafka 4.2.0 counts on",
        versions=("4.1.2", "4.2.0"),
        play=given_back,
        label="KAFKA-19972",
        settings=(SHARE_LIMIT, SHARE_LIMIT),
    ),
    "kafka-20322": Reproduction(
        title="During an upgrade a transaction commits and does not end: readers wait there.",
        bad="one broker, the coordinator, has Kafka 4.2.0, and sends markers that 4.1.2 does not know",
        good="it has Kafka 4.2.1, which asks what the other broker knows",
        versions=("4.1.2", "4.1.2"),
        play=mixed_markers,
        label="KAFKA-20322",
        upgrade=("4.2.0", "4.2.1"),
    ),
    "kafka-20357": Reproduction(
        title="InitProducerId is sent again, since its answer was lost: the only producer is fenced.",
        bad="another broker is the coordinator by then",
        good="the same broker coordinates",
        versions=("4.4.0", "4.4.0"),
        play=asked_again,
        label="KAFKA-20357",
        deaths=(Deaths.KILL, Deaths.ELECTION),
    ),
    "kafka-20634": Reproduction(
        title="A group's commit of offsets is acknowledged, and the next coordinator does not have it.",
        bad="Kafka 4.0.0 to 4.3.0: a coordinator that follows takes its leader's commits for its own",
        good="Kafka 4.3.1 no longer listens then",
        versions=("4.0.2", "4.3.1"),
        play=followed,
        label="KAFKA-20634",
        settings=(PATIENT, PATIENT),
        wire=True,
        between=True,
    ),
    "kafka-20734": Reproduction(
        title="A transaction commits while a partition has no leader: the partition never gets its marker.",
        bad="Kafka 4.3 and 4.4 take a partition without a leader for deleted (KAFKA-20734)",
        good="Kafka 4.0.2 waits for the leader",
        versions=("4.4.0", "4.0.2"),
        play=leaderless,
        label="KAFKA-20734",
        left_out=True,
    ),
    "last-replica": Reproduction(
        title="The last in-sync replica loses power, comes back short and leads: records are cut off.",
        bad="Kafka before 4.1 elects it, since it is in sync (KIP-966)",
        good="Kafka 4.3.1 waits for a replica that was in sync before",
        versions=("3.9.1", "4.3.1"),
        play=last_replica,
        label="last-replica",
        shows=frozenset([LOST]),
    ),
    "letters-by-former-leader": Reproduction(
        title="The preferred leader is elected: a share group's dead-letter queue has an accepted record.",
        bad="the election, while a member holds the record by its last delivery",
        good="the leader stays",
        versions=("4.4.0", "4.4.0"),
        play=by_former_leader,
        label="letters-by-former-leader",
        settings=(SHARE_LIMIT, SHARE_LIMIT),
        shows=frozenset([LETTER_OF_ACCEPTED]),
    ),
    "letters-of-markers": Reproduction(
        title="A transaction commits behind a record that was accepted: its marker gets a dead letter.",
        bad="the transaction commits when its record is accepted: the marker is given out alone",
        good="it commits first: the record and the marker are given out together",
        versions=("4.4.0", "4.4.0"),
        play=of_markers,
        label="letters-of-markers",
        settings=(SHARE_LIMIT, SHARE_LIMIT),
        shows=frozenset([LETTER_OF_NOTHING]),
    ),
    "librdkafka-4953": Reproduction(
        title="An idempotent producer writes a record twice: another partition refused a record for good.",
        bad="an acknowledgement is lost, and a record is too large for another partition",
        good="an acknowledgement is lost, and no record is too large",
        versions=("4.4.0", "4.4.0"),
        play=epoch_bump,
        label="librdkafka-4953",
        wire=True,
        shows=frozenset([DUPLICATE]),
    ),
    "mixed-clients": Reproduction(
        title="An old client writes beside a newer one, which gets the old one's error.",
        bad="the old client writes first, while the leader's question about another transaction is under way",
        good="the newer client writes first",
        versions=("4.4.0", "4.4.0"),
        play=gathered,
        label="mixed-clients",
        wire=True,
        between=True,
    ),
    "offline-directory": Reproduction(
        title="A follower loses a log directory: no record with acks=all is acknowledged for 30 s.",
        bad="one of two log directories of a follower fails, and its broker lives on",
        good="the follower's broker is killed",
        versions=("4.4.0", "4.4.0"),
        play=waits,
        label="offline-directory",
        log_dirs=2,
    ),
    "pending-expansion": Reproduction(
        title="A leader forgets the replica that it has asked for: an acknowledged record is lost.",
        bad="while it asks, the leader reads a metadata record that it has had by an answer",
        good="the leader reads that record before it asks",
        versions=("4.4.0", "4.4.0"),
        play=pending_expansion,
        label="pending-expansion",
        settings=(SOON, SOON),
        wire=True,
        between=True,
        controllers=True,
        shows=frozenset([LOST]),
    ),
    "pending-offsets-dropped": Reproduction(
        title="A fenced instance's offset is refused: the group loses that of the transaction that commits.",
        bad="Kafka 3.9.1: the coordinator of groups forgets the offset that the transaction has committed",
        good="Kafka 4.0.2 keeps what its log has",
        versions=("3.9.1", "4.0.2"),
        play=refused_and_dropped,
        label="pending-offsets-dropped",
    ),
    "removed-replica": Reproduction(
        title="A partition has one replica for a time, then two; its leader is shut down: all is lost.",
        bad="one partition of the topic is given one replica, and then two; the new one is throttled",
        good="both partitions of the topic are given these replicas by the same requests",
        versions=("4.4.0", "4.4.0"),
        play=removed_replica,
        label="removed-replica",
        shows=frozenset([LOST]),
    ),
    "reordered": Reproduction(
        title="The first of five requests in flight is refused and comes again: it is behind the others.",
        bad="the proxy refuses it with NOT_ENOUGH_REPLICAS; a producer without idempotence",
        good=IDEMPOTENT,
        versions=("4.4.0", "4.4.0"),
        play=partial(refused_first, idempotent=False),
        label="no-idempotence",
        wire=True,
        shows=frozenset([DISORDER]),
    ),
    "truncation-divergence": Reproduction(
        title="A follower cuts back to its high watermark and leads: for good, both replicas differ.",
        bad="Kafka before 0.11: followers cut their logs back to their own high watermark",
        good=BY_EPOCH,
        versions=("0.10.2.2", "0.11.0.3"),
        play=truncation_divergence,
        label="truncation",
        settings=(SLOW_TO_HEAR, SLOW_TO_HEAR),
        on_zookeeper=True,
    ),
    "truncation-loss": Reproduction(
        title="A follower cuts back to its high watermark and leads: a record that all replicas had is gone.",
        bad="Kafka before 0.11: followers cut their logs back to their own high watermark",
        good=BY_EPOCH,
        versions=("0.10.2.2", "0.11.0.3"),
        play=truncation_loss,
        label="truncation",
        settings=(SLOW_TO_HEAR, SLOW_TO_HEAR),
        shows=frozenset([LOST]),
        on_zookeeper=True,
    ),
    "truncation-unknown-epoch": Reproduction(
        title="After an unclean election a leader does not know the old one's epoch: both replicas differ.",
        bad="Kafka before 2.0: then the follower cuts back to its high watermark",
        good="Kafka 2.4.1: both go back to the newest epoch that they share (KIP-279)",
        versions=("1.1.1", "2.4.1"),
        play=unknown_epoch,
        label="truncation",
        settings=(QUICK, QUICK),
        on_zookeeper=True,
    ),
    "unclean-election": Reproduction(
        title="A replica that lags becomes leader: acknowledged records are cut off.",
        bad="unclean.leader.election.enable=true, min.insync.replicas=1",
        good="unclean.leader.election.enable=false, min.insync.replicas=1",
        versions=("4.4.0", "4.4.0"),
        play=unclean,
        label="unclean-election",
        shows=frozenset([LOST]),
    ),
    "uncommitted-abort": Reproduction(
        title="A commit is acknowledged, and one half of its transaction is aborted.",
        bad="a coordinator acts upon an abort that is not committed; two changes of its leader",
        good=NO_LAG,
        versions=("4.4.0", "4.4.0"),
        play=uncommitted_abort,
        label="uncommitted-state",
        deaths=tuple(Deaths),
    ),
    "uncommitted-partition": Reproduction(
        title="A commit is acknowledged, and one partition of its transaction never gets a marker.",
        bad="a coordinator answers for a partition whose record is not committed; two changes of its leader",
        good=NO_LAG,
        versions=("4.4.0", "4.4.0"),
        play=uncommitted_partition,
        label="uncommitted-state",
        deaths=tuple(Deaths),
    ),
}
"""By the name that `inquest bugs reproduce` takes."""
