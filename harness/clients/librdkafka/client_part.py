"""What both halves of a session need of librdkafka: bounded calls, errors taken apart, callbacks as events.

A call that outlives its deadline is left behind in its thread. It may still take effect, and its client
must not be used or closed before it has ended.
"""

import re
import threading
from collections.abc import Callable
from logging import WARNING
from time import monotonic_ns
from typing import Any, Final, Generic, ParamSpec, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, ShareConsumer

from core.errors import WrongCluster
from core.op import AssignmentKind, TopicPartition
from core.session import AssignmentEvent, ClientError, Indefinite, SessionEvent
from harness.clients.librdkafka.error_table import EXPIRED, Failure, Verb, outcome

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", Consumer, ShareConsumer)

QUIET_NS: Final = 1_000_000_000
"""The same error is an event at most once in this time: a dead broker causes 50 a second."""

_CLUSTER: Final = re.compile(r'(?:\[thrd:[^\]]*\]: )?(\S+): ClusterId update "[^"]*" -> "([^"]*)"')
_RESET: Final = re.compile(r"(?:\[thrd:[^\]]*\]: )?(\S+) \[(\d+)\]: offset reset (?:\(at offset (\d+) )?")


class Expired(Exception):
    """The call did not end in time; `thread` still runs it."""

    def __init__(self, thread: threading.Thread) -> None:
        super().__init__(thread.name)
        self.thread = thread


def bounded(seconds: float, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What the function returns or raises, if it ends within `seconds`.

    For calls of confluent-kafka that have no deadline of their own. Raises: Expired.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function(*arguments, **named))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name=f"bounded {function!r}", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise Expired(thread)
    return results[0]


def failure_of(error: BaseException) -> Failure:
    """An exception of confluent-kafka as a Failure.

    A SystemError without a KafkaError behind it stands for a fatal error that was swallowed while
    delivery reports ran (confluent-kafka 2.16.1, `flush` inside commit and abort).
    """
    cause: BaseException | None = error
    while cause is not None:
        kafka = cause.args[0] if isinstance(cause, KafkaException) and cause.args else None
        if isinstance(kafka, KafkaError):
            return Failure(
                code=kafka.name(),
                message=kafka.str(),
                fatal=kafka.fatal() or kafka.code() == KafkaError._FATAL,
                wants_abort=kafka.txn_requires_abort(),
            )
        cause = cause.__cause__
    return Failure(code="_FATAL", message=repr(error), fatal=True)


class ClientEvents:
    """What a client reports outside of any verb's result, until a session hands it out.

    cluster: the id that its brokers have to name, "" = any. Appending is safe from any thread.
    """

    def __init__(self, cluster: str = "") -> None:
        self._cluster = cluster
        self._stranger = ""
        self._events: list[SessionEvent] = []
        self._noted_ns: dict[str, int] = {}

    def add(self, event: SessionEvent) -> None:
        """Append one event."""
        self._events.append(event)

    def error(self, error: KafkaError) -> None:
        """librdkafka's error callback."""
        self.note(error.name(), error.str())

    def log(self, level: int, _format: str, facility: str, _client: str, text: str) -> None:
        """librdkafka's log, as confluent-kafka passes it to a Python logger.

        Only a warning shows an offset reset after an error (offset out of range, truncation):
        rdkafka_offset.c, rd_kafka_offset_reset. Only a debug line shows the cluster's id, the first one and
        each other one (rdkafka_metadata.c): librdkafka asks each broker for metadata as it connects, and so
        after each time that the broker was down. All other lines are dropped.
        """
        if facility == "CLUSTERID" and (named := _CLUSTER.match(text)):
            self._prove(*named.groups())
        found = _RESET.match(text) if facility == "OFFSET" and level >= WARNING else None
        if found is None:
            return
        tps = (TopicPartition(found[1], int(found[2])),)
        now, left = monotonic_ns(), int(found[3] or -1)
        self.add(AssignmentEvent(kind=AssignmentKind.RESET, tps=tps, generation=-1, ns=now, position=left))
        self.note("_AUTO_OFFSET_RESET", text)

    def _prove(self, broker: str, cluster: str) -> None:
        if self._cluster and cluster != self._cluster and not self._stranger:
            self._stranger = f"{broker} is a broker of cluster {cluster}, and not of {self._cluster}"

    def must_be_own(self) -> None:
        """Raises: WrongCluster, where a broker of another cluster has answered."""
        if self._stranger:
            raise WrongCluster(self._stranger)

    def note(self, code: str, message: str) -> None:
        """Append a ClientError, unless one of the same code came within `QUIET_NS`."""
        now = monotonic_ns()
        last = self._noted_ns.get(code)
        if last is None or now - last >= QUIET_NS:
            self._noted_ns[code] = now
            self._events.append(ClientError(code=code, message=message, ns=now))

    def take(self) -> list[SessionEvent]:
        """All events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    @property
    def hooks(self) -> dict[str, Any]:
        """What every client is given to report here. (Without a logger, fatal errors go to stderr at any
        log level.)"""
        return {"error_cb": self.error, "logger": self, "log_level": 7, "debug": "generic"}


class ClientPart:
    """What the parts of a session share: calls whose errors become outcomes, and what ends a part.

    fatal: code of the error that made it unusable.
    """

    def __init__(self, events: ClientEvents) -> None:
        self._events = events
        self._broken: Indefinite | None = None
        self._left: threading.Thread | None = None
        """Runs a call that did not end in time."""
        self.fatal: str | None = None

    def _call(self, verb: Verb, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        try:
            return function(*arguments, **named)
        except (KafkaException, SystemError) as error:
            raise outcome(verb, self._failure(error)) from None

    def _bounded(self, verb: Verb, late: str, seconds: float, function: Callable[[], T]) -> T:
        """`_call` of what has no deadline of its own. Where it passes, the call left behind holds the
        client, and the part has ended (`late`)."""
        try:
            return self._call(verb, bounded, seconds, function)
        except Expired as expired:
            self._left = expired.thread
            self.fatal = EXPIRED
            self._broken = Indefinite(EXPIRED, late)
            raise self._broken from None

    def _failure(self, error: BaseException) -> Failure:
        """Take an exception of confluent-kafka apart; remember a fatal one."""
        failure = failure_of(error)
        if failure.fatal and self.fatal is None:
            self.fatal = failure.code
        return failure

    def _note(self, error: BaseException) -> Failure:
        """Report an error that is not the result of a verb."""
        failure = self._failure(error)
        self._events.note(failure.code, failure.message)
        return failure

    def _join(self) -> None:
        """Wait for a call that was left behind: before it has ended, the client must not be closed."""
        if self._left is not None:
            self._left.join()


class MemberPart(ClientPart, Generic[C]):
    """A part whose client is a member of a group."""

    _client: C

    def close(self) -> None:
        """Leave the group and end; unbounded (the session bounds it)."""
        self._join()
        try:
            self._client.close()
        except (KafkaException, SystemError) as error:
            self._note(error)  # closing runs callbacks, and raises fatal errors

    def _usable(self) -> C:
        if self._broken is not None:
            raise self._broken
        return self._client
