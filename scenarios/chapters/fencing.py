"""Fencing of fetches.

An offset means something only together with the epoch under which it was learnt. Since 2.1
(KIP-320) followers, and since 2.3 consumers, send the leader epoch that they know, and a leader refuses
any other."""

from scenarios.drivers.partition import PartitionStage, without
from scenarios.framework import OTHER_BROKERS, Steps, scenario

LATE_FETCH = "acknowledged | log 1 | remote LEO 2 | HW 1 | log 2 | leader, as 2 knows"


def _until_the_fetch_arrives(s: PartitionStage) -> Steps:
    s.produce("m0", to=1).settle().produce("m1", to=1).answer(2)
    yield """m1 is on brokers 1 and 2. Broker 2's fetch from 2, which says so, is delayed on its way.
        | m0 | m0 m1 | 1 | 1 | m0 m1 | 1, epoch 0"""
    s.fence(1).tell(3)
    yield """Broker 1 is cut off. Broker 3 leads (epoch 1), without m1, which was promised to no client.
        Broker 2 hears nothing of all this.
        | m0 | m0 m1 | 1 | 1 | m0 m1 | 1, epoch 0"""
    s.heal(1).tell(3).rounds(1).alter(3).altered(3)
    yield """Broker 1 follows broker 3: it cuts m1 off, and is in sync again.
        | m0 | m0 | – | 1 | m0 m1 | 1, epoch 0"""
    s.crash(3).fence(3).tell(1).produce("m2", to=1)
    yield """Broker 3 dies, broker 1 leads again (epoch 2). m2 gets offset 1, and waits for broker 2.
        | m0 | m0 m2 | ? | 1 | m0 m1 | 1, epoch 0"""


@scenario(
    "A fetch of an old epoch moves the high watermark",
    source="KIP-320; KAFKA-7395",
    stage=lambda: PartitionStage((1, 3, 2), without("fenced_fetch", "eligible_replicas")),
    columns=LATE_FETCH,
    not_played=OTHER_BROKERS,
)
def fetch_of_an_old_epoch(s: PartitionStage) -> Steps:
    """A leader that lost its leadership and got it again takes what a follower sent
    before for what it says now."""
    yield from _until_the_fetch_arrives(s)
    s.fetch(2, at=1)
    yield """The delayed fetch from 2 arrives. Broker 1 takes it for a copy of m2: HW 2, m2 is acknowledged.
        | m0 m2 | m0 m2 | 2 | 2 | m0 m1 | 1, epoch 0"""
    s.crash(1).fence(1).tell(2)
    yield """Broker 1 dies, broker 2 leads (epoch 3): m2 is lost, m1 is back.
        | m0 m2 | down | down | down | m0 m1 | 2, epoch 3"""


@scenario(
    "The same with the epoch in the fetch",
    source="KIP-320; KAFKA-7395",
    stage=lambda: PartitionStage((1, 3, 2), without("eligible_replicas")),
    columns=LATE_FETCH,
)
def fenced_fetch(s: PartitionStage) -> Steps:
    """The high watermark moves with followers that acknowledge leader and epoch."""
    yield from _until_the_fetch_arrives(s)
    s.fetch(2, at=1)
    yield """The delayed fetch arrives with its epoch, 0: it is refused and says nothing of broker 2's log.
        | m0 | m0 m2 | ? | 1 | m0 m1 | 1, epoch 0"""
    s.answer(2).tell(2).wait(100).rounds(2)
    yield """Broker 2 hears of epoch 2, asks where epoch 0 ends, cuts m1 off and fetches m2.
        | m0 m2 | m0 m2 | 2 | 2 | m0 m2 | 1, epoch 2"""


ASKED = "LEO 2 | HW 2 | consumer | produce"


def _follower_is_asked(s: PartitionStage, early: str, later: str) -> Steps:
    s.produce("m0", to=1).fetch(2).answer(2).consume(0, at=2)
    yield f"{early} | waits"
    s.fetch(2).wait(500).answer(2).consume(0, at=2, epoch=0)
    yield f"{later} | acknowledged"
    s.consume(0, at=2, epoch=1)
    yield """A consumer that knows of a later epoch is refused for that, as by a leader.
        | 1 | 1 | UNKNOWN_LEADER_EPOCH | acknowledged"""
    s.ask_latest(at=2)
    yield "The end of the log is the leader's to tell. | 1 | 1 | NOT_LEADER_OR_FOLLOWER | acknowledged"
    s.ask_end(0, at=2, epoch=0)
    yield "So is the end of an epoch. | 1 | 1 | NOT_LEADER_OR_FOLLOWER | acknowledged"
    s.produce("m1", to=2)
    yield """And only the leader takes records.
        | 1 | 1 | NOT_LEADER_OR_FOLLOWER | NOT_LEADER_OR_FOLLOWER"""


