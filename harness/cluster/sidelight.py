"""What a client says outside of any verb's result: collected here, handed out as session events.

Not here: results of verbs (`producer`, `consumer`).
"""

import re
from time import monotonic_ns
from typing import Final

from confluent_kafka import KafkaError

from harness.op import AssignmentKind, TopicPartition
from harness.session import AssignmentEvent, ClientError, SessionEvent

QUIET_NS: Final = 1_000_000_000
"""The same error is told at most once in this time: a dead broker repeats itself 50 times a second."""

_RESET: Final = re.compile(r"(?:\[thrd:[^\]]*\]: )?(\S+) \[(\d+)\]: offset reset ")


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

    def log(self, _level: int, _format: str, facility: str, _client: str, text: str) -> None:
        """librdkafka's log, as confluent-kafka passes it to a Python logger.

        An offset reset after an error (offset out of range, truncation) is told nowhere else than
        in a warning (rdkafka_offset.c, rd_kafka_offset_reset). All other lines are dropped.
        """
        found = _RESET.match(text) if facility == "OFFSET" else None
        if found is None:
            return
        tps = (TopicPartition(found[1], int(found[2])),)
        now = monotonic_ns()
        self.add(AssignmentEvent(kind=AssignmentKind.RESET, tps=tps, generation=-1, ns=now))
        self.note("_AUTO_OFFSET_RESET", text)

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
