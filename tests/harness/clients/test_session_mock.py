"""The session on librdkafka's in-process mock cluster, and on addresses where nobody answers."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from core.client_settings import SessionSpec, properties_of_consumer, properties_of_producer
from core.cluster import CLUSTER_ID
from core.errors import ConfigError, WrongCluster
from core.op import AssignmentKind, Isolation, TopicPartition, value_of
from core.payload import encode
from core.presets import PRESETS
from core.runtime import run_blocking
from core.session import (
    Acked,
    AssignmentEvent,
    ClientError,
    CommittedSeen,
    Definite,
    EndReached,
    Failed,
    Fetched,
    Indefinite,
    ProducerEvent,
    Record,
    Session,
    Unknown,
)
from harness.clients.librdkafka.client_part import ClientEvents, Expired, bounded
from harness.clients.librdkafka.consumer import generation_of
from harness.clients.librdkafka.producer import SessionProducer, _Reports
from harness.clients.librdkafka.session import KafkaSession, connect
from harness.clients.librdkafka.settings import LIBRDKAFKA
from tests.histories.built import Assign, Built, Op, Process, Read, Send, final_reads
from tests.histories.folders import check_run, write_run

PATIENCE_S = 60.0
LATE_S = 20.0
"""What a busy machine may add to a deadline; far below librdkafka's own time-outs."""
Connect = Callable[..., Session]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """Addresses of a mock cluster of three brokers that lives as long as the module."""
    mock = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 3, "log_level": 0})
    brokers = mock.list_topics(timeout=PATIENCE_S).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    del mock


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def opened() -> Iterator[Connect]:
    """`opened(bootstrap, **spec)` opens a session that is closed after the test."""
    sessions: list[Session] = []

    def connect_(bootstrap: str, **spec: Any) -> Session:
        defaults: dict[str, Any] = {"slot": 0, "process": 7, "deadline_s": PATIENCE_S}
        args = {"bootstrap.servers": bootstrap, CLUSTER_ID: spec.pop("cluster", "")}
        session = connect(args, SessionSpec(**{**defaults, **spec}))
        sessions.append(session)
        return session

    yield connect_
    for session in sessions:
        run_blocking(session.close())


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own (the mock cluster creates it with 4 partitions)."""
    name: str = request.node.name
    return name[:200].replace("[", "-").replace("]", "")


def records(topic: str, count: int, size: int = 100) -> list[Record]:
    tps = [TopicPartition(topic, n % 4) for n in range(count)]
    return [Record(tp, n, encode("run", tp, n, size)) for n, tp in enumerate(tps)]


def read(session: Session, enough: int) -> list[Fetched]:
    """Poll until so many records came."""
    until = time.monotonic() + PATIENCE_S
    fetched: list[Fetched] = []
    while len(fetched) < enough and time.monotonic() < until:
        fetched += run_blocking(session.poll(500, 100))
    assert len(fetched) >= enough
    return fetched


def watch(session: Session, serve: Callable[[], object], kind: type[Any]) -> Any:
    """The first event of a kind, serving the session until it comes."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        serve()
        found = [event for event in session.events() if isinstance(event, kind)]
        if found:
            return found[0]
    raise AssertionError(f"no {kind.__name__} in {PATIENCE_S} s")


# sending


