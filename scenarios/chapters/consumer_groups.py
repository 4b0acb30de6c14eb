"""Consumer groups of KIP-848.

The coordinator itself shares the partitions out, and each member moves on to its share at its own pace, by
heartbeats alone: no member waits for the others, but for partitions that they have not given up. "Stable 2"
is a state and a group epoch, which begins with 2 (before Kafka 4.3 with 1); "2: p0 p1" of a member its epoch
and what it has, in brackets what it has still to give up. What a member learns is its epoch, and what it is
to have where that is new. In the log "[2]" is an epoch of the group, "→2" one of its targets, "A?" what a
member said of itself, "A→p0" its target, "A=2:p0" what it has; a minus stands before what is taken back."""

from model.eras import ERAS
from model.settings import Settings
from scenarios.drivers.cluster import lone
from scenarios.drivers.raw_consumer_member import APART_MS, RawConsumerStage, shared
from scenarios.framework import SEVERAL_BROKERS, Steps, scenario

SHOWN = "group = consumer group | A = member A | B = member B | A learns | B learns"
TOLD = f"{SHOWN} | offset p0"


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
)
def given_up_first(s: RawConsumerStage) -> Steps:
    """A member is given a partition of another one only after that one has said that it has it no more."""
    i, j, _ = s.epochs
    s.joins("A")
    yield f"""A joins, and is given everything with the answer.
        | Stable {i} | {i}: p0 p1 | – | {i}: p0 p1 | – | A? [{i}] A→p0,p1 →{i} A={i}:p0,p1"""
    s.wait(APART_MS).joins("B")
    yield f"""B joins: p1 is to be B's. It gets the new epoch at once, and waits for A.
        | Reconciling {j} | {i}: p0 p1 | {j}: nothing unreleased | {i}: p0 p1 | {j}: nothing
        | A? [{i}] A→p0,p1 →{i} A={i}:p0,p1 B? [{j}] A→p0 B→p1 →{j} B={j}:–"""
    s.beats("A", 0, 1)
    yield f"""A hears of it with its next heartbeat. It keeps its epoch until it has given p1 up.
        | Reconciling {j} | {i}: p0 (p1) unrevoked | {j}: nothing unreleased | {i}: p0 | {j}: nothing
        | A? [{i}] A→p0,p1 →{i} A={i}:p0,p1 B? [{j}] A→p0 B→p1 →{j} B={j}:– A={i}:p0"""
    s.beats("B")
    yield f"""B's heartbeats bring nothing meanwhile.
        | Reconciling {j} | {i}: p0 (p1) unrevoked | {j}: nothing unreleased | {i}: p0 | {j}
        | A? [{i}] A→p0,p1 →{i} A={i}:p0,p1 B? [{j}] A→p0 B→p1 →{j} B={j}:– A={i}:p0 B={j}:–"""
    s.beats("A", 0)
    yield f"""A has committed its offset of p1 and says that it has p0 alone: it gets the new epoch.
        | Reconciling {j} | {j}: p0 | {j}: nothing unreleased | {j} | {j}
        | A? [{i}] A→p0,p1 →{i} A={i}:p0,p1 B? [{j}] A→p0 B→p1 →{j} B={j}:– A={i}:p0 B={j}:– A={j}:p0"""
    s.beats("B")
    yield f"""B is given p1.
        | Stable {j} | {j}: p0 | {j}: p1 | {j} | {j}: p1
        | A? [{i}] A→p0,p1 →{i} A={i}:p0,p1 B? [{j}] A→p0 B→p1 →{j} B={j}:– A={i}:p0 B={j}:– A={j}:p0
        B={j}:p1"""


