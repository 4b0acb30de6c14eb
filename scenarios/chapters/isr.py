"""In-sync replicas.

All replicas of a partition (AR) are in sync (ISR) or not (OSR). A record is committed when
all in sync have it, so that each of them may lead; who is too slow is taken out, so that it holds
up no write. The leader sees who is slow, the controller decides: with AlterPartition (KIP-497), in whose
place leaders wrote to ZooKeeper before."""

from model.eras import ERAS
from model.settings import Settings
from scenarios.drivers.partition import PartitionStage
from scenarios.framework import OTHER_BROKERS, Steps, scenario

AGREEING = "LEO 1 | remote LEO 3 | HW 1 | HW waits for | ISR | partition epoch | produce"
CHANGES = "ISR | partition epoch | ISR at 1 | controller's answer"


@scenario(
    "A replica that does not fetch is taken out",
    source="KIP-497; Kafka: `Partition.maybeShrinkIsr`",
    stage=PartitionStage,
    columns=AGREEING,
)
def isr_shrink_failure(s: PartitionStage) -> Steps:
    """Functional failure: the process lives and says so to the controller, but it does
    not fetch. Only the leader can see that."""
    s.produce("m0", to=1).settle()
    yield "All in sync. | 1 | 1 | 1 | 1 2 3 | 1 2 3 | 0 | acknowledged"
    s.produce("m1", to=1).rounds(2)
    yield """Broker 3's fetcher hangs, its heartbeats do not. m1 reaches broker 2 and waits for broker 3.
        | 2 | 1 | 1 | 1 2 3 | 1 2 3 | 0 | waits"""
    s.wait(3100).rounds(2)
    yield """replica.lag.time.max.ms later the leader asks the controller for ISR 1, 2. Until it is answered
        the HW waits for old and new members.
        | 2 | 1 | 1 | 1 2 3 | 1 2 3 | 0 | REQUEST_TIMED_OUT"""
    s.alter(1)
    yield """The controller agrees; the leader does not know that yet.
        | 2 | 1 | 1 | 1 2 3 | 1 2 | 1 | REQUEST_TIMED_OUT"""
    s.altered(1)
    yield """The leader hears of it: m1 is committed. Its producer had got a time-out: it is there all the
        same.
        | 2 | 1 | 2 | 1 2 | 1 2 | 1 | REQUEST_TIMED_OUT"""


@scenario(
    "A smaller ISR is a new leader epoch, before metadata version 3.6",
    source="KAFKA-15021; Kafka: `MetadataVersion.isLeaderEpochBumpRequiredOnIsrShrink`",
    stage=lambda: PartitionStage(settings=Settings(era=ERAS["3.3"])),
    columns="HW 1 | ISR | leader epoch | partition epoch | leader, as 2 knows | consumer",
    not_played=OTHER_BROKERS,
)
def isr_shrink_epoch(s: PartitionStage) -> Steps:
    """Brokers of those versions needed it. Each shrink stops the replicas that stay, and
    clients, until they have heard of the new epoch; an ISR that grows keeps the epoch."""
    s.produce("m0", to=1).settle().produce("m1", to=1).rounds(2).consume(0, at=1, epoch=0)
    yield "Broker 3 does not fetch m1. | 1 | 1 2 3 | 0 | 0 | 1, epoch 0 | m0"
    s.wait(3100).alter(1).altered(1).tell(1).consume(0, at=1, epoch=0)
    yield """It is taken out of the ISR. The leader hears of the epoch; it knew that broker 2 has m1, which is
        committed so. A consumer with the epoch before is refused.
        | 2 | 1 2 | 1 | 1 | 1, epoch 0 | FENCED_LEADER_EPOCH"""
    s.tell(2, 3).rounds(2).wait(100).rounds(2).consume(1, at=1, epoch=1)
    yield "Broker 2 and the consumer fetch with the new epoch. | 2 | 1 2 | 1 | 1 | 1, epoch 1 | m1"
    s.rounds(3).alter(1).altered(1)
    yield "Broker 3 is let in. | 2 | 1 2 3 | 1 | 2 | 1, epoch 1 | m1"


