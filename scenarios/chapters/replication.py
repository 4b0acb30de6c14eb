"""Replication.

Followers fetch from the leader as consumers do, and the offset that they fetch from says
what they have. Everything else follows from that."""

from model.settings import Settings
from scenarios.drivers.partition import PartitionStage, without
from scenarios.framework import OTHER_BROKERS, Steps, scenario

COLUMNS = "LEO 1 | remote LEO 2 | HW 1 | LEO 2 | HW 2 | produce"
FETCHED = f"{COLUMNS} | fetch of 2"


@scenario(
    "A follower fetches after a produce",
    source="Kafka: `Partition.maybeIncrementLeaderHW`, `ReplicaManager.fetchMessages`",
    stage=lambda: PartitionStage((1, 2)),
    columns=COLUMNS,
)
def fetch_after_produce(s: PartitionStage) -> Steps:
    """A leader appends what it is sent and keeps, for each follower, the log end offset
    that it knows of it: the *remote LEO*. It learns it from the offset that the follower fetches from,
    never from what it sent. So the first fetch brings the record to the follower, but does not commit it."""
    yield "Broker 1 leads, broker 2 follows; nothing was written. | 0 | ? | 0 | 0 | 0 | –"
    s.produce("m0", to=1)
    yield """A producer sends m0 with acks=all. The leader appends it; the request waits.
        | 1 | ? | 0 | 0 | 0 | waits"""
    s.fetch(2)
    yield """Broker 2 fetches from 0: it has nothing, so its remote LEO is 0 and HW = min(1, 0) = 0.
        | 1 | 0 | 0 | 0 | 0 | waits"""
    s.answer(2)
    yield """The answer brings m0 and HW 0. Broker 2 appends; its HW = min(LEO 1, HW 0) = 0.
        | 1 | 0 | 0 | 1 | 0 | waits"""


@scenario(
    "The second fetch round moves the high watermark",
    source="Kafka: `Partition.updateFollowerFetchState`",
    stage=lambda: PartitionStage((1, 2)),
    columns=FETCHED,
)
def second_fetch_round(s: PartitionStage) -> Steps:
    """The high watermark is the lowest log end among the replicas in sync, as the leader
    knows them. A follower learns it from the answer after that: its own high watermark is always a little
    behind, which is harmless as long as no broker takes it for the truth (see *Loss by truncation*)."""
    s.produce("m0", to=1).fetch(2).answer(2)
    yield "As above: broker 2 has m0, but the leader does not know that yet. | 1 | 0 | 0 | 1 | 0 | waits | –"
    s.fetch(2)
    yield """Broker 2 fetches from 1: it has everything below. HW = min(1, 1) = 1, the producer is answered.
        | 1 | 1 | 1 | 1 | 0 | acknowledged | kept"""
    s.wait(500)
    yield """There is nothing to bring, so the answer comes after replica.fetch.wait.max.ms, not before.
        | 1 | 1 | 1 | 1 | 0 | acknowledged | expired"""
    s.answer(2)
    yield "Broker 2 hears of HW 1 with it. | 1 | 1 | 1 | 1 | 1 | acknowledged | –"


@scenario(
    "A fetch waits in purgatory when a produce arrives",
    source="Kafka: `DelayedFetch`, `DelayedOperationPurgatory`",
    stage=lambda: PartitionStage((1, 2)),
    columns=FETCHED,
)
def fetch_in_purgatory(s: PartitionStage) -> Steps:
    """A fetch that has nothing to bring is kept by the leader (Kafka: its *purgatory*)
    until there is something or its time has run out. So followers need no pauses between fetches."""
    s.fetch(2)
    yield """Broker 2 fetches from 0 while there is nothing: the leader keeps the request.
        | 0 | 0 | 0 | 0 | 0 | – | kept"""
    s.produce("m0", to=1)
    yield """A producer sends m0. It is appended; the kept fetch has something to bring now, and is answered.
        | 1 | 0 | 0 | 0 | 0 | waits | answered"""
    s.answer(2)
    yield "The answer, with m0 and HW 0, arrives; broker 2 appends. | 1 | 0 | 0 | 1 | 0 | waits | –"
    s.fetch(2)
    yield """Its next fetch, from 1, moves the HW and is kept in turn.
        | 1 | 1 | 1 | 1 | 0 | acknowledged | kept"""
    s.produce("m1", to=1)
    yield """m1 is appended and releases it: the answer carries m1 and HW 1.
        | 2 | 1 | 1 | 1 | 0 | waits | answered"""
    s.answer(2)
    yield """Under load the HW so comes with the next records: broker 2 knows of HW 1, one record late.
        | 2 | 1 | 1 | 2 | 1 | waits | –"""


