"""Consumer groups of KIP-848.

The coordinator itself shares the partitions out, and each member moves on to its share at its own pace, by
heartbeats alone: no member waits for the others, but for partitions that they have not given up. "Stable 2"
is a state and a group epoch; "2: p0 p1" of a member its epoch and what it has, in brackets what it has still
to give up. What a member learns is its epoch, and what it is to have where that is new. In the log "[2]" is
an epoch of the group, "→2" one of its targets, "A?" what a member said of itself, "A→p0" its target,
"A=2:p0" what it has; a minus stands before what is taken back."""

from model.eras import ERAS
from model.settings import Settings
from scenarios.drivers.cluster import lone
from scenarios.drivers.raw_consumer_member import APART_MS, RawConsumerStage, shared
from scenarios.framework import Steps, scenario

SHOWN = "group = consumer group | A = member A | B = member B | A learns | B learns"
TOLD = f"{SHOWN} | offset p0"
NO_MEMBERS = "the clients of the comparison have no members of this protocol"


def alone(era: str = "4.3") -> RawConsumerStage:
    """One broker."""
    return RawConsumerStage(lone(era=ERAS[era]))


def copies() -> RawConsumerStage:
    """Three brokers; broker 2 coordinates the group."""
    return RawConsumerStage(Settings(era=ERAS["4.3"]), ((1, 2, 3), (1,)), (3, 2, 1))


@scenario(
    "A partition is given up before it is given away",
    source="KIP-848; Kafka: `CurrentAssignmentBuilder`",
    stage=alone,
    columns=f"{SHOWN} | log = consumers log",
    not_played=NO_MEMBERS,
)
def given_up_first(s: RawConsumerStage) -> Steps:
    """A member is given a partition of another one only after that one has said that it has it no more."""
    s.joins("A")
    yield """A joins, and is given everything with the answer.
        | Stable 1 | 1: p0 p1 | – | 1: p0 p1 | – | A? [1] A→p0,p1 →1 A=1:p0,p1"""
    s.wait(APART_MS).joins("B")
    yield """B joins: p1 is to be B's. It gets the new epoch at once, and waits for A.
        | Reconciling 2 | 1: p0 p1 | 2: nothing unreleased | 1: p0 p1 | 2: nothing
        | A? [1] A→p0,p1 →1 A=1:p0,p1 B? [2] A→p0 B→p1 →2 B=2:–"""
    s.beats("A", 0, 1)
    yield """A hears of it with its next heartbeat. It keeps its epoch until it has given p1 up.
        | Reconciling 2 | 1: p0 (p1) unrevoked | 2: nothing unreleased | 1: p0 | 2: nothing
        | A? [1] A→p0,p1 →1 A=1:p0,p1 B? [2] A→p0 B→p1 →2 B=2:– A=1:p0"""
    s.beats("B")
    yield """B's heartbeats bring nothing meanwhile.
        | Reconciling 2 | 1: p0 (p1) unrevoked | 2: nothing unreleased | 1: p0 | 2
        | A? [1] A→p0,p1 →1 A=1:p0,p1 B? [2] A→p0 B→p1 →2 B=2:– A=1:p0 B=2:–"""
    s.beats("A", 0)
    yield """A has committed its offset of p1 and says that it has p0 alone: it gets the new epoch.
        | Reconciling 2 | 2: p0 | 2: nothing unreleased | 2 | 2
        | A? [1] A→p0,p1 →1 A=1:p0,p1 B? [2] A→p0 B→p1 →2 B=2:– A=1:p0 B=2:– A=2:p0"""
    s.beats("B")
    yield """B is given p1.
        | Stable 2 | 2: p0 | 2: p1 | 2 | 2: p1
        | A? [1] A→p0,p1 →1 A=1:p0,p1 B? [2] A→p0 B→p1 →2 B=2:– A=1:p0 B=2:– A=2:p0 B=2:p1"""


@scenario(
    "A member leaves",
    source="Kafka: `GroupMetadataManager.consumerGroupLeave`",
    stage=alone,
    columns=SHOWN,
    not_played=NO_MEMBERS,
)
def consumer_leaves(s: RawConsumerStage) -> Steps:
    """Its partitions are free at once."""
    shared(s)
    s.wait(APART_MS)
    yield "A and B work. | Stable 2 | 2: p0 | 2: p1 | 2 | 2: p1"
    s.leaves("A")
    yield "A leaves: a new group epoch. | Assigning 3 | – | 2: p1 | -1 | 2: p1"
    s.beats("B", 1)
    yield "B is given everything with its next heartbeat. | Stable 3 | – | 3: p0 p1 | -1 | 3: p0 p1"


