"""The session on real Kafka: the contract of all sessions, and what only a real cluster shows."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from core.op import AssignmentKind, Isolation, TopicPartition
from core.payload import encode
from core.runtime import run_blocking
from core.session import AssignmentEvent, Indefinite, ProducerEvent, Record, Session, Unknown
from harness.containers.cluster import ContainerCluster
from tests.contract.session_contract_test import (
    NUMBERS,
    PATIENCE_S,
    RUN,
    SessionContract,
    Sessions,
    acked,
    read_to_end,
    send,
    settled,
    take_over,
)
from tests.contract.session_contract_work_test import WorkContract

pytestmark = pytest.mark.sampled(6, whole_file=True)


@pytest.fixture
def sessions(cluster: ContainerCluster) -> Iterator[Sessions]:
    made = Sessions.of_cluster(cluster)
    yield made
    made.close()


class TestKafka(SessionContract, WorkContract):
    """Real brokers."""


def test_each_incarnation_is_told_with_its_epoch(sessions: Sessions, cluster: ContainerCluster) -> None:
    (tp,) = sessions.topic()
    name = f"x{next(NUMBERS)}"
    seen: list[ProducerEvent] = []
    for n in range(2):
        producer = sessions.connect(acks=-1, transactional_id=name)
        until = time.monotonic() + PATIENCE_S
        while len(seen) == n and time.monotonic() < until:
            run_blocking(producer.begin())
            acked(send(producer, tp, n))
            run_blocking(producer.commit())
            seen += [event for event in producer.events() if isinstance(event, ProducerEvent)]
        run_blocking(producer.close())
    assert [event.producer_epoch for event in seen] == [0, 1]
    assert seen[0].producer_id == seen[1].producer_id
    assert [event.epoch_cnt for event in seen] == [1, 1]


def test_records_come_with_the_epoch_of_their_leader(sessions: Sessions, cluster: ContainerCluster) -> None:
    (tp,) = sessions.topic()
    reader = sessions.reader(Isolation.READ_COMMITTED, tp, report_end=True)
    assert [f.leader_epoch for f in read_to_end(reader, tp)] == [
        run_blocking(cluster.roles()).leader_epochs[tp]
    ]


def test_a_record_that_the_broker_refuses_is_unknown_and_its_transaction_wants_an_abort(
    sessions: Sessions, cluster: ContainerCluster
) -> None:
    tp = TopicPartition(f"t{next(NUMBERS)}", 0)
    run_blocking(cluster.create_topic(tp.topic, 1, 3, {"max.message.bytes": "1000"}))
    producer = sessions.connect(acks=-1, transactional_id=f"x{next(NUMBERS)}")
    run_blocking(producer.begin())
    acked(send(producer, tp, 1))
    big = Record(tp, 2, encode(RUN, tp, 2, 5000))
    assert run_blocking(producer.send([big])) == [Unknown("MSG_SIZE_TOO_LARGE")]
    with pytest.raises(Indefinite) as refused:
        run_blocking(producer.commit())
    assert refused.value.wants_abort
    assert producer.fatal is None
    run_blocking(producer.abort())
    # librdkafka 2.16 then refuses the next record of the partition too ("skipped sequence
    # numbers") and purges it; that transaction wants an abort as well, the one after it is whole.
    run_blocking(producer.begin())
    assert send(producer, tp, 3) == [Unknown("_PURGE_QUEUE")]
    with pytest.raises(Indefinite) as skipped:
        run_blocking(producer.commit())
    assert skipped.value.wants_abort
    run_blocking(producer.abort())
    run_blocking(producer.begin())
    (offset,) = acked(send(producer, tp, 4))
    run_blocking(producer.commit())
    assert settled(sessions, Isolation.READ_COMMITTED, tp, offset + 2) == [4]


@pytest.fixture
def paused(cluster: ContainerCluster) -> Iterator[Callable[[], None]]:
    """Call it to freeze all brokers; they are thawed after the test."""
    yield lambda: run_blocking(cluster.pause(cluster.nodes))
    run_blocking(cluster.resume(cluster.nodes))
    until = time.monotonic() + PATIENCE_S
    while not run_blocking(cluster.roles()).agreed:
        assert time.monotonic() < until, "the brokers did not come back"
        time.sleep(0.1)


class Stopwatch:
    """`with Stopwatch(2):` fails where it took longer than 2 s and a bit."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s

    def __enter__(self) -> None:
        self.begin = time.monotonic()

    def __exit__(self, *_: object) -> None:
        assert time.monotonic() - self.begin < self.limit_s + 1