@scenario(
    "A member leaves", source="Kafka: `GroupMetadataManager.consumerGroupLeave`", stage=alone, columns=SHOWN
)
def consumer_leaves(s: RawConsumerStage) -> Steps:
    """Its partitions are free at once."""
    _, j, k = s.epochs
    shared(s)
    s.wait(APART_MS)
    yield f"A and B work. | Stable {j} | {j}: p0 | {j}: p1 | {j} | {j}: p1"
    s.leaves("A")
    yield f"A leaves: a new group epoch. | Assigning {k} | – | {j}: p1 | -1 | {j}: p1"
    s.beats("B", 1)
    yield f"B is given everything with its next heartbeat. | Stable {k} | – | {k}: p0 p1 | -1 | {k}: p0 p1"


@scenario(
    "A member is fenced",
    source="Kafka: `GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid`",
    stage=alone,
    columns=SHOWN,
)
def fenced_by_epoch(s: RawConsumerStage) -> Steps:
    """A heartbeat carries the member's epoch."""
    i, j, k = s.epochs
    shared(s)
    yield f"A and B work. | Stable {j} | {j}: p0 | {j}: p1 | {j} | {j}: p1"
    s.consumers["A"].epoch = i
    s.beats("A", 0)
    yield f"""A did not get the answer with epoch {j}, and says {i}. What it has is its own: it learns {j}
        again.
        | Stable {j} | {j}: p0 | {j}: p1 | {j} | {j}: p1"""
    s.consumers["A"].epoch = i
    s.beats("A", 0, 1)
    yield f"""A member of epoch {i} that has p1 would have what is B's: it has to give all up.
        | Stable {j} | {j}: p0 | {j}: p1 | FENCED_MEMBER_EPOCH | {j}: p1"""
    s.consumers["A"].epoch = k
    s.beats("A", 0)
    yield f"""An epoch that the coordinator never gave is refused, too.
        | Stable {j} | {j}: p0 | {j}: p1 | FENCED_MEMBER_EPOCH | {j}: p1"""


@scenario(
    "Who was fenced joins again",
    source="KIP-848; Kafka: `GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid` (4.2)",
    stage=alone,
    columns=SHOWN,
)
def fenced_joins_again(s: RawConsumerStage) -> Steps:
    """A member that has to give all up joins with epoch 0 and the id that it has."""
    _, j, _ = s.epochs
    shared(s)
    yield f"A and B work. | Stable {j} | {j}: p0 | {j}: p1 | {j} | {j}: p1"
    s.joins("A")
    yield f"A joins again: it gets what it is to have. | Stable {j} | {j}: p0 | {j}: p1 | {j}: p0 | {j}: p1"


@scenario(
    "Who was fenced joins again, before 4.2",
    source="Kafka: `GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid` (4.1)",
    stage=lambda: alone("4.1"),
    columns=SHOWN,
)
def fenced_for_a_session(s: RawConsumerStage) -> Steps:
    """Epoch 0 is one that the member has left, as any other."""
    _, j, k = s.epochs
    shared(s)
    yield f"A and B work. | Stable {j} | {j}: p0 | {j}: p1 | {j} | {j}: p1"
    s.joins("A")
    yield f"""A joins again, with the same id: it is fenced.
        | Stable {j} | {j}: p0 | {j}: p1 | FENCED_MEMBER_EPOCH | {j}: p1"""
    s.wait_beating(6500, "B", 1).beats("B", 1)
    yield f"""Its session ends, and B gets its partition.
        | Stable {k} | – | {k}: p0 p1 | FENCED_MEMBER_EPOCH | {k}"""
    s.joins("A")
    yield f"""Now it may join.
        | Reconciling {k + 1} | {k + 1}: nothing unreleased | {k}: p0 p1 | {k + 1}: nothing | {k}"""


