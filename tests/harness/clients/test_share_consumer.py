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


def test_records_were_asked_for_after_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll takes a second of the clock; one that follows at once has its begin as the earliest time."""
    made, _ = member(FakeClient([delivered(1)], [], [], [delivered(2)], [delivered(3)]))
    now = iter(n * S for n in range(100, 200))
    monkeypatch.setattr(share_consumer, "monotonic_ns", lambda: next(now))
    since = [(len(found.records), found.since_ns // S) for found in (made.acquire(1) for _ in range(5))]
    assert since == [(1, 100), (0, 102), (0, 102), (1, 102), (1, 108)]


def test_a_request_is_under_way_for_some_seconds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = member(FakeClient(*[[]] * 20, [delivered(2)]))
    now = iter(n * S for n in range(100, 200))
    monkeypatch.setattr(share_consumer, "monotonic_ns", lambda: next(now))
    found = [made.acquire(1) for _ in range(21)][-1]
    assert found.since_ns == (139 - 5) * S  # the last empty poll ended at 139 s


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