def _second(s: PartitionStage, number: int) -> None:
    """Two batches come, broker 2 fetches two, broker 3 one."""
    for half in "ab":
        s.produce(*(f"{number}{half}{n}" for n in range(500)), to=1, acks=1)
    for follower in (2, 2, 3):
        s.fetch(follower).answer(follower)


@scenario(
    "A replica that falls behind is taken out",
    source="KAFKA-1546, KAFKA-2988; Kafka: `ReplicaState.isCaughtUp`",
    stage=lambda: PartitionStage(settings=Settings(replica_lag_ms=8000, fetch_records=1)),
    columns="LEO 1 | remote LEO 2 | remote LEO 3 | HW 1 | ISR | asked for",
)
def isr_shrink_slow(s: PartitionStage) -> Steps:
    """A replica is caught up at the time of a fetch if it has by its next fetch what the
    leader had then. One that is always some records behind but keeps the pace stays in sync; one that loses
    ground is out after replica.lag.time.max.ms, though it fetches all the time. (The older setting
    replica.lag.max.messages took replicas out at every burst.) Here the lag is 8 s, and a fetch brings one
    batch, of 500 records."""
    _second(s, 0)
    yield """1000 records a second come in. Broker 2 fetches twice a second, broker 3 once.
        | 1000 | 500 | 0 | 0 | 1 2 3 | –"""
    _second(s.wait(1000), 1)
    yield """Second 1. Broker 2 has what there was when it fetched last: it was caught up then.
        | 2000 | 1500 | 500 | 500 | 1 2 3 | –"""
    _second(s.wait(1000), 2)
    yield "Second 2. Broker 3 has half of what there was. | 3000 | 2500 | 1000 | 1000 | 1 2 3 | –"
    for number in range(3, 9):
        _second(s.wait(1000), number)
    yield "Seconds 3 to 8. It never had all. | 9000 | 8500 | 4000 | 4000 | 1 2 3 | –"
    s.wait(100)
    yield """Broker 3 was last caught up more than 8 s ago: the leader asks for ISR 1, 2.
        | 9000 | 8500 | 4000 | 4000 | 1 2 3 | 1 2"""
    s.alter(1).altered(1)
    yield """Broker 2 is 500 records behind and in sync: the lag is counted in time, not in records.
        | 9000 | 8500 | 4000 | 8500 | 1 2 | –"""


@scenario(
    "A replica that caught up is let in",
    source="KIP-497, KIP-320; Kafka: `Partition.maybeExpandIsr`",
    stage=PartitionStage,
    columns=AGREEING,
)
def isr_expansion(s: PartitionStage) -> Steps:
    """It has to have everything below the high watermark, and to have reached the begin
    of the leader's epoch. From the moment at which the leader asks, the high watermark waits for it."""
    s.produce("m0", to=1).settle().crash(3).fence(3).tell(1, 2)
    s.wait(1500).rounds(2).wait(1600).rounds(2).produce("m1", to=1).rounds(2)
    yield """Broker 3 died a while ago; the controller took it out. m1 is committed without it.
        | 2 | 1 | 2 | 1 2 | 1 2 | 1 | acknowledged"""
    s.restart(3).tell(1, 2).fetch(3).answer(3).fetch(3)
    yield """It is back, its log agrees with the leader's, it fetches from 1. That is below the HW.
        | 2 | 1 | 2 | 1 2 | 1 2 | 1 | acknowledged"""
    s.answer(3).produce("m2", to=1).fetch(3)
    yield """It has m1 when m2 comes, and fetches from 2: that is the HW. The leader asks for ISR 1, 2, 3.
        From now on the HW waits for broker 3.
        | 3 | 2 | 2 | 1 2 3 | 1 2 | 1 | waits"""
    s.rounds(2)
    yield "Broker 2 has m2. | 3 | 2 | 2 | 1 2 3 | 1 2 | 1 | waits"
    s.alter(1).altered(1)
    yield "The controller agrees, and the leader hears of it. | 3 | 2 | 2 | 1 2 3 | 1 2 3 | 2 | waits"
    s.answer(3).fetch(3)
    yield "Broker 3 has m2. | 3 | 3 | 3 | 1 2 3 | 1 2 3 | 2 | acknowledged"


