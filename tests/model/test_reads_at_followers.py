"""Fetches at a broker that does not lead: a consumer's waits there as it would at the leader, a follower's is
refused by its epoch first."""

import pytest

from model.errors import KafkaError
from model.protocol.messages import Fetch, FetchedPartition, FetchPartition, FetchResponse
from scenarios.drivers.partition import TP, PartitionStage, without


def stage(*off: str) -> PartitionStage:
    """m0 is on brokers 1 and 2, and broker 2 does not know that it is committed."""
    s = PartitionStage((1, 2, 3), without(*off))
    return s.produce("m0", to=1).rounds(3).fetch(2).answer(2)


def waits(s: PartitionStage, at: int, *, replica: int = -1, epoch: int = -1) -> list[FetchedPartition]:
    """Grows with the answer to a Fetch from the begin on."""
    found: list[FetchedPartition] = []

    def told(answer: FetchResponse | None) -> None:
        assert answer is not None
        found.append(answer.parts[TP])

    s.deliver("", Fetch(replica, {TP: FetchPartition(0, epoch)}, max_wait_ms=60_000), at, told)
    return found


@pytest.mark.parametrize("epoch", [-1, 0])
def test_a_consumer_waits_for_the_high_watermark_of_the_follower(epoch: int) -> None:
    s = stage()
    found = waits(s, 2, epoch=epoch)
    assert not found
    s.fetch(2)
    assert s.replica(TP, 1).high_watermark == 1  # type: ignore[union-attr]
    assert not found
    s.wait(500).answer(2)
    (part,) = found
    assert [record for batch in part.batches for record in batch.records] == ["m0"]
    assert part.high_watermark == 1


def test_one_that_waits_in_an_epoch_that_ends_is_refused_and_one_without_epochs_waits_on() -> None:
    s = stage()
    fenced, patient = waits(s, 2, epoch=0), waits(s, 2)
    s.crash(1).fence(1).tell(2, 3)
    assert [part.error for part in fenced] == [KafkaError.FENCED_LEADER_EPOCH]
    assert not patient
    s.rounds(3)
    assert [part.error for part in patient] == [KafkaError.NONE]


def test_before_2_4_it_is_refused_at_once() -> None:
    (part,) = waits(stage("followers_serve"), 2, epoch=0)
    assert part.error is KafkaError.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, KafkaError.NOT_LEADER_OR_FOLLOWER),
        (0, KafkaError.NOT_LEADER_OR_FOLLOWER),
        (1, KafkaError.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_follower_is_never_answered_by_another_one(epoch: int, error: KafkaError) -> None:
    (part,) = waits(stage(), 2, replica=3, epoch=epoch)
    assert part.error is error


def test_the_epoch_is_looked_at_before_the_leader() -> None:
    s = stage().crash(1).fence(1).tell(2, 3)
    (part,) = waits(s, 3, replica=1, epoch=0)
    assert part.error is KafkaError.FENCED_LEADER_EPOCH
