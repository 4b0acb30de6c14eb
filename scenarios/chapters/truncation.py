"""Truncation.

A follower has to cut off what its leader does not have before it fetches. Up to 0.10 it
cut its log back to its own high watermark, which is always a little behind: that loses records (first
schedule) or lets the replicas differ (second). Since 0.11 (KIP-101) every record has the epoch of the
leader that appended it, each replica keeps where epochs begin, and the follower asks its leader where
its newest epoch ends."""

from scenarios.drivers.partition import PartitionStage, without
from scenarios.framework import OTHER_BROKERS, Steps, scenario

LOSING = "acknowledged | log 1 | HW 1 | log 2 | HW 2 | leader, as 2 knows"
EPOCHS = "log 1 | epochs 1 | log 2 | epochs 2"

BEFORE_KIP_279 = (
    *("epoch_walk", "epoch_when_led", "fenced_fetch", "committed_by_minimum", "eligible_replicas"),
)
BEFORE_KIP_101 = ("truncate_by_epoch", *BEFORE_KIP_279)


def _follower_restarts_and_leads(s: PartitionStage, restarted: str, leads: str, followed: str) -> Steps:
    s.produce("m0", to=1).settle().produce("m1", to=1).answer(2).fetch(2)
    yield """m1 is on both. Broker 2 has said so by its next fetch, but not had the answer: its HW is 1.
        | m0 m1 | m0 m1 | 2 | m0 m1 | 1 | 1, epoch 0"""
    s.crash(2).restart(2, noticed=False)
    yield restarted
    s.crash(1).fence(1).tell(2)
    yield leads
    s.restart(1).tell(2).rounds(1).wait(500).rounds(1)
    yield followed


@scenario(
    "Loss by truncation to the high watermark",
    source="KIP-101, scenario 1; KAFKA-1211",
    stage=lambda: PartitionStage((1, 2), without(*BEFORE_KIP_101)),
    columns=LOSING,
    not_played=OTHER_BROKERS,
)
def loss_by_high_watermark(s: PartitionStage) -> Steps:
    """Between the two fetch rounds a follower has a committed record and does not know
    that it is committed. If it restarts then and has to lead before it could fetch again, the record is
    gone. On real brokers: `inquest bugs reproduce truncation-loss` ([how often](../mechanisms.md))."""
    return _follower_restarts_and_leads(
        s,
        """Broker 2 crashes and is back before any broker notices. As a follower it cuts its log back to its
        HW.
        | m0 m1 | m0 m1 | 2 | m0 | 1 | 1, epoch 0""",
        """Before it can fetch m1 again broker 1 dies. Broker 2 is in the ISR: it leads.
        | m0 m1 | down | down | m0 | 1 | 2, epoch 1""",
        """Broker 1 comes back and cuts its log back in turn. m1 is lost, by a clean election.
        | m0 m1 | m0 | 1 | m0 | 1 | 2, epoch 1""",
    )


@scenario(
    "The same with leader epochs",
    source="KIP-101",
    stage=lambda: PartitionStage((1, 2), without(*BEFORE_KIP_279)),
    columns=LOSING,
    not_played=OTHER_BROKERS,
)
def no_loss_by_epoch(s: PartitionStage) -> Steps:
    """The follower cuts nothing off before its leader has answered."""
    return _follower_restarts_and_leads(
        s,
        """Broker 2 crashes and is back before any broker notices. It keeps its log and wants to ask the
        leader where epoch 0 ends.
        | m0 m1 | m0 m1 | 2 | m0 m1 | 1 | 1, epoch 0""",
        """Before it can ask broker 1 dies. Broker 2 leads, with m1.
        | m0 m1 | down | down | m0 m1 | 2 | 2, epoch 1""",
        """Broker 1 asks where epoch 0 ends: at 2. Nothing is cut off, nothing is lost.
        | m0 m1 | m0 m1 | 2 | m0 m1 | 2 | 2, epoch 1""",
    )


