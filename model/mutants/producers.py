"""Planted bugs of idempotent producers and of clients that send again."""

from typing import Final

from model.mutants.mutant import (
    CLIENT,
    DOOMED,
    HELD,
    IMPATIENT,
    LEADERS,
    LONG,
    QUEUES,
    SENT_AGAIN,
    UNANSWERED,
    Areas,
    HuntingGround,
    Mutant,
)

PRODUCERS: Final[Areas] = {
    "idempotence": {
        "repeats-not-recognised": Mutant(
            wrong="a batch that is sent again is appended again",
            right="it is recognised by producer id, epoch and sequence",
            anomalies=("duplicate",),
            hunt=HuntingGround(("queue", "send-modes"), UNANSWERED),
        ),
        "sequence-not-checked": Mutant(
            wrong="a batch is appended although one before it is missing",
            right="OUT_OF_ORDER_SEQUENCE_NUMBER until the missing one is there",
            anomalies=("nonmonotonic-send", "int-nonmonotonic-send", "duplicate"),
            hunt=HuntingGround(("fresh-topic", "send-modes"), ("none", "partition:clients-responses")),
        ),
        "producers-lost-on-election": Mutant(
            wrong="a new leader knows nothing of the producers",
            right="followers learn the state of producers from the log",
            anomalies=("duplicate",),
            hunt=HuntingGround(
                ("queue", "send-modes"),
                ("pause:short@random,kill:one@leader", "partition:clients-responses@leader,kill:one@leader"),
                SENT_AGAIN,
            ),
        ),
        "producers-lost-on-restart": Mutant(
            wrong="a broker that was restarted knows nothing of the producers",
            right="it reads their state from the log",
            anomalies=("duplicate",),
            hunt=HuntingGround(
                ("queue", "send-modes"),
                ("pause:short@random,kill:all", "partition:clients-responses,kill:all"),
                SENT_AGAIN,
            ),
        ),
        "producer-id-reused": Mutant(
            wrong="every broker hands out the same producer ids",
            right="the controller gives each broker a block of its own (KIP-730)",
            anomalies=("lost-write", "duplicate"),
            hunt=HuntingGround(QUEUES, settings=DOOMED),
        ),
        "producer-id-repeated": Mutant(
            wrong="a broker gives every producer the id that it gave the first one",
            right="each gets the next one: a new process is a new producer (KIP-98)",
            anomalies=("lost-write", "duplicate"),
            hunt=None,
        ),
    },
    "client retries": {
        "bump-in-flight": Mutant(
            wrong="the producer takes a new epoch while batches of the old one are undecided",
            right="once every batch is decided (KIP-360); librdkafka 4953",
            anomalies=("duplicate", "nonmonotonic-send", "int-nonmonotonic-send"),
            hunt=HuntingGround(
                ("send-modes",),
                UNANSWERED,
                {"verb_deadline_s": 4, "fault_s": 6, "duration_s": 15, "partitions": 6, "producers": 8},
            ),
            no_trace=CLIENT,
        ),
        "retry-gets-new-sequence": Mutant(
            wrong="a batch that is sent again is numbered again",
            right="it keeps producer id, epoch and sequence",
            anomalies=("duplicate",),
            hunt=HuntingGround(("queue", "send-modes"), UNANSWERED),
            no_trace=CLIENT,
        ),
        "silence-is-an-ack": Mutant(
            wrong="a request without an answer counts as acknowledged",
            right="it is sent again",
            anomalies=("lost-write", "torn-txn"),
            hunt=HuntingGround(QUEUES, ("kill:one@leader", "partition:isolate@leader")),
            no_trace=CLIENT,
        ),
        "expiry-is-an-ack": Mutant(
            wrong="a record whose delivery time has run out is reported as delivered",
            right="as timed out: it may be in the log or not",
            anomalies=("lost-write", "torn-txn"),
            hunt=HuntingGround(
                QUEUES, ("kill:one@leader", "partition:clients-requests@leader"), LONG | IMPATIENT
            ),
            no_trace=CLIENT,
        ),
        "asks-the-leader-only": Mutant(
            wrong="the producer asks for acks=1 where acks=all is configured",
            right="it asks for all",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=HuntingGround(QUEUES, LEADERS, LONG),
            no_trace=CLIENT,
        ),
        "commits-without-acks": Mutant(
            wrong="a transaction is committed although a record of it was given up",
            right="it can only be aborted",
            anomalies=("lost-write", "torn-txn"),
            hunt=HuntingGround(
                ("transactions",), ("kill:one@leader", "partition:clients-requests@leader"), LONG | IMPATIENT
            ),
            no_trace=CLIENT,
        ),
        "silent-end-is-done": Mutant(
            wrong="EndTxn without an answer counts as done",
            right="the client asks again until the coordinator answers",
            anomalies=("lost-write", "torn-txn", "aborted-read"),
            hunt=HuntingGround(
                ("transactions",),
                ("pause:short@random,kill:one@txn-coordinator", "partition:clients-requests@txn-coordinator"),
                {"fault_s": 2, "calm_s": 0.5, "producers": 6},
            ),
            no_trace=CLIENT,
        ),
        "abort-keeps-epoch": Mutant(
            wrong="after an abort with records in doubt the producer continues with its epoch",
            right="it takes a new one: a late record must not join the next transaction",
            anomalies=("aborted-read", "duplicate", "nonmonotonic-send"),
            hunt=HuntingGround(("transactions",), ("partition:clients-requests@leader",), HELD),
            no_trace=CLIENT,
        ),
    },
}
