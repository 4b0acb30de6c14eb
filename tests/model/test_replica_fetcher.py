"""The rounds of a fetcher, and what an error delays."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from model.eras import ERAS
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.messages import (
    Fetch,
    FetchedPartition,
    FetchResponse,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochResponse,
    Partition,
    PartitionState,
)
from model.replication.node import Ask, NodeState, ignore
from model.replication.replica import Replica
from model.replication.replica_fetcher_manager import ReplicaFetcherManager
from model.settings import Settings

P0, P1 = ("p", 0), ("p", 1)
NOT_YET = KafkaError.UNKNOWN_LEADER_EPOCH
"""The follower knows of a leader before that leader does."""


class Asked(NamedTuple):
    """The kind of a request, and its partitions."""

    kind: type
    tps: list[Partition]


class Follower:
    """Broker 1 follows partitions that broker 2 leads, with a backoff of a second.

    Each step returns what it asks for then: nothing, or one request, which is `under_way` until `answered`.
    """

    def __init__(self, *tps: Partition, era: str = "4.3") -> None:
        self.node = NodeState(1, Settings(era=ERAS[era], fetch_backoff_ms=1000))
        self.manager = ReplicaFetcherManager(self.node, ignore)
        for tp in tps:
            self.node.replicas[tp] = Replica(1, self.node.settings)
            self.follows(tp, 0)

    def follows(self, tp: Partition, epoch: int, leader: int = 2) -> None:
        """A leader epoch begins."""
        state = PartitionState((1, 2, 3), (1, 2, 3), leader, epoch, epoch)
        self.node.replicas[tp].become(state, self.node.now)

    def has(self, tp: Partition, *epochs: int) -> None:
        """Its log has a record of each of these epochs, and the next one begins."""
        log = self.node.replicas[tp].log
        for epoch in epochs:
            log.copy(RecordBatch(log.end, epoch, ("m",)))
        self.follows(tp, epochs[-1] + 1)

    def at(self, now: int) -> list[Asked]:
        """A tick."""
        self.node.now = now
        self.manager.pump()
        return self._asked()

    def answered(self, errors: Mapping[Partition, KafkaError] | None = None) -> list[Asked]:
        """The fetch is answered: with these errors, else with nothing new."""
        ask = self.under_way
        assert isinstance(ask.request, Fetch)
        errors = errors or {}
        parts = {tp: FetchedPartition(errors.get(tp, KafkaError.NONE)) for tp in ask.request.parts}
        ask.then(FetchResponse(parts))
        return self._asked()

    def told(self, **ends: tuple[KafkaError, int, int]) -> list[Asked]:
        """The leader answers where epochs end, by topic and number of the partition."""
        ask = self.under_way
        assert isinstance(ask.request, OffsetForLeaderEpoch)
        ask.then(OffsetForLeaderEpochResponse({tp: ends[f"{tp[0]}{tp[1]}"] for tp in ask.request.parts}))
        return self._asked()

    def unanswered(self) -> list[Asked]:
        """No answer came."""
        self.under_way.then(None)
        return self._asked()

    def _asked(self) -> list[Asked]:
        asks = [one for one in self.node.out if isinstance(one, Ask)]
        self.node.out.clear()
        if asks:
            self.under_way = asks[-1]
        return [
            Asked(type(one.request), list(one.request.parts))
            for one in asks
            if isinstance(one.request, Fetch | OffsetForLeaderEpoch)
        ]


def fetch(*tps: Partition) -> list[Asked]:
    return [Asked(Fetch, list(tps))]


def epochs(*tps: Partition) -> list[Asked]:
    return [Asked(OffsetForLeaderEpoch, list(tps))]


def test_an_error_delays_its_own_partition_only() -> None:
    f = Follower(P0, P1)
    assert f.at(0) == fetch(P0, P1)
    assert f.answered({P0: NOT_YET}) == fetch(P1)
    assert f.at(999) == []
    assert f.answered() == fetch(P1)
    assert f.at(1000) == []  # after the fetch that is under way
    assert f.answered() == fetch(P0, P1)


def test_a_delayed_partition_is_not_kept_in_sync_by_fetches_of_others() -> None:
    """A leader knows of a partition what its own fetch says; that of another one says nothing."""
    f = Follower(P0, P1)
    f.at(0)
    assert f.answered({P0: NOT_YET}) == fetch(P1)
    leader = Replica(2, f.node.settings)
    leader.become(f.node.replicas[P0].state, 0)
    leader.append(RecordBatch(0, 0, ("m",)), 1)
    request = f.under_way.request
    assert isinstance(request, Fetch)
    assert P0 not in request.parts
    assert leader.shrunk_isr(f.node.settings.replica_lag_ms + 1) == (2,)


def test_where_all_partitions_are_delayed_the_fetcher_waits() -> None:
    f = Follower(P0)
    f.at(0)
    assert f.answered({P0: NOT_YET}) == []
    assert f.at(999) == []
    assert f.at(1000) == fetch(P0)


def test_a_fetch_without_an_answer_delays_all_partitions_of_its_leader() -> None:
    f = Follower(P0, P1)
    f.at(0)
    f.follows(("p", 1), 1)  # also one that changed while the fetch was under way
    assert f.unanswered() == []
    assert f.at(999) == []
    assert f.at(1000) == fetch(P0, P1)


def test_another_error_does_not_prolong_a_delay() -> None:
    f = Follower(P0, P1)
    f.at(0)
    f.answered({P0: NOT_YET})
    f.node.now = 600
    assert f.unanswered() == []
    assert f.at(1000) == fetch(P0)
    assert f.answered() == fetch(P0)
    f.node.now = 1600
    assert f.answered() == fetch(P0, P1)


def test_fetchers_of_other_leaders_go_on() -> None:
    f = Follower(P0, P1)
    f.follows(P1, 1, leader=3)
    assert f.at(0) == [*fetch(P0), *fetch(P1)]
    f.unanswered()
    assert f.manager.under_way == {2}


@pytest.mark.parametrize("leader", [2, 3])
def test_a_new_leader_epoch_ends_the_delay(leader: int) -> None:
    f = Follower(P0)
    f.at(0)
    assert f.answered({P0: NOT_YET}) == []
    f.follows(P0, 1, leader)
    assert f.at(100) == fetch(P0)


def test_before_fetches_were_fenced_a_follower_of_the_same_leader_goes_on_waiting() -> None:
    """Partition.makeFollower: the fetcher is not told of the next epoch of a leader that it has."""
    f = Follower(P0, era="2.0")
    f.at(0)
    assert f.answered({P0: KafkaError.NOT_LEADER_OR_FOLLOWER}) == []
    f.follows(P0, 1)
    assert f.at(100) == []
    f.follows(P0, 2, leader=3)
    assert f.at(200) == fetch(P0)


def test_a_follower_of_an_older_epoch_waits_for_the_next_one() -> None:
    """It has nothing to ask before it knows of the epoch (AbstractFetcherThread.onPartitionFenced)."""
    f = Follower(P0, P1)
    f.at(0)
    assert f.answered({P0: KafkaError.FENCED_LEADER_EPOCH}) == fetch(P1)
    f.node.now = 60_000
    assert f.answered() == fetch(P1)
    f.follows(P0, 1)
    assert f.answered() == fetch(P0, P1)


def test_a_truncating_partition_does_not_block_the_others_of_its_leader() -> None:
    f = Follower(P0, P1)
    f.has(P0, 0)
    assert f.at(0) == epochs(P0)
    assert f.told(p0=(NOT_YET, -1, -1)) == fetch(P1)
    assert f.answered() == fetch(P1)
    f.node.now = 1000
    assert f.answered() == epochs(P0)
    assert f.told(p0=(KafkaError.NONE, 0, 1)) == fetch(P0, P1)


def test_who_has_to_ask_again_does_so_after_a_fetch_of_the_others() -> None:
    """KIP-279: the leader's answer names an epoch that this log has not."""
    f = Follower(P0, P1)
    f.has(P0, 0, 2)
    assert f.at(0) == epochs(P0)
    assert f.told(p0=(KafkaError.NONE, 1, 1)) == fetch(P1)
    assert f.answered() == epochs(P0)