def _both_fail(s: PartitionStage) -> PartitionStage:
    """m0 flushed on both, m1 acknowledged; power fails, broker 2 had not flushed m1 and is back first."""
    s.produce("m0", to=1).settle().flush(1, 2).produce("m1", to=1).settle().flush(1)
    return s.lose_power(1, 2).restart(2, noticed=False).fence(1).tell(2)


DIVERGING = (
    "m1 is on both, and both know. Both lose power; broker 1 had flushed m1, broker 2 had not. Broker 2 is "
    "back first and leads."
)


@scenario(
    "Divergence by truncation to the high watermark",
    source="KIP-101, scenario 2",
    stage=lambda: PartitionStage((1, 2), without(*BEFORE_KIP_101, min_isr=1)),
    columns="acknowledged | log 1 | HW 1 | log 2 | HW 2",
    not_played=OTHER_BROKERS,
)
def divergence_by_high_watermark(s: PartitionStage) -> Steps:
    """Flushing is asynchronous, so when all machines fail the follower may have less than
    the leader had committed. If it leads first, the old leader cuts nothing off: its log is not beyond its
    high watermark. On real brokers, where the follower lost nothing but its high watermark:
    `inquest bugs reproduce truncation-divergence` ([how often](../mechanisms.md))."""
    yield "Nothing was written. | – | – | 0 | – | 0"
    _both_fail(s)
    yield f"{DIVERGING} | m0 m1 | down | down | m0 | 1"
    s.produce("m2", to=2)
    yield "m2 takes the offset of m1. | m0 m1 m2 | down | down | m0 m2 | 2"
    s.restart(1).tell(2)
    yield """Broker 1 comes back. Its HW is 2, its log ends at 2: nothing is to be cut off.
        | m0 m1 m2 | m0 m1 | 2 | m0 m2 | 2"""
    s.rounds(1).alter(2).altered(2).produce("m3", to=2).rounds(1)
    yield """It fetches from 2, is in sync, and takes m3. The replicas differ for ever, and no broker knows.
        | m0 m1 m2 m3 | m0 m1 m3 | 2 | m0 m2 m3 | 3"""


@scenario(
    "The same with leader epochs",
    source="KIP-101",
    stage=lambda: PartitionStage((1, 2), without(*BEFORE_KIP_279, min_isr=1)),
    columns="acknowledged | log 1 | HW 1 | log 2 | HW 2 | epochs 1 | epochs 2",
    not_played=OTHER_BROKERS,
)
def no_divergence_by_epoch(s: PartitionStage) -> Steps:
    """The loss remains, as all replicas in sync failed; the replicas are equal."""
    yield "Nothing was written. | – | – | 0 | – | 0 | – | –"
    _both_fail(s)
    yield f"{DIVERGING} | m0 m1 | down | down | m0 | 1 | down | (0, 0)"
    s.produce("m2", to=2)
    yield """m2 takes the offset of m1, under epoch 1.
        | m0 m1 m2 | down | down | m0 m2 | 2 | down | (0, 0) (1, 1)"""
    s.restart(1).tell(2).fetch(1)
    yield """Broker 1 comes back and asks where epoch 0 ends. For broker 2 that is where epoch 1 begins: at 1.
        | m0 m1 m2 | m0 m1 | 2 | m0 m2 | 2 | (0, 0) | (0, 0) (1, 1)"""
    s.answer(1)
    yield """It cuts off m1, which is lost (all of the ISR lost power), but the replicas agree.
        | m0 m1 m2 | m0 | 1 | m0 m2 | 2 | (0, 0) | (0, 0) (1, 1)"""
    s.rounds(1).alter(2).altered(2).produce("m3", to=2).rounds(1)
    yield """It fetches on from there.
        | m0 m1 m2 m3 | m0 m2 m3 | 2 | m0 m2 m3 | 3 | (0, 0) (1, 1) | (0, 0) (1, 1)"""


def _led_without_a_record(s: PartitionStage, led: str, asked: str, written: str) -> Steps:
    s.produce("m0", to=1).settle()
    yield "Broker 1 leads in epoch 0. | m0 | (0, 0) | m0 | (0, 0)"
    s.crash(1).fence(1).tell(2)
    yield led
    s.restart(1).tell(2).fetch(1).answer(1)
    yield asked
    s.produce("m1", to=2).rounds(1)
    yield written


