"""librdkafka as the client of real Kafka: defaults with time-outs that suit faults.

librdkafka's own defaults wait a minute for an answer and ten seconds before a reconnect; under faults
that last seconds such a client would see one fault per run.
"""

from typing import Final

from core.client_settings import (
    AUTO_COMMIT,
    BATCH,
    IN_FLIGHT,
    LINGER,
    MESSAGE_TIMEOUT,
    REQUEST_TIMEOUT,
    RETRIES,
    SESSION_TIMEOUT,
    SOCKET_TIMEOUT,
    ClientLibrary,
)

LIBRDKAFKA: Final = ClientLibrary(
    name="librdkafka",
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