@scenario(
    "A follower refuses clients",
    source="Kafka up to 2.3; KIP-392",
    stage=lambda: PartitionStage((1, 2), without("followers_serve")),
    columns=ASKED,
    not_played=OTHER_BROKERS,
)
def follower_refuses(s: PartitionStage) -> Steps:
    """A follower is a copy, for the case that the leader fails: clients that ask it have old metadata, and
    learn from its refusal that they have to look for the leader."""
    return _follower_is_asked(
        s,
        """m0 is on both. A consumer asks broker 2, the follower: it refuses.
        | 1 | 0 | NOT_LEADER_OR_FOLLOWER""",
        """Also when broker 2 knows that m0 is committed, and in the epoch that both know.
        | 1 | 1 | NOT_LEADER_OR_FOLLOWER""",
    )


@scenario(
    "A follower answers consumers",
    source="KIP-392; Kafka: `FetchParams.fetchOnlyLeader`, `Partition.getLocalLog`",
    stage=lambda: PartitionStage((1, 2)),
    columns=ASKED,
)
def follower_answers(s: PartitionStage) -> Steps:
    """Since 2.4 (Fetch of version 11) a consumer may read at any replica, for instance one in its own rack,
    up to the high watermark that this one knows. Everything else it asks the leader."""
    return _follower_is_asked(
        s,
        """m0 is on both. A consumer asks broker 2, the follower, which does not know that m0 is committed.
        | 1 | 0 | nothing""",
        "Broker 2 heard of HW 1 with the answer to its next fetch: it gives m0 out. | 1 | 1 | m0",
    )


@scenario(
    "A consumer whose position was truncated",
    source="KIP-320; KAFKA-7747",
    stage=lambda: PartitionStage((1, 2), without("eligible_replicas", min_isr=1, unclean=True)),
    columns="ISR | log 1 | log 2 | consumer",
)
def consumer_and_truncation(s: PartitionStage) -> Steps:
    """After an unclean election a consumer's position may lie behind another history.
    (The model's consumer sends its epoch, but does not ask where epochs end.)"""
    s.produce("m0", to=1).settle().wait(3100).produce("m1", to=1).wait(100).alter(1).altered(1)
    s.consume(0, at=1, epoch=0)
    yield """Broker 1 is alone in sync. A consumer has read m0 and m1, of epoch 0; it continues at 2.
        | 1 | m0 m1 | m0 | m0 m1"""
    s.crash(1).fence(1).tell(2).produce("m2", to=2).produce("m3", to=2)
    yield """Broker 1 dies, broker 2 leads by an unclean election (epoch 2) and takes m2 and m3.
        | 2 | down | m0 m2 m3 | m0 m1"""
    s.consume(2, at=2, epoch=1)
    yield """A consumer that fetches on from 2 gets m3. It never sees m2, and does not know that m1 is gone.
        | 2 | down | m0 m2 m3 | m3"""
    s.ask_end(0, at=2, epoch=1)
    yield """One that first asks where epoch 0 ends, the epoch of its last record, learns that it has read
        beyond: the log was truncated, and it may continue at 1.
        | 2 | down | m0 m2 m3 | epoch 0 ends at 1"""


@scenario(
    "A consumer between two leaders",
    source="KIP-320",
    stage=lambda: PartitionStage((1, 2, 3), without("eligible_replicas")),
    columns="ISR | log 1 | log 2 | leader, as 1 knows | consumer",
)
def consumer_and_zombie(s: PartitionStage) -> Steps:
    """A deposed leader that has not heard of it gives what it has; no consumer has to wait
    there for more."""
    s.produce("m0", to=1).settle().isolate(1).fence(1).tell(2, 3)
    s.produce("m1", to=2).wait(100).rounds(3)
    yield """Broker 1 is cut off and believes that it leads. Broker 2 does (epoch 1), and commits m1.
        | 2 3 | m0 | m0 m1 | 1, epoch 0 | –"""
    s.consume(1, at=1)
    yield """A consumer without epochs asks broker 1, and waits there for nothing.
        | 2 3 | m0 | m0 m1 | 1, epoch 0 | nothing"""
    s.consume(1, at=1, epoch=1)
    yield """One that knows of epoch 1 is refused by broker 1, which does not.
        | 2 3 | m0 | m0 m1 | 1, epoch 0 | UNKNOWN_LEADER_EPOCH"""
    s.consume(1, at=2, epoch=0)
    yield """One that knows of epoch 0 only is refused by broker 2, and refreshes its metadata.
        | 2 3 | m0 | m0 m1 | 1, epoch 0 | FENCED_LEADER_EPOCH"""
    s.consume(1, at=2, epoch=1)
    yield "Then both agree. | 2 3 | m0 | m0 m1 | 1, epoch 0 | m1"