@scenario(
    "An epoch begins when its leader does",
    source="KAFKA-7415 (2.0.1)",
    stage=lambda: PartitionStage((1, 2), without("eligible_replicas", min_isr=1)),
    columns=EPOCHS,
)
def epoch_when_led(s: PartitionStage) -> Steps:
    """A new leader notes at once where its epoch begins: at the end of its log."""
    return _led_without_a_record(
        s,
        "Broker 1 dies, broker 2 leads in epoch 1, and writes nothing. | down | down | m0 | (0, 0) (1, 1)",
        "Broker 1 is back, and asks where epoch 0 ends: at 1. | m0 | (0, 0) | m0 | (0, 0) (1, 1)",
        "m1 carries the epoch to the follower. | m0 m1 | (0, 0) (1, 1) | m0 m1 | (0, 0) (1, 1)",
    )


@scenario(
    "An epoch begins with its first record, before 2.0.1",
    source="KIP-101; KAFKA-7415",
    stage=lambda: PartitionStage((1, 2), without(*BEFORE_KIP_279, min_isr=1)),
    columns=EPOCHS,
    not_played=OTHER_BROKERS,
)
def epoch_by_first_record(s: PartitionStage) -> Steps:
    """A new leader notes its epoch with the first record that it writes; one that writes nothing leaves no
    trace in its cache."""
    return _led_without_a_record(
        s,
        "Broker 1 dies, broker 2 leads in epoch 1, and has written nothing. | down | down | m0 | (0, 0)",
        "Broker 1 is back, and asks where epoch 0 ends: at the log's end, 1. | m0 | (0, 0) | m0 | (0, 0)",
        "With m1 both note epoch 1. | m0 m1 | (0, 0) (1, 1) | m0 m1 | (0, 0) (1, 1)",
    )


def _append(s: PartitionStage, count: int, to: int) -> PartitionStage:
    return s.produce(*(str(n) for n in range(count)), to=to, acks=1)


@scenario(
    "Where an epoch ends: the rule",
    source="KIP-101; Kafka: `LeaderEpochFileCache.endOffsetFor`",
    stage=lambda: PartitionStage((2, 1, 3), without("eligible_replicas", min_isr=1)),
    columns="leader, as 3 knows | LEO 1 | epochs 1 | LEO 3 | epochs 3",
)
def last_offset(s: PartitionStage) -> Steps:
    """The cache of each replica holds (epoch, offset at which it begins), kept on disk in
    leader-epoch-checkpoint. An epoch ends where the next larger one of the cache begins, the newest one at
    the log's end. So with (1, 20), (2, 80), (3, 120) a follower whose newest epoch is 1 receives 80."""
    _append(s, 20, to=2).settle()
    yield "Epoch 0: broker 2 leads; 20 records reach all. | 2, epoch 0 | 20 | (0, 0) | 20 | (0, 0)"
    s.crash(2).fence(2).tell(1, 3).restart(2).tell(1, 3)
    _append(s, 60, to=1).rounds(2, 3).alter(1).altered(1)
    yield """Epoch 1: broker 2 dies, broker 1 leads; 60 records reach all, broker 2 is back and in sync.
        | 1, epoch 1 | 80 | (0, 0) (1, 20) | 80 | (0, 0) (1, 20)"""
    _append(s, 20, to=1)
    yield "20 more do not leave broker 1. | 1, epoch 1 | 100 | (0, 0) (1, 20) | 80 | (0, 0) (1, 20)"
    s.crash(1).fence(1).tell(2, 3)
    _append(s, 40, to=2).wait(100).rounds(3)
    yield """Epoch 2: broker 1 dies, broker 2 leads; 40 records reach broker 3.
        | 2, epoch 2 | down | down | 120 | (0, 0) (1, 20) (2, 80)"""
    s.crash(2).fence(2).tell(3)
    _append(s, 10, to=3)
    yield """Epoch 3: broker 2 dies, broker 3 leads, and takes 10 records.
        | 3, epoch 3 | down | down | 130 | (0, 0) (1, 20) (2, 80) (3, 120)"""
    s.restart(1).tell(3)
    yield """Broker 1 comes back. Its cache was on disk too: its newest epoch is 1.
        | 3, epoch 3 | 100 | (0, 0) (1, 20) | 130 | (0, 0) (1, 20) (2, 80) (3, 120)"""
    s.fetch(1).answer(1)
    yield """Where does epoch 1 end? Where epoch 2 begins: at 80. Broker 1 cuts its log back to there.
        | 3, epoch 3 | 80 | (0, 0) (1, 20) | 130 | (0, 0) (1, 20) (2, 80) (3, 120)"""
    s.rounds(1)
    yield """It fetches on, and learns the epochs from the records.
        | 3, epoch 3 | 130 | (0, 0) (1, 20) (2, 80) (3, 120) | 130 | (0, 0) (1, 20) (2, 80) (3, 120)"""