@scenario(
    "A session ends",
    source="Kafka: `GroupMetadataManager.scheduleConsumerGroupSessionTimeout`",
    stage=alone,
    columns=TOLD,
)
def consumer_session_ends(s: RawConsumerStage) -> Steps:
    """group.consumer.session.timeout.ms, of the broker; here 6 s."""
    _, j, k = s.epochs
    shared(s)
    s.commits("A", 3)
    yield f"A and B work; A has committed offset 3 of p0. | Stable {j} | {j}: p0 | {j}: p1 | ok | {j}: p1 | 3"
    s.wait_beating(6500, "B", 1).beats("B", 1)
    yield f"""A was silent for longer than its session: its partition is B's.
        | Stable {k} | – | {k}: p0 p1 | ok | {k} | 3"""
    s.commits("B", 7)
    yield f"B commits 7. | Stable {k} | – | {k}: p0 p1 | ok | ok | 7"
    s.commits("A", 5)
    yield f"""A was only slow, and commits what it has worked on: it is refused.
        | Stable {k} | – | {k}: p0 p1 | UNKNOWN_MEMBER_ID | ok | 7"""
    s.beats("A", 0)
    yield f"So is its heartbeat. | Stable {k} | – | {k}: p0 p1 | UNKNOWN_MEMBER_ID | ok | 7"


@scenario(
    "Who does not give up in time",
    source="Kafka: `GroupMetadataManager.scheduleConsumerGroupRebalanceTimeout`",
    stage=alone,
    columns=SHOWN,
)
def revocation_timeout(s: RawConsumerStage) -> Steps:
    """Heartbeats say that the process lives, not that its application gets on (max.poll.interval.ms, 5 s)."""
    i, j, k = s.epochs
    s.joins("A").wait(APART_MS).joins("B").beats("A", 0, 1)
    yield f"""A is to give p1 up for B.
        | Reconciling {j} | {i}: p0 (p1) unrevoked | {j}: nothing unreleased | {i}: p0 | {j}: nothing"""
    s.wait_beating(5500, "A", 0, 1).beats("A", 0, 1)
    yield f"""It keeps saying that it has both: it is removed.
        | Assigning {k} | – | {j}: nothing unreleased | UNKNOWN_MEMBER_ID | {j}: nothing"""
    s.beats("B")
    yield f"B is given everything. | Stable {k} | – | {k}: p0 p1 | UNKNOWN_MEMBER_ID | {k}: p0 p1"


@scenario(
    "A static member leaves and returns",
    source="KIP-848; Kafka: `GroupMetadataManager.consumerGroupStaticMemberGroupLeave`, `.replaceMember`",
    stage=alone,
    columns="group = consumer group | A = member A | B = member B | C = member C"
    " | A learns | B learns | C learns",
)
def static_member_returns(s: RawConsumerStage) -> Steps:
    """A member with an instance id that is started again gets what it had, and no other member notices."""
    _, j, _ = s.epochs
    s.joins("A", instance="i").wait(APART_MS).joins("B").beats("A", 0, 1).beats("A", 0).beats("B")
    yield f"A is static. | Stable {j} | {j}: p0 | {j}: p1 | – | {j} | {j}: p1 | –"
    s.joins("C", instance="i")
    yield f"""As long as it is there, no other member can take its instance id.
        | Stable {j} | {j}: p0 | {j}: p1 | – | {j} | {j}: p1 | UNRELEASED_INSTANCE_ID"""
    s.leaves("A", for_now=True)
    yield f"""A leaves for now. Its partition stays its own.
        | Reconciling {j} | -2: p0 | {j}: p1 | – | -2 | {j}: p1 | UNRELEASED_INSTANCE_ID"""
    s.joins("C", instance="i")
    yield f"""The process comes back with another id: it takes A's place, in the same epoch of the group.
        | Stable {j} | – | {j}: p1 | {j}: p0 | -2 | {j}: p1 | {j}: p0"""
    s.consumers["A"].epoch = j
    s.beats("A", 0)
    yield f"""The old one is fenced.
        | Stable {j} | – | {j}: p1 | {j}: p0 | FENCED_INSTANCE_ID | {j}: p1 | {j}: p0"""


