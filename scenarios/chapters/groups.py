"""Consumer groups.

The partitions of a topic are shared out among the members of a group. Its coordinator keeps who
is a member, counts generations, and keeps the offsets up to which the group has read. (The classic protocol,
with eager rebalances.) "Stable 2" is a state and a generation; an asterisk marks the leader of the group; in
the log "[2]" is a generation and "p0=3" an offset."""

from model.protocol.coordinator_messages import SyncGroup
from scenarios.drivers.raw_member import RawMemberStage, two
from scenarios.framework import Steps, scenario

LOGGED = "group | members | A learns | B learns | log = offsets log"


@scenario(
    "Joining, and the leader of the group",
    source="Kafka: `GroupCoordinator`; KIP-62",
    stage=RawMemberStage,
    columns=LOGGED,
)
def join_group(s: RawMemberStage) -> Steps:
    """Two rounds: who is there (JoinGroup), and who gets what (SyncGroup)."""
    s.joins("A")
    yield """A joins an empty group: generation 1 begins, and A, its first member, leads.
        | CompletingRebalance 1 | A* | generation 1, leads | – | –"""
    s.syncs("A", A=(0, 1))
    yield """The leader of the group assigns the partitions, not the broker; the coordinator logs the
        generation and hands them out.
        | Stable 1 | A* | gets p0 p1 | – | [1]"""
    s.joins("B")
    yield """B joins: a rebalance. B gets a name, but has to wait until all members have joined.
        | PreparingRebalance 1 | A* someone | gets p0 p1 | waits | [1]"""
    s.beats("A")
    yield """A hears of it with its next heartbeat, and gives up its partitions.
        | PreparingRebalance 1 | A* someone | REBALANCE_IN_PROGRESS | waits | [1]"""
    s.joins("A")
    yield """A joins again: generation 2.
        | CompletingRebalance 2 | A* B | generation 2, leads | generation 2 | [1]"""
    s.syncs("B")
    yield "B waits for what A will assign. | CompletingRebalance 2 | A* B | generation 2, leads | waits | [1]"
    s.syncs("A", A=(0,), B=(1,))
    yield "Each has one partition. | Stable 2 | A* B | gets p0 | gets p1 | [1] [2]"


@scenario(
    "Leaving", source="Kafka: `GroupCoordinator.handleLeaveGroup`", stage=RawMemberStage, columns=LOGGED
)
def leave_group(s: RawMemberStage) -> Steps:
    """A member that goes says so."""
    two(s)
    yield "A and B work. | Stable 2 | A* B | gets p0 | gets p1 | [1] [2]"
    s.leaves("A")
    yield """A closes its consumer. No member has to wait for the end of a session.
        | PreparingRebalance 2 | B | ok | gets p1 | [1] [2]"""
    s.beats("B").joins("B").syncs("B", B=(0, 1))
    yield "B takes over and leads the group. | Stable 3 | B* | ok | gets p0 p1 | [1] [2] [3]"
    s.leaves("B")
    yield "The last one leaves: a generation without members. | Empty 4 | – | ok | ok | [1] [2] [3] [4]"


@scenario(
    "A rebalance overtakes another",
    source="Kafka: `GroupCoordinator.doSyncGroup`",
    stage=RawMemberStage,
    columns=LOGGED,
)
def overtaken_rebalance(s: RawMemberStage) -> Steps:
    """An assignment belongs to one generation."""
    s.joins("A").hold(SyncGroup).syncs("A", A=(0, 1))
    yield "A's assignment is delayed. | CompletingRebalance 1 | A* | waits | – | –"
    s.joins("B")
    yield """B joins meanwhile: another rebalance begins.
        | PreparingRebalance 1 | A* someone | waits | waits | –"""
    s.release()
    yield """The assignment arrives, and is refused: it does not count B.
        | PreparingRebalance 1 | A* someone | REBALANCE_IN_PROGRESS | waits | –"""
    s.joins("A").syncs("B").syncs("A", A=(0,), B=(1,))
    yield "Both get theirs in the next generation. | Stable 2 | A* B | gets p0 | gets p1 | [2]"


@scenario(
    "Fenced members",
    source="Kafka: `ClassicGroup.validateOffsetCommit`",
    stage=RawMemberStage,
    columns="group | members | A learns | B learns | offset p0",
)
def fenced_member(s: RawMemberStage) -> Steps:
    """Commits carry the member's id and generation. Who was taken out, or speaks of an older
    generation, is refused."""
    two(s)
    s.commits("A", 3)
    yield "A and B work; A has committed offset 3 of p0. | Stable 2 | A* B | ok | gets p1 | 3"
    s.wait_beating(4000, "B")
    yield """A is silent for longer than its session: it is taken out. The rebalance waits for B.
        | PreparingRebalance 2 | B | ok | REBALANCE_IN_PROGRESS | 3"""
    s.joins("B").syncs("B", B=(0, 1)).commits("B", 7)
    yield "B continues with both partitions, from 3, and commits 7. | Stable 3 | B* | ok | ok | 7"
    s.commits("A", 5)
    yield """A was only slow, and commits what it has worked on: it is refused, so B's offset stays.
        | Stable 3 | B* | UNKNOWN_MEMBER_ID | ok | 7"""
    s.members["A"].member = ""
    s.joins("A").joins("B").syncs("A").syncs("B", A=(1,), B=(0,))
    yield "It joins again, as another member. | Stable 4 | B* A | gets p1 | gets p0 | 7"
    s.members["A"].generation = 3
    s.commits("A", 5)
    yield """A member that speaks of an older generation is refused as well.
        | Stable 4 | B* A | ILLEGAL_GENERATION | gets p0 | 7"""


@scenario(
    "Who does not join again in time",
    source="KIP-62",
    stage=RawMemberStage,
    columns="group | members | A learns | B learns | C learns",
    not_played="a new leader of its group is the first one in a hash table, so any member",
)
def rebalance_timeout(s: RawMemberStage) -> Steps:
    """Heartbeats say that the process lives, not that its application gets on."""
    two(s)
    s.joins("C").joins("B").wait_beating(4000, "A")
    yield """C joins, B joins again. A sends heartbeats, but does not join: its application is busy.
        | PreparingRebalance 2 | A* B someone | REBALANCE_IN_PROGRESS | waits | waits"""
    s.wait_beating(2000, "A")
    yield """After the rebalance timeout (max.poll.interval.ms) the others continue without A.
        | CompletingRebalance 3 | B* C | UNKNOWN_MEMBER_ID | generation 3, leads | generation 3"""
    s.syncs("C").syncs("B", B=(0,), C=(1,))
    yield "The rest is as always. | Stable 3 | B* C | UNKNOWN_MEMBER_ID | gets p0 | gets p1"
