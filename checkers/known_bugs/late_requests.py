"""Requests that a rule of the wire held back, and when they came: of its fault the run recorded which
requests it took."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from core.wire import Seen
from history.events import RequestSeen
from history.reader import History, OpRecord

ENDING: Final = "end_txn"
COMMITTING: Final = "txn_offset_commit"
MARKING: Final = "write_txn_markers"


class LateRequest(NamedTuple):
    """When a rule took it, when it reached its broker, when the broker had done what it asks for, and what it
    names (`core.wire.Seen`)."""

    caught_ns: int
    delivered_ns: int
    answered_ns: int
    named: frozenset[str]

    def comes_into(self, op: OpRecord, until_ns: int = 0) -> bool:
        """Whether a request from before an op reached its broker while that was under way, or until then."""
        under_way = op.invoke_ns <= self.delivered_ns and (
            not op.completed or self.delivered_ns <= max(op.complete_ns, until_ns)
        )
        return under_way and self.caught_ns < op.invoke_ns


def late_requests(history: History, api: str) -> Iterator[LateRequest]:
    """Those of an API that their brokers did as they were asked: the answer is on record, and without an
    error. Whether the others took effect is not known."""
    requests: dict[tuple[int, int, int, int], dict[str, Seen]] = {}
    for event in history.events:
        if isinstance(event, RequestSeen) and event.seen.api == api:
            seen = event.seen
            key = seen.rule, seen.node, seen.connection, seen.correlation_id
            requests.setdefault(key, {})[seen.what] = seen
    for one in requests.values():
        caught, delivered, answered = (one.get(what) for what in ("caught", "delivered", "answered"))
        if caught and delivered and answered and answered.error == 0:
            yield LateRequest(caught.ns, delivered.ns, answered.ns, frozenset(caught.named.split(", ")))
