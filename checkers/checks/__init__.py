"""The checks, one module each: its kernel, its join over partitions, where its findings are allowed, their
evidence and sentences, and the documentation of its anomaly classes.

atomicity       Transactions with some records visible while others never will be.
committed_positions  Where groups stand in a partition (what checks of groups share).
compaction      Keys of compacted topics that were deleted and are back.
consistency     Offsets that hold several records.
copy_order      Copies of two inputs of one key that stand the other way round.
cycles          Dependency cycles over all partitions, and records read before they were sent.
dead_letters    What a share group wrote to its dead-letter queue.
durability      What was committed and is not in the log.
exactly_once    Inputs that a group copied twice, or never.
fencing         What a process wrote after another had taken its transactional id over.
group_delivery  What a group was given again, or never, although it had committed behind it.
group_offsets   The committed offset of a group goes back.
integrity       Records that were not sent like this, or not here.
isolation       Records of aborted or open transactions that were read.
poll_order      What one process was returned, in order, without gaps.
real_time       Records that stand before one that was acknowledged before they were sent.
recovery        Whether the cluster came back to full service.
share_groups    What a share group delivered, to whom and how often.
send_order      What one process sent, in the order in which it stands in the log.
stability       What keeps read_committed consumers waiting once all clients are gone.
uniqueness      Records that stand in the log twice.

To add a check: its rule in docs/checks.md, its module here, its line in `CHECKS`, its functions in the
oracle (tests/oracle) and in the judge (tests/adversary), and golden histories (tests/histories).
"""

from typing import Final

from checkers.checks import (
    atomicity,
    compaction,
    consistency,
    copy_order,
    cycles,
    dead_letters,
    durability,
    exactly_once,
    fencing,
    group_delivery,
    group_offsets,
    integrity,
    isolation,
    poll_order,
    real_time,
    recovery,
    send_order,
    share_groups,
    stability,
    uniqueness,
)
from checkers.engine.check import Check
from core.extensions import extensions

CHECKS: Final[dict[str, Check]] = {
    "durability": durability.CHECK,
    "compaction": compaction.CHECK,
    "uniqueness": uniqueness.CHECK,
    "atomicity": atomicity.CHECK,
    "isolation": isolation.CHECK,
    "integrity": integrity.CHECK,
    "consistency": consistency.CHECK,
    "real-time": real_time.CHECK,
    "send-order": send_order.CHECK,
    "poll-order": poll_order.CHECK,
    "group-offsets": group_offsets.CHECK,
    "stability": stability.CHECK,
    "exactly-once": exactly_once.CHECK,
    "copy-order": copy_order.CHECK,
    "group-delivery": group_delivery.CHECK,
    "share-groups": share_groups.CHECK,
    "dead-letters": dead_letters.CHECK,
    "fencing": fencing.CHECK,
    "cycles": cycles.CHECK,
    "recovery": recovery.CHECK,
    **extensions("checks"),
}
"""Name -> check, the most severe first. A module is named as its check. Extensions come last."""