def test_records_are_acknowledged_in_order_with_their_offsets(
    bootstrap: str, opened: Connect, topic: str
) -> None:
    session = opened(bootstrap, acks=-1, idempotent=True)
    before = time.monotonic_ns()
    deliveries = run_blocking(session.send(records(topic, 40)))
    assert [d.offset for d in deliveries if isinstance(d, Acked)] == [n // 4 for n in range(40)]
    assert all(isinstance(d, Acked) and before < d.ns < time.monotonic_ns() for d in deliveries)


def test_without_acks_an_acknowledgement_has_no_offset(bootstrap: str, opened: Connect, topic: str) -> None:
    (delivery,) = run_blocking(opened(bootstrap, acks=0).send(records(topic, 1)))
    assert isinstance(delivery, Acked)
    assert delivery.offset == -1


def test_a_record_that_librdkafka_refuses_failed_and_its_neighbours_did_not(
    bootstrap: str, opened: Connect, topic: str
) -> None:
    session = opened(bootstrap, acks=-1, settings={"producer.message.max.bytes": "1000"})
    small, big, other = *records(topic, 1), *records(topic, 1, size=2000), *records(topic, 1)
    deliveries = run_blocking(session.send([small, big, other]))
    assert deliveries[1] == Failed("MSG_SIZE_TOO_LARGE")
    assert isinstance(deliveries[0], Acked)
    assert isinstance(deliveries[2], Acked)


def test_what_a_full_queue_refuses_failed(nobody: str, opened: Connect, topic: str) -> None:
    settings = {"producer.queue.buffering.max.messages": "2"}
    session = opened(nobody, acks=-1, deadline_s=0.3, settings=settings)
    deliveries = run_blocking(session.send(records(topic, 3)))
    assert deliveries == [Unknown("_TIMED_OUT"), Unknown("_TIMED_OUT"), Failed("_QUEUE_FULL")]


def test_outside_of_a_transaction_a_transactional_producer_sends_nothing(
    bootstrap: str, opened: Connect, topic: str
) -> None:
    session = opened(bootstrap, acks=-1, transactional_id="outside")
    assert run_blocking(session.send(records(topic, 1))) == [Failed("_STATE")]


def test_records_that_nobody_answers_are_unknown_at_the_deadline(
    nobody: str, opened: Connect, topic: str
) -> None:
    session = opened(nobody, acks=-1, deadline_s=0.5)
    begin = time.monotonic()
    assert run_blocking(session.send(records(topic, 5))) == [Unknown("_TIMED_OUT")] * 5
    assert 0.5 <= time.monotonic() - begin < LATE_S


def test_a_late_report_reaches_no_later_send(nobody: str, opened: Connect, topic: str) -> None:
    settings = {"producer.message.timeout.ms": "1000"}
    session = opened(nobody, acks=-1, deadline_s=0.2, settings=settings)
    assert run_blocking(session.send(records(topic, 3))) == [Unknown("_TIMED_OUT")] * 3
    # The reports of the first send come during one of these.
    until = time.monotonic() + 3
    while time.monotonic() < until:
        (delivery,) = run_blocking(session.send(records(topic, 1)))
        assert delivery == Unknown("_TIMED_OUT")


@pytest.mark.sampled(5)
def test_the_identity_of_the_producer_is_told_once(bootstrap: str, opened: Connect, topic: str) -> None:
    session = opened(bootstrap, acks=-1, idempotent=True)
    event = watch(session, lambda: run_blocking(session.send(records(topic, 1))), ProducerEvent)
    assert event.producer_id >= 0
    assert event.producer_epoch == 0
    assert event.epoch_cnt == 1
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        run_blocking(session.send(records(topic, 1)))
    assert not any(isinstance(event, ProducerEvent) for event in session.events())


# reports and fatal errors


class Broken(Message):
    """A report's message that raises, as all calls do while a fatal error is being raised."""

    def offset(self) -> int:
        fatal = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
        raise SystemError("returned a result with an exception set") from fatal


def test_a_report_that_breaks_makes_its_record_unknown_and_raises_nothing() -> None:
    died: list[BaseException] = []
    reports = _Reports(2, died.append)
    reports.take(1, None, Broken())
    assert reports.results == [None, Unknown("_FATAL")]
    assert reports.missing == 1
    assert isinstance(died[0], SystemError)


def test_a_fatal_error_met_in_a_report_is_the_session_s(nobody: str) -> None:
    spec = SessionSpec(slot=0, process=1, acks=-1)
    producer = SessionProducer(properties_of_producer(spec, LIBRDKAFKA), ClientEvents())
    try:
        Broken().offset()
    except SystemError as error:
        producer._note(error)
    assert producer.fatal == "_FENCED"
    producer.close()


# transactions


def test_a_transaction_commits_and_another_aborts(bootstrap: str, opened: Connect, topic: str) -> None:
    session = opened(bootstrap, acks=-1, transactional_id=topic)
    for end in (session.commit, session.abort, session.commit):
        run_blocking(session.begin())
        assert all(isinstance(d, Acked) for d in run_blocking(session.send(records(topic, 4))))
        run_blocking(end())
    assert session.fatal is None


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_end_without_a_transaction_proves_nothing(
    bootstrap: str, opened: Connect, topic: str, end: str
) -> None:
    session = opened(bootstrap, acks=-1, transactional_id=topic)
    run_blocking(session.begin())
    run_blocking(session.send(records(topic, 1)))
    run_blocking(session.commit())
    with pytest.raises(Indefinite, match="_STATE"):
        run_blocking(getattr(session, end)())


def test_beginning_where_nobody_answers_ends_at_the_deadline(nobody: str, opened: Connect) -> None:
    session = opened(nobody, acks=-1, transactional_id="lonely", deadline_s=0.5)
    begin = time.monotonic()
    with pytest.raises(Indefinite):
        run_blocking(session.begin())
    assert 0.4 <= time.monotonic() - begin < LATE_S


# reading


def test_a_poll_ends_with_the_first_records(bootstrap: str, opened: Connect, topic: str) -> None:
    run_blocking(opened(bootstrap, acks=-1).send(records(topic, 40)))
    session = opened(bootstrap, isolation=Isolation.READ_COMMITTED)
    run_blocking(session.assign({TopicPartition(topic, p): -2 for p in range(4)}))
    begin = time.monotonic()
    assert run_blocking(session.poll(1000, 60_000))
    assert time.monotonic() - begin < LATE_S


def test_a_poll_of_nothing_lasts_as_long_as_it_was_asked_to(
    bootstrap: str, opened: Connect, topic: str
) -> None:
    session = opened(bootstrap, isolation=Isolation.READ_COMMITTED)
    run_blocking(session.assign({TopicPartition(topic, 0): -2}))
    begin = time.monotonic()
    assert run_blocking(session.poll(10, 300)) == []
    assert 0.25 <= time.monotonic() - begin < LATE_S


def parts(session: Session, count: int) -> list[list[Fetched]]:
    """What the polls returned that had some of so many records."""
    until = time.monotonic() + PATIENCE_S
    found: list[list[Fetched]] = []
    while sum(map(len, found)) < count and time.monotonic() < until:
        found += [some] if (some := run_blocking(session.poll(500, 100))) else []
    return found


def of_polls(polls: list[list[int]], count: int) -> Built:
    """A run in which a consumer got these offsets of a partition, poll by poll, of so many records."""
    built = Built(tps=["x"], processes={1: Process(), 2: Process(slot=1, acks=-2)})
    sent = [Send(tp=0, value=value_of(1, n), offset=n) for n in range(count)]
    built.ops.append(Op(process=1, f="send", invoke=1, complete=2, mops=[*sent]))
    given = Assign(tp=0, kind=AssignmentKind.MANUAL)
    built.ops.append(Op(process=2, f="assign", invoke=3, complete=4, mops=[given]))
    for number, offsets in enumerate(polls, start=3):
        reads = [Read(tp=0, offset=at, value=value_of(1, at)) for at in offsets]
        built.ops.append(Op(process=2, f="poll", invoke=2 * number, complete=2 * number + 1, mops=[*reads]))
    return final_reads(built, {0: [(n, value_of(1, n)) for n in range(count)]}, end=count)


def test_a_consumer_of_the_preset_gets_its_records_in_parts_and_one_left_out_is_found(
    bootstrap: str, opened: Connect, topic: str, tmp_path: Path
) -> None:
    count, tp = 600, TopicPartition(topic, 0)
    small = {"producer.batch.num.messages": "4", "producer.linger.ms": "0"}
    sent = [Record(tp, n, encode("run", tp, n, 100)) for n in range(count)]
    assert len(run_blocking(opened(bootstrap, acks=-1, settings=small).send(sent))) == count
    settings = PRESETS["small-fetches"]["client_settings"]
    session = opened(bootstrap, isolation=Isolation.READ_UNCOMMITTED, settings=settings)
    run_blocking(session.assign({tp: -2}))
    polls = [[each.offset for each in some] for some in parts(session, count)]
    assert [offset for some in polls for offset in some] == [*range(count)]
    assert len(polls) > 2
    whole = check_run(write_run(tmp_path / "whole", of_polls(polls, count).tables()))
    assert not any(one.disallowed for one in whole.anomalies.values())
    lacking = check_run(write_run(tmp_path / "lacking", of_polls([polls[0], *polls[2:]], count).tables()))
    assert {name for name, one in lacking.anomalies.items() if one.disallowed} == {"poll-skip"}


def test_a_poll_returns_no_more_than_asked_for_and_loses_nothing(
    bootstrap: str, opened: Connect, topic: str
) -> None:
    sent = records(topic, 40)
    run_blocking(opened(bootstrap, acks=-1).send(sent))
    session = opened(bootstrap, isolation=Isolation.READ_UNCOMMITTED)
    run_blocking(session.assign({TopicPartition(topic, p): -2 for p in range(4)}))
    fetched: list[Fetched] = []
    until = time.monotonic() + PATIENCE_S
    while len(fetched) < 40 and time.monotonic() < until:
        got = run_blocking(session.poll(7, 100))
        assert len(got) <= 7
        fetched += got
    assert sorted(f.payload for f in fetched) == sorted(r.payload for r in sent)
    for p in range(4):
        assert [f.offset for f in fetched if f.tp.partition == p] == list(range(10))


def test_ends_of_partitions_are_told_where_they_are_asked_for(
    bootstrap: str, opened: Connect, topic: str
) -> None:
    run_blocking(opened(bootstrap, acks=-1).send(records(topic, 40)))
    tps = {TopicPartition(topic, p): -2 for p in range(4)}
    session = opened(bootstrap, isolation=Isolation.READ_COMMITTED, report_end=True)
    run_blocking(session.assign(tps))
    ends: dict[TopicPartition, int] = {}
    until = time.monotonic() + PATIENCE_S
    while len(ends) < 4 and time.monotonic() < until:
        run_blocking(session.poll(500, 100))
        ends.update({e.tp: e.offset for e in session.events() if isinstance(e, EndReached)})
    assert ends == dict.fromkeys(tps, 10)
    silent = opened(bootstrap, isolation=Isolation.READ_COMMITTED)
    run_blocking(silent.assign(tps))
    read(silent, 40)
    assert run_blocking(silent.poll(10, 300)) == []
    assert not any(isinstance(event, EndReached) for event in silent.events())


def test_positions_follow_assignments_reads_and_seeks(bootstrap: str, opened: Connect, topic: str) -> None:
    run_blocking(opened(bootstrap, acks=-1).send(records(topic, 40)))
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    session = opened(bootstrap, isolation=Isolation.READ_COMMITTED)
    run_blocking(session.assign({first: -2, second: 7}))
    run_blocking(session.seek({first: 4}))
    assert run_blocking(session.position()) == {first: 4, second: 7}
    fetched = read(session, 6 + 3)
    assert [f.offset for f in fetched if f.tp == first] == list(range(4, 10))
    assert [f.offset for f in fetched if f.tp == second] == [7, 8, 9]
    assert run_blocking(session.position()) == {first: 10, second: 10}
    run_blocking(session.seek({first: -2, second: 9}))
    assert run_blocking(session.position()) == {first: -1, second: 9}
    fetched = read(session, 10 + 1)
    assert [f.offset for f in fetched if f.tp == first] == list(range(10))
    assert [f.offset for f in fetched if f.tp == second] == [9]


def test_an_offset_that_does_not_exist_is_reset_and_told(bootstrap: str, opened: Connect, topic: str) -> None:
    run_blocking(opened(bootstrap, acks=-1).send(records(topic, 40)))
    tp = TopicPartition(topic, 0)
    session = opened(bootstrap, isolation=Isolation.READ_COMMITTED)
    run_blocking(session.assign({tp: 5000}))
    assert [f.offset for f in read(session, 10)] == list(range(10))
    events = [e for e in session.events() if isinstance(e, AssignmentEvent)]
    assert [(e.kind, e.tps, e.position) for e in events] == [(AssignmentKind.RESET, (tp,), 5000)]


def test_a_line_of_the_log_that_is_no_reset_is_dropped() -> None:
    sidelight = ClientEvents()
    sidelight.log(30, "%s [%s] %s", "FAIL", "client", "orders [3]: offset reset is not this")
    sidelight.log(30, "%s [%s] %s", "OFFSET", "client", "something else")
    assert sidelight.take() == []


# groups


def test_a_group_assigns_and_commits_under_one_generation(
    bootstrap: str, opened: Connect, topic: str
) -> None:
    run_blocking(opened(bootstrap, acks=-1).send(records(topic, 40)))
    session = opened(bootstrap, isolation=Isolation.READ_COMMITTED, group=topic)
    run_blocking(session.subscribe([topic]))
    event = watch(session, lambda: run_blocking(session.poll(1, 100)), AssignmentEvent)
    tps = {TopicPartition(topic, p) for p in range(4)}
    assert event.kind is AssignmentKind.ASSIGNED
    assert set(event.tps) == tps
    assert event.generation >= 1
    assert run_blocking(session.commit_offsets(dict.fromkeys(tps, 6))) == event.generation


@pytest.mark.sampled(19)
def test_a_new_member_tells_the_committed_offsets_that_it_was_given(
    bootstrap: str, opened: Connect, topic: str
) -> None:
    run_blocking(opened(bootstrap, acks=-1).send(records(topic, 40)))
    first = opened(bootstrap, isolation=Isolation.READ_COMMITTED, group=topic)
    run_blocking(first.subscribe([topic]))
    watch(first, lambda: run_blocking(first.poll(1, 100)), AssignmentEvent)
    run_blocking(first.commit_offsets({TopicPartition(topic, 1): 6}))
    run_blocking(first.close())
    second = opened(bootstrap, isolation=Isolation.READ_COMMITTED, group=topic)
    run_blocking(second.subscribe([topic]))
    seen = watch(second, lambda: run_blocking(second.poll(1, 100)), CommittedSeen)
    assert seen.offsets == {TopicPartition(topic, 1): 6}
    assert seen.begin_ns < seen.ns


def test_committing_where_nobody_answers_ends_at_the_deadline(
    nobody: str, opened: Connect, topic: str
) -> None:
    session = opened(nobody, isolation=Isolation.READ_COMMITTED, group="lonely", deadline_s=0.5)
    tp = TopicPartition(topic, 0)
    run_blocking(session.assign({tp: 0}))
    begin = time.monotonic()
    with pytest.raises(Indefinite, match="_TIMED_OUT"):
        run_blocking(session.commit_offsets({tp: 1}))
    assert 0.4 <= time.monotonic() - begin < LATE_S
    # The commit still holds the client: nothing may wait for it.
    assert session.fatal == "_TIMED_OUT"
    begin = time.monotonic()
    with pytest.raises(Indefinite, match="_TIMED_OUT"):
        run_blocking(session.poll(1, 60_000))
    run_blocking(session.close())
    assert time.monotonic() - begin < LATE_S


def test_committing_nothing_did_not_happen(bootstrap: str, opened: Connect) -> None:
    session = opened(bootstrap, isolation=Isolation.READ_COMMITTED, group="empty")
    with pytest.raises(Definite, match="_NO_OFFSET"):
        run_blocking(session.commit_offsets({TopicPartition("any", 0): -1}))


@pytest.mark.parametrize(
    ("metadata", "generation"),
    [
        (b"CGMDv2:\x05\x00\x00\x00group\0member\0\x01", 5),
        (b"CGMDv2:\xff\xff\xff\xffgroup\0\0\x01", -1),
        (b"CGMDv9:\x05\x00\x00\x00group", -1),
        (b"CGMDv2:\x05", -1),
        (None, -1),
    ],
)
def test_the_generation_is_read_out_of_group_metadata(metadata: object, generation: int) -> None:
    assert generation_of(metadata) == generation


# sessions as a whole


def test_a_bounded_call_returns_raises_or_is_left() -> None:
    assert bounded(PATIENCE_S, max, 1, 2) == 2
    with pytest.raises(ZeroDivisionError):
        bounded(PATIENCE_S, lambda: 1 // 0)
    ended = threading.Event()
    with pytest.raises(Expired) as left:
        bounded(0.05, ended.wait)
    assert left.value.thread.is_alive()
    ended.set()
    left.value.thread.join(PATIENCE_S)
    assert not left.value.thread.is_alive()


def test_errors_of_the_client_are_told_but_not_over_and_over(
    opened: Connect, topic: str, nobody: str
) -> None:
    with socket.socket() as closed:  # bound by nobody else meanwhile, and nobody listens
        closed.bind(("127.0.0.1", 0))
        session = opened(f"127.0.0.1:{closed.getsockname()[1]}", acks=-1, deadline_s=0.9)
        codes: list[str] = []
        until = time.monotonic() + PATIENCE_S
        while "_TRANSPORT" not in codes:
            assert time.monotonic() < until, codes
            run_blocking(session.send(records(topic, 1)))
            codes += [event.code for event in session.events() if isinstance(event, ClientError)]
    assert len(codes) == len(set(codes))


def test_closing_is_bounded_when_the_client_hangs(nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = SessionSpec(slot=0, process=1, isolation=Isolation.READ_COMMITTED, deadline_s=0.3)
    session = KafkaSession({"bootstrap.servers": nobody}, spec)
    hung = threading.Event()
    client = session._in
    assert client is not None
    monkeypatch.setattr(client, "close", hung.wait)
    begin = time.monotonic()
    run_blocking(session.close())
    assert 0.3 <= time.monotonic() - begin < LATE_S
    hung.set()
    client._client.close()


def test_a_closed_session_or_a_missing_half_is_a_fault_of_the_caller(bootstrap: str, opened: Connect) -> None:
    session = opened(bootstrap, acks=-1)
    with pytest.raises(RuntimeError, match="no consumer"):
        run_blocking(session.poll(1, 1))
    run_blocking(session.close())
    run_blocking(session.close())
    with pytest.raises(RuntimeError, match="no producer"):
        run_blocking(session.send([]))


SPECS: dict[str, dict[str, Any]] = {
    "producer": {"acks": -1},
    "consumer": {"isolation": Isolation.READ_COMMITTED},
    "member": {"isolation": Isolation.READ_COMMITTED, "group": "g"},
    "admin": {"deadline_s": 2},  # the mock cluster creates no topics
}


def use(session: Session, kind: str, topic: str) -> None:
    """One op, then what happened outside of it."""
    with suppress(Definite, Indefinite):
        if kind == "producer":
            run_blocking(session.send(records(topic, 1)))
        elif kind == "admin":
            run_blocking(session.create_topic(topic, 1, 1, {}))
        else:
            run_blocking(session.poll(10, 100))
    session.events()


@pytest.mark.parametrize("kind", SPECS)
def test_a_session_ends_where_the_first_broker_is_one_of_another_cluster(
    kind: str, bootstrap: str, opened: Connect, topic: str
) -> None:
    session = opened(bootstrap, cluster="own", **SPECS[kind])
    if kind == "consumer":
        run_blocking(session.assign({TopicPartition(topic, 0): -2}))
    elif kind == "member":
        run_blocking(session.subscribe([topic]))

    def use_for_ever() -> None:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            use(session, kind, topic)

    with pytest.raises(WrongCluster, match=r"is a broker of cluster mockCluster\w+, and not of own"):
        use_for_ever()
    with pytest.raises(WrongCluster):
        use(session, kind, topic)


@pytest.mark.parametrize("kind", SPECS)
def test_a_session_works_where_the_brokers_are_those_of_the_cluster(
    kind: str, bootstrap: str, opened: Connect, topic: str
) -> None:
    probe = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    own = probe.list_topics(timeout=PATIENCE_S).cluster_id
    session = opened(bootstrap, cluster=own, **SPECS[kind])
    if kind == "consumer":
        run_blocking(session.assign({TopicPartition(topic, 0): -2}))
    elif kind == "member":
        run_blocking(session.subscribe([topic]))
    for _ in range(1 if kind == "admin" else 5):  # librdkafka's broker creates no topics: a time-out each
        use(session, kind, topic)


def test_the_lines_that_name_a_cluster_are_those_of_librdkafka() -> None:
    events = ClientEvents("own")
    line = '[thrd:main]: 127.0.0.1:20002/2: ClusterId update "{}" -> "{}"'
    events.log(10, "", "CLUSTERID", "", line.format("", "own"))
    events.log(10, "", "BROADCAST", "", line.format("own", "other"))
    events.must_be_own()
    events.log(10, "", "CLUSTERID", "", line.format("own", "other"))
    events.log(10, "", "CLUSTERID", "", line.format("other", "own"))
    with pytest.raises(WrongCluster, match=r"127.0.0.1:20002/2 is a broker of cluster other, and not of own"):
        events.must_be_own()


def test_a_wrong_setting_is_named() -> None:
    spec = SessionSpec(slot=0, process=1, acks=-1, settings={"no.such.thing": "1"})
    with pytest.raises(ConfigError, match=r"no\.such\.thing"):
        connect({"bootstrap.servers": "localhost:1"}, spec)


def test_settings_go_to_the_client_they_name_and_the_spec_wins() -> None:
    spec = SessionSpec(
        slot=0,
        process=1,
        acks=1,
        isolation=Isolation.READ_UNCOMMITTED,
        settings={
            "socket.timeout.ms": "1234",
            "producer.socket.timeout.ms": "1000",
            "producer.acks": "0",
            "consumer.fetch.wait.max.ms": "7",
            "consumer.isolation.level": "read_committed",
        },
    )
    out, into = properties_of_producer(spec, LIBRDKAFKA), properties_of_consumer(spec, LIBRDKAFKA)
    assert (out["socket.timeout.ms"], into["socket.timeout.ms"]) == ("1000", "1234")
    assert out["acks"] == 1
    assert into["isolation.level"] == "read_uncommitted"
    assert into["fetch.wait.max.ms"] == "7"
    assert not any(name.startswith(("producer.", "consumer.", "fetch.")) for name in out)


@pytest.mark.parametrize(("deadline_s", "transaction_s"), [(10.0, 10.0), (2.0, 60.0), (30.0, 1.0)])
def test_librdkafka_accepts_any_pair_of_deadlines(deadline_s: float, transaction_s: float) -> None:
    spec = SessionSpec(
        slot=0,
        process=1,
        acks=-1,
        transactional_id="any",
        deadline_s=deadline_s,
        transaction_timeout_s=transaction_s,
    )
    run_blocking(connect({"bootstrap.servers": "localhost:1"}, spec).close())


def test_events_are_handed_out_once(opened: Connect, topic: str) -> None:
    session = opened("localhost:1", acks=-1, deadline_s=0.3)
    told = watch(session, lambda: run_blocking(session.send(records(topic, 1))), ClientError)
    assert told not in session.events()
