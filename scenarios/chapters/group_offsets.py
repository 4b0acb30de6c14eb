"""Committed offsets.

Offsets are records of the group's partition of `__consumer_offsets`, and so are its generations:
"p0=3" and "[2]" in the tables."""

from core.internal_topics import GROUP_TOPIC
from model.eras import ERAS
from model.protocol.controller_messages import BrokerHeartbeat
from model.protocol.messages import Fetch
from model.settings import Settings
from scenarios.drivers.cluster import GROUP, TOPIC, TV1, lone
from scenarios.drivers.raw_member import RawMemberStage, two
from scenarios.framework import BETWEEN_BROKERS, SEVERAL_BROKERS, Steps, scenario


@scenario(
    "The coordinator of a group, and its end",
    source="Kafka: `GroupMetadataManager`",
    stage=lambda: RawMemberStage(Settings(), ((1,), (1,)), (1, 2, 3)),
    columns="coordinator = coordinator of the group | group | members | A learns | offset p0",
    not_played=BETWEEN_BROKERS,
)
def group_coordinator(s: RawMemberStage) -> Steps:
    """The leader of partition `hash(group) mod n` of `__consumer_offsets`. An offset counts
    when it is replicated."""
    two(s)
    s.commits("A", 3)
    yield """The leader of the group's partition of __consumer_offsets coordinates it.
        | 103 → 1 → broker 2 | Stable 2 | A* B | ok | 3"""
    s.hold(Fetch, of=3, times=2).wait(600).commits("A", 5)
    yield """A's next commit is not replicated: no answer yet, and a fetch of the offset waits, too (up to 3.9
        it had to come back). | 103 → 1 → broker 2 | Stable 2 | A* B | waits | waits"""
    s.crash(2).let().lose().wait(4000)
    yield """Broker 2 dies with it. Broker 3 reads the log: members, generation and offsets are there; A does
        not know what happened to its commit.
        | 103 → 1 → broker 3 | Stable 2 | A* B | unknown | 3"""
    s.commits("A", 5)
    yield "It commits again. No member had to join again. | 103 → 1 → broker 3 | Stable 2 | A* B | ok | 5"


ANSWERED = "coordinator = coordinator of the group | commit = others learn | log = offsets log | offset p0"


def _third_coordinator(s: RawMemberStage, first: str, second: str) -> Steps:
    s.commits("", 3).hold(Fetch, of=1, to=2).wait(600).commits("", 5)
    yield f"""3 is committed. A commit of 5 is in the logs of brokers 2 and 3, not yet in that of broker 1,
        which is in sync. | 103 → 1 → broker 2 | waits | p0=3 p0=5 | {first}"""
    s.hold(Fetch, of=1, to=3, times=2).crash(2).lose(Fetch).wait(4000)
    yield second
    s.crash(3).let().lose().wait(4000)
    yield """Broker 3 dies before broker 1 has fetched the record. The commit was not acknowledged.
        | 103 → 1 → broker 1 | unknown | p0=3 | 3"""


@scenario(
    "An offset that is answered and goes back",
    source="Kafka up to 3.9: `GroupMetadataManager.doLoadGroupsAndOffsets`",
    stage=lambda: RawMemberStage(Settings(era=ERAS["3.9"]), ((1,), (1,)), (1, 2, 3)),
    columns=ANSWERED,
    not_played=BETWEEN_BROKERS,
)
def offset_answered_early(s: RawMemberStage) -> Steps:
    """The old group coordinator answers what it has read in its log, whether that is committed or not."""
    yield from _third_coordinator(
        s,
        "UNSTABLE_OFFSET_COMMIT",
        """Broker 2 dies, broker 3 reads the log and answers 5: a member begins there.
        | 103 → 1 → broker 3 | unknown | p0=3 p0=5 | 5""",
    )


