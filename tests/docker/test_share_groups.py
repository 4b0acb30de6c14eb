"""A share group of a real cluster: its settings, where it stands, and a session that is its member."""

import pytest
from confluent_kafka import Producer

from core import dead_letters
from core.capabilities import DeadLetter
from core.client_settings import SessionSpec
from core.errors import ClusterError
from core.op import Acknowledgement, Isolation, Outcome, TopicPartition
from core.runtime import run_blocking
from core.session import AcquiredRecord
from harness.clients.librdkafka.session import KafkaSession
from harness.containers.cluster import ContainerCluster
from tests.waiting import until

pytestmark = pytest.mark.sampled(6, whole_file=True)

TOPIC, GROUP = "shared-out", "share-docker"
TP = TopicPartition(TOPIC, 0)
COUNT = 30


def acquired(member: KafkaSession, count: int) -> list[AcquiredRecord]:
    """So many records, in the order of their offsets."""
    found: list[AcquiredRecord] = []

    def all_there() -> bool:
        found.extend(run_blocking(member.acquire(500)).records)
        return len(found) >= count

    until(all_there, f"{count} records are delivered", 60)
    return sorted(found, key=lambda one: one.offset)


def test_a_group_delivers_released_records_again_and_says_where_it_stands(cluster: ContainerCluster) -> None:
    run_blocking(cluster.create_topic(TOPIC, 1, 3, {}))
    run_blocking(cluster.configure_groups({GROUP: {"share.auto.offset.reset": "earliest"}}))
    args = cluster.endpoint().args
    producer = Producer({"bootstrap.servers": args["bootstrap.servers"], "acks": "all"})
    for number in range(COUNT):
        producer.produce(TOPIC, f"{number}", partition=0)
    assert producer.flush(30) == 0
    spec = SessionSpec(slot=0, process=0, isolation=Isolation.READ_COMMITTED, group=GROUP, share=True)
    member = KafkaSession(args, spec)
    try:
        run_blocking(member.subscribe([TOPIC]))
        first = acquired(member, COUNT)
        assert [(one.tp, one.offset, one.count) for one in first] == [(TP, n, 1) for n in range(COUNT)]
        accepted = [(n, Acknowledgement.ACCEPT) for n in range(COUNT // 2)]
        released = [(n, Acknowledgement.RELEASE) for n in range(COUNT // 2, COUNT)]
        answers = run_blocking(member.acknowledge({TP: [*accepted, *released]}))
        assert answers == {TP: (Outcome.OK, "")}
        again = acquired(member, COUNT // 2)
        assert [(one.offset, one.count) for one in again] == [(n, 2) for n in range(COUNT // 2, COUNT)]
        ended = [(n, Acknowledgement.REJECT) for n in range(COUNT // 2, COUNT)]
        assert run_blocking(member.acknowledge({TP: ended})) == {TP: (Outcome.OK, "")}
    finally:
        run_blocking(member.close())

    def stands() -> int:
        return run_blocking(cluster.share_offsets([GROUP], [TP])).get((GROUP, TP), -1)

    until(lambda: stands() >= COUNT // 2, "the start offset is past what was accepted", 30)
    assert stands() <= COUNT


def test_a_rejected_record_is_in_the_dead_letter_queue_with_its_copy(cluster: ContainerCluster) -> None:
    topic, group, queue = "shared-dead", "share-dead", "dlq.shared-dead"
    tp = TopicPartition(topic, 0)
    run_blocking(cluster.create_topic(topic, 1, 3, {}))
    run_blocking(cluster.create_topic(queue, 1, 3, {dead_letters.ENABLED: "true"}))
    assert run_blocking(cluster.dead_letters(queue)) == []
    with pytest.raises(ClusterError, match=r"dead letters in dlq\.shared-none could not be read"):
        run_blocking(cluster.dead_letters("dlq.shared-none"))
    settings = {"share.auto.offset.reset": "earliest", dead_letters.TOPIC: queue, dead_letters.COPIED: "true"}
    run_blocking(cluster.configure_groups({group: settings}))
    args = cluster.endpoint().args
    producer = Producer({"bootstrap.servers": args["bootstrap.servers"], "acks": "all"})
    for number in range(3):
        producer.produce(topic, f"{number}", partition=0)
    assert producer.flush(30) == 0
    spec = SessionSpec(slot=0, process=0, isolation=Isolation.READ_COMMITTED, group=group, share=True)
    member = KafkaSession(args, spec)
    try:
        run_blocking(member.subscribe([topic]))
        assert [one.offset for one in acquired(member, 3)] == [0, 1, 2]
        said = [(0, Acknowledgement.ACCEPT), (1, Acknowledgement.REJECT), (2, Acknowledgement.ACCEPT)]
        assert run_blocking(member.acknowledge({tp: said})) == {tp: (Outcome.OK, "")}
        until(lambda: run_blocking(cluster.dead_letters(queue)), "the letter is written", 60)
    finally:
        run_blocking(member.close())
    (letter,) = run_blocking(cluster.dead_letters(queue))
    assert letter._replace(ms=0) == DeadLetter(group, tp, 1, 1, b"1", (TopicPartition(queue, 0), 0), ms=0)