@scenario(
    "A static member stays away",
    source="KIP-848; Kafka: `GroupMetadataManager.consumerGroupStaticMemberGroupLeave`",
    stage=alone,
    columns=SHOWN,
)
def static_member_stays_away(s: RawConsumerStage) -> Steps:
    """Who left for now has to be back before its session ends."""
    _, j, k = s.epochs
    s.joins("A", instance="i").wait(APART_MS).joins("B").beats("A", 0, 1).beats("A", 0).beats("B")
    s.leaves("A", for_now=True)
    yield f"A is static, and leaves for now. | Reconciling {j} | -2: p0 | {j}: p1 | -2 | {j}: p1"
    s.wait_beating(6500, "B", 1).beats("B", 1)
    yield f"It does not come back: its partition is B's. | Stable {k} | – | {k}: p0 p1 | -2 | {k}"
    s.wait(APART_MS).joins("A", instance="i").beats("B", 0, 1).beats("B", 0).beats("A")
    yield f"""It comes back too late, and is a new member.
        | Stable {k + 1} | {k + 1}: p1 | {k + 1}: p0 | {k + 1}: p1 | {k + 1}"""


@scenario(
    "A subscription by an expression",
    source="KIP-848; Kafka: `GroupMetadataManager.maybeUpdateRegularExpressions`",
    stage=alone,
    columns="group = consumer group | p.* = expression p.* | A = member A | A learns | B learns",
)
def subscribed_by_expression(s: RawConsumerStage) -> Steps:
    """The coordinator looks for the topics, apart from heartbeats: for a new expression at once, for new
    topics at most every 10 s. Expressions are those of RE2/J, and the whole name has to match."""
    s.joins("A", regex="p.*").wait(200)
    yield """A joins with p.*, and is answered before the topics are found: a new epoch.
        | Assigning 2 | p | 1: nothing | 1: nothing | –"""
    s.beats("A")
    yield """A is given them with its next heartbeat.
        | Stable 2 | p | 2: p0 p1 | 2: p0 p1 | –"""
    s.joins("B", regex="(?=p).*")
    yield """B looks ahead, which RE2/J does not know: it is refused.
        | Stable 2 | p | 2: p0 p1 | 2: p0 p1 | INVALID_REGULAR_EXPRESSION"""
    s.create("px", ((1,),)).wait_beating(11_000, "A", 0, 1).beats("A", 0, 1)
    yield """A topic px is created. A is given it, too.
        | Stable 3 | p px | 3: p0 p1 px0 | 3 | INVALID_REGULAR_EXPRESSION"""
    s.leaves("A")
    yield """A leaves: no member has the expression any more.
        | Empty 4 | – | – | -1 | INVALID_REGULAR_EXPRESSION"""


def _stale_commit(s: RawConsumerStage, kept: str, given_up: str) -> Steps:
    i, j, k = s.epochs
    shared(s)
    s.commits("A", 3)
    yield f"""A has p0 since epoch {i}, B has p1 since epoch {j}.
        | Stable {j} | {j}: p0 | {j}: p1 | ok | {j}: p1 | 3"""
    s.consumers["A"].epoch = i
    s.commits("A", 5)
    yield kept
    s.commits("A", 5, 1)
    yield given_up
    s.consumers["A"].epoch = k
    s.commits("A", 6)
    yield given_up.replace("The same of p1, which it has given up.", "A later epoch is none of its own.")


@scenario(
    "Commits of an earlier epoch",
    source="Kafka: `ConsumerGroup.validateOffsetCommit` (4.2)",
    stage=lambda: alone("4.2"),
    columns=TOLD,
)
def stale_commit(s: RawConsumerStage) -> Steps:
    """A commit carries the member's epoch."""
    _, j, _ = s.epochs
    yield from _stale_commit(
        s,
        f"""A commits with an epoch that it has left meanwhile: refused, though p0 was its own all the time.
        | Stable {j} | {j}: p0 | {j}: p1 | STALE_MEMBER_EPOCH | {j}: p1 | 3""",
        f"""The same of p1, which it has given up.
        | Stable {j} | {j}: p0 | {j}: p1 | STALE_MEMBER_EPOCH | {j}: p1 | 3""",
    )