@scenario(
    "An offset is answered once it is committed",
    source="KIP-848; KAFKA-16973; Kafka: `CoordinatorLoaderImpl`",
    stage=lambda: RawMemberStage(Settings(), ((1,), (1,)), (1, 2, 3)),
    columns=ANSWERED,
    not_played=BETWEEN_BROKERS,
)
def offset_answered_when_committed(s: RawMemberStage) -> Steps:
    """The group coordinator of 4.0 reads its log to the end as well, and waits before it answers: a fetch of
    offsets that may not change is as a write without records."""
    yield from _third_coordinator(
        s,
        "waits",
        """Broker 2 dies, broker 3 reads the log; 5 is not committed yet: a member waits for its answer.
        | 103 → 1 → broker 3 | unknown | p0=3 p0=5 | waits""",
    )


LATE = """coordinator = coordinator of the group | commit = others learn | log 2 = offsets log at 2
    | log = offsets log | offset p0"""


def _leads_no_more(s: RawMemberStage, answer: str) -> Steps:
    s.commits("", 3).init("A").add_group("A").offsets("A", 9).wait(600)
    s.hold(BrokerHeartbeat, of=2, times=100).wait(1800).hold(Fetch, to=2, times=2).wait(600).commits("", 5)
    yield """3 is committed, 9 (of another partition) belongs to an open transaction. A commit of 5 is in the
        log of broker 2 only, whose heartbeats do not arrive.
        | 103 → 1 → broker 2 | waits | p0=3 in0=9 p0=5 | p0=3 in0=9 p0=5 | waits"""
    while s.coordinator(GROUP, GROUP_TOPIC) == 2:
        s.wait(100)
    yield f"""Broker 2 is fenced; broker 3 leads without 5.
        | 103 → 1 → broker 3 | {answer} | p0=3 in0=9 p0=5 | p0=3 in0=9 | COORDINATOR_LOAD_IN_PROGRESS"""
    s.pause(2).wait(100).resume(2).end("A", commit=True)


@scenario(
    "A commit is acknowledged that was cut off",
    source="KAFKA-20634",
    stage=lambda: RawMemberStage(Settings(era=ERAS["4.2-tv1"]), ((1,), (1,)), (1, 2, 3)),
    columns=LATE,
    not_played=BETWEEN_BROKERS,
)
def cut_off_commit_acknowledged(s: RawMemberStage) -> Steps:
    """A group coordinator waits until the high watermark has passed what it wrote. In 4.0.0 to 4.3.0 it also
    listens between the time when its broker begins to follow and the time when it is unloaded."""
    yield from _leads_no_more(s, "waits")
    yield """Broker 3 has read the log; the transaction is committed. Broker 2 cuts 5 off. At its offset it
        gets the marker and a high watermark behind that: the commit of 5 is acknowledged, and lost.
        | 103 → 1 → broker 3 | ok | p0=3 in0=9 | p0=3 in0=9 | 3"""


@scenario(
    "The same where a follower does not listen",
    source="KAFKA-20634 (4.3.1)",
    stage=lambda: RawMemberStage(Settings(era=ERAS["4.3-tv1"]), ((1,), (1,)), (1, 2, 3)),
    columns=LATE,
    not_played=BETWEEN_BROKERS,
)
def cut_off_commit_refused(s: RawMemberStage) -> Steps:
    """The client asks the next coordinator."""
    yield from _leads_no_more(s, "NOT_COORDINATOR")
    yield """Broker 2 had refused the commit when it began to follow; now the marker is at its offset.
        | 103 → 1 → broker 3 | NOT_COORDINATOR | p0=3 in0=9 | p0=3 in0=9 | 3"""


OUTLIVED = "coordinator = coordinator of the group | log = offsets log | offset p0"


@scenario(
    "Offsets of a deleted topic count in the next one of its name",
    source="Kafka: `GroupCoordinatorService.handleTopicsDeletion`; docs/findings/deleted-topic-offsets.md",
    stage=lambda: RawMemberStage(Settings(), ((1,), (1,)), (1, 2, 3)),
    columns=OUTLIVED,
    not_played=SEVERAL_BROKERS,
)
def deleted_topic_offsets(s: RawMemberStage) -> Steps:
    """A broker that hears of a deleted topic removes the offsets of those groups that it coordinates then. It
    is asked once: a coordinator that reads its log does not ask which topics there still are."""
    s.commits("", 3)
    yield "A group has committed 3. | 103 → 1 → broker 2 | p0=3 | 3"
    s.crash(2).delete(TOPIC).wait(4000)
    yield """Broker 2 dies. The topic is deleted while no broker coordinates the group: brokers 1 and 3 have
        nothing to remove. Then broker 3 reads the log.
        | 103 → 1 → broker 3 | p0=3 | 3"""
    s.create(TOPIC, ((1,), (1,))).wait(200)
    yield "A new topic has the name, and no record yet. A member begins at 3. | 103 → 1 → broker 3 | p0=3 | 3"