def _two_leaders(s: PartitionStage, asked: str, fetched: str) -> Steps:
    s.produce("m0", to=1).settle().produce("x", to=1, acks=1).crash(1).fence(1).tell(2)
    s.produce("y", to=2, acks=1).crash(2).fence(2).restart(1).tell(1)
    s.produce("z", to=1, acks=1).restart(2).tell(1)
    yield """Broker 1 takes x and dies; broker 2 leads (epoch 1), takes y and dies; broker 1 is back first,
        leads by an unclean election (epoch 3), takes z, and broker 2 comes back.
        | m0 x z | (0, 0) (3, 2) | m0 y | (0, 0) (1, 1)"""
    s.fetch(2).answer(2)
    yield asked
    s.rounds(2)
    yield fetched


@scenario(
    "KIP-279: an epoch that the leader never heard of",
    source="KIP-279; KAFKA-6361",
    stage=lambda: PartitionStage((1, 2), without(*BEFORE_KIP_279, min_isr=1, unclean=True)),
    columns=EPOCHS,
    not_played=OTHER_BROKERS,
)
def divergence_by_unknown_epoch(s: PartitionStage) -> Steps:
    """After two leader changes that the new leader did not see, the follower's newest
    epoch is unknown to it, and the end that KIP-101 gives is one of other records. On real brokers a leader
    with no record of the asked epoch shows the same gap: `inquest bugs reproduce truncation-unknown-epoch`
    ([how often](../mechanisms.md))."""
    return _two_leaders(
        s,
        """Broker 2 asks where epoch 1 ends. Broker 1 never heard of it; the next larger one begins at 2.
        Nothing is cut off.
        | m0 x z | (0, 0) (3, 2) | m0 y | (0, 0) (1, 1)""",
        """It fetches z. The replicas differ at offset 1.
        | m0 x z | (0, 0) (3, 2) | m0 y z | (0, 0) (1, 1) (3, 2)""",
    )


@scenario(
    "KIP-279: going back epoch by epoch",
    source="KIP-279",
    stage=lambda: PartitionStage(
        (1, 2), without("fenced_fetch", "eligible_replicas", min_isr=1, unclean=True)
    ),
    columns=EPOCHS,
)
def epoch_walk(s: PartitionStage) -> Steps:
    """The leader answers with the epoch that it speaks of, its largest one up to the
    asked one. The follower goes back to its own largest epoch up to that, and asks again until both speak
    of the same one."""
    return _two_leaders(
        s,
        """Broker 2 asks where epoch 1 ends. The largest that broker 1 has up to there is 0, which ends at
        2. For broker 2 epoch 0 ends at 1: so far they agree at most. It cuts y off.
        | m0 x z | (0, 0) (3, 2) | m0 | (0, 0)""",
        """It fetches x and z. The logs agree; y is lost, as the election was unclean.
        | m0 x z | (0, 0) (3, 2) | m0 x z | (0, 0) (3, 2)""",
    )
