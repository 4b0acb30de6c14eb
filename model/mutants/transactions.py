"""Planted bugs of transactions, their markers, fencing and time-outs."""

from typing import Final

from model.mutants.mutant import (
    BUSY,
    COORDINATORS,
    CROSSED,
    EARLY,
    HELD,
    MEMORY,
    OFTEN,
    TIMELY,
    TV1,
    TWO_BROKERS,
    Areas,
    HuntingGround,
    Mutant,
)

TRANSACTIONS: Final[Areas] = {
    "transactions": {
        "commit-before-prepare-logged": Mutant(
            wrong="the end of a transaction is answered before the decision is replicated",
            right="afterwards: the next coordinator would decide otherwise",
            anomalies=("lost-write", "torn-txn", "aborted-read"),
            hunt=HuntingGround(
                ("transactions",),
                ("pause:short@random,kill:one@txn-coordinator",),
                BUSY | TV1 | TWO_BROKERS | {"abort_share": 0.5},
            ),
            no_trace=EARLY,
        ),
        "partitions-not-logged": Mutant(
            wrong="partitions join a transaction in the coordinator's memory only",
            right="they are logged first: the next coordinator has to write markers there",
            anomalies=("stuck-lso", "torn-txn", "lost-write"),
            hunt=HuntingGround(("transactions",), COORDINATORS, OFTEN),
        ),
        "coordinator-forgets-on-load": Mutant(
            wrong="a new coordinator begins without the transactions of its log",
            right="it loads them, and ends what was prepared",
            anomalies=("stuck-lso", "lost-write", "torn-txn"),
            hunt=HuntingGround(("transactions",), COORDINATORS, OFTEN),
        ),
        "prepared-becomes-ongoing-on-load": Mutant(
            wrong="a new coordinator takes a prepared transaction for an open one",
            right="it writes the markers of what was decided",
            anomalies=("lost-write", "torn-txn"),
            hunt=HuntingGround(("transactions",), ("kill:one@txn-coordinator",), BUSY | {"abort_share": 0.5}),
        ),
        "prepared-aborts-on-load": Mutant(
            wrong="a new coordinator aborts a transaction whose commit is decided",
            right="it writes the markers of what was decided",
            anomalies=("lost-write", "torn-txn"),
            hunt=HuntingGround(("transactions",), ("kill:one@txn-coordinator",), BUSY),
        ),
        "markers-lost-on-load": Mutant(
            wrong="a new coordinator takes a prepared transaction for a complete one",
            right="it writes the markers of what was decided",
            anomalies=("stuck-lso", "torn-txn", "lost-write"),
            hunt=HuntingGround(("transactions",), ("kill:one@txn-coordinator",), BUSY),
        ),
        "added-partitions-logged-alone": Mutant(
            wrong="where partitions join a transaction, the coordinator logs those alone",
            right="it logs all of them: the next coordinator has to write markers there",
            anomalies=("torn-txn", "stuck-lso", "lost-write", "aborted-read"),
            hunt=HuntingGround(("transactions",), COORDINATORS, OFTEN),
        ),
        "verification-skipped": Mutant(
            wrong="a leader appends a transaction's first record without asking the coordinator",
            right="it asks whether the transaction is open (KIP-890, part 1)",
            anomalies=("stuck-lso", "aborted-read"),
            hunt=HuntingGround(("transactions",), ("partition:clients-requests@leader",), HELD),
        ),
    },
    "markers": {
        "marker-skips-a-partition": Mutant(
            wrong="one partition of a transaction is given no marker",
            right="every one is",
            anomalies=("torn-txn", "stuck-lso"),
            hunt=HuntingGround(("transactions",)),
        ),
        "markers-not-retried": Mutant(
            wrong="a marker that could not be written is left out",
            right="it is written as often as it takes",
            anomalies=("torn-txn", "stuck-lso"),
            hunt=HuntingGround(("transactions",), ("kill:one@leader",), BUSY | {"partitions": 3}),
        ),
        "commit-writes-abort": Mutant(
            wrong="a commit writes abort markers",
            right="commit markers",
            anomalies=("lost-write",),
            hunt=HuntingGround(("transactions",)),
        ),
        "abort-answers-commit": Mutant(
            wrong="an abort writes commit markers",
            right="abort markers",
            anomalies=("aborted-read",),
            hunt=HuntingGround(("transactions",)),
        ),
        "marker-by-old-coordinator-accepted": Mutant(
            wrong="a leader takes markers of a coordinator that was replaced",
            right="TRANSACTION_COORDINATOR_FENCED",
            anomalies=("torn-txn", "aborted-read", "lost-write"),
            hunt=HuntingGround(
                ("transactions",),
                ("partition:ring,pause:long@txn-coordinator",),
                CROSSED | TV1 | {"producers": 24, "fault_s": 10, "calm_s": 2, "duration_s": 30},
            ),
        ),
        "late-marker-appended": Mutant(
            wrong="a leader takes any marker, also one of an earlier transaction",
            right="the epoch has to be newer than that of the open transaction (KAFKA-19446)",
            anomalies=("torn-txn", "aborted-read", "lost-write"),
            hunt=HuntingGround(("transactions",), ("partition:ring",), CROSSED),
        ),
    },
    "fencing": {
        "zombie-not-fenced": Mutant(
            wrong="InitProducerId hands out the epoch of the predecessor",
            right="the next one, which fences it",
            anomalies=("lost-write", "zombie-write", "torn-txn", "aborted-read"),
            hunt=HuntingGround(("fencing",), ("pause:short@random",), {"rate": 60, "calm_s": 0.5}),
        ),
        "init-leaves-open": Mutant(
            wrong="InitProducerId leaves the predecessor's transaction open for its successor",
            right="it is aborted first",
            anomalies=("torn-txn", "stuck-lso", "aborted-read", "zombie-write"),
            hunt=HuntingGround(
                ("fencing",), ("pause:short@leader",), {"brokers": 5, "rate": 60, "calm_s": 0.5}
            ),
        ),
        "end-txn-ignores-epoch": Mutant(
            wrong="EndTxn of a fenced producer ends its successor's transaction",
            right="PRODUCER_FENCED",
            anomalies=("zombie-write", "aborted-read", "torn-txn", "lost-write"),
            hunt=HuntingGround(
                ("fencing",),
                ("client:pause@transactional,links,pause:short@txn-coordinator",),
                {
                    "rate": 200,
                    "producers": 2,
                    "consumers": 0,
                    "batch_max": 2,
                    "calm_s": 0.3,
                    "transaction_timeout_s": 1,
                },
            ),
            no_trace=EARLY,
        ),
        "old-epoch-appended": Mutant(
            wrong="a leader appends batches of a producer epoch that was fenced",
            right="INVALID_PRODUCER_EPOCH",
            anomalies=("zombie-write", "aborted-read"),
            hunt=HuntingGround(("fencing",)),
        ),
    },
    "timeouts": {
        "timeout-does-not-bump-epoch": Mutant(
            wrong="a transaction that timed out leaves its producer the epoch",
            right="the epoch is bumped, so that its producer cannot continue (KAFKA-6119)",
            anomalies=("torn-txn", "lost-write", "aborted-read"),
            hunt=HuntingGround(
                ("transactions",),
                (
                    "partition:clients-responses@leader",
                    "partition:clients-requests@leader",
                    "pause:short@leader",
                ),
                TIMELY | {"era": "4.1", "fault_s": 2},
            ),
        ),
        "timeout-commits": Mutant(
            wrong="a transaction whose time has run out is committed, with the records written so far",
            right="it is aborted",
            anomalies=("torn-txn",),
            hunt=HuntingGround(("transactions",), ("pause:short@leader", "pause:short@random"), TIMELY),
            no_trace=MEMORY,
        ),
        "late-commit-answered": Mutant(
            wrong="a commit that comes after the transaction timed out is answered as done",
            right="PRODUCER_FENCED",
            anomalies=("lost-write",),
            hunt=HuntingGround(("transactions",), ("pause:short@leader", "pause:short@random"), TIMELY),
            no_trace=EARLY,
        ),
    },
}
