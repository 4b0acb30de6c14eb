"""send-order: what one process sent, in the order in which it stands in the log (docs/checks.md, "Order
of sends")."""

from typing import Final

import numpy as np

from checkers.allowed import Answer, Ground, always, truncation
from checkers.engine.check import AnomalyClass, Check, Early
from checkers.engine.findings import NEVER, OK, PLAIN, RU, Finding, PartitionResult, Variant
from checkers.engine.partition_view import KernelView
from checkers.engine.slots import among, distinct
from checkers.windows import Excuse
from core.op import AssignmentKind
from history.columns import Array
from history.reader import History

BETWEEN_OPS = "nonmonotonic-send"
INSIDE_OP = "int-nonmonotonic-send"
SKIP = "int-send-skip"


class Order(Variant):
    """What keeps two records of a producer in order.

    PIPELINED: it is not idempotent, may send a record again, and may have several requests under way; else
    ABANDONED: the earlier record was not acknowledged; else UNHEARD: no broker was asked to acknowledge it;
    LEADER: the leader alone was.
    """

    PLAIN = "0"
    IDEMPOTENT = "1"
    UNHEARD = "acks 0"
    LEADER = "acks 1"
    ABANDONED = "abandoned"
    PIPELINED = "pipelined"


_PLAIN, _IDEMPOTENT, _UNHEARD, _LEADER, _ABANDONED, _PIPELINED = range(6)
VARIANTS: Final = dict(enumerate(Order))


class Reordered(Finding):
    """Two records of one process (`records`, in the order of sending) that stand the other way round."""

    def sentence(self, history: History) -> str:
        """Both records."""
        s, t = self.records
        how = f"in op {s.op}" if s.op == t.op else f"in op {s.op}, then op {t.op}"
        return (
            f"{history.client(self.process)} sent records {s.name} and {t.name} to"
            f" {history.tp(self.tp)} in this order ({how}); they stand at offsets {s.offset} and"
            f" {t.offset}."
        )


class Interleaved(Finding):
    """Two neighbouring records of one transaction with others between them."""

    def sentence(self, history: History) -> str:
        """Both records."""
        s, t = self.records
        return (
            f"Records of others lie between records {s.name} and {t.name} of the transaction op {s.op}"
            f" (offsets {s.offset} and {t.offset} of {history.tp(self.tp)})."
        )


def _kernel(p: KernelView, result: PartitionResult) -> None:
    sends = p.sends
    rows = np.flatnonzero(sends["place"] >= 0)
    if p.known.unseen:  # of an application, ops have what was read of its output: copies, then the rest
        rows = rows[~np.isin(p.known.group[p.owner[rows]], [*p.known.unseen])]
    process = p.owner[rows].astype(np.uint32)
    if len(rows) and int(process.max()) < 1 << 16:
        process = process.astype(np.uint16)  # numpy sorts these in linear time
    order = np.argsort(process, kind="stable")
    rows, process = rows[order], process[order]
    s, t = rows[:-1], rows[1:]  # neighbours
    op, place = sends["op"][rows], sends["place"][rows]
    same_op = op[1:] == op[:-1]  # so it is of one process
    same_process = process[1:] == process[:-1]
    back = (place[1:] < place[:-1]) & same_process
    inside, between = np.flatnonzero(back & same_op), np.flatnonzero(back & ~same_op)
    _backwards(p, result, INSIDE_OP, s[inside], t[inside])
    between = between[~_dropped(p, s[between], t[between])]
    _backwards(p, result, BETWEEN_OPS, s[between], t[between])
    onward = np.flatnonzero(same_op & (place[1:] > place[:-1]))
    onward = onward[sends["txn"][t[onward]] == 1]
    _skips(p, result, s[onward], t[onward])


