"""What a leader knows of its followers, and what they take from it: ends, times, the high watermark."""

from dataclasses import dataclass, field

import pytest
from msgspec import structs

from model.eras import ERAS
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.metadata.image import BrokerRegistrationChangeRecord, MetadataRecord, RegisterBrokerRecord
from model.protocol.messages import Fetch, FetchedPartition, FetchPartition, FetchResponse, PartitionState
from model.replication.node import NodeState
from model.replication.replica import UNKNOWN, Replica
from model.replication.replica_manager import ReplicaManager
from model.settings import Settings
from scenarios.drivers.partition import TP

ALL = PartitionState((1, 2, 3), (1, 2, 3), 1, 0, 0)
LAG = Settings().replica_lag_ms


def batch(base: int, epoch: int = 0) -> RecordBatch:
    return RecordBatch(base, epoch, (f"{epoch}:{base}",))


def leader(era: str, written: int = 0, *, state: PartitionState = ALL) -> Replica:
    """Broker 1 leads from time 0 on and has written so much."""
    one = Replica(1, Settings(era=ERAS[era]))
    one.become(state, 0)
    for base in range(written):
        one.append(batch(base), 1)
    return one


# ---- a fetch out of range


@dataclass
class Serving:
    """Broker 1 leads a log from offset 4 to 6, with broker 2 in sync and broker 3 outside. `joining`:
    followers outside that fetched."""

    era: str
    joining: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.node = NodeState(1, Settings(era=ERAS[self.era]))
        self.replica = leader(self.era, 6, state=structs.replace(ALL, isr=(1, 2)))
        self.node.replicas[TP] = self.replica
        self.replica.fetched_by(2, 6, 0)
        assert self.replica.high_watermark == 6
        self.replica.delete_before(4)
        self.manager = ReplicaManager(self.node, lambda _tp, follower: self.joining.append(follower))

    def fetches(self, follower: int, offset: int) -> FetchedPartition:
        answers: list[FetchResponse] = []
        fetch = Fetch(follower, {TP: FetchPartition(offset)}, max_wait_ms=0)
        self.manager.fetch(fetch, answers.append)  # type: ignore[arg-type]
        return answers[0].parts[TP]


@pytest.mark.parametrize("era", ["0.10", "0.11", "2.0", "2.4", "4.4"])
@pytest.mark.parametrize(("offset", "within"), [(3, False), (4, True), (6, True), (7, False)])
def test_a_fetch_out_of_range_brings_no_follower_into_the_set(era: str, offset: int, within: bool) -> None:
    s = Serving(era)
    found = s.fetches(3, offset)
    assert (found.error is KafkaError.OFFSET_OUT_OF_RANGE) is not within
    assert s.joining == ([3] if within else [])
    assert s.replica.remotes[3].end == (offset if within else UNKNOWN)


@pytest.mark.parametrize(
    ("era", "known"), [("0.10", UNKNOWN), ("2.0", UNKNOWN), ("2.4", 6), ("3.3", 6), ("4.4", 6)]
)
def test_a_fetch_out_of_range_says_nothing_since_2_4_and_before_that_the_end_is_unknown(
    era: str, known: int
) -> None:
    """KAFKA-8400."""
    s = Serving(era)
    s.replica.append(batch(6), 1)
    s.fetches(2, 9)
    remote = s.replica.remotes[2]
    assert (remote.end, remote.caught_up_ms) == (known, 0)
    assert s.replica.high_watermark == 6, "no record is committed by it"
    s.node.now = 20
    s.fetches(2, 7)
    assert (remote.end, remote.caught_up_ms, s.replica.high_watermark) == (7, 20, 7)


# ---- who is waited for


def registered(node: NodeState, broker: int) -> None:
    node.image.apply(RegisterBrokerRecord(broker, 1))
    node.image.apply(BrokerRegistrationChangeRecord(broker, fenced=False, leaving=False))


