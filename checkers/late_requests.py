"""Requests that a rule of the wire held back, and when they came: of its fault the run recorded which
requests it took."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from core.wire import Seen
from history.events import RequestSeen
from history.reader import History, OpRecord

ENDING: Final = "end_txn"
MARKING: Final = "write_txn_markers"


class LateRequest(NamedTuple):
    """When a rule took it, when it reached its broker, and what it names (`core.wire.Seen`)."""

    caught_ns: int
    delivered_ns: int
    named: frozenset[str]

    def comes_into(self, op: OpRecord, until_ns: int = 0) -> bool:
        """Whether a request from before an op reached its broker while that was under way, or until then."""
        under_way = op.invoke_ns <= self.delivered_ns and (
            not op.completed or self.delivered_ns <= max(op.complete_ns, until_ns)
        )
        return under_way and self.caught_ns < op.invoke_ns


def late_requests(history: History, api: str) -> Iterator[LateRequest]:
    """Those of an API, without those that a broker refused, as far as the answer is on record."""
    requests: dict[tuple[int, int, int, int], dict[str, Seen]] = {}
    for event in history.events:
        if isinstance(event, RequestSeen) and event.seen.api == api:
            seen = event.seen
            key = seen.rule, seen.node, seen.connection, seen.correlation_id
            requests.setdefault(key, {})[seen.what] = seen
    for one in requests.values():
        caught, delivered, answered = (one.get(what) for what in ("caught", "delivered", "answered"))
        if caught is None or delivered is None or (answered is not None and answered.error):
            continue
        yield LateRequest(caught.ns, delivered.ns, frozenset(caught.named.split(", ")))


def late_ends(history: History, process: int) -> Iterator[LateRequest]:
    """Ends of transactions, of the transactional id of a process."""
    known = history.processes.get(process)
    for late in late_requests(history, ENDING):
        if known is not None and known.transactional_id in late.named:
            yield late


def late_markers(history: History, transactional_id: str) -> Iterator[LateRequest]:
    """Requests with markers of the producers of a transactional id: those that its clients had, or that
    coordinators wrote down.

    Raises: HistoryError, where the evidence of the run cannot be read.
    """
    late = list(late_requests(history, MARKING))
    own = _producers(history, transactional_id) if late else frozenset()
    yield from (one for one in late if own & one.named)


def _producers(history: History, transactional_id: str) -> frozenset[str]:
    """As requests name them."""
    its = (n for n, process in history.processes.items() if process.transactional_id == transactional_id)
    known = {(one.producer_id, one.producer_epoch) for n in its for one in history.identities(n)}
    known |= {
        (record.producer_id, record.producer_epoch)
        for record in history.transaction_log.records
        if record.transactional_id == transactional_id
    }
    return frozenset(f"producer {producer_id}/{epoch}" for producer_id, epoch in known)