def test_on_frozen_brokers_every_verb_ends_at_its_deadline(
    sessions: Sessions, paused: Callable[[], None]
) -> None:
    (tp,) = sessions.topic()
    spec: dict[str, Any] = {"deadline_s": 1.5}
    plain = sessions.connect(acks=-1, idempotent=True, **spec)
    committing, aborting, opening = (
        sessions.connect(acks=-1, transactional_id=f"x{next(NUMBERS)}", **spec) for _ in range(3)
    )
    member = sessions.connect(isolation=Isolation.READ_COMMITTED, group=f"a{tp.topic}", **spec)
    copier = sessions.connect(
        acks=-1,
        transactional_id=f"x{next(NUMBERS)}",
        isolation=Isolation.READ_COMMITTED,
        group=f"b{tp.topic}",
        **spec,
    )
    reader = sessions.reader(Isolation.READ_COMMITTED, tp, **spec)
    for session in (member, copier):
        run_blocking(session.subscribe([tp.topic]))
        take_over(session, {tp})
    acked(send(plain, tp, 1))
    for session in (committing, aborting, copier):
        run_blocking(session.begin())
        acked(send(session, tp, 2))
    paused()
    with Stopwatch(1.5):
        assert send(plain, tp, 3, 4) == [Unknown("_TIMED_OUT")] * 2
    with Stopwatch(1.5), pytest.raises(Indefinite):
        run_blocking(committing.commit())
    with Stopwatch(1.5), pytest.raises(Indefinite):
        run_blocking(aborting.abort())
    with Stopwatch(1.5), pytest.raises(Indefinite):
        run_blocking(opening.begin())
    with Stopwatch(1.5), pytest.raises(Indefinite):
        run_blocking(member.commit_offsets({tp: 1}))
    with Stopwatch(1.5), pytest.raises(Indefinite):
        run_blocking(copier.send_offsets({tp: 1}))
    with Stopwatch(0.3):
        run_blocking(reader.seek({tp: 0}))
        run_blocking(reader.poll(10, 300))
        run_blocking(reader.position())
        run_blocking(reader.assign({tp: 0}))
    for session in (plain, committing, aborting, opening, member, copier, reader):
        with Stopwatch(1.5):
            run_blocking(session.close())


def test_a_member_that_does_not_poll_loses_its_partitions_and_is_over(
    sessions: Sessions, cluster: ContainerCluster
) -> None:
    (tp,) = sessions.topic()
    spec: dict[str, Any] = {"isolation": Isolation.READ_COMMITTED, "group": f"g{tp.topic}"}
    lazy = sessions.connect(**spec, settings={"consumer.max.poll.interval.ms": "6000"})
    run_blocking(lazy.subscribe([tp.topic]))
    take_over(lazy, {tp})
    eager = sessions.connect(**spec)
    run_blocking(eager.subscribe([tp.topic]))
    take_over(eager, {tp})
    for _ in range(2):
        with pytest.raises(Indefinite, match="_MAX_POLL_EXCEEDED"):
            poll_until_refused(lazy)
    events = [event for event in lazy.events() if isinstance(event, AssignmentEvent)]
    assert [event.tps for event in events] == [(tp,)]
    assert events[0].kind in (AssignmentKind.REVOKED, AssignmentKind.LOST)


def poll_until_refused(session: Session) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        run_blocking(session.poll(1, 100))


def test_a_transaction_that_outlived_its_time_out_is_fatal_and_aborted(
    sessions: Sessions, cluster: ContainerCluster
) -> None:
    (tp,) = sessions.topic()
    producer = sessions.connect(acks=-1, transactional_id=f"x{next(NUMBERS)}", transaction_timeout_s=2.0)
    run_blocking(producer.begin())
    acked(send(producer, tp, 1))
    assert settled(sessions, Isolation.READ_COMMITTED, tp, 3) == []
    with pytest.raises(Indefinite):
        run_blocking(producer.commit())
    assert producer.fatal is not None
