"""Planted bugs of the cleaner of compacted topics."""

from typing import Final

from model.mutants.mutant import Areas, HuntingGround, Mutant

TOPIC: Final = {"cleanup.policy": "compact", "delete.retention.ms": "2000"}
CLEANED: Final = {"preset": "compacted", "topic_settings": TOPIC, "duration_s": 25, "rate": 40}
"""Tombstones are over their time long before the run ends."""
HUNT: Final = HuntingGround(("compacted",), ("none", "kill:one@leader"), CLEANED)

CLEANER: Final[Areas] = {
    "cleaner": {
        "oldest-of-a-key-stays": Mutant(
            wrong="of each key the cleaner keeps the oldest record",
            right="it keeps the newest one",
            anomalies=("lost-write", "torn-txn"),
            hunt=HUNT,
            no_trace="rules about logs do not know the keys of records",
        ),
        "tombstones-delete-nothing": Mutant(
            wrong="the cleaner removes a tombstone in time, and not what it deleted",
            right="a tombstone goes last, when no older record of its key is left",
            anomalies=("resurrected-key",),
            hunt=HUNT,
            no_trace="rules about logs do not know the keys of records",
        ),
        "aborted-stays-as-plain": Mutant(
            wrong="the cleaner writes what it keeps as records without a transaction, aborted ones too",
            right="records of aborted transactions go, and others stay those of their transaction",
            anomalies=("aborted-read", "lost-write", "torn-txn"),
            hunt=HUNT,
            no_trace="below the cleaner's checkpoint nothing is asked of a log",
        ),
    }
}
