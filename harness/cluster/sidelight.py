"""What a client says outside of any verb's result: collected here, handed out as session events."""

from time import monotonic_ns
from typing import Final

from confluent_kafka import KafkaError

from harness.session import ClientError, SessionEvent

QUIET_NS: Final = 1_000_000_000
"""The same error is told at most once in this time: a dead broker repeats itself 50 times a second."""


class Sidelight:
    """Events since they were last taken. Appending is safe from any thread."""

    def __init__(self) -> None:
        self._events: list[SessionEvent] = []
        self._told: dict[str, int] = {}

    def add(self, event: SessionEvent) -> None:
        """Append one event."""
        self._events.append(event)

    def error(self, error: KafkaError) -> None:
        """librdkafka's error callback."""
        self.note(error.name(), error.str())

    def note(self, code: str, message: str) -> None:
        """Append a ClientError, unless the same code was told just now."""
        now = monotonic_ns()
        told = self._told.get(code)
        if told is None or now - told >= QUIET_NS:
            self._told[code] = now
            self._events.append(ClientError(code=code, message=message, ns=now))

    def take(self) -> list[SessionEvent]:
        """All events since the last call, oldest first."""
        events, self._events = self._events, []
        return events
