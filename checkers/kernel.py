"""The vectorised kernel: everything that can be said of one topic-partition on its own.

Pure numpy, no Spark, no Python loop over rows; loops over findings are capped. One function a
subject, each guarded: one that crashes is named in the result, and the others go on.

Not here: rules (docs/checks.md), what needs several partitions (`checkers.whole`,
`checkers.cycles`), where it runs (`checkers.pipeline`).
"""

import time
import traceback
from collections.abc import Callable
from typing import Final

from checkers.kernel_copies import copies
from checkers.kernel_delivery import delivery, duplicates, unseen_of_transactions
from checkers.kernel_edges import edges
from checkers.kernel_fencing import fencing
from checkers.kernel_groups import group_delivery
from checkers.kernel_offsets import conflicts, inversions
from checkers.kernel_polls import poll_order
from checkers.kernel_progress import progress
from checkers.kernel_reads import future_reads, integrity, isolation
from checkers.kernel_sends import send_order
from checkers.kernel_types import OK, Columns, Context, PartitionResult
from checkers.kernel_view import Partition, view

Kernel = Callable[[Partition, PartitionResult], None]

KERNELS: Final[dict[str, Kernel]] = {
    "delivery": delivery,
    "duplicates": duplicates,
    "atomicity": unseen_of_transactions,
    "isolation": isolation,
    "integrity": integrity,
    "offsets": conflicts,
    "real-time": inversions,
    "send-order": send_order,
    "poll-order": poll_order,
    "future-reads": future_reads,
    "cycles": edges,
    "copies": copies,
    "group-delivery": group_delivery,
    "fencing": fencing,
    "progress": progress,
}
"""Subject -> kernel. A check (`checkers.catalogue`) names the subjects that it rests on."""

SENDS: Final = (
    "op", "process", "pos", "value", "offset", "place", "outcome", "op_outcome", "txn", "op_sends",
    "invoke_ns", "ack_ns",
)  # fmt: skip
READS: Final = (
    "op", "process", "pos", "isolation", "op_outcome", "phase", "assignment", "leader_epoch",
    "offset", "value", "complete_ns",
)  # fmt: skip
"""Columns that the kernels use (besides `tp`)."""
COPIES: Final = ("src_tp", "src_offset")
"""Columns of sends that they use besides, where there may be copies (`Context.copies`)."""


def check_partition(tp: int, sends: Columns, reads: Columns, context: Context) -> PartitionResult:
    """All findings of one topic-partition.

    sends, reads: the partition's rows, columns `SENDS` and `READS`, sorted as sealed tables are
    (sends by op, pos; reads by process, op, pos).
    """
    result = PartitionResult(tp=tp, rows=len(sends["op"]) + len(reads["op"]))
    result.acknowledged = int((sends["outcome"] == OK).sum())
    begin = time.perf_counter()
    try:
        partition = view(tp, sends, reads, context)
    except Exception:  # noqa: BLE001 (all its checks are named as crashed, none passes)
        result.crashed = dict.fromkeys(KERNELS, traceback.format_exc(limit=-3))
        return result
    result.seconds["join"] = time.perf_counter() - begin
    for subject, kernel in KERNELS.items():
        begin = time.perf_counter()
        try:
            kernel(partition, result)
        except Exception:  # noqa: BLE001
            result.crashed[subject] = traceback.format_exc(limit=-3)
        result.seconds[subject] = time.perf_counter() - begin
    return result