def after_a_member_left(era: str, *changes: MetadataRecord, fetched_with: int = 5) -> Replica:
    """Broker 3 was in sync up to offset 1 and left the set; then 2 fetched everything, up to 2.

    Epochs of the brokers: 1, 3 and 5.
    """
    node = NodeState(1, Settings(era=ERAS[era]))
    node.image.apply(None)
    for broker in (1, 2, 3):
        registered(node, broker)
    one = Replica(1, node.settings, image=node.image)
    one.become(ALL, 0)
    one.append(batch(0), 1)
    one.fetched_by(2, 1, 10, 3)
    one.fetched_by(3, 1, 10, fetched_with)
    one.append(batch(1), 1)
    for change in changes:
        node.image.apply(change)
    one.become(structs.replace(ALL, isr=(1, 2), partition_epoch=1), 100)
    one.fetched_by(2, 2, 120, 3)
    return one


FENCED = BrokerRegistrationChangeRecord(3, fenced=True, leaving=False)
LEAVING = BrokerRegistrationChangeRecord(3, fenced=False, leaving=True)
BACK = (RegisterBrokerRecord(3, 2), BrokerRegistrationChangeRecord(3, fenced=False, leaving=False))


@pytest.mark.parametrize(
    ("changes", "fetched_with", "waits"),
    [
        ((), 5, True),
        ((), -1, True),  # it said no epoch
        ((FENCED,), 5, False),
        ((LEAVING,), 5, False),
        (BACK, 5, False),  # the process that fetched is gone
        ((FENCED,), -1, False),
    ],
)
def test_the_high_watermark_waits_for_who_may_join(
    changes: tuple[MetadataRecord, ...], fetched_with: int, waits: bool
) -> None:
    one = after_a_member_left("3.6", *changes, fetched_with=fetched_with)
    assert one.high_watermark == (1 if waits else 2)


@pytest.mark.parametrize("era", ["2.0", "2.4", "3.3"])
def test_before_3_6_it_waits_for_each_that_was_in_sync_a_moment_ago(era: str) -> None:
    one = after_a_member_left(era, FENCED)
    one.advance(10 + LAG)
    assert one.high_watermark == 1
    one.advance(11 + LAG)
    assert one.high_watermark == 2


@pytest.mark.parametrize(("era", "high"), [("3.3", 0), ("3.6", 2)])
def test_who_has_not_fetched_from_this_leader_may_not_join(era: str, high: int) -> None:
    """It was in sync when the epoch began: before 3.6 that was enough to be waited for."""
    node = NodeState(1, Settings(era=ERAS[era]))
    for broker in (1, 2, 3):
        registered(node, broker)
    one = Replica(1, node.settings, image=node.image)
    one.become(ALL, 0)
    for base in (0, 1):
        one.append(batch(base), 1)
    one.become(structs.replace(ALL, isr=(1, 2), partition_epoch=1), 100)
    one.fetched_by(2, 2, 120, -1)
    assert one.high_watermark == high


@pytest.mark.parametrize("era", ["2.4", "3.3"])
def test_it_waits_also_for_who_is_behind_it(era: str) -> None:
    """Partition.maybeIncrementLeaderHW asks when a replica was caught up, not where."""
    one = leader(era, 1)
    for follower in (2, 3):
        one.fetched_by(follower, 1, 10)
    one.fetched_by(3, 0, 20)  # it lost its disk
    one.become(structs.replace(ALL, isr=(1, 2), partition_epoch=1), 100)
    one.append(batch(1), 1)
    one.fetched_by(2, 2, 120)
    assert one.high_watermark == 1
    one.advance(11 + LAG)
    assert one.high_watermark == 2


# ---- the next epoch of the same leader


ONE_LEFT = structs.replace(ALL, isr=(1, 2), leader_epoch=1, partition_epoch=1)


