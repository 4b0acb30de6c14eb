"""A session on real Kafka: at most one producer, one consumer (of its own or of a share group) and one admin
client of confluent-kafka.

`connect` is what an endpoint names as its factory. Every verb has one deadline, is finished when it
returns, and is never retried here; librdkafka's own retries stay on, as in any application.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from core.client_settings import (
    Properties,
    SessionSpec,
    effective,
    properties_of_admin,
    properties_of_consumer,
    properties_of_producer,
    properties_of_share_consumer,
)
from core.cluster import CLUSTER_ID
from core.op import Acknowledgement, Isolation, TopicPartition
from core.session import Acquisition, Answers, Delivery, Fetched, Record, Session, SessionEvent
from harness.clients.librdkafka.client_part import ClientEvents, ClientPart, Expired, bounded
from harness.clients.librdkafka.consumer import SessionConsumer
from harness.clients.librdkafka.error_table import Failure, Verb, outcome
from harness.clients.librdkafka.producer import SessionProducer
from harness.clients.librdkafka.settings import LIBRDKAFKA, of_librdkafka
from harness.clients.librdkafka.share_consumer import SessionShareConsumer
from harness.clients.librdkafka.trial import REFUSALS, refused


def connect(args: dict[str, str], spec: SessionSpec) -> Session:
    """Open a session. Nothing waits for the cluster here: the first verb does.

    args: the settings of librdkafka that reaching the cluster takes (`bootstrap.servers`,
        `security.protocol`, …), and the id that its brokers have to name (`CLUSTER_ID`).

    Raises: ConfigError, where librdkafka refuses a setting.
    """
    try:
        return KafkaSession(args, spec)
    except REFUSALS as error:
        raise refused(error) from None


class KafkaSession:
    """See `core.session.Session`. Verbs and `events` raise `WrongCluster`, once a broker of another cluster
    has answered: that is the end of the session, and of the run."""

    def __init__(self, args: Mapping[str, str], spec: SessionSpec) -> None:
        self.client = effective(spec, LIBRDKAFKA)
        self._events = ClientEvents(args.get(CLUSTER_ID, ""))
        self._args = args = of_librdkafka(args)
        self._spec = spec
        self._in: SessionConsumer | None = None
        self._out: SessionProducer | None = None
        if spec.acks is not None:
            self._out = SessionProducer({**args, **properties_of_producer(spec, LIBRDKAFKA)}, self._events)
        self._share: SessionShareConsumer | None = None
        if spec.share:
            properties = properties_of_share_consumer(spec, LIBRDKAFKA)
            self._share = SessionShareConsumer({**args, **properties}, self._events)
        elif spec.isolation is not Isolation.NONE:
            self._in = SessionConsumer({**args, **properties_of_consumer(spec, LIBRDKAFKA)}, self._events)
        self._topics: SessionTopics | None = None
        self._dead: str | None = None

    @property
    def fatal(self) -> str | None:
        """Code of the error that made this session unusable, or None."""
        for half in (self._out, self._in, self._share):
            if half is not None and half.fatal is not None:
                return half.fatal
        return self._dead

    async def send(self, records: Sequence[Record], *, wait: bool = True) -> list[Delivery]:
        """Send all records pipelined; one delivery each, in order. Does not raise."""
        if not wait:
            return self._producer().forget(records)
        return self._producer().send(records, self._spec.deadline_s)

    async def poll(self, max_records: int, wait_ms: int) -> list[Fetched]:
        """The next records, at most `max_records`, waiting at most `wait_ms` for the first."""
        consumer = self._consumer()
        return consumer.poll(max_records, min(wait_ms / 1000, self._spec.deadline_s))

    async def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets (-2: beginning of the log)."""
        self._consumer().assign(positions)

    async def subscribe(self, topics: Sequence[str]) -> None:
        """Join the group for these topics; partitions come with later polls."""
        (self._member() if self._spec.share else self._consumer()).subscribe(topics)

    async def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Move the positions of assigned partitions."""
        self._consumer().seek(positions, self._spec.deadline_s)

    async def position(self) -> dict[TopicPartition, int]:
        """Next offset to read of each assigned partition; -1 where nothing was read yet."""
        return self._consumer().position()

    async def begin(self) -> None:
        """Begin a transaction (the first call also initialises the transactional id)."""
        self._producer().begin(self._spec.deadline_s)

    async def commit(self) -> None:
        """Commit the open transaction. Called at most once for it."""
        self._producer().commit(self._spec.deadline_s)

    async def abort(self) -> None:
        """Abort the open transaction. A normal return means: confirmed aborted."""
        self._producer().abort(self._spec.deadline_s)

    async def send_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        """Add consumer positions to the open transaction; the generation used (-1 unknown)."""
        consumer = self._consumer()
        generation = consumer.generation()
        group = consumer.group_metadata()
        offsets = consumer.offsets(positions)
        self._producer().send_offsets(offsets, group, self._spec.deadline_s)
        return generation

    async def commit_offsets(self, positions: Mapping[TopicPartition, int]) -> int:
        """Commit consumer positions to the group; the generation used (-1 unknown)."""
        return self._consumer().commit(positions, self._spec.deadline_s)

    async def acquire(self, wait_ms: int) -> Acquisition:
        """Records that the share group gives, waiting at most `wait_ms` for the first."""
        return self._member().acquire(min(wait_ms / 1000, self._spec.deadline_s))

    async def acknowledge(
        self, records: Mapping[TopicPartition, Sequence[tuple[int, Acknowledgement]]]
    ) -> Answers:
        """Acknowledge acquired records, and wait for all answers."""
        return self._member().acknowledge(records, self._spec.deadline_s)

    async def create_topic(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
    ) -> None:
        """Create a topic; returns when the controller has (brokers may not know it yet)."""
        self._events.must_be_own()
        if self._topics is None:
            properties = {**self._args, **properties_of_admin(self._spec, LIBRDKAFKA)}
            self._topics = SessionTopics(properties, self._events)
        self._topics.create(topic, partitions, replication, settings, self._spec.deadline_s)

    async def close(self) -> None:
        """Close the clients; never raises, bounded by the deadline.

        Records without a report are dropped, an open transaction is left to its successor or its
        time-out: a session that ends is a client that crashed, unless it had finished.
        """
        self._dead = self.fatal
        halves = [half for half in (self._out, self._in, self._share) if half is not None]
        self._out = self._in = self._share = self._topics = None
        with suppress(Expired):
            bounded(self._spec.deadline_s, _close, halves)

    def events(self) -> list[SessionEvent]:
        """What happened outside of verbs since the last call, oldest first."""
        self._events.must_be_own()
        return self._events.take()

    def _producer(self) -> SessionProducer:
        self._events.must_be_own()
        if self._out is None:
            raise RuntimeError(f"session of process {self._spec.process}: closed, or no producer")
        return self._out

    def _consumer(self) -> SessionConsumer:
        self._events.must_be_own()
        if self._in is None:
            raise RuntimeError(f"session of process {self._spec.process}: closed, or no consumer")
        return self._in

    def _member(self) -> SessionShareConsumer:
        self._events.must_be_own()
        if self._share is None:
            raise RuntimeError(f"session of process {self._spec.process}: closed, or of no share group")
        return self._share


def _close(halves: list[SessionProducer | SessionConsumer | SessionShareConsumer]) -> None:
    """Runs in a thread that may be left behind: closing can hang on a cluster that does not answer."""
    while halves:
        half = halves.pop()
        half.close()
        del half


class SessionTopics(ClientPart):
    """The topics that a session creates, over confluent-kafka's AdminClient."""

    def __init__(self, settings: Properties, events: ClientEvents) -> None:
        super().__init__(events)
        self._client = AdminClient({**settings, **events.hooks})

    def create(
        self, topic: str, partitions: int, replication: int, settings: Mapping[str, str], seconds: float
    ) -> None:
        """Create a topic, asked once; returns when the controller confirms.

        librdkafka may wait for a controller that does not answer beyond the time it is given.
        """
        new = NewTopic(
            topic, num_partitions=partitions, replication_factor=replication, config=dict(settings)
        )

        def answered() -> None:
            futures = self._client.create_topics([new], operation_timeout=seconds, request_timeout=seconds)
            futures[topic].result()

        try:
            self._bounded(Verb.CREATE_TOPIC, "the controller did not answer", seconds, answered)
        except ValueError as error:  # confluent-kafka's own checks of the arguments
            refused = Failure(code="_INVALID_ARG", message=str(error))
            raise outcome(Verb.CREATE_TOPIC, refused) from None
        finally:
            self._client.poll(0)  # nothing else takes what it logs off its queue
