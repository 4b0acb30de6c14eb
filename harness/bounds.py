"""The ends of all logs, once the clients are closed: what the final reads have to reach.

Not here: when they are wanted (`harness.interpreter`), what they prove (docs/checks.md).
"""

import time
from collections.abc import Callable, Iterable, Sequence

from harness.cluster import Cluster
from harness.events import BoundsListed
from harness.op import Isolation, TopicPartition
from harness.session import drive

STABLE_S = 2.0
"""The ends of the logs must not change for this long before they are final."""

Rows = tuple[tuple[str, int, int, int, int], ...]
"""(topic, partition, isolation, start, end), as in `BoundsListed`."""


def stable_bounds(
    cluster: Cluster,
    tps: Sequence[TopicPartition],
    *,
    allowed_s: float,
    cut_short: Callable[[], bool],
    status: Callable[[str], None],
) -> BoundsListed:
    """The ends of all logs: LSO = HW everywhere and unchanged for STABLE_S, or the newest ones seen
    when the time for that is over, `allowed_s` for transactions to end and STABLE_S."""
    deadline = time.monotonic() + allowed_s + STABLE_S
    seen: Rows = ()
    since, why = time.monotonic(), "nothing was listed"
    while time.monotonic() < deadline and not cut_short():
        rows = _listed(cluster, tps)
        if rows != seen:
            seen, since = rows, time.monotonic()
        why = _unstable(rows, tps)
        if not why and time.monotonic() - since >= STABLE_S:
            break
        if not why:
            why = f"the ends still changed less than {STABLE_S:.0f} s ago"
        status(f"quiesce: {why}")
        time.sleep(0.1)
    return BoundsListed(ns=time.monotonic_ns(), rows=seen, stable=not why, why=why)


def open_ends(rows: Rows) -> list[TopicPartition]:
    """The partitions whose last stable offset is below their high watermark."""
    ends = _ends(rows)
    tps = [TopicPartition(topic, p) for topic, p, isolation in ends if isolation == 1]
    return [tp for tp in tps if ends[*tp, 1] < ends.get((*tp, 0), -1)]


def _listed(cluster: Cluster, tps: Sequence[TopicPartition]) -> Rows:
    rows = []
    for isolation in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED):
        offsets = drive(cluster.offsets(tps, isolation))
        rows += [
            (tp.topic, tp.partition, int(isolation), start, end)
            for tp, (start, end) in sorted(offsets.items())
        ]
    return tuple(rows)


def _unstable(rows: Rows, tps: Iterable[TopicPartition]) -> str:
    """Why these bounds are not final yet, apart from their age."""
    ends = _ends(rows)
    for tp in tps:
        hw, lso = ends.get((*tp, 0)), ends.get((*tp, 1))
        if hw is None or lso is None:
            return f"the end of {tp} could not be listed"
        if lso < hw:
            return f"the last stable offset of {tp} is {lso}, its high watermark {hw}"
    return ""


def _ends(rows: Rows) -> dict[tuple[str, int, int], int]:
    return {(topic, p, isolation): end for topic, p, isolation, _, end in rows}
