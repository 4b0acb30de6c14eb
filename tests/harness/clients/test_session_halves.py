"""The halves of a session where no cluster is needed: rebalances within a poll, automatic commits,
forgotten records, topics that nobody answers for."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as KafkaPartition

from core.client_settings import SessionSpec, properties_of_admin, properties_of_consumer
from core.op import AssignmentKind, Isolation, Op, Outcome, TopicPartition
from core.payload import encode
from core.presets import PRESETS
from core.runtime import run_blocking
from core.session import (
    UNAWAITED,
    AssignmentEvent,
    AutoCommitted,
    Definite,
    Failed,
    Indefinite,
    Record,
    Unknown,
)
from harness.clients.executor import Completion
from harness.clients.librdkafka.client_part import ClientEvents
from harness.clients.librdkafka.consumer import AutoCommits, SessionConsumer
from harness.clients.librdkafka.session import KafkaSession
from harness.clients.librdkafka.settings import LIBRDKAFKA
from tests.histories.script import scripted, sends

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
SPEC = SessionSpec(slot=0, process=1, isolation=Isolation.READ_COMMITTED, group="g")


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


class FakeClient:
    """The calls of confluent-kafka's Consumer that a poll makes."""

    def __init__(self, poll: Callable[[], Any], consume: Callable[[], list[Any]]) -> None:
        self._poll, self._consume = poll, consume

    def poll(self, seconds: float) -> Any:
        return self._poll()

    def consume(self, count: int, seconds: float) -> list[Any]:
        return self._consume()

    def consumer_group_metadata(self) -> bytes:
        return b"CGMDv2:\x05\x00\x00\x00group\0member\0\x01"

    def assignment(self) -> list[KafkaPartition]:
        return [KafkaPartition(*TP)]

    def position(self, partitions: list[KafkaPartition]) -> list[KafkaPartition]:
        return partitions  # none of them known

    def seek(self, partition: KafkaPartition) -> None:
        pass


def message(offset: int, error: KafkaError | None = None) -> Message:
    return Message(topic="t", partition=0, offset=offset, value=b"x", error=error)


def consumer(
    poll: Callable[[], Any], consume: Callable[[], list[Any]] = list
) -> tuple[SessionConsumer, ClientEvents]:
    sidelight = ClientEvents()
    made = SessionConsumer(properties_of_consumer(SPEC, LIBRDKAFKA), sidelight)
    made._client.close()
    made._client = FakeClient(poll, consume)  # type: ignore[assignment]
    return made, sidelight


# rebalances


@pytest.mark.parametrize(
    ("first", "during_poll", "after"),
    [
        (message(7), True, 0),
        (message(7), False, 1),
        (message(7, KafkaError(KafkaError._PARTITION_EOF)), False, 0),
    ],
)
def test_a_rebalance_is_told_with_the_records_before_it(
    first: Message, during_poll: bool, after: int
) -> None:
    def rebalance() -> None:
        made._rebalance(AssignmentKind.REVOKED)(made._client, [KafkaPartition("t", 0)])

    def poll() -> Message:
        if during_poll:
            rebalance()
        return first

    def consume() -> list[Message]:
        if not during_poll:
            rebalance()
        return [message(8)]

    made, sidelight = consumer(poll, consume)
    assert len(made.poll(10, 0.1)) == 1 + (first.error() is None)
    events = [event for event in sidelight.take() if isinstance(event, AssignmentEvent)]
    assert [(e.kind, e.tps, e.generation, e.after) for e in events] == [
        (AssignmentKind.REVOKED, (TP,), 5, after)
    ]
    made._rebalance(AssignmentKind.LOST)(made._client, [KafkaPartition("t", 0)])
    (later,) = sidelight.take()
    assert isinstance(later, AssignmentEvent)
    assert later.after == 0


@pytest.mark.parametrize("kind", [AssignmentKind.REVOKED, AssignmentKind.LOST])
def test_what_was_sought_does_not_outlive_the_assignment(kind: AssignmentKind) -> None:
    made, _ = consumer(lambda: None)
    made.seek({TP: 2}, 1)
    assert made.position() == {TP: 2}
    made._rebalance(kind)(made._client, [KafkaPartition("t", 0)])
    assert made.position() == {TP: -1}


# automatic commits


def told(commits: AutoCommits, sidelight: ClientEvents, *partitions: KafkaPartition, **error: Any) -> Any:
    commits.answered(error.get("error"), list(partitions))
    return [event for event in sidelight.take() if isinstance(event, AutoCommitted)]


def test_an_automatic_commit_was_asked_for_after_its_records_were_handed_out() -> None:
    sidelight = ClientEvents()
    commits = AutoCommits(sidelight)
    begin = time.monotonic_ns()
    commits.assigned([TP, OTHER], 4)
    given = time.monotonic_ns()
    (event,) = told(commits, sidelight, KafkaPartition("t", 0, 3))
    assert begin < event.begin_ns < given < event.ns
    assert (event.offsets, event.generation, event.outcome) == ({TP: 3}, 4, Outcome.OK)
    early, middle, late = given + 10, given + 20, given + 30
    commits.handed({TP: 5, OTHER: 2}, early)
    commits.handed({TP: 9}, middle)
    commits.handed({TP: 12}, late)
    # Several may be under way: the one that is told says nothing about when the next was asked for.
    for offset, bound in ((5, early), (8, early), (9, middle), (11, middle), (12, late)):
        (event,) = told(commits, sidelight, KafkaPartition("t", 0, offset))
        assert event.begin_ns == bound, offset
    both = (KafkaPartition("t", 0, 12), KafkaPartition("t", 1, 2))
    (event,) = told(commits, sidelight, *both)
    assert event.begin_ns == late
    commits.assigned([TP], 5)
    (event,) = told(commits, sidelight, KafkaPartition("t", 1, 2))
    assert (event.begin_ns, event.generation) == (early, 5)