@scenario(
    "When a leader updates what it knows of its followers",
    source="Kafka: `Replica.updateFetchStateOrThrow`, `Replica.resetReplicaState`",
    stage=lambda: PartitionStage((1, 2, 3)),
    columns="LEO 1 | remote LEO 2 | remote LEO 3 | HW 1 | ISR at 1 | of 3, at 2",
)
def remote_leo(s: PartitionStage) -> Steps:
    """Updated by a follower's fetch, and by nothing else: not by a produce, not by the
    answer that was sent, not by a change of the ISR. A new leader knows nothing and waits for the first
    fetches; its high watermark is the one that it had as a follower until then."""
    s.produce("m0", to=1)
    yield """On produce: not updated. Both followers are unknown, as they did not fetch yet.
        | 1 | ? | ? | 0 | 1 2 3 | –"""
    s.fetch(2).fetch(3)
    yield "On fetch, before reading: both fetch from 0. | 1 | 0 | 0 | 0 | 1 2 3 | –"
    s.answer(2).answer(3)
    yield "When an answer was sent: not updated. | 1 | 0 | 0 | 0 | 1 2 3 | –"
    s.fetch(2).fetch(3)
    yield "On the next fetch, from 1: HW = min(1, 1, 1). | 1 | 1 | 1 | 1 | 1 2 3 | –"
    s.produce("m1", to=1).answer(2).answer(3).rounds(2)
    yield "m1, which only broker 2 continues to fetch: HW = min(2, 2, 1). | 2 | 2 | 1 | 1 | 1 2 3 | –"
    s.wait(3100).rounds(2).alter(1).altered(1)
    yield """Broker 3 is taken out of the ISR. Its remote LEO stays; HW = min(2, 2), without it.
        | 2 | 2 | 1 | 2 | 1 2 | –"""
    s.crash(1).fence(1).tell(2, 3)
    yield """Broker 1 dies, broker 2 leads: what it knows of the others begins again (here: of broker 3).
        | down | down | down | down | down | ?"""


@scenario(
    "A leader that leads again knows nothing of its followers",
    source="Kafka: `Partition.makeFollower`, `Partition.makeLeader`",
    stage=PartitionStage,
    columns="leader | LEO 1 | log 3 | HW 1 | produce",
)
def leads_again(s: PartitionStage) -> Steps:
    """The process is the same, and what it learned when it led before is of no use: its followers may have
    cut their logs since. With the end of before, here 2 for broker 3, it would take a record for committed
    that one of the replicas in sync does not have."""
    s.produce("m0", to=1).settle().produce("m1", to=1, acks=1).rounds(3)
    yield """Broker 3 has m1, and its leader knows that; broker 2 does not fetch.
        | 1 | 2 | m0 m1 | 1 | acknowledged"""
    s.fence(1).tell(2, 3).rounds(3)
    yield """Broker 1 is cut off. Broker 2 leads from offset 1 on, and broker 3 cuts m1 off.
        | 2 | 2 | m0 | 1 | acknowledged"""
    s.heal(1).tell(2, 3).rounds(1).alter(2).altered(2)
    yield """Broker 1 is heard again. It cuts m1 off in turn, and is in sync again.
        | 2 | 1 | m0 | 1 | acknowledged"""
    s.elect().tell(1, 2, 3).produce("m2", to=1).rounds(2)
    yield """It is the preferred leader: it leads again. m2 gets offset 1, and broker 2 has it. Of broker 3,
        which has fetched nothing in this epoch, nothing is known: the HW waits.
        | 1 | 2 | m0 | 1 | waits"""
    s.rounds(3)
    yield "Broker 3 has m2, and has said so. | 1 | 2 | m0 m2 | 2 | acknowledged"