@scenario(
    "The same where the coordinator dies after the deletion",
    source="KAFKA-2000; Kafka: `OffsetMetadataManager.onTopicsDeleted`",
    stage=lambda: RawMemberStage(Settings(), ((1,), (1,)), (1, 2, 3)),
    columns=OUTLIVED,
    not_played=SEVERAL_BROKERS,
)
def deleted_topic_forgotten(s: RawMemberStage) -> Steps:
    """The coordinator writes tombstones, which every later one reads."""
    s.commits("", 3).delete(TOPIC).wait(200)
    yield """The topic is deleted, and the coordinator removes the offset.
        | 103 → 1 → broker 2 | p0=3 p0=– | none"""
    s.crash(2).wait(4000)
    yield "Broker 2 dies; broker 3 reads the log. | 103 → 1 → broker 3 | p0=3 p0=– | none"
    s.create(TOPIC, ((1,), (1,))).wait(200)
    yield """A member begins in the new topic where its client resets to.
        | 103 → 1 → broker 3 | p0=3 p0=– | none"""


@scenario(
    "Compaction of the offsets topic",
    source="Kafka: `LogCleaner`, `offsets.topic` with cleanup.policy=compact",
    stage=lambda: RawMemberStage(lone(compaction_ms=1000, era=TV1)),
    columns="log = offsets log | offset p0 | group | members",
    not_played="Kafka compacts only closed segments, at times of its own",
)
def offsets_compaction(s: RawMemberStage) -> Steps:
    """`__consumer_offsets` is compacted: coordinators read only the newest
    record of a key."""
    two(s)
    s.commits("A", 3).commits("A", 5).commits("B", 2, 1)
    yield "Every commit and every generation is a record. | [1] [2] p0=3 p0=5 p1=2 | 5 | Stable 2 | A* B"
    s.wait(1000)
    yield """Of each partition, and of the group, the newest record stays.
        | [2] p0=5 p1=2 | 5 | Stable 2 | A* B"""
    s.init("P").add_group("P").offsets("P", 9).commits("A", 7).wait(500).wait_beating(1000, "A", "B")
    yield """A transaction holds an offset of another partition (in0=9). What comes after its first record
        stays while it is open; 7 is committed all the same.
        | [2] p0=5 p1=2 in0=9 p0=7 | 7 | Stable 2 | A* B"""
    s.end("P", commit=False).wait_beating(1500, "A", "B")
    yield "It is aborted. Its record goes, and the older offset of p0. | [2] p1=2 p0=7 | 7 | Stable 2 | A* B"
    s.crash(1).restart(1).wait(500)
    yield """The coordinator starts again and finds everything in what is left.
        | [2] p1=2 p0=7 | 7 | Stable 2 | A* B"""


@scenario(
    "Offsets without members, and rewinding a group",
    source="Kafka: `kafka-consumer-groups --reset-offsets`",
    stage=RawMemberStage,
    columns="group | members | others learn | A learns | offset p0",
)
def offsets_without_members(s: RawMemberStage) -> Steps:
    """Who may commit what depends on whether the group has members."""
    s.commits("", 5)
    yield """An application that assigns its partitions itself keeps its offsets in a group without members.
        | Empty 0 | – | ok | – | 5"""
    s.joins("A").syncs("A", A=(0, 1))
    yield "A group with members takes offsets of them only. | Stable 1 | A* | ok | gets p0 p1 | 5"
    s.commits("", 0)
    yield """A client outside the group cannot move it back under their hands.
        | Stable 1 | A* | UNKNOWN_MEMBER_ID | gets p0 p1 | 5"""
    s.leaves("A").commits("", 0)
    yield "When they are gone, operators can rewind the group. | Empty 2 | – | ok | ok | 0"
