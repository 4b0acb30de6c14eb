"""Planted bugs of committed offsets, groups and consumers."""

from typing import Final

from model.mutants.mutant import (
    CLIENT,
    CROWD,
    DIVERGING,
    EARLY,
    GROUP_COORDINATORS,
    MEMORY,
    OFTEN,
    PILES,
    QUEUES,
    READER,
    TV1,
    Areas,
    HuntingGround,
    Mutant,
)

NEWER: Final = {
    "client_settings": {"consumer.group.protocol": "consumer"},
    "consumers": 5,
    "fault_s": 1.5,
    "calm_s": 0.5,
    "duration_s": 16,
}
"""Many members of groups of KIP-848, who come and go."""
STALLED: Final = NEWER | {"fault_s": 5, "calm_s": 1, "duration_s": 24}
"""One of them stands still for longer than its session."""

GROUPS: Final[Areas] = {
    "offsets": {
        "offset-commit-not-replicated": Mutant(
            wrong="a commit of offsets is answered when the coordinator has it",
            right="when all in-sync replicas of its log have",
            anomalies=("offset-commit-regression", "group-duplicate"),
            hunt=HuntingGround(("groups",), GROUP_COORDINATORS, OFTEN),
            no_trace=EARLY,
        ),
        "groups-forget-on-load": Mutant(
            wrong="a new group coordinator begins without the offsets of its log",
            right="it loads them",
            anomalies=("group-duplicate", "offset-commit-regression"),
            hunt=HuntingGround(("groups",), GROUP_COORDINATORS, OFTEN),
        ),
        "offsets-visible-before-commit": Mutant(
            wrong="offsets of a transaction count before it is committed, and when it is aborted",
            right="with its commit marker",
            anomalies=("eos-loss",),
            hunt=HuntingGround(("copier",), ("client:crash-in-transaction",)),
            no_trace=MEMORY,
        ),
        "offsets-of-aborted-txn": Mutant(
            wrong="offsets of an aborted transaction count",
            right="they are dropped",
            anomalies=("eos-loss",),
            hunt=HuntingGround(("copier",), ("client:crash-in-transaction",)),
            no_trace=MEMORY,
        ),
        "offsets-of-committed-txn-dropped": Mutant(
            wrong="offsets of a committed transaction are dropped",
            right="they count",
            anomalies=("eos-duplicate",),
            hunt=HuntingGround(("copier",), ("client:crash@member",)),
            no_trace=MEMORY,
        ),
        "refused-commit-drops-pending-offsets": Mutant(
            wrong="a refused commit of an older producer epoch drops the offsets of the open transaction",
            right="they are pending until its end; Kafka up to 3.9 had this bug",
            anomalies=("eos-duplicate",),
            hunt=None,
        ),
        "unstable-offsets-answered": Mutant(
            wrong="a member receives offsets that an ending transaction is about to change",
            right="UNSTABLE_OFFSET_COMMIT, until it has ended (KIP-447)",
            anomalies=("eos-duplicate",),
            hunt=HuntingGround(
                ("copier",),
                ("partition:clients-requests@txn-coordinator",),
                {
                    "verb_deadline_s": 2,
                    "transaction_timeout_s": 20,
                    "fault_s": 4,
                    "calm_s": 1,
                    "duration_s": 12,
                    "consumers": 6,
                    "rate": 80,
                    "batch_max": 2,
                    "partitions": 6,
                },
            ),
            no_trace=MEMORY,
        ),
        "offsets-applied-late": Mutant(
            wrong="a transaction's offsets count some time after its marker was answered",
            right="before (KAFKA-17507)",
            anomalies=("eos-duplicate",),
            hunt=HuntingGround(("copier",), ("client:crash@member",)),
            no_trace=MEMORY,
        ),
        "old-offset-answered": Mutant(
            wrong="a member receives an older offset than the committed one",
            right="the newest",
            anomalies=("offset-commit-regression", "group-duplicate", "eos-duplicate"),
            hunt=HuntingGround(("groups", "copier"), ("none", "client:crash")),
            no_trace=MEMORY,
        ),
        "offset-of-next-batch": Mutant(
            wrong="a member receives an offset one too high",
            right="that of the next record to read",
            anomalies=("group-skip", "eos-loss"),
            hunt=HuntingGround(("groups", "copier"), ("none", "client:crash")),
            no_trace=MEMORY,
        ),
    },
    "groups": {
        "generation-not-checked": Mutant(
            wrong="a member that was thrown out keeps committing offsets",
            right="ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID",
            anomalies=("offset-commit-regression", "group-duplicate", "eos-duplicate"),
            hunt=HuntingGround(
                ("copier",), ("client:pause@member",), {"transaction_timeout_s": 8, "duration_s": 16}
            ),
            no_trace=CLIENT,
        ),
        "generation-not-bumped": Mutant(
            wrong="a rebalance leaves the generation as it is",
            right="it rises, so that members of the one before learn of it",
            anomalies=("eos-duplicate", "offset-commit-regression", "group-duplicate"),
            hunt=None,
        ),
        "fenced-member-keeps-partitions": Mutant(
            wrong="a member of a group of KIP-848 that is fenced joins again, and reads on what it had",
            right="it gives that up before; KAFKA-16258 is akin: of members that poll too seldom",
            anomalies=("eos-duplicate", "offset-commit-regression", "group-duplicate"),
            hunt=HuntingGround(("copier",), ("client:pause@member",), STALLED),
            no_trace=CLIENT,
        ),
        "partition-given-before-release": Mutant(
            wrong="a member of a group of KIP-848 is given a partition that another one has not given up",
            right="it waits until that one says that it has it no more",
            anomalies=("eos-duplicate", "offset-commit-regression", "group-duplicate"),
            hunt=HuntingGround(("copier",), ("client:crash@member",), NEWER),
        ),
        "owners-forgotten-on-load": Mutant(
            wrong="a new group coordinator does not know which partitions members of groups of KIP-848 have",
            right="it reads that in its log",
            anomalies=("eos-duplicate", "offset-commit-regression", "group-duplicate"),
            hunt=None,
        ),
        "partitions-given-twice": Mutant(
            wrong="every member of a group is given every partition",
            right="each partition has one member",
            anomalies=("eos-duplicate", "offset-commit-regression", "group-duplicate"),
            hunt=HuntingGround(("copier", "groups")),
        ),
    },
    "consumer reads": {
        "lso-ignores-open": Mutant(
            wrong="read_committed consumers are given records of open transactions",
            right="they stop at the last stable offset",
            anomalies=("aborted-read", "precommitted-read"),
            hunt=HuntingGround(("transactions",)),
            no_trace=READER,
        ),
        "reads-above-hw": Mutant(
            wrong="consumers are given records above the high watermark",
            right="records that every in-sync replica has",
            anomalies=("inconsistent-offsets", "lost-write", "aborted-read", "duplicate"),
            hunt=HuntingGround(PILES, DIVERGING, CROWD),
            no_trace=READER,
        ),
        "aborted-index-by-first-offset": Mutant(
            wrong="a fetch names the aborted transactions that began in it, not those that began before",
            right="all that have records in it",
            anomalies=("aborted-read",),
            hunt=HuntingGround(("transactions",), settings={"abort_share": 0.4}),
            no_trace=READER,
        ),
        "aborted-not-filtered": Mutant(
            wrong="a read_committed consumer hands out records of aborted transactions",
            right="it passes them over",
            anomalies=("aborted-read",),
            hunt=HuntingGround(("transactions",)),
            no_trace=READER,
        ),
        "abort-marker-not-seen": Mutant(
            wrong="a consumer keeps passing a producer's records over after its abort marker",
            right="until the marker",
            anomalies=("poll-skip", "int-poll-skip", "lost-write"),
            hunt=HuntingGround(("transactions",), settings=TV1),
            no_trace=READER,
        ),
        "drops-what-does-not-fit": Mutant(
            wrong="a consumer drops fetched records that do not fit into one poll",
            right="the next poll hands them out",
            anomalies=("poll-skip", "int-poll-skip", "group-skip", "eos-loss", "lost-write"),
            hunt=HuntingGround(("copier",), ("client:crash@member",), {"rate": 40, "batch_max": 20}),
            no_trace=READER,
        ),
        "starts-over-on-error": Mutant(
            wrong="a consumer begins again after any failed fetch",
            right="it continues from its position",
            anomalies=("nonmonotonic-poll", "int-nonmonotonic-poll"),
            hunt=HuntingGround(QUEUES, ("elections", "kill:one@leader")),
            no_trace=READER,
        ),
        "stops-after-an-error": Mutant(
            wrong="a consumer fetches nothing more after a failed fetch, and its polls return empty",
            right="it asks again, where the metadata says",
            anomalies=("not-recovered",),
            hunt=HuntingGround(QUEUES, ("elections", "kill:one@leader")),
            no_trace=READER,
        ),
    },
}
