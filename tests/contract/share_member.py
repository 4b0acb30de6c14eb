"""librdkafka's member of a share group, on brokers of any kind."""

from typing import Any

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
from tests.waiting import until


def fill(cluster: Any, tp: TopicPartition, count: int, wide: int = 0, **settings: Any) -> None:
    """Make a topic with so many records, `0` to `count - 1`. cluster: a `core.cluster.ServedCluster`. wide:
    zeros before each number fill so many characters. settings: of the producer."""
    run_blocking(cluster.create_topic(tp.topic, 1, 3, {}))
    servers = cluster.endpoint().args["bootstrap.servers"]
    producer = Producer({"bootstrap.servers": servers, "acks": "all", **settings})
    for number in range(count):
        producer.produce(tp.topic, f"{number:0{wide}}", partition=tp.partition)
    assert producer.flush(30) == 0


def member_of(cluster: Any, group: str) -> KafkaSession:
    spec = SessionSpec(slot=0, process=0, isolation=Isolation.READ_COMMITTED, group=group, share=True)
    return KafkaSession(cluster.endpoint().args, spec)


def acquired(member: KafkaSession, count: int) -> list[AcquiredRecord]:
    """So many records, in the order of their offsets."""
    found: list[AcquiredRecord] = []

    def all_there() -> bool:
        found.extend(run_blocking(member.acquire(500)).records)
        return len(found) >= count

    until(all_there, f"{count} records are delivered", 60)
    return sorted(found, key=lambda one: one.offset)


def released_records_come_again(cluster: Any, group: str, tp: TopicPartition, count: int) -> None:
    """A group delivers released records again, and says where it stands."""
    fill(cluster, tp, count)
    member = member_of(cluster, group)
    try:
        run_blocking(member.subscribe([tp.topic]))
        first = acquired(member, count)
        assert [(one.tp, one.offset, one.count) for one in first] == [(tp, n, 1) for n in range(count)]
        assert [one.payload for one in first] == [f"{n}".encode() for n in range(count)]
        accepted = [(n, Acknowledgement.ACCEPT) for n in range(count // 2)]
        released = [(n, Acknowledgement.RELEASE) for n in range(count // 2, count)]
        answers = run_blocking(member.acknowledge({tp: [*accepted, *released]}))
        assert answers == {tp: (Outcome.OK, "")}
        again = acquired(member, count // 2)
        assert [(one.offset, one.count) for one in again] == [(n, 2) for n in range(count // 2, count)]
        ended = [(n, Acknowledgement.REJECT) for n in range(count // 2, count)]
        assert run_blocking(member.acknowledge({tp: ended})) == {tp: (Outcome.OK, "")}
    finally:
        run_blocking(member.close())

    def stands() -> int:
        found: int = run_blocking(cluster.share_offsets([group], [tp])).get((group, tp), -1)
        return found

    until(lambda: stands() >= count // 2, "the start offset is past what was accepted", 30)
    assert stands() <= count


def a_rejected_record_has_a_letter(cluster: Any, group: str, tp: TopicPartition, queue: str) -> None:
    """The dead-letter queue has it with its copy."""
    run_blocking(cluster.create_topic(queue, 1, 3, {dead_letters.ENABLED: "true"}))
    assert run_blocking(cluster.dead_letters(queue)) == []
    with pytest.raises(ClusterError, match=r"dead letters in dlq\.shared-none could not be read"):
        run_blocking(cluster.dead_letters("dlq.shared-none"))
    settings = {"share.auto.offset.reset": "earliest", dead_letters.TOPIC: queue, dead_letters.COPIED: "true"}
    run_blocking(cluster.configure_groups({group: settings}))
    fill(cluster, tp, 3)
    member = member_of(cluster, group)
    try:
        run_blocking(member.subscribe([tp.topic]))
        assert [one.offset for one in acquired(member, 3)] == [0, 1, 2]
        said = [(0, Acknowledgement.ACCEPT), (1, Acknowledgement.REJECT), (2, Acknowledgement.ACCEPT)]
        assert run_blocking(member.acknowledge({tp: said})) == {tp: (Outcome.OK, "")}
        until(lambda: run_blocking(cluster.dead_letters(queue)), "the letter is written", 60)
    finally:
        run_blocking(member.close())
    (letter,) = run_blocking(cluster.dead_letters(queue))
    assert letter._replace(ms=0) == DeadLetter(group, tp, 1, 1, b"1", (TopicPartition(queue, 0), 0), ms=0)
