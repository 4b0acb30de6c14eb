"""The sharing half of a session, over confluent-kafka's ShareConsumer (KIP-932).

The client asks one broker at a time, only within a poll, and hands out all records of an answer at once
(rdkafka.c, rd_kafka_share_poll; rdkafka_queue.c, rd_kafka_q_serve_share_rkmessages). So what a poll returns
was asked for after the last poll that returned something; and where polls returned nothing in between, not
before the last of them that together took as long as a request may. Only time within polls counts, and none
of a poll that took longer than it may: a process that is paused reads an answer when it is continued, however
old that is. The lock of a record began no earlier.
"""

from collections.abc import Iterable, Mapping, Sequence
from time import monotonic_ns
from typing import Final

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, ShareConsumer

from core.client_settings import SOCKET_TIMEOUT, Properties
from core.op import Acknowledgement, Outcome, TopicPartition
from core.session import AcquiredRecord, Acquisition, Answers, Indefinite
from harness.clients.librdkafka.client_part import ClientEvents, MemberPart, failure_of
from harness.clients.librdkafka.error_table import Verb, is_definite

IN_FLIGHT_MS: Final = 3000
"""How much longer than `socket.timeout.ms` a request for records may take: a broker waits for records, and
the client hands them out later."""
LATE_NS: Final = 500_000_000
"""A poll that ends so long after its time was paused; how long it ran is unknown."""


class SessionShareConsumer(MemberPart[ShareConsumer]):
    """One member of a share group. Every method is bounded by the seconds it is given."""

    def __init__(self, settings: Properties, events: ClientEvents) -> None:
        super().__init__(events)
        self._client = ShareConsumer({**settings, **events.hooks})
        self._in_flight_ns = (int(settings[SOCKET_TIMEOUT]) + IN_FLIGHT_MS) * 1_000_000
        self._empty: list[tuple[int, int]] = []
        """Polls that returned nothing, since one returned something: their begin, and how long each ran."""

    def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics."""
        self._call(Verb.LOCAL, self._usable().subscribe, list(topics))

    def acquire(self, seconds: float) -> Acquisition:
        """What the group gives, waiting for the first record. Raises: Indefinite."""
        client, begin = self._usable(), monotonic_ns()
        since = self._since(begin)
        messages: Iterable[Message] = ()
        try:
            messages = client.poll(seconds)
        except (KafkaException, SystemError) as error:
            failure = self._note(error)
            if failure.fatal:
                self._broken = Indefinite(failure.code, failure.message)
                raise self._broken from None
        records: list[AcquiredRecord] = []
        for message in messages:
            if (problem := message.error()) is not None:
                self._note(KafkaException(problem))
                continue
            tp = TopicPartition(message.topic() or "", message.partition() or 0)
            count = message.delivery_count() or 0
            records.append(AcquiredRecord(tp, message.offset() or 0, message.value() or b"", count))
        took, may = monotonic_ns() - begin, int(seconds * 1e9)
        self._empty.append((begin, min(took, may) if took <= may + LATE_NS else 0))
        if records:
            self._empty.clear()
        return Acquisition(records, since)

    def _since(self, begin: int) -> int:
        """The earliest time at which a poll that begins now can have asked for what it returns. Forgets the
        polls before."""
        ran = 0
        for at in reversed(range(len(self._empty))):
            ran += self._empty[at][1]
            if ran >= self._in_flight_ns:
                del self._empty[:at]
                break
        return self._empty[0][0] if self._empty else begin

    def acknowledge(
        self, records: Mapping[TopicPartition, Sequence[tuple[int, Acknowledgement]]], seconds: float
    ) -> Answers:
        """Acknowledge records, and wait for the answers of all leaders. Raises: Indefinite.

        What is not answered in time the client sends again later: its session has ended.
        """
        client = self._usable()
        for tp, acknowledged in records.items():
            for offset, kind in acknowledged:
                self._call(Verb.ACKNOWLEDGE, client.acknowledge_offset, *tp, offset, AcknowledgeType(kind))
        late = "acknowledgements without answer hold the client"
        answered = self._bounded(
            Verb.ACKNOWLEDGE, late, seconds + 1, lambda: client.commit_sync(float(seconds))
        )
        found = {TopicPartition(at.topic, at.partition): error for at, error in answered.items()}
        return {tp: _outcome(found[tp]) if tp in found else UNANSWERED for tp in records}


UNANSWERED: Final = (Outcome.INFO, "_NO_ANSWER")
"""Of a partition that the client gave no result for."""


def _outcome(error: KafkaException | KafkaError | None) -> tuple[Outcome, str]:
    """Most errors are indefinite: a leader that could not store an acknowledgement may have stored it."""
    if error is None:
        return Outcome.OK, ""
    code = failure_of(error if isinstance(error, KafkaException) else KafkaException(error)).code
    return (Outcome.FAIL if is_definite(Verb.ACKNOWLEDGE, code) else Outcome.INFO), code