def test_a_commit_that_had_nothing_to_commit_or_was_the_session_s_own_is_no_event() -> None:
    sidelight = ClientEvents()
    commits = AutoCommits(sidelight)
    nothing = KafkaError(KafkaError._NO_OFFSET)
    assert told(commits, sidelight, KafkaPartition("t", 0), error=nothing) == []
    commits.asked({TP: 6})
    assert told(commits, sidelight, KafkaPartition("t", 0, 6)) == []
    assert len(told(commits, sidelight, KafkaPartition("t", 0, 6))) == 1


def test_an_automatic_commit_that_failed_is_in_doubt() -> None:
    sidelight = ClientEvents()
    commits = AutoCommits(sidelight)
    refused = KafkaError(KafkaError.ILLEGAL_GENERATION)
    (event,) = told(commits, sidelight, KafkaPartition("t", 0, 6), error=refused)
    assert event.outcome is Outcome.INFO
    unknown = KafkaError(KafkaError._UNKNOWN_GROUP)
    (event,) = told(commits, sidelight, KafkaPartition("t", 0, 6), error=unknown)
    assert event.outcome is Outcome.FAIL


def test_only_a_consumer_that_commits_by_itself_listens() -> None:
    made, _ = consumer(lambda: None)
    assert made._commits is None


# forgotten records, topics


def session(bootstrap: str, **spec: Any) -> KafkaSession:
    defaults: dict[str, Any] = {"slot": 0, "process": 1, "acks": -1, "deadline_s": 0.5}
    return KafkaSession({"bootstrap.servers": bootstrap}, SessionSpec(**{**defaults, **spec}))


def test_nobody_waits_for_forgotten_records_but_what_was_refused_failed(nobody: str) -> None:
    one = session(nobody, deadline_s=30.0, settings={"producer.queue.buffering.max.messages": "2"})
    records = [Record(TP, n, encode("run", TP, n, 100)) for n in range(3)]
    begin = time.monotonic()
    deliveries = run_blocking(one.send(records, wait=False))
    assert deliveries == [Unknown(UNAWAITED), Unknown(UNAWAITED), Failed("_QUEUE_FULL")]
    assert time.monotonic() - begin < 25
    run_blocking(one.close())


def test_a_producer_of_the_preset_fills_its_queue_and_what_comes_then_has_failed(
    nobody: str, tmp_path: Path
) -> None:
    preset = PRESETS["queue-full"]
    client = scripted(tmp_path)
    client.session = session(nobody, settings=preset["client_settings"])
    outcomes = [run_blocking(client.invoke(Op(f="send", mops=sends(1), forget=True))) for _ in range(6)]
    room = int(preset["client_settings"]["producer.queue.buffering.max.messages"])
    assert outcomes[:room] == [Completion(Outcome.INFO, UNAWAITED, replace=False)] * room
    assert outcomes[room:] == [Completion(Outcome.FAIL, "_QUEUE_FULL", replace=False)] * (6 - room)
    assert (preset["batch_max"], preset["partitions"]) == (1, room)  # a first contact fits
    run_blocking(client.session.close())


def test_reports_of_forgotten_records_are_taken_off_the_queue(nobody: str) -> None:
    settings = {"producer.queue.buffering.max.messages": "2", "producer.message.timeout.ms": "200"}
    one = session(nobody, settings=settings)
    record = Record(TP, 1, encode("run", TP, 1, 100))
    run_blocking(one.send([record, record], wait=False))
    until = time.monotonic() + 60
    while run_blocking(one.send([record], wait=False)) != [Unknown(UNAWAITED)]:
        assert time.monotonic() < until, "the queue stays full"
        time.sleep(0.05)
    run_blocking(one.close())


def test_a_topic_that_nobody_answers_for_ends_at_the_deadline(nobody: str) -> None:
    one = session(nobody, acks=None)
    begin = time.monotonic()
    with pytest.raises(Indefinite, match="_TIMED_OUT"):
        run_blocking(one.create_topic("new", 1, 1, {}))
    assert 0.4 <= time.monotonic() - begin < 20
    run_blocking(one.close())


def test_a_topic_that_librdkafka_refuses_does_not_exist(nobody: str) -> None:
    one = session(nobody)
    with pytest.raises(Definite, match="_INVALID_ARG"):
        run_blocking(one.create_topic("new", 1_000_000, 1, {}))
    run_blocking(one.close())


def test_an_admin_client_gets_the_general_settings_only() -> None:
    spec = SessionSpec(slot=0, process=1, settings={"socket.timeout.ms": "7", "producer.linger.ms": "3"})
    settings = properties_of_admin(spec, LIBRDKAFKA)
    assert settings["socket.timeout.ms"] == "7"
    assert not any("linger" in name for name in settings)
