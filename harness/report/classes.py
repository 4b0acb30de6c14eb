"""Classes of anomalies by what may explain them, and by what explains them never."""

from typing import Final

OF_REPLICAS: Final = frozenset(
    {
        *("lost-write", "unseen", "inconsistent-offsets", "offset-reuse", "offset-realtime-inversion"),
        *("replica-divergence", "model-violation", "unclean-election", "damaged-log"),
    }
)
"""Classes whose cause may be how far replicas reached."""
OF_TRANSACTIONS: Final = frozenset(
    {
        *("torn-txn", "aborted-read", "precommitted-read", "stuck-lso", "hanging-txn", "zombie-write"),
        *("lost-write", "unseen", "lost-decision", "torn-decision", "hanging-partition"),
    }
)
"""Classes whose cause may be what was decided about a transaction."""
OF_GROUPS: Final = frozenset(
    {
        *("offset-commit-regression", "phantom-commit", "group-duplicate", "group-skip"),
        *("double-assignment", "eos-duplicate", "eos-loss"),
        *("eos-uncommitted", "nonmonotonic-copy"),
    }
)
"""Classes about what groups committed and were given: when the records themselves were acknowledged, and who
led their partitions, says nothing about them."""
OF_SEQUENCES: Final = frozenset(
    {"duplicate", "nonmonotonic-send", "int-nonmonotonic-send", "int-send-skip", "zombie-write"}
)
"""Classes whose cause may be how producers numbered their batches."""
OF_POLLS: Final = frozenset({"nonmonotonic-poll", "int-nonmonotonic-poll", "poll-skip", "int-poll-skip"})
"""Classes about one consumer."""
OF_SHARES: Final = frozenset(
    {
        *("share-redelivery", "share-two-holders", "share-skip", "share-aborted-read"),
        *("share-count", "share-over-limit"),
    }
)
"""Classes about what a share group gave its members."""
DONE_BY_THEN: Final = (
    OF_SEQUENCES
    | OF_POLLS
    | {"aborted-read", "precommitted-read", "eos-duplicate", "group-duplicate", "double-assignment"}
    | (OF_SHARES - {"share-skip"})
)
"""Classes whose findings are complete when their ops have ended: what began afterwards explains none."""
