"""The sharing half of a session over a ShareConsumer that answers as told."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from core.client_settings import SessionSpec, properties_of_share_consumer
from core.op import Acknowledgement, Isolation, Outcome, TopicPartition
from core.session import ClientError, Definite, Indefinite
from harness.clients.librdkafka import share_consumer
from harness.clients.librdkafka.client_part import ClientEvents
from harness.clients.librdkafka.settings import LIBRDKAFKA
from harness.clients.librdkafka.share_consumer import SessionShareConsumer

TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
SPEC = SessionSpec(slot=0, process=0, isolation=Isolation.READ_COMMITTED, group="g", share=True)
S = 1_000_000_000


class Delivered(Message):
    """A message that knows how often it was delivered."""

    def delivery_count(self) -> int:
        return 2


def delivered(offset: int, error: KafkaError | None = None) -> Message:
    return Delivered(topic="t", partition=0, offset=offset, value=b"x", error=error)


class FakeClient:
    """poll: what polls return or raise, in turn. commit: the same of the one commit."""

    def __init__(self, *polls: Any, commit: Callable[[], Mapping[KafkaPartition, Any]] = dict) -> None:
        self.polls = [*polls]
        self.commit = commit
        self.said: list[tuple[Any, ...]] = []

    def poll(self, seconds: float) -> Any:
        found = self.polls.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def acknowledge_offset(self, *said: Any) -> None:
        if said[2] < 0:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.said.append(said)

    def commit_sync(self, seconds: float) -> Mapping[KafkaPartition, Any]:
        return self.commit()


def member(client: FakeClient) -> tuple[SessionShareConsumer, ClientEvents]:
    sidelight = ClientEvents()
    made = SessionShareConsumer(properties_of_share_consumer(SPEC, LIBRDKAFKA), sidelight)
    made._client.close()
    made._client = client  # type: ignore[assignment]
    return made, sidelight


def polled(monkeypatch: pytest.MonkeyPatch, *polls: tuple[int, int, list[Message]]) -> list[int]:
    """Polls of a second that begin and end at these seconds: since when each may have acquired."""
    made, _ = member(FakeClient(*(messages for _, _, messages in polls)))
    now = iter(second * S for begin, end, _ in polls for second in (begin, end))
    monkeypatch.setattr(share_consumer, "monotonic_ns", lambda: next(now))
    return [made.acquire(1).since_ns // S for _ in polls]


def test_records_were_asked_for_after_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where polls returned nothing in between, as early as the first of these."""
    one, two, three = [delivered(1)], [delivered(2)], [delivered(3)]
    empty = (102, 103, list[Message]()), (104, 105, list[Message]())
    since = polled(monkeypatch, (100, 101, one), *empty, (106, 107, two), (108, 109, three))
    assert since == [100, 102, 102, 102, 108]


def test_a_request_is_under_way_for_some_seconds_of_polls_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take 5 s: what was asked for before the last five polls has come to its end."""
    empty = [(at, at + 1, list[Message]()) for at in range(100, 140, 2)]
    since = polled(monkeypatch, *empty, (140, 141, [delivered(2)]), (142, 143, [delivered(3)]))
    assert since[4:6] == [100, 100]
    assert since[6:] == [*range(102, 132, 2), 142]


def test_a_request_waits_as_long_as_its_process_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll that lasts longer than it may has not run: an answer that came to a paused process is read when
    it is continued, by the next poll or a later one."""
    paused = (100, 112, list[Message]())
    assert polled(monkeypatch, paused, (112, 113, [delivered(1)]))[-1] == 100
    polls = [(at, at + 1, list[Message]()) for at in range(113, 117)]
    assert polled(monkeypatch, paused, *polls, (118, 119, [delivered(1)]))[-1] == 100
    assert polled(monkeypatch, paused, *polls, (117, 118, []), (118, 119, [delivered(1)]))[-1] == 113


def test_time_between_polls_is_no_time_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may be paused there, too."""
    assert polled(monkeypatch, (100, 101, []), (120, 121, []), (122, 123, [delivered(1)]))[-1] == 100


def test_records_come_with_their_count_and_errors_beside_them() -> None:
    error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    made, sidelight = member(FakeClient([delivered(1), delivered(2, error)], KafkaException(error)))
    (record,) = made.acquire(1).records
    assert (record.tp, record.offset, record.payload, record.count) == (TP, 1, b"x", 2)
    assert made.acquire(1).records == []  # it may ask again
    assert {event.code for event in sidelight.take() if isinstance(event, ClientError)} == {error.name()}


def test_a_fatal_error_ends_the_member() -> None:
    made, _ = member(FakeClient(KafkaException(KafkaError(KafkaError._FATAL, "fenced", fatal=True))))
    for _ in range(2):
        with pytest.raises(Indefinite):
            made.acquire(1)
    assert made.fatal == "_FATAL"


def test_answers_are_by_partition() -> None:
    refused = KafkaException(KafkaError(KafkaError.INVALID_RECORD_STATE))
    client = FakeClient(commit=lambda: {KafkaPartition("t", 0): None, KafkaPartition("t", 1): refused})
    made, _ = member(client)
    third = TopicPartition("t", 2)
    records = {
        TP: [(1, Acknowledgement.ACCEPT), (2, Acknowledgement.RELEASE)],
        OTHER: [(3, Acknowledgement.REJECT)],
        third: [(4, Acknowledgement.ACCEPT)],
    }
    assert made.acknowledge(records, 1) == {
        TP: (Outcome.OK, ""),
        OTHER: (Outcome.FAIL, "INVALID_RECORD_STATE"),
        third: (Outcome.INFO, "_NO_ANSWER"),
    }
    assert client.said == [
        ("t", 0, 1, AcknowledgeType.ACCEPT),
        ("t", 0, 2, AcknowledgeType.RELEASE),
        ("t", 1, 3, AcknowledgeType.REJECT),
        ("t", 2, 4, AcknowledgeType.ACCEPT),
    ]


def test_what_the_client_refuses_to_send_did_not_happen() -> None:
    made, _ = member(FakeClient())
    with pytest.raises(Definite, match="_STATE"):
        made.acknowledge({TP: [(-1, Acknowledgement.ACCEPT)]}, 1)
