"""DeleteRecords on whole clusters: who deletes, when it is answered, what is refused (KIP-107)."""

from typing import Any

import msgspec
import pytest

from core.internal_topics import GROUP_TOPIC
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.protocol.messages import DeleteRecords, Fetch, FetchPartition, ListOffsets, Partition, Produce
from model.replication.replica import Replica
from model.settings import Settings
from scenarios.drivers.cluster import ClusterStage, data

TP = data(0)
LEADER = 1
TIMEOUT_MS = 2000
RECORDS = 6


def replicated() -> ClusterStage:
    """Three replicas; all have six records, each in a batch."""
    s = ClusterStage(Settings(), ((1, 2, 3),), (3, 2, 1))
    for number in range(RECORDS):
        batch = RecordBatch(-1, -1, (f"r{number}",))
        s.deliver("", Produce(1, {TP: batch}), LEADER, lambda _: None)
    return s.until(lambda: all(replica(s, n).high_watermark == RECORDS for n in (1, 2, 3)))


def replica(s: ClusterStage, node: int) -> Replica:
    found = s.replica(TP, node)
    assert found is not None
    return found


def delete(s: ClusterStage, offset: int) -> list[Any]:
    """Answers to come."""
    answers: list[Any] = []
    request = DeleteRecords({TP: offset}, TIMEOUT_MS)
    s.deliver("", request, LEADER, lambda answer: answers.append(answer and answer.parts[TP]))
    return answers


def test_it_is_answered_when_all_replicas_have_deleted() -> None:
    s = replicated()
    answers = delete(s, 4)
    assert answers == []
    assert [replica(s, n).log.start for n in (1, 2, 3)] == [4, 0, 0]
    s.until(lambda: bool(answers), TIMEOUT_MS)
    assert answers == [(KafkaError.NONE, 4)]
    for n in (1, 2, 3):
        log = replica(s, n).log
        assert (log.start, log.end, [batch.base for batch in log.batches]) == (4, 6, [4, 5])


def test_readers_begin_where_it_ended() -> None:
    s = replicated()
    delete(s, 4)
    assert s.ask(ListOffsets((TP,), earliest=True), to=LEADER).parts[TP] == (KafkaError.NONE, 4)
    found = s.ask(Fetch(-1, {TP: FetchPartition(3)}, max_wait_ms=0), to=LEADER).parts[TP]
    assert (found.error, found.start) == (KafkaError.OFFSET_OUT_OF_RANGE, 4)
    assert s.read(0, committed=False, begin=4) == ["r4", "r5"]


def test_minus_one_stands_for_the_high_watermark() -> None:
    s = replicated()
    answers = delete(s, -1)
    s.until(lambda: bool(answers), TIMEOUT_MS)
    assert answers == [(KafkaError.NONE, RECORDS)]


def test_a_follower_that_stands_still_lets_it_time_out_until_it_is_fenced() -> None:
    s = replicated().pause(3)
    late = delete(s, 2)
    s.until(lambda: bool(late), TIMEOUT_MS + 200)
    assert late == [(KafkaError.REQUEST_TIMED_OUT, 0)]
    s.until(lambda: 3 not in s.controller.node.image.alive())
    without = delete(s, 4)
    s.until(lambda: bool(without), TIMEOUT_MS)
    assert without == [(KafkaError.NONE, 4)]
    s.resume(3).until(lambda: replica(s, 3).log.start == 4)


def test_a_leader_whose_followers_are_all_down_deletes_alone() -> None:
    s = replicated().crash(2, 3)
    s.until(lambda: s.controller.node.image.alive().isdisjoint({2, 3}))
    answers = delete(s, 4)
    s.until(lambda: bool(answers), TIMEOUT_MS)
    assert answers == [(KafkaError.NONE, 4)]


def test_a_follower_that_lacks_what_was_deleted_begins_with_the_leader() -> None:
    s = replicated().crash(3)
    s.until(lambda: 3 not in s.controller.node.image.alive())
    s.deliver("", Produce(1, {TP: RecordBatch(-1, -1, ("r6", "r7"))}), LEADER, lambda _: None)
    s.until(lambda: replica(s, LEADER).high_watermark == RECORDS + 2)
    answers = delete(s, -1)
    s.until(lambda: bool(answers), TIMEOUT_MS).restart(3)
    s.until(lambda: replica(s, 3).log.start == RECORDS + 2)
    assert replica(s, 3).log.batches == []
    assert replica(s, 3).high_watermark == RECORDS + 2


def test_a_broker_that_starts_again_has_no_high_watermark_below_its_log_start() -> None:
    s = replicated()
    answers = delete(s, 4)
    s.until(lambda: bool(answers), TIMEOUT_MS).crash(LEADER)
    s._durable[LEADER].checkpoint.clear()
    s.start(LEADER)
    assert (replica(s, LEADER).log.start, replica(s, LEADER).high_watermark) == (4, 4)


def test_the_leadership_ends_meanwhile() -> None:
    s = replicated().hold(Fetch, of=2, times=9).hold(Fetch, of=3, times=9)
    answers = delete(s, 4)
    state = s.controller.node.image.partitions[TP]
    assert state.leader == LEADER
    broker = s.nodes[LEADER]
    one = replica(s, LEADER)
    one.become(msgspec.structs.replace(state, leader=2, leader_epoch=9, partition_epoch=99), s.now)
    broker.tick(s.now)
    s.flow()
    assert answers == [(KafkaError.NOT_LEADER_OR_FOLLOWER, -1)]


@pytest.mark.parametrize(
    ("tp", "offset", "to", "error"),
    [
        (TP, RECORDS + 1, LEADER, KafkaError.OFFSET_OUT_OF_RANGE),
        (TP, -2, LEADER, KafkaError.OFFSET_OUT_OF_RANGE),
        (TP, 2, 2, KafkaError.NOT_LEADER_OR_FOLLOWER),
        (("none", 0), 0, LEADER, KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
        ((GROUP_TOPIC, 0), 0, LEADER, KafkaError.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_is_refused(tp: Partition, offset: int, to: int, error: KafkaError) -> None:
    s = replicated()
    assert s.ask(DeleteRecords({tp: offset}), to=to).parts == {tp: (error, -1)}
    assert replica(s, LEADER).log.start == 0
