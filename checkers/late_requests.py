"""Ends of transactions that a rule of the wire held back, and when they came: of its fault the run recorded
which requests it took."""

from collections.abc import Iterator
from typing import NamedTuple

from core.wire import Seen
from history.events import RequestSeen
from history.reader import History, OpRecord

ENDING = "end_txn"


class LateEnd(NamedTuple):
    """An EndTxn: when a rule took it, and when it reached its broker."""

    caught_ns: int
    delivered_ns: int

    def comes_into(self, op: OpRecord) -> bool:
        """Whether it reached its broker while another op was under way."""
        under_way = op.invoke_ns <= self.delivered_ns and (
            not op.completed or self.delivered_ns <= op.complete_ns
        )
        return under_way and self.caught_ns < op.invoke_ns


def late_ends(history: History, process: int) -> Iterator[LateEnd]:
    """Those of the transactional id of a process, without those that a broker refused, as far as the answer
    is on record."""
    known = history.processes.get(process)
    requests: dict[tuple[int, int, int], dict[str, Seen]] = {}
    for event in history.events:
        if isinstance(event, RequestSeen) and event.seen.api == ENDING:
            seen = event.seen
            requests.setdefault((seen.rule, seen.connection, seen.correlation_id), {})[seen.what] = seen
    for one in requests.values():
        caught, delivered, answered = (one.get(what) for what in ("caught", "delivered", "answered"))
        if caught is None or delivered is None or (answered is not None and answered.error):
            continue
        if known is not None and known.transactional_id in caught.named.split(", "):
            yield LateEnd(caught.ns, delivered.ns)