def _dropped(p: KernelView, s: Array, t: Array) -> Array:
    """For each pair of sends: the process gave the partition up between the two."""
    dropped = np.zeros(len(s), bool)
    changes = p.assignments
    if changes is None:
        return dropped
    manual = changes["kind"] == AssignmentKind.MANUAL
    process, ns = changes["process"][manual], changes["ns"][manual]
    invoke = p.sends["invoke_ns"]
    for at in np.flatnonzero(among(p.sends["process"][s], distinct(process))).tolist():
        between = (ns > invoke[s[at]]) & (ns <= invoke[t[at]])
        dropped[at] = (between & (process == p.sends["process"][s[at]])).any()
    return dropped


def _backwards(p: KernelView, result: PartitionResult, name: str, s: Array, t: Array) -> None:
    if not len(s):
        return
    owner = p.owner[s]
    acks = p.known.acks[owner]
    acked = np.select([acks == 0, acks == 1], [_UNHEARD, _LEADER], _PLAIN)
    codes = np.where(p.sends["outcome"][s] == OK, acked, _ABANDONED)
    codes[(p.known.retries[owner] != 0) & (p.known.in_flight[owner] != 1)] = _PIPELINED
    codes[p.known.idempotent[owner] == 1] = _IDEMPOTENT
    until = p.sends["ack_ns"][t]
    excuses = p.excuses(s, p.sends["invoke_ns"][s], np.where(until < 0, NEVER, until))

    def reordered(pair: int) -> Finding:
        return _finding(p, Reordered, int(s[pair]), int(t[pair]))

    result.report(name, np.arange(len(s)), reordered, codes, VARIANTS, excuses=excuses)


def _skips(p: KernelView, result: PartitionResult, s: Array, t: Array) -> None:
    if not len(s):
        return
    order = p.order(RU)
    low, high = p.slots(p.sends["place"][s]), p.slots(p.sends["place"][t])

    def interleaved(pair: int) -> Finding:
        return _finding(p, Interleaved, int(s[pair]), int(t[pair]))

    skipped = order[high - 1] > order[low]
    result.report(SKIP, np.flatnonzero(skipped), interleaved, legal=PLAIN.values())


def _finding(p: KernelView, kind: type[Finding], s: int, t: int) -> Finding:
    one, two = p.placed(s), p.placed(t)
    key = (p.tp, one.value, two.value)
    return kind(key=key, process=two.process, records=(one, two), at_ns=two.done_ns)


def reorder(ground: Ground, variant: str) -> Answer:
    """A producer's records are out of order."""
    if variant == Order.PIPELINED:
        return True, "enable.idempotence=false, and the producer retries with several requests in flight"
    if variant == Order.ABANDONED:
        return (True, "the producer is not idempotent: a request that it has given up may still arrive")
    if variant == Order.UNHEARD:
        return True, "the producer used acks=0: an acknowledgement promises nothing"
    if reason := truncation(ground):
        return True, f"{reason}; what it knew of the producer is gone too"
    if variant == Order.LEADER and ground.excuse is Excuse.LEADER:
        return True, "the producer used acks=1: another leader may have put the later record below"
    if variant == Order.LEADER:
        return False, "the leader that acknowledged the earlier record had it, and nothing replaced it"
    if variant == Order.PLAIN:
        return (
            False,
            "the producer never has a retry overtaken (no retries, or one request at a time), and"
            " the earlier record was acknowledged",
        )
    return False, "an idempotent producer keeps its order"


CHECK = Check(
    claim="The log keeps the order in which a producer sent.",
    anomalies={
        BETWEEN_OPS: AnomalyClass(
            title="A producer's later record stands earlier",
            meaning="One producer sent two records to a partition in two operations; the log has them"
            " the other way round.",
            early=Early(("tp", "value", "value"), neighbours=True),
            rule=reorder,
        ),
        INSIDE_OP: AnomalyClass(
            title="Records of one operation reordered",
            meaning="Records that one operation sent to a partition stand in the log in another order.",
            early=Early(("tp", "value", "value"), neighbours=True),
            rule=reorder,
        ),
        SKIP: AnomalyClass(
            title="Foreign records between those of a transaction",
            meaning="Between two records of one transaction the log has records of others.",
            informational=True,
            rule=always("informational: Kafka interleaves transactions"),
        ),
    },
    kernel=_kernel,
    subject="sends",
)