@scenario(
    "A member is fenced",
    source="Kafka: `GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid`",
    stage=alone,
    columns=SHOWN,
    not_played=NO_MEMBERS,
)
def fenced_by_epoch(s: RawConsumerStage) -> Steps:
    """A heartbeat carries the member's epoch."""
    shared(s)
    yield "A and B work. | Stable 2 | 2: p0 | 2: p1 | 2 | 2: p1"
    s.consumers["A"].epoch = 1
    s.beats("A", 0)
    yield """A did not get the answer with epoch 2, and says 1. What it has is its own: it learns 2 again.
        | Stable 2 | 2: p0 | 2: p1 | 2 | 2: p1"""
    s.consumers["A"].epoch = 1
    s.beats("A", 0, 1)
    yield """A member of epoch 1 that has p1 would have what is B's: it has to give all up.
        | Stable 2 | 2: p0 | 2: p1 | FENCED_MEMBER_EPOCH | 2: p1"""
    s.consumers["A"].epoch = 3
    s.beats("A", 0)
    yield """An epoch that the coordinator never gave is refused, too.
        | Stable 2 | 2: p0 | 2: p1 | FENCED_MEMBER_EPOCH | 2: p1"""
    s.joins("A")
    yield "It joins again, with the same id. | Stable 2 | 2: p0 | 2: p1 | 2: p0 | 2: p1"


@scenario(
    "A session ends",
    source="Kafka: `GroupMetadataManager.scheduleConsumerGroupSessionTimeout`",
    stage=alone,
    columns=TOLD,
    not_played=NO_MEMBERS,
)
def consumer_session_ends(s: RawConsumerStage) -> Steps:
    """group.consumer.session.timeout.ms, of the broker; here 6 s."""
    shared(s)
    s.commits("A", 3)
    yield "A and B work; A has committed offset 3 of p0. | Stable 2 | 2: p0 | 2: p1 | ok | 2: p1 | 3"
    s.wait_beating(6500, "B", 1).beats("B", 1)
    yield """A was silent for longer than its session: its partition is B's.
        | Stable 3 | – | 3: p0 p1 | ok | 3 | 3"""
    s.commits("B", 7)
    yield "B commits 7. | Stable 3 | – | 3: p0 p1 | ok | ok | 7"
    s.commits("A", 5)
    yield """A was only slow, and commits what it has worked on: it is refused.
        | Stable 3 | – | 3: p0 p1 | UNKNOWN_MEMBER_ID | ok | 7"""
    s.beats("A", 0)
    yield "So is its heartbeat. | Stable 3 | – | 3: p0 p1 | UNKNOWN_MEMBER_ID | ok | 7"


@scenario(
    "Who does not give up in time",
    source="Kafka: `GroupMetadataManager.scheduleConsumerGroupRebalanceTimeout`",
    stage=alone,
    columns=SHOWN,
    not_played=NO_MEMBERS,
)
def revocation_timeout(s: RawConsumerStage) -> Steps:
    """Heartbeats say that the process lives, not that its application gets on (max.poll.interval.ms, 5 s)."""
    s.joins("A").wait(APART_MS).joins("B").beats("A", 0, 1)
    yield """A is to give p1 up for B.
        | Reconciling 2 | 1: p0 (p1) unrevoked | 2: nothing unreleased | 1: p0 | 2: nothing"""
    s.wait_beating(5500, "A", 0, 1).beats("A", 0, 1)
    yield """It keeps saying that it has both: it is removed.
        | Assigning 3 | – | 2: nothing unreleased | UNKNOWN_MEMBER_ID | 2: nothing"""
    s.beats("B")
    yield "B is given everything. | Stable 3 | – | 3: p0 p1 | UNKNOWN_MEMBER_ID | 3: p0 p1"


