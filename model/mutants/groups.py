"""Planted bugs of committed offsets, groups and consumers."""

from typing import Final

from model.mutants.mutant import (
    CROWD,
    DIVERGING,
    GROUP_COORDINATORS,
    OFTEN,
    PILES,
    QUEUES,
    TV1,
    HuntingGround,
    Mutant,
)

GROUPS: Final[dict[str, Mutant]] = {
    # ---- offsets
    "offset-commit-not-replicated": Mutant(
        area="offsets",
        wrong="a commit of offsets is answered when the coordinator has it",
        right="when all in-sync replicas of its log have",
        anomalies=("offset-commit-regression", "group-duplicate"),
        hunt=HuntingGround(workloads=("groups",), nemeses=GROUP_COORDINATORS, settings=OFTEN),
    ),
    "groups-forget-on-load": Mutant(
        area="offsets",
        wrong="a new group coordinator begins without the offsets of its log",
        right="it loads them",
        anomalies=("group-duplicate", "offset-commit-regression"),
        hunt=HuntingGround(workloads=("groups",), nemeses=GROUP_COORDINATORS, settings=OFTEN),
    ),
    "offsets-visible-before-commit": Mutant(
        area="offsets",
        wrong="offsets of a transaction count before it is committed, and when it is aborted",
        right="with its commit marker",
        anomalies=("eos-loss",),
        hunt=HuntingGround(workloads=("copier",), nemeses=("client:crash-in-transaction",)),
    ),
    "offsets-of-aborted-txn": Mutant(
        area="offsets",
        wrong="offsets of an aborted transaction count",
        right="they are dropped",
        anomalies=("eos-loss",),
        hunt=HuntingGround(workloads=("copier",), nemeses=("client:crash-in-transaction",)),
    ),
    "offsets-of-committed-txn-dropped": Mutant(
        area="offsets",
        wrong="offsets of a committed transaction are dropped",
        right="they count",
        anomalies=("eos-duplicate",),
        hunt=HuntingGround(workloads=("copier",), nemeses=("client:crash@member",)),
    ),
    "unstable-offsets-answered": Mutant(
        area="offsets",
        wrong="a member receives offsets that an ending transaction is about to change",
        right="UNSTABLE_OFFSET_COMMIT, until it has ended (KIP-447)",
        anomalies=("eos-duplicate",),
        hunt=HuntingGround(
            workloads=("copier",),
            nemeses=("partition:clients-requests@txn-coordinator",),
            settings={
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
    ),
    "offsets-applied-late": Mutant(
        area="offsets",
        wrong="a transaction's offsets count some time after its marker was answered",
        right="before (KAFKA-17507)",
        anomalies=("eos-duplicate",),
        hunt=HuntingGround(workloads=("copier",), nemeses=("client:crash@member",)),
    ),
    "old-offset-answered": Mutant(
        area="offsets",
        wrong="a member receives an older offset than the committed one",
        right="the newest",
        anomalies=("offset-commit-regression", "group-duplicate", "eos-duplicate"),
        hunt=HuntingGround(workloads=("groups", "copier"), nemeses=("none", "client:crash")),
    ),
    "offset-of-next-batch": Mutant(
        area="offsets",
        wrong="a member receives an offset one too high",
        right="that of the next record to read",
        anomalies=("group-skip", "eos-loss"),
        hunt=HuntingGround(workloads=("groups", "copier"), nemeses=("none", "client:crash")),
    ),
    # ---- groups
    "generation-not-checked": Mutant(
        area="groups",
        wrong="a member that was thrown out keeps committing offsets",
        right="ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID",
        anomalies=("offset-commit-regression", "group-duplicate", "eos-duplicate"),
        hunt=HuntingGround(
            workloads=("copier",),
            nemeses=("client:pause@member",),
            settings={"transaction_timeout_s": 8, "duration_s": 16},
        ),
    ),
    "generation-not-bumped": Mutant(
        area="groups",
        wrong="a rebalance leaves the generation as it is",
        right="it rises, so that members of the one before learn of it",
        anomalies=("eos-duplicate", "offset-commit-regression", "group-duplicate"),
        hunt=None,
    ),
    "partitions-given-twice": Mutant(
        area="groups",
        wrong="every member of a group is given every partition",
        right="each partition has one member",
        anomalies=("eos-duplicate", "offset-commit-regression", "group-duplicate"),
        hunt=HuntingGround(workloads=("copier", "groups")),
    ),
    # ---- consumer reads
    "lso-ignores-open": Mutant(
        area="consumer reads",
        wrong="read_committed consumers are given records of open transactions",
        right="they stop at the last stable offset",
        anomalies=("aborted-read", "precommitted-read"),
        hunt=HuntingGround(workloads=("transactions",)),
    ),
    "reads-above-hw": Mutant(
        area="consumer reads",
        wrong="consumers are given records above the high watermark",
        right="records that every in-sync replica has",
        anomalies=("inconsistent-offsets", "lost-write", "aborted-read", "duplicate"),
        hunt=HuntingGround(workloads=PILES, nemeses=DIVERGING, settings=CROWD),
    ),
    "aborted-index-by-first-offset": Mutant(
        area="consumer reads",
        wrong="a fetch names the aborted transactions that began in it, not those that began before",
        right="all that have records in it",
        anomalies=("aborted-read",),
        hunt=HuntingGround(workloads=("transactions",), settings={"abort_share": 0.4}),
    ),
    "aborted-not-filtered": Mutant(
        area="consumer reads",
        wrong="a read_committed consumer hands out records of aborted transactions",
        right="it passes them over",
        anomalies=("aborted-read",),
        hunt=HuntingGround(workloads=("transactions",)),
    ),
    "abort-marker-not-seen": Mutant(
        area="consumer reads",
        wrong="a consumer keeps passing a producer's records over after its abort marker",
        right="until the marker",
        anomalies=("poll-skip", "int-poll-skip", "lost-write"),
        hunt=HuntingGround(workloads=("transactions",), settings=TV1),
    ),
    "drops-what-does-not-fit": Mutant(
        area="consumer reads",
        wrong="a consumer drops fetched records that do not fit into one poll",
        right="the next poll hands them out",
        anomalies=("poll-skip", "int-poll-skip", "group-skip", "eos-loss", "lost-write"),
        hunt=HuntingGround(
            workloads=("copier",), nemeses=("client:crash@member",), settings={"rate": 40, "batch_max": 20}
        ),
    ),
    "starts-over-on-error": Mutant(
        area="consumer reads",
        wrong="a consumer begins again after any failed fetch",
        right="it continues from its position",
        anomalies=("nonmonotonic-poll", "int-nonmonotonic-poll"),
        hunt=HuntingGround(workloads=QUEUES, nemeses=("elections", "kill:one@leader")),
    ),
}
"""Name -> mutant, by area."""