@scenario(
    "The high watermark waits for replicas that are about to join the ISR",
    source="Kafka: `Partition.shouldWaitForReplicaToJoinIsr`",
    stage=lambda: PartitionStage((1, 2, 3, 4)),
    columns="LEO 1 | remote LEO 2 | remote LEO 3 | remote LEO 4 | HW 1 | ISR at 1 | asked for",
)
def caught_up_outside_isr(s: PartitionStage) -> Steps:
    """A replica outside of the ISR that reached the high watermark holds it as a member
    would. Otherwise it would run after a high watermark that moves on with every record, and never be in
    sync."""
    s.produce("m0", to=1).rounds(2).wait(3100).rounds(2).alter(1).altered(1)
    yield "Brokers 3 and 4 fell out of the ISR before they fetched m0. | 1 | 1 | ? | ? | 1 | 1 2 | –"
    s.fetch(4).answer(4).fetch(4)
    yield """Broker 4 has m0 now. The leader asks for ISR 1, 2, 4; the answer takes a while.
        | 1 | 1 | ? | 1 | 1 | 1 2 | 1 2 4"""
    s.fetch(3).answer(3).fetch(3)
    yield """So has broker 3. It is neither in the ISR nor asked for: that has to wait for the answer.
        | 1 | 1 | 1 | 1 | 1 | 1 2 | 1 2 4"""
    s.produce("m1", to=1).rounds(2, 4)
    yield """m1 comes; brokers 2 and 4 fetch it. The HW waits for broker 3 all the same.
        | 2 | 2 | 1 | 2 | 1 | 1 2 | 1 2 4"""
    s.rounds(3)
    yield "Broker 3 has m1. | 2 | 2 | 2 | 2 | 2 | 1 2 | 1 2 4"


LATEST = "leader | LEO 2 | HW 1 | HW 2 | end = consumer"


def _leader_dies(s: PartitionStage, leads: str, fetched: str) -> Steps:
    s.produce("m0", to=1).settle().produce("m1", to=1).rounds(2, 3).ask_latest(at=1)
    yield "m1 is committed, and a consumer asks broker 1 where the log ends. | 1 | 2 | 2 | 1 | 2"
    s.crash(1).fence(1).tell(2, 3).ask_latest(at=2)
    yield leads
    s.rounds(3).ask_latest(at=2)
    yield fetched


@scenario(
    "The end of the log goes back",
    source="Kafka up to 2.1; KIP-207",
    stage=lambda: PartitionStage(settings=without("offset_not_available")),
    columns=LATEST,
    not_played=OTHER_BROKERS,
)
def end_goes_back(s: PartitionStage) -> Steps:
    """A new leader has everything that is committed, but does not know that it is: the end that it tells
    may be before one that a consumer has heard already."""
    return _leader_dies(
        s,
        "Broker 1 dies. Broker 2 leads, and tells its own HW as the end. | 2 | 2 | down | 1 | 1",
        "Broker 3 fetches from 2: the HW moves. | 2 | 2 | down | 2 | 2",
    )


@scenario(
    "The end of the log has to be known to the leader",
    source="KIP-207; Kafka: `Partition.fetchOffsetForTimestamp`",
    stage=PartitionStage,
    columns=LATEST,
)
def offset_not_available(s: PartitionStage) -> Steps:
    """Since 2.2 a leader refuses to tell the end until its high watermark has reached the begin of its
    epoch: what was committed before lies below that."""
    return _leader_dies(
        s,
        """Broker 1 dies. Broker 2 leads from offset 2 on, and its HW is 1: the consumer has to ask again.
        | 2 | 2 | down | 1 | OFFSET_NOT_AVAILABLE""",
        "Broker 3 fetches from 2: the HW has reached the begin of the epoch. | 2 | 2 | down | 2 | 2",
    )


@scenario(
    "A leader that is alone in sync needs no fetch",
    source="Kafka: `Partition.makeLeader`, which calls `maybeIncrementLeaderHW`",
    stage=lambda: PartitionStage((1, 2), Settings(min_isr=1)),
    columns="leader | ISR | LEO 2 | HW 1 | HW 2",
)
def alone_in_sync(s: PartitionStage) -> Steps:
    """The high watermark is the lowest end among the replicas in sync. If a new leader is the only one of
    them, that is the end of its own log: it moves with the election, as no follower will come and move it."""
    s.produce("m0", to=1).settle().produce("m1", to=1).rounds(2)
    yield "m1 is committed; broker 2 has it, and has heard of HW 1. | 1 | 1 2 | 2 | 2 | 1"
    s.crash(1).fence(1)
    yield "Broker 1 dies. The controller lets broker 2 lead, alone in sync. | 2 | 2 | 2 | down | 1"
    s.tell(2)
    yield "Broker 2 hears of it: everything in its log is committed. | 2 | 2 | 2 | down | 2"