@scenario(
    "A refused change moves no high watermark",
    source="Kafka: `Partition.handleAlterPartitionError`, `Partition.updateFollowerFetchState`",
    stage=PartitionStage,
    columns="LEO 1 | remote LEO 2 | HW 1 | HW waits for | ISR | controller's answer | produce",
)
def isr_refused(s: PartitionStage) -> Steps:
    """The leader asks for a replica to join that is fenced meanwhile. When it hears that it will not,
    nothing holds the high watermark back any more, and nothing moves it: on a partition that is not
    written to, what all in-sync replicas have stays invisible, and its producer waits."""
    s.produce("m0", to=1).settle().crash(3).fence(3).tell(1, 2)
    s.wait(1500).rounds(2).wait(1600).rounds(2).restart(3).tell(1, 2).fetch(3).answer(3).fetch(3)
    yield """Broker 3 was away, and is back. It has everything: the leader asks for ISR 1, 2, 3.
        | 1 | 1 | 1 | 1 2 3 | 1 2 | – | acknowledged"""
    s.crash(3).fence(3).produce("m1", to=1).rounds(2)
    yield """It dies before the controller hears of that. m1 waits for it.
        | 2 | 2 | 1 | 1 2 3 | 1 2 | – | waits"""
    s.alter(1).tell(1)
    yield """The controller refuses, and the leader hears that broker 3 is fenced.
        | 2 | 2 | 1 | 1 2 3 | 1 2 | INELIGIBLE_REPLICA | waits"""
    s.altered(1)
    yield """Then it hears the answer: the HW waits for brokers 1 and 2 alone, which have m1.
        | 2 | 2 | 1 | 1 2 | 1 2 | INELIGIBLE_REPLICA | waits"""
    s.wait(600).rounds(2)
    yield """Broker 2 fetches from 2 again: that is nothing new.
        | 2 | 2 | 1 | 1 2 | 1 2 | INELIGIBLE_REPLICA | waits"""
    s.produce("m2", to=1, acks=1)
    yield """A write moves it.
        | 3 | 2 | 2 | 1 2 | 1 2 | INELIGIBLE_REPLICA | acknowledged"""


@scenario(
    "A request outlives news that the leader has had",
    source="KIP-497; Kafka: `Partition.updateAssignmentAndIsr`",
    stage=lambda: PartitionStage((3, 1, 2)),
    columns="LEO 1 | remote LEO 3 | HW 1 | HW waits for | ISR | ISR at 1 | leader | log 3 | produce",
    not_played="Kafka 3.3 to 4.4 forgets the request in step 2 (docs/findings/pending-expansion-reset.md)",
)
def isr_request_outlives(s: PartitionStage) -> Steps:
    """A leader learns of a change of the ISR twice: by the controller's answer, and by the metadata log,
    which may be later. By then it may have asked for the next change, and that request is still under way:
    the controller may have agreed already. So the high watermark waits for the replica that the request
    names until the leader knows the answer, or newer metadata."""
    s.produce("m0", to=3).settle().crash(3).fence(3).tell(1, 2).crash(2).fence(2).tell(1)
    s.restart(2, 3).tell(1).fetch(2).answer(2).fetch(2).alter(1).altered(1).fetch(3).answer(3).fetch(3)
    yield """Brokers 3 and 2 were down, and broker 1 leads. Broker 2 is let in: the leader has the
        controller's answer, and not the metadata record. Then broker 3 has everything, and the leader asks
        for ISR 1, 2, 3.
        | 1 | 1 | 1 | 1 2 3 | 1 2 | 1 2 | 1 | m0 | acknowledged"""
    s.tell(1)
    yield """The metadata record of broker 2 arrives. It tells the leader nothing new, and ends no request.
        | 1 | 1 | 1 | 1 2 3 | 1 2 | 1 2 | 1 | m0 | acknowledged"""
    s.rounds(2).wait(3100).rounds(2).produce("m1", to=1).rounds(2)
    yield """Broker 3's fetcher hangs for longer than replica.lag.time.max.ms. m1 reaches broker 2 and waits
        for broker 3.
        | 2 | 1 | 1 | 1 2 3 | 1 2 | 1 2 | 1 | m0 | waits"""
    s.alter(1).elect().tell(3)
    yield """The controller agrees, and elects the preferred leader, which is in sync. It has no m1. The
        leader of before knows nothing of it.
        | 2 | 1 | 1 | 1 2 3 | 1 2 3 | 1 2 | 3 | m0 | waits"""
    s.tell(1, 2)
    yield """It learns of it. m1 is not there, and was never acknowledged.
        | 2 | – | 1 | – | 1 2 3 | 1 2 3 | 3 | m0 | NOT_LEADER_OR_FOLLOWER"""