def test_who_is_alone_asks_again_at_once() -> None:
    f = Follower(P0)
    f.has(P0, 0, 2)
    assert f.at(0) == epochs(P0)
    assert f.told(p0=(KafkaError.NONE, 1, 1)) == epochs(P0)
    assert f.told(p0=(KafkaError.NONE, 0, 1)) == fetch(P0)


def test_no_answer_where_an_epoch_ends_delays_the_partitions_that_asked() -> None:
    f = Follower(P0, P1)
    f.has(P0, 0)
    assert f.at(0) == epochs(P0)
    assert f.unanswered() == fetch(P1)
    assert f.at(999) == []
    f.node.now = 1000
    assert f.answered() == epochs(P0)


def test_where_an_epoch_ends_is_not_learnt_from_an_earlier_epoch_of_the_leader() -> None:
    f = Follower(P0)
    f.has(P0, 0, 0)
    log = f.node.replicas[P0].log
    assert f.at(0) == epochs(P0)
    f.follows(P0, 3)  # the leader changes twice while the answer is under way
    assert f.told(p0=(KafkaError.NONE, 0, 1)) == epochs(P0)
    assert log.end == 2
    assert f.told(p0=(KafkaError.NONE, 0, 1)) == fetch(P0)
    assert log.end == 1


def test_a_spent_rate_delays_what_is_not_known_to_be_in_sync() -> None:
    f = Follower(P0, P1)
    f.manager.quota.limit([P0], 1)
    f.manager.quota.record(P0, [RecordBatch(0, 0, ("m",))], 0)
    assert f.at(0) == fetch(P1), "P0 has not fetched from this leader yet"
    f.manager.quota.limit([], 1)
    assert f.answered() == fetch(P0, P1)
    assert f.answered() == fetch(P0, P1)
    f.manager.quota.limit([P0], 1)
    assert f.answered() == fetch(P0, P1), "it is in sync"
    f.follows(P0, 1)
    assert f.answered() == fetch(P1)


# ---- an offset that the leader has not


@pytest.mark.parametrize(
    ("start", "end", "begins", "ends"),
    [
        (0, 1, 0, 1),  # the leader has less: what it lacks is cut off, and no more
        (0, 2, 0, 2),
        (0, 3, 0, 3),  # it has everything by now
        (0, 9, 0, 3),
        (3, 9, 0, 3),
        (4, 9, 4, 4),  # it has deleted what comes next
    ],
)
def test_out_of_range_a_follower_cuts_to_the_end_of_its_leader(
    start: int, end: int, begins: int, ends: int
) -> None:
    """AbstractFetcherThread.fetchOffsetAndTruncate: the leader's end, not its high watermark."""
    f = Follower(P0)
    replica = f.node.replicas[P0]
    replica.take([RecordBatch(base, 0, ("m",)) for base in range(3)], 2)
    f.at(0)
    found = FetchedPartition(KafkaError.OFFSET_OUT_OF_RANGE, (), 0, -1, start, (), end)
    f.under_way.then(FetchResponse({P0: found}))
    assert f._asked() == fetch(P0)
    assert (replica.log.start, replica.log.end) == (begins, ends)
    assert replica.high_watermark == min(max(2, begins), ends)
