"""What the clients of a user's program work with: settings that every library has in some form."""

from dataclasses import replace
from typing import Final

from core.client_settings import (
    AUTO_COMMIT,
    BATCH,
    IDEMPOTENT_IN_FLIGHT,
    IN_FLIGHT,
    INT_MAX,
    LINGER,
    MESSAGE_TIMEOUT,
    REQUEST_TIMEOUT,
    RETRIES,
    SESSION_TIMEOUT,
    SOCKET_TIMEOUT,
    ClientLibrary,
    SessionSpec,
    effective,
)

RESET: Final = "auto.offset.reset"


def _trial(spec: SessionSpec) -> None:
    """See `ClientLibrary.trial`. Sessions that differ in names alone are tried once."""
    from harness.clients.command.trial import tried  # most commands start no client

    transactional, group = spec.transactional_id and "inquest", spec.group and "inquest"
    alike = replace(spec, slot=0, process=0, transactional_id=transactional, group=group)
    tried(alike, effective(alike, COMMAND))


COMMAND: Final = ClientLibrary(
    name="command",
    honoured=frozenset(
        {
            AUTO_COMMIT,
            BATCH,
            IN_FLIGHT,
            LINGER,
            MESSAGE_TIMEOUT,
            REQUEST_TIMEOUT,
            RETRIES,
            SESSION_TIMEOUT,
            SOCKET_TIMEOUT,
            RESET,
        }
    ),
    trial=_trial,
    within_transaction=True,
    common={SOCKET_TIMEOUT: 2000},
    producer={LINGER: 1},
    consumer={AUTO_COMMIT: 1000, RESET: "earliest", SESSION_TIMEOUT: 6000},
    unset={
        RETRIES: INT_MAX,
        IN_FLIGHT: IDEMPOTENT_IN_FLIGHT,
        BATCH: 10_000,
        MESSAGE_TIMEOUT: 300_000,
        REQUEST_TIMEOUT: 30_000,
        SESSION_TIMEOUT: 45_000,
    },
)
"""The program learns each of them by `open`; what it makes of them is its author's to say."""