@scenario("Changes of the ISR have a version", source="KIP-497", stage=PartitionStage, columns=CHANGES)
def partition_epoch(s: PartitionStage) -> Steps:
    """Leader and controller both change the ISR. The partition epoch rises with every
    change, and a request of a leader is refused if it was made for another state."""
    s.settle().produce("m0", to=1).rounds(2).wait(3100)
    yield "Broker 3 hangs. The leader asks for ISR 1, 2, on top of partition epoch 0. | 1 2 3 | 0 | 1 2 3 | –"
    s.crash(2).fence(2)
    yield "Before that arrives the controller takes broker 2 out, which died. | 1 3 | 1 | 1 2 3 | –"
    s.alter(1)
    yield """The request arrives. It was made for another state: refused, else broker 2 would be in sync
        again.
        | 1 3 | 1 | 1 2 3 | INVALID_UPDATE_VERSION"""
    s.altered(1).tell(1)
    yield "The leader learns the state as it is. | 1 3 | 1 | 1 3 | INVALID_UPDATE_VERSION"
    s.wait(100).alter(1).altered(1)
    yield "It asks again, on top of partition epoch 1. | 1 | 2 | 1 | NONE"


@scenario("A fenced replica is not let in", source="KIP-841, KIP-903", stage=PartitionStage, columns=CHANGES)
def ineligible_replica(s: PartitionStage) -> Steps:
    """Between the leader's request and the controller's decision the replica may have died, or have come back
    with an emptier log. So the request names broker epochs, and fenced brokers are refused."""
    s.crash(3).fence(3).restart(3).tell(1, 2).fetch(3)
    yield """Broker 3 was away and is back; it has everything. The leader asks for ISR 1, 2, 3.
        | 1 2 | 1 | 1 2 | –"""
    s.crash(3).fence(3).alter(1)
    yield """It dies again and is fenced before that arrives: refused. In the ISR it would be a leader to be.
        | 1 2 | 1 | 1 2 | INELIGIBLE_REPLICA"""
    s.altered(1).restart(3)
    yield "Back once more, it has to fetch first. | 1 2 | 1 | 1 2 | INELIGIBLE_REPLICA"
    s.tell(1).fetch(3).alter(1).altered(1)
    yield "Then it is let in, with its new broker epoch. | 1 2 3 | 2 | 1 2 3 | NONE"


@scenario(
    "A deposed leader cannot shrink the ISR",
    source="KIP-497",
    stage=PartitionStage,
    columns="leader | ISR | ISR at 1 | HW 1 | controller's answer",
)
def deposed_leader(s: PartitionStage) -> Steps:
    """A leader that is cut off would, if it could make itself the only one in sync,
    commit records that no other replica has."""
    s.settle().produce("m0", to=1).wait(3100)
    yield """Broker 1 leads, cut off from all others. It asks for ISR 1 alone, so that m0 is committed.
        | 1 | 1 2 3 | 1 2 3 | 0 | –"""
    s.fence(1).tell(2, 3)
    yield "The controller has not heard of it either: broker 2 leads. | 2 | 2 3 | 1 2 3 | 0 | –"
    s.alter(1).altered(1)
    yield """The request arrives late and is refused by the leader epoch. m0 was never committed.
        | 2 | 2 3 | 1 2 3 | 0 | FENCED_LEADER_EPOCH"""
