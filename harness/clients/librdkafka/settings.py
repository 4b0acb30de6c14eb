"""librdkafka as the client of real Kafka: defaults with time-outs that suit faults.

librdkafka's own defaults wait a minute for an answer and ten seconds before a reconnect; under faults
that last seconds such a client would see one fault per run.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from core.client_settings import (
    AUTO_COMMIT,
    BATCH,
    CONSUMER,
    IN_FLIGHT,
    LINGER,
    MESSAGE_TIMEOUT,
    PRODUCER,
    REQUEST_TIMEOUT,
    RETRIES,
    SESSION_TIMEOUT,
    SHARE_CONSUMER,
    SOCKET_TIMEOUT,
    ClientLibrary,
    SessionSpec,
    Value,
    properties_of_consumer,
    properties_of_producer,
    properties_of_share_consumer,
)
from core.cluster import CLUSTER_ID
from core.op import Isolation

ALLOWED: Final = frozenset(
    {
        # connections and metadata
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        SOCKET_TIMEOUT,
        "topic.metadata.propagation.max.ms",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.interval.ms",
        "topic.metadata.refresh.sparse",
        # sizes of both
        IN_FLIGHT,
        "message.copy.max.bytes",
        "message.max.bytes",
        "receive.message.max.bytes",
        # producers
        BATCH,
        "batch.size",
        "compression.level",
        "compression.type",
        LINGER,
        MESSAGE_TIMEOUT,
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        REQUEST_TIMEOUT,
        RETRIES,
        "sticky.partitioning.linger.ms",
        # consumers
        AUTO_COMMIT,
        "auto.offset.reset",
        "check.crcs",
        "coordinator.query.interval.ms",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        SESSION_TIMEOUT,
    }
)
"""What a user, or the configuration of a recorded run, may set: sizes, times and protocols.

Left out is all that runs code or reads files (`plugin.library.paths`, `ssl.engine.location`,
`sasl.kerberos.kinit.cmd`, locations of keys), that decides which cluster is reached and how
(`test.mock.num.brokers`, `security.protocol`, secrets), and that keeps from the harness what it judges by
(`delivery.report.only.error`, callbacks, logs, statistics, the store of offsets).
"""


def _trial(spec: SessionSpec) -> None:
    """See `ClientLibrary.trial`. Sessions that differ in names alone are tried once."""
    made = {}
    if spec.acks is not None:
        made[PRODUCER] = properties_of_producer(spec, LIBRDKAFKA)
    if spec.share:
        made[SHARE_CONSUMER] = properties_of_share_consumer(spec, LIBRDKAFKA)
    elif spec.isolation is not Isolation.NONE:
        made[CONSUMER] = properties_of_consumer(spec, LIBRDKAFKA)
    for client, properties in made.items():
        named = {name: "inquest" if name in NAMES else value for name, value in properties.items()}
        _tried(client, tuple(sorted(named.items())))


@lru_cache
def _tried(client: str, properties: tuple[tuple[str, Value], ...]) -> None:
    from harness.clients.librdkafka.trial import tried  # it imports librdkafka

    tried({client: dict(properties)})


NAMES: Final = ("transactional.id", "group.id", "client.id")


def of_librdkafka(args: Mapping[str, str]) -> dict[str, str]:
    """The settings of librdkafka among the arguments of an endpoint."""
    return {name: value for name, value in args.items() if name != CLUSTER_ID}


LIBRDKAFKA: Final = ClientLibrary(
    name="librdkafka",
    honoured=ALLOWED,
    trial=_trial,
    within_transaction=True,
    common={
        "log_level": 0,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 500,
        "retry.backoff.ms": 50,
        "retry.backoff.max.ms": 500,
        "socket.connection.setup.timeout.ms": 1000,
        SOCKET_TIMEOUT: 2000,
        "topic.metadata.refresh.interval.ms": 5000,
        "topic.metadata.propagation.max.ms": 5000,
    },
    producer={LINGER: 1, "statistics.interval.ms": 1000},
    consumer={
        AUTO_COMMIT: 1000,
        "auto.offset.reset": "earliest",
        "fetch.error.backoff.ms": 100,
        "fetch.wait.max.ms": 100,
        "heartbeat.interval.ms": 1000,
        SESSION_TIMEOUT: 6000,
    },
    unset={  # CONFIGURATION.md of librdkafka 2.16
        RETRIES: 2_147_483_647,
        IN_FLIGHT: 1_000_000,
        BATCH: 10_000,
        MESSAGE_TIMEOUT: 300_000,
        REQUEST_TIMEOUT: 30_000,
        SESSION_TIMEOUT: 45_000,  # of a group of KIP-848, whose brokers have the same default
    },
)
