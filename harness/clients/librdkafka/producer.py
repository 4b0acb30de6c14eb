"""The producing half of a session, over confluent-kafka's Producer.

Delivery reports run only inside librdkafka's poll (and inside commit and abort). Each stores one result
in the list of its own send, so a report that arrives after that send's deadline changes nothing.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic, monotonic_ns
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from core.client_settings import Properties
from core.session import UNAWAITED, Acked, Delivery, Failed, ProducerEvent, Record, Unknown
from harness.clients.librdkafka.client_part import ClientEvents, ClientPart
from harness.clients.librdkafka.error_table import EXPIRED, Verb, delivery

POLL_S: Final = 0.1
"""Longest single poll. From 0.2 s on confluent-kafka waits for the full time, however many reports
arrived (Producer.c, Producer_poll0)."""

TOMBSTONE: Final = "inquest"
"""Header of a tombstone that holds its payload."""

_IDENTITY: Final = re.compile(r'"producer_id": *(-?\d+), *"producer_epoch": *(-?\d+), *"epoch_cnt": *(\d+)')


class _Reports:
    """The delivery reports of one send."""

    __slots__ = ("died", "missing", "results")

    def __init__(self, count: int, died: Callable[[BaseException], object]) -> None:
        self.results: list[Delivery | None] = [None] * count
        self.missing = count
        self.died = died

    def take(self, index: int, error: KafkaError | None, message: Message) -> None:
        """One report. Never raises: an exception here would cut the poll short."""
        try:
            if error is None:
                offset = message.offset()
                self.results[index] = Acked(-1 if offset is None else offset, monotonic_ns())
            else:
                self.results[index] = delivery(Verb.REPORT, error.name())
        except BaseException as broken:  # noqa: BLE001
            # While librdkafka raises a fatal error, confluent-kafka calls reports with that
            # exception already set, and the first call made here comes back as SystemError.
            self.results[index] = Unknown("_FATAL")
            self.died(broken)
        self.missing -= 1


class SessionProducer(ClientPart):
    """One producer. Every method is bounded by the seconds it is given."""

    def __init__(self, settings: Properties, events: ClientEvents) -> None:
        super().__init__(events)
        self._identity = (-1, -1, 0)
        self._initialised = False
        self._client = Producer({**settings, **events.hooks, "stats_cb": self._statistics})

    def send(self, records: Sequence[Record], seconds: float) -> list[Delivery]:
        """Produce all, then collect the reports until all have arrived or the time is up."""
        until = monotonic() + seconds
        reports = _Reports(len(records), self._note)
        results, take = reports.results, reports.take
        for index, record in enumerate(records):
            refused = self._produce(record, partial(take, index))
            if refused is not None:
                results[index] = refused
                reports.missing -= 1
        while reports.missing:
            left = until - monotonic()
            if left <= 0:
                break
            self._poll(min(left, POLL_S))
        return [Unknown(EXPIRED) if result is None else result for result in results]

    def forget(self, records: Sequence[Record]) -> list[Delivery]:
        """Produce all and wait for nothing. Reports of earlier records are taken off the queue: they
        count as queued until then."""
        refused = [self._produce(record, None) for record in records]
        self._poll(0)
        return [Unknown(UNAWAITED) if result is None else result for result in refused]

    def _produce(self, record: Record, report: Callable[..., None] | None) -> Failed | Unknown | None:
        """Hand one record to the client; its result where the client refuses it."""
        topic, partition = record.tp
        try:
            if record.tombstone:
                headers: list[tuple[str, str | bytes | None]] = [(TOMBSTONE, record.payload)]
                self._client.produce(topic, None, record.key, partition, report, headers=headers)
            else:
                self._client.produce(topic, record.payload, record.key or None, partition, report)
        except BufferError:
            return delivery(Verb.PRODUCE, "_QUEUE_FULL")
        except KafkaException as error:
            return delivery(Verb.PRODUCE, self._failure(error).code)
        return None

    def begin(self, seconds: float) -> None:
        """Begin a transaction; the first call gets the producer id, which fences predecessors."""
        if not self._initialised:
            self._call(Verb.BEGIN, self._client.init_transactions, seconds)
            self._initialised = True
        self._call(Verb.BEGIN, self._client.begin_transaction)

    def commit(self, seconds: float) -> None:
        """Commit the open transaction, once."""
        self._call(Verb.COMMIT, self._client.commit_transaction, seconds)

    def abort(self, seconds: float) -> None:
        """Abort the open transaction."""
        self._call(Verb.ABORT, self._client.abort_transaction, seconds)

    def send_offsets(self, offsets: list[KafkaPartition], group: object, seconds: float) -> None:
        """Add offsets to the open transaction; `group` as `consumer_group_metadata` gives it.

        librdkafka looks at this call's time-out only between its requests, and may wait for a
        coordinator that is gone for ever (librdkafka #5511).
        """
        send = partial(self._client.send_offsets_to_transaction, offsets, group, seconds)
        self._bounded(Verb.SEND_OFFSETS, "offsets without answer hold the client", seconds, send)

    def close(self) -> None:
        """Drop the client and what it still has queued; unbounded (the session bounds it).

        Not Producer.close(), which flushes first and waits for ever.
        """
        self._join()
        del self._client

    def _poll(self, seconds: float) -> None:
        try:
            self._client.poll(seconds)
        except (KafkaException, SystemError) as error:
            self._note(error)  # poll raises fatal errors only

    def _statistics(self, text: str) -> None:
        """Statistics callback: emit the producer's identity when it changed."""
        found = _IDENTITY.search(text, max(text.rfind('"eos"'), 0))
        if found is None:
            return
        producer, epoch, count = identity = (int(found[1]), int(found[2]), int(found[3]))
        if identity != self._identity and producer >= 0:
            self._identity = identity
            now = monotonic_ns()
            self._events.add(
                ProducerEvent(producer_id=producer, producer_epoch=epoch, epoch_cnt=count, ns=now)
            )