@pytest.mark.parametrize("era", ["0.11", "2.4", "3.3", "4.4"])
def test_the_next_epoch_of_the_same_leader_commits_what_its_followers_have(era: str) -> None:
    one = leader(era, 1)
    one.fetched_by(2, 1, 10, 3, 0)
    assert (one.high_watermark, one.remotes[3].end) == (0, UNKNOWN)
    one.become(ONE_LEFT, 100)
    assert one.high_watermark == 1
    two = one.remotes[2]
    assert (two.end, two.start, two.broker_epoch) == (1, 0, 3)
    assert one.remotes[3].end == UNKNOWN


@pytest.mark.parametrize("between", [2, -1])
def test_who_led_before_and_leads_again_knows_nothing(between: int) -> None:
    one = leader("4.4", 1)
    one.fetched_by(2, 1, 10, 3)
    one.become(structs.replace(ONE_LEFT, leader=between), 100)
    one.become(structs.replace(ONE_LEFT, leader_epoch=2, partition_epoch=2), 200)
    assert (one.remotes[2].end, one.remotes[2].broker_epoch) == (UNKNOWN, -1)
    assert one.high_watermark == 0


def test_the_time_to_catch_up_begins_with_the_epoch() -> None:
    one = leader("4.4", 1)
    for follower in (2, 3):
        one.fetched_by(follower, 0, 10)
    one.become(structs.replace(ALL, leader_epoch=1, partition_epoch=1), LAG)
    assert one.shrunk_isr(2 * LAG) is None
    assert one.shrunk_isr(2 * LAG + 1) == (1,)


@pytest.mark.parametrize(("era", "caught_up_ms"), [("2.4", 100), ("3.3", -1)])
def test_who_reaches_the_begin_of_the_epoch_was_caught_up_then_if_in_sync(
    era: str, caught_up_ms: int
) -> None:
    """Outside of the set only up to 3.2 (Replica.resetReplicaState)."""
    one = leader(era, 1)
    one.fetched_by(2, 1, 10)
    one.become(ONE_LEFT, 100)
    one.append(batch(1), 1)
    for follower in (2, 3):
        one.fetched_by(follower, 1, 200)
    assert one.remotes[2].caught_up_ms == 100
    assert one.remotes[3].caught_up_ms == caught_up_ms


# ---- what a follower takes


@pytest.mark.parametrize(
    ("base", "own", "failed"),
    [(0, (), False), (1, (), False), (2, (), False), (0, (2,), True), (3, (), True)],
    ids=["within", "just-below", "aligned", "not-empty", "gap"],
)
def test_an_empty_follower_takes_the_batch_that_the_log_start_lies_in(
    base: int, own: tuple[int, ...], failed: bool
) -> None:
    """DeleteRecords goes by records, and a fetch returns whole batches (KAFKA-6975,
    Partition.appendRecordsToFollowerOrFutureReplica)."""
    one = Replica(2, Settings(era=ERAS["4.4"]))
    one.log.restart(2)
    one.take([batch(each) for each in own], 3, 2)
    many = structs.replace(batch(base), records=("a", "b", "c", "d"))
    one.take([many, batch(base + 4)], base + 5, 2)
    assert one.failed is failed
    if not failed:
        assert [each.base for each in one.log.batches] == [base, base + 4]
        assert (one.log.start, one.log.end, one.high_watermark) == (2, base + 5, base + 5)


@pytest.mark.parametrize("era", ["0.10", "0.11", "2.4", "4.4"])
@pytest.mark.parametrize(("said", "taken"), [(0, 1), (2, 2), (3, 3), (4, 4), (9, 4)])
def test_a_follower_takes_the_high_watermark_that_its_leader_says(era: str, said: int, taken: int) -> None:
    """A new leader may know of less (UnifiedLog.updateHighWatermark)."""
    one = Replica(2, Settings(era=ERAS[era]))
    one.take([batch(base) for base in range(4)], 3, 1)
    assert (one.high_watermark, one.log.start) == (3, 1)
    one.take((), said, 1)
    assert one.high_watermark == taken