@scenario(
    "Commits of an earlier epoch, since 4.3",
    source="KIP-1251; Kafka: `ConsumerGroup.createAssignmentEpochValidator`",
    stage=alone,
    columns=TOLD,
)
def earlier_epoch_commit(s: RawConsumerStage) -> Steps:
    """The coordinator knows since which epoch a member has each partition."""
    _, j, _ = s.epochs
    yield from _stale_commit(
        s,
        f"""A commits with an epoch that it has left meanwhile: p0 was its own all the time.
        | Stable {j} | {j}: p0 | {j}: p1 | ok | {j}: p1 | 5""",
        f"""The same of p1, which it has given up.
        | Stable {j} | {j}: p0 | {j}: p1 | STALE_MEMBER_EPOCH | {j}: p1 | 5""",
    )


@scenario(
    "The coordinator changes",
    source="KIP-848; Kafka: `GroupMetadataManager.replay`",
    stage=copies,
    columns=f"coordinator = coordinator of the group | {SHOWN}",
    not_played=SEVERAL_BROKERS,
)
def consumer_coordinator_changes(s: RawConsumerStage) -> Steps:
    """Members, targets and what each has are records of the group's log."""
    i, j, _ = s.epochs
    s.joins("A").wait(APART_MS).joins("B").wait(600).beats("A", 0, 1).wait(600)
    yield f"""A is to give p1 up for B.
        | broker 2 | Reconciling {j} | {i}: p0 (p1) unrevoked | {j}: nothing unreleased | {i}: p0
        | {j}: nothing"""
    s.crash(2).wait(4000)
    yield f"""Broker 2 dies. Broker 1 reads the log, and knows that A has p1 still.
        | broker 1 | Reconciling {j} | {i}: p0 (p1) unrevoked | {j}: nothing unreleased | {i}: p0
        | {j}: nothing"""
    s.beats("B").wait(600)
    yield f"""B waits for it as before.
        | broker 1 | Reconciling {j} | {i}: p0 (p1) unrevoked | {j}: nothing unreleased | {i}: p0 | {j}"""
    s.beats("A", 0).wait(600).beats("B").wait(600)
    yield f"A gives it up, B gets it. | broker 1 | Stable {j} | {j}: p0 | {j}: p1 | {j} | {j}: p1"


@scenario(
    "The coordinator starts again",
    source="KIP-848; Kafka: `GroupMetadataManager.onLoaded`",
    stage=alone,
    columns=SHOWN,
    not_played="sessions of its members end before a real broker that was killed is back",
)
def consumer_coordinator_restarts(s: RawConsumerStage) -> Steps:
    """The time for what a member has to give up begins once more."""
    i, j, _ = s.epochs
    s.joins("A").wait(APART_MS).joins("B").beats("A", 0, 1)
    yield f"""A is to give p1 up for B.
        | Reconciling {j} | {i}: p0 (p1) unrevoked | {j}: nothing unreleased | {i}: p0 | {j}: nothing"""
    s.crash(1).restart(1).wait(500)
    yield f"""The broker dies and starts again. It reads the log, and knows that A has p1 still.
        | Reconciling {j} | {i}: p0 (p1) unrevoked | {j}: nothing unreleased | {i}: p0 | {j}: nothing"""
    s.beats("B")
    yield f"""B waits for it as before.
        | Reconciling {j} | {i}: p0 (p1) unrevoked | {j}: nothing unreleased | {i}: p0 | {j}"""
    s.beats("A", 0).beats("B")
    yield f"A gives it up, B gets it. | Stable {j} | {j}: p0 | {j}: p1 | {j} | {j}: p1"