@scenario(
    "A static member leaves and returns",
    source="KIP-848; Kafka: `GroupMetadataManager.consumerGroupStaticMemberGroupLeave`, `.replaceMember`",
    stage=alone,
    columns="group = consumer group | A = member A | B = member B | C = member C"
    " | A learns | B learns | C learns",
    not_played=NO_MEMBERS,
)
def static_member_returns(s: RawConsumerStage) -> Steps:
    """A member with an instance id that is started again gets what it had, and no other member notices."""
    s.joins("A", instance="i").wait(APART_MS).joins("B").beats("A", 0, 1).beats("A", 0).beats("B")
    yield "A is static. | Stable 2 | 2: p0 | 2: p1 | – | 2 | 2: p1 | –"
    s.joins("C", instance="i")
    yield """As long as it is there, no other member can take its instance id.
        | Stable 2 | 2: p0 | 2: p1 | – | 2 | 2: p1 | UNRELEASED_INSTANCE_ID"""
    s.leaves("A", for_now=True)
    yield """A leaves for now. Its partition stays its own.
        | Reconciling 2 | -2: p0 | 2: p1 | – | -2 | 2: p1 | UNRELEASED_INSTANCE_ID"""
    s.joins("C", instance="i")
    yield """The process comes back with another id: it takes A's place, in the same epoch of the group.
        | Stable 2 | – | 2: p1 | 2: p0 | -2 | 2: p1 | 2: p0"""
    s.consumers["A"].epoch = 2
    s.beats("A", 0)
    yield "The old one is fenced. | Stable 2 | – | 2: p1 | 2: p0 | FENCED_INSTANCE_ID | 2: p1 | 2: p0"


def _stale_commit(s: RawConsumerStage, kept: str, given_up: str) -> Steps:
    shared(s)
    s.commits("A", 3)
    yield "A has p0 since epoch 1, B has p1 since epoch 2. | Stable 2 | 2: p0 | 2: p1 | ok | 2: p1 | 3"
    s.consumers["A"].epoch = 1
    s.commits("A", 5)
    yield kept
    s.commits("A", 5, 1)
    yield given_up
    s.consumers["A"].epoch = 3
    s.commits("A", 6)
    yield given_up.replace("The same of p1, which it has given up.", "A later epoch is none of its own.")


@scenario(
    "Commits of an earlier epoch",
    source="Kafka: `ConsumerGroup.validateOffsetCommit` (4.2)",
    stage=lambda: alone("4.2"),
    columns=TOLD,
    not_played=NO_MEMBERS,
)
def stale_commit(s: RawConsumerStage) -> Steps:
    """A commit carries the member's epoch."""
    yield from _stale_commit(
        s,
        """A commits with an epoch that it has left meanwhile: refused, though p0 was its own all the time.
        | Stable 2 | 2: p0 | 2: p1 | STALE_MEMBER_EPOCH | 2: p1 | 3""",
        "The same of p1, which it has given up. | Stable 2 | 2: p0 | 2: p1 | STALE_MEMBER_EPOCH | 2: p1 | 3",
    )


@scenario(
    "Commits of an earlier epoch, since 4.3",
    source="KIP-1251; Kafka: `ConsumerGroup.createAssignmentEpochValidator`",
    stage=alone,
    columns=TOLD,
    not_played=NO_MEMBERS,
)
def earlier_epoch_commit(s: RawConsumerStage) -> Steps:
    """The coordinator knows since which epoch a member has each partition."""
    yield from _stale_commit(
        s,
        """A commits with an epoch that it has left meanwhile: p0 was its own all the time.
        | Stable 2 | 2: p0 | 2: p1 | ok | 2: p1 | 5""",
        "The same of p1, which it has given up. | Stable 2 | 2: p0 | 2: p1 | STALE_MEMBER_EPOCH | 2: p1 | 5",
    )


@scenario(
    "The coordinator changes",
    source="KIP-848; Kafka: `GroupMetadataManager.replay`",
    stage=copies,
    columns=f"coordinator | {SHOWN}",
    not_played=NO_MEMBERS,
)
def consumer_coordinator_changes(s: RawConsumerStage) -> Steps:
    """Members, targets and what each has are records of the group's log."""
    s.joins("A").wait(APART_MS).joins("B").wait(600).beats("A", 0, 1).wait(600)
    yield """A is to give p1 up for B.
        | broker 2 | Reconciling 2 | 1: p0 (p1) unrevoked | 2: nothing unreleased | 1: p0 | 2: nothing"""
    s.crash(2).wait(4000)
    yield """Broker 2 dies. Broker 1 reads the log, and knows that A has p1 still.
        | broker 1 | Reconciling 2 | 1: p0 (p1) unrevoked | 2: nothing unreleased | 1: p0 | 2: nothing"""
    s.beats("B").wait(600)
    yield """B waits for it as before.
        | broker 1 | Reconciling 2 | 1: p0 (p1) unrevoked | 2: nothing unreleased | 1: p0 | 2"""
    s.beats("A", 0).wait(600).beats("B").wait(600)
    yield "A gives it up, B gets it. | broker 1 | Stable 2 | 2: p0 | 2: p1 | 2 | 2: p1"
