"""Planted bugs: each makes the model break one rule of Kafka's protocol, and has to be found.

A mutant is in force where its name is among `Settings.bugs`; the lines that it changes ask for that name. It
declares the anomaly classes of the damage, the principal one first, and where to look for it.

Not here: behaviour that Kafka had once (`eras`), looking for mutants (`harness.explore`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """Where a mutant shows: runs of these workloads under these nemeses (the names of the command line),
    with `settings` of the run besides those of every exploration."""

    workloads: tuple[str, ...]
    nemeses: tuple[str, ...] = ("none",)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One planted bug; its name is the key in `MUTANTS`.

    area: part of the protocol. wrong, right: what it does, and what Kafka does. anomalies: classes that
    it causes, the principal one first; each further one is another face of the same damage. hunt: None
    where no nemesis of today brings about what it takes; scenarios (`model.scenarios`) show it.
    """

    area: str
    wrong: str
    right: str
    anomalies: tuple[str, ...]
    hunt: Hunt | None


QUEUES: Final = ("queue", "transactions")
PILES: Final = ("send-modes", "transactions")
"""Workloads that leave records at a leader which nobody follows."""

LEADERS: Final = ("kill:one@leader", "partition:isolate@leader", "pause:long@leader")
DIVERGING: Final = ("partition:isolate@leader", "partition:one-way-in@leader")
LAGGING: Final = (
    "partition:one-way-in@random,kill:one@leader", "pause:short@random,kill:one@leader",
    "partition:isolate@random,kill:one@leader",
)  # fmt: skip
"""A replica falls behind, and meanwhile the leader dies."""
ALL_DOWN: Final = ("kill:all", "kill:majority", "kill:one@leader")
COORDINATORS: Final = (
    "pause:short@random,kill:one@txn-coordinator", "client:crash-in-transaction,kill:one@txn-coordinator",
)  # fmt: skip
"""The coordinator dies while transactions are held up or abandoned."""
GROUP_COORDINATORS: Final = ("pause:short@random,kill:one@group-coordinator",)
UNANSWERED: Final = ("partition:clients-responses@leader", "partition:clients-responses")

LONG: Final = {"fault_s": 5, "calm_s": 1, "duration_s": 15}
"""Faults that outlive the session of a broker and the lag that an in-sync replica may have."""
LONGER: Final = {"fault_s": 8, "calm_s": 1, "duration_s": 30}
"""One fault begins and ends in the midst of another one."""
SENT_AGAIN: Final = {"fault_s": 2, "calm_s": 0.5, "producers": 6, "verb_deadline_s": 20}
"""Producers go on sending a batch until somebody answers."""
CROWD: Final = LONG | {"partitions": 1, "producers": 8, "rate": 40, "consumers": 2}
"""Every fault hits the same partition, and many clients are in the middle of something."""
PAIR: Final = CROWD | {"replication_factor": 2, "duration_s": 20}
"""Two replicas, both of which the minimum needs."""
OFTEN: Final = {"fault_s": 1.2, "calm_s": 0.3, "duration_s": 12, "producers": 6}
"""Many short faults: what they have to hit lasts milliseconds."""
BUSY: Final = {
    "rate": 250, "producers": 10, "batch_max": 2, "partitions": 1, "consumers": 0, "fault_s": 1,
    "calm_s": 1.2, "duration_s": 8,
}  # fmt: skip
"""So many small transactions that some are always about to end."""
TWO_BROKERS: Final = {
    "brokers": 2, "controllers": 3, "replication_factor": 2, "min_insync_replicas": 1,
}  # fmt: skip
"""Whoever stands still is the only other replica of everything."""
TIMELY: Final = {"transaction_timeout_s": 1, "fault_s": 1.5, "calm_s": 0.5}
"""Transactions that are held up are over time."""
CROSSED: Final = {
    "brokers": 5, "controllers": 3, "replication_factor": 1, "min_insync_replicas": 1, "partitions": 4,
    "producers": 16, "consumers": 1, "rate": 100, "batch_max": 2, "abort_share": 0.5, "fault_s": 6,
    "calm_s": 0.4, "duration_s": 20, "verb_deadline_s": 30, "transaction_timeout_s": 30,
}  # fmt: skip
"""Coordinators are cut from leaders for long, and nobody is cut from the controllers: markers pile up."""
DOOMED: Final = {"recovery_deadline_s": 15}
"""It may never recover."""
IMPATIENT: Final = {"verb_deadline_s": 2}
TV1: Final = {"era": "4.2-tv1"}
"""Clients of transaction version 1, as librdkafka is."""
HELD: Final = TV1 | {
    "verb_deadline_s": 1, "fault_s": 1.5, "calm_s": 0.5, "abort_share": 0.3, "producers": 6,
}  # fmt: skip
"""Requests are held up in the network for longer than their clients wait."""


MUTANTS: Final[dict[str, Mutant]] = {
    # ---- replication
    "ack-before-replication": Mutant(
        area="replication",
        wrong="acks=all is answered when the leader has the records",
        right="when every in-sync replica has them (the high watermark has passed them)",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=Hunt(workloads=QUEUES, nemeses=LEADERS, settings=LONG),
    ),
    "hw-is-leader-end": Mutant(
        area="replication",
        wrong="the high watermark is the end of the leader's log",
        right="it is the lowest end among the in-sync replicas",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=Hunt(workloads=QUEUES, nemeses=LEADERS, settings=LONG),
    ),
    "hw-by-majority": Mutant(
        area="replication",
        wrong="the high watermark is what a majority of the replicas has, as in Raft",
        right="it is what every in-sync replica has: any of them may lead next",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=Hunt(workloads=QUEUES, nemeses=LAGGING, settings=LONG),
    ),
    "hw-ignores-proposed": Mutant(
        area="replication",
        wrong="the high watermark follows an in-sync set that the controller was only asked for",
        right="until the answer the larger of both sets counts (KIP-497)",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=Hunt(
            workloads=QUEUES,
            nemeses=("pause:long@leader", "partition:isolate@leader"),
            settings=LONG,
        ),
    ),
    "hw-below-min-isr": Mutant(
        area="replication",
        wrong="the high watermark goes on below the minimum of in-sync replicas",
        right="it stands still: eligible replicas need not have what comes now (KIP-966)",
        anomalies=("inconsistent-offsets", "lost-write", "torn-txn"),
        hunt=Hunt(
            workloads=("send-modes",),
            nemeses=(
                "partition:isolate@random,kill:one@leader",
                "pause:long@random,kill:one@leader",
            ),
            settings=PAIR | {"acks": 1, "idempotent": False, "fault_s": 7},
        ),
    ),
    "min-isr-ignored": Mutant(
        area="replication",
        wrong="acks=all is served with fewer in-sync replicas than the minimum",
        right="NOT_ENOUGH_REPLICAS: what one replica has alone is lost with it",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=Hunt(
            workloads=("queue", "send-modes"),
            nemeses=(
                "partition:isolate@random,kill:one@leader",
                "pause:long@random,kill:one@leader",
            ),
            settings=LONGER | {"replication_factor": 2},
        ),
    ),
    "isr-expands-early": Mutant(
        area="replication",
        wrong="a follower joins the in-sync set with its first fetch",
        right="when it has everything below the high watermark",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=Hunt(
            workloads=("queue",),
            nemeses=(
                "partition:one-way-in@random,kill:one@leader",
                "partition:isolate@random,kill:one@leader",
            ),
            settings=LONGER,
        ),
    ),
    # ---- election
    "elects-any-replica": Mutant(
        area="election",
        wrong="the first live replica becomes leader",
        right="one of the in-sync (or eligible) replicas",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=Hunt(workloads=QUEUES, nemeses=LAGGING, settings=LONG),
    ),
    "unclean-stays-eligible": Mutant(
        area="election",
        wrong="a broker that comes back from an unclean shutdown may still be elected from the eligible set",
        right="it leaves both sets: the end of its log may be gone (KIP-966)",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=None,
    ),
    "alter-unfenced": Mutant(
        area="election",
        wrong="the controller takes an in-sync set from a leader that it has replaced",
        right="FENCED_LEADER_EPOCH",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=Hunt(
            workloads=("queue",),
            nemeses=("partition:isolate@leader", "pause:long@leader"),
            settings=LONGER,
        ),
    ),
    "alter-unversioned": Mutant(
        area="election",
        wrong="the controller takes an in-sync set that was made from an older one",
        right="INVALID_UPDATE_VERSION: the partition epoch has to be the newest (KIP-497)",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=None,
    ),
    "epoch-not-bumped": Mutant(
        area="epochs",
        wrong="a new leader keeps the leader epoch of the old one",
        right="the epoch rises with every change of the leader",
        anomalies=("inconsistent-offsets", "lost-write", "not-recovered"),
        hunt=Hunt(workloads=PILES, nemeses=DIVERGING, settings=CROWD | DOOMED),
    ),
    # ---- metadata
    "controller-epoch-ignored": Mutant(
        area="election",
        wrong="brokers obey a controller whose epoch is over (on ZooKeeper)",
        right="STALE_CONTROLLER_EPOCH",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=None,
    ),
    "votes-twice": Mutant(
        area="metadata",
        wrong="a voter grants its vote to several candidates of one epoch",
        right="to one: else two controllers decide",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=None,
    ),
    "vote-ignores-log": Mutant(
        area="metadata",
        wrong="a voter grants its vote to a candidate whose metadata log lacks committed records",
        right="to one whose log reaches as far as its own (Raft, 5.4.1)",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=Hunt(
            workloads=QUEUES,
            nemeses=("partition:isolate@leader", "pause:long@leader"),
            settings=LONG | DOOMED,
        ),
    ),
    "controller-decides-alone": Mutant(
        area="metadata",
        wrong="a controller that a majority does not hear goes on, and its own log is enough",
        right="it resigns (KIP-835), and nothing is committed that a majority has not got",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=Hunt(
            workloads=QUEUES,
            nemeses=("partition:isolate@controller",),
            settings=LONG | DOOMED | {"min_insync_replicas": 1},
        ),
    ),
    # ---- truncation
    "keep-tail": Mutant(
        area="truncation",
        wrong="a follower keeps the end of its log when the leader changes",
        right="it cuts back to where both logs are the same",
        anomalies=("inconsistent-offsets", "lost-write", "torn-txn", "not-recovered"),
        hunt=Hunt(workloads=PILES, nemeses=DIVERGING, settings=CROWD | DOOMED),
    ),
    "truncate-to-hw": Mutant(
        area="truncation",
        wrong="a follower cuts back to its own high watermark, which lags",
        right="to the end of its newest epoch in the leader's log (KIP-101)",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=Hunt(workloads=QUEUES, nemeses=ALL_DOWN),
    ),
    "truncate-too-far": Mutant(
        area="truncation",
        wrong="a follower cuts back to the begin of its newest epoch",
        right="to its end in the leader's log",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=Hunt(workloads=QUEUES, nemeses=ALL_DOWN),
    ),
    "no-epoch-walk": Mutant(
        area="truncation",
        wrong="a follower cuts once, by whatever epoch the leader answers with",
        right="it asks on until both logs have the epoch (KIP-279)",
        anomalies=("inconsistent-offsets", "lost-write", "torn-txn"),
        hunt=None,
    ),
    # ---- idempotence
    "repeats-not-recognised": Mutant(
        area="idempotence",
        wrong="a batch that is sent again is appended again",
        right="it is recognised by producer id, epoch and sequence",
        anomalies=("duplicate",),
        hunt=Hunt(workloads=("queue", "send-modes"), nemeses=UNANSWERED),
    ),
    "sequence-not-checked": Mutant(
        area="idempotence",
        wrong="a batch is appended although one before it is missing",
        right="OUT_OF_ORDER_SEQUENCE_NUMBER until the missing one is there",
        anomalies=("nonmonotonic-send", "int-nonmonotonic-send", "duplicate"),
        hunt=Hunt(
            workloads=("fresh-topic", "send-modes"), nemeses=("none", "partition:clients-responses")
        ),
    ),
    "producers-lost-on-election": Mutant(
        area="idempotence",
        wrong="a new leader knows nothing of the producers",
        right="followers learn the state of producers from the log",
        anomalies=("duplicate",),
        hunt=Hunt(
            workloads=("queue", "send-modes"),
            nemeses=(
                "pause:short@random,kill:one@leader",
                "partition:clients-responses@leader,kill:one@leader",
            ),
            settings=SENT_AGAIN,
        ),
    ),
    "producers-lost-on-restart": Mutant(
        area="idempotence",
        wrong="a broker that was restarted knows nothing of the producers",
        right="it reads their state from the log",
        anomalies=("duplicate",),
        hunt=Hunt(
            workloads=("queue", "send-modes"),
            nemeses=("pause:short@random,kill:all", "partition:clients-responses,kill:all"),
            settings=SENT_AGAIN,
        ),
    ),
    "producer-id-reused": Mutant(
        area="idempotence",
        wrong="every broker hands out the same producer ids",
        right="the controller gives each broker a block of its own (KIP-730)",
        anomalies=("lost-write", "duplicate"),
        hunt=Hunt(workloads=QUEUES, nemeses=("none",), settings=DOOMED),
    ),
    # ---- client retries
    "bump-in-flight": Mutant(
        area="client retries",
        wrong="the producer takes a new epoch while batches of the old one are undecided",
        right="once every batch is decided (KIP-360); librdkafka 4953",
        anomalies=("duplicate", "nonmonotonic-send", "int-nonmonotonic-send"),
        hunt=Hunt(
            workloads=("send-modes",),
            nemeses=UNANSWERED,
            settings={
                "verb_deadline_s": 4,
                "fault_s": 6,
                "duration_s": 15,
                "partitions": 6,
                "producers": 8,
            },
        ),
    ),
    "retry-gets-new-sequence": Mutant(
        area="client retries",
        wrong="a batch that is sent again is numbered anew",
        right="it keeps producer id, epoch and sequence",
        anomalies=("duplicate",),
        hunt=Hunt(workloads=("queue", "send-modes"), nemeses=UNANSWERED),
    ),
    "silence-is-an-ack": Mutant(
        area="client retries",
        wrong="a request without an answer counts as acknowledged",
        right="it is sent again",
        anomalies=("lost-write", "torn-txn"),
        hunt=Hunt(workloads=QUEUES, nemeses=("kill:one@leader", "partition:isolate@leader")),
    ),
    "expiry-is-an-ack": Mutant(
        area="client retries",
        wrong="a record whose delivery time is over is reported as delivered",
        right="as timed out: it may be in the log or not",
        anomalies=("lost-write", "torn-txn"),
        hunt=Hunt(
            workloads=QUEUES,
            nemeses=("kill:one@leader", "partition:clients-requests@leader"),
            settings=LONG | IMPATIENT,
        ),
    ),
    "asks-the-leader-only": Mutant(
        area="client retries",
        wrong="the producer asks for acks=1 where acks=all is configured",
        right="it asks for all",
        anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
        hunt=Hunt(workloads=QUEUES, nemeses=LEADERS, settings=LONG),
    ),
    "commits-without-acks": Mutant(
        area="client retries",
        wrong="a transaction is committed although a record of it was given up",
        right="it can only be aborted",
        anomalies=("lost-write", "torn-txn"),
        hunt=Hunt(
            workloads=("transactions",),
            nemeses=("kill:one@leader", "partition:clients-requests@leader"),
            settings=LONG | IMPATIENT,
        ),
    ),
    "silent-end-is-done": Mutant(
        area="client retries",
        wrong="EndTxn without an answer counts as done",
        right="it is asked for again until somebody answers",
        anomalies=("lost-write", "torn-txn", "aborted-read"),
        hunt=Hunt(
            workloads=("transactions",),
            nemeses=(
                "pause:short@random,kill:one@txn-coordinator",
                "partition:clients-requests@txn-coordinator",
            ),
            settings={"fault_s": 2, "calm_s": 0.5, "producers": 6},
        ),
    ),
    "abort-keeps-epoch": Mutant(
        area="client retries",
        wrong="after an abort with records under way the producer goes on with its epoch",
        right="it takes a new one: a late record must not join the next transaction",
        anomalies=("aborted-read", "duplicate", "nonmonotonic-send"),
        hunt=Hunt(
            workloads=("transactions",),
            nemeses=("partition:clients-requests@leader",),
            settings=HELD,
        ),
    ),
    # ---- transactions
    "commit-before-prepare-logged": Mutant(
        area="transactions",
        wrong="the end of a transaction is answered before the decision is replicated",
        right="afterwards: the next coordinator would decide otherwise",
        anomalies=("lost-write", "torn-txn", "aborted-read"),
        hunt=Hunt(
            workloads=("transactions",),
            nemeses=("pause:short@random,kill:one@txn-coordinator",),
            settings=BUSY | TV1 | TWO_BROKERS | {"abort_share": 0.5},
        ),
    ),
    "partitions-not-logged": Mutant(
        area="transactions",
        wrong="partitions join a transaction in the coordinator's memory only",
        right="they are logged first: the next coordinator has to write markers there",
        anomalies=("stuck-lso", "torn-txn", "lost-write"),
        hunt=Hunt(workloads=("transactions",), nemeses=COORDINATORS, settings=OFTEN),
    ),
    "coordinator-forgets-on-load": Mutant(
        area="transactions",
        wrong="a new coordinator begins without the transactions of its log",
        right="it loads them, and ends what was prepared",
        anomalies=("stuck-lso", "lost-write", "torn-txn"),
        hunt=Hunt(workloads=("transactions",), nemeses=COORDINATORS, settings=OFTEN),
    ),
    "prepared-becomes-ongoing-on-load": Mutant(
        area="transactions",
        wrong="a new coordinator takes a prepared transaction for an open one",
        right="it writes the markers of what was decided",
        anomalies=("lost-write", "torn-txn"),
        hunt=Hunt(
            workloads=("transactions",),
            nemeses=("kill:one@txn-coordinator",),
            settings=BUSY | {"abort_share": 0.5},
        ),
    ),
    "verification-skipped": Mutant(
        area="transactions",
        wrong="a leader appends a transaction's first record without asking the coordinator",
        right="it asks whether the transaction is open (KIP-890, part 1)",
        anomalies=("stuck-lso", "aborted-read"),
        hunt=Hunt(
            workloads=("transactions",),
            nemeses=("partition:clients-requests@leader",),
            settings=HELD,
        ),
    ),
    # ---- markers
    "marker-skips-a-partition": Mutant(
        area="markers",
        wrong="one partition of a transaction is given no marker",
        right="every one is",
        anomalies=("torn-txn", "stuck-lso"),
        hunt=Hunt(workloads=("transactions",)),
    ),
    "markers-not-retried": Mutant(
        area="markers",
        wrong="a marker that could not be written is left out",
        right="it is written as often as it takes",
        anomalies=("torn-txn", "stuck-lso"),
        hunt=Hunt(
            workloads=("transactions",),
            nemeses=("kill:one@leader",),
            settings=BUSY | {"partitions": 3},
        ),
    ),
    "commit-writes-abort": Mutant(
        area="markers",
        wrong="a commit writes abort markers",
        right="commit markers",
        anomalies=("lost-write",),
        hunt=Hunt(workloads=("transactions",)),
    ),
    "abort-answers-commit": Mutant(
        area="markers",
        wrong="an abort writes commit markers",
        right="abort markers",
        anomalies=("aborted-read",),
        hunt=Hunt(workloads=("transactions",)),
    ),
    "marker-by-old-coordinator-accepted": Mutant(
        area="markers",
        wrong="a leader takes markers of a coordinator that was replaced",
        right="TRANSACTION_COORDINATOR_FENCED",
        anomalies=("torn-txn", "aborted-read", "lost-write"),
        hunt=None,
    ),
    "late-marker-appended": Mutant(
        area="markers",
        wrong="a leader takes any marker, also one of an earlier transaction",
        right="the epoch has to be newer than that of the open transaction (KAFKA-19446)",
        anomalies=("torn-txn", "aborted-read", "lost-write"),
        hunt=Hunt(workloads=("transactions",), nemeses=("partition:ring",), settings=CROSSED),
    ),
    # ---- fencing
    "zombie-not-fenced": Mutant(
        area="fencing",
        wrong="InitProducerId hands out the epoch of the predecessor",
        right="the next one, which fences it",
        anomalies=("lost-write", "zombie-write", "torn-txn", "aborted-read"),
        hunt=Hunt(
            workloads=("fencing",),
            nemeses=("pause:short@random",),
            settings={"rate": 60, "calm_s": 0.5},
        ),
    ),
    "init-leaves-open": Mutant(
        area="fencing",
        wrong="InitProducerId leaves the predecessor's transaction open for its successor",
        right="it is aborted first",
        anomalies=("torn-txn", "stuck-lso", "aborted-read", "zombie-write"),
        hunt=Hunt(
            workloads=("fencing",),
            nemeses=("pause:short@leader",),
            settings={"brokers": 5, "rate": 60, "calm_s": 0.5},
        ),
    ),
    "end-txn-ignores-epoch": Mutant(
        area="fencing",
        wrong="EndTxn of a fenced producer ends its successor's transaction",
        right="PRODUCER_FENCED",
        anomalies=("zombie-write", "aborted-read", "torn-txn", "lost-write"),
        hunt=Hunt(
            workloads=("fencing",),
            nemeses=("client:pause@transactional",),
            settings={
                "rate": 200,
                "producers": 2,
                "consumers": 0,
                "batch_max": 2,
                "calm_s": 0.3,
                "transaction_timeout_s": 1,
            },
        ),
    ),
    "old-epoch-appended": Mutant(
        area="fencing",
        wrong="a leader appends batches of a producer epoch that was fenced",
        right="INVALID_PRODUCER_EPOCH",
        anomalies=("zombie-write", "aborted-read"),
        hunt=Hunt(workloads=("fencing",)),
    ),
    # ---- timeouts
    "timeout-does-not-bump-epoch": Mutant(
        area="timeouts",
        wrong="a transaction that timed out leaves its producer the epoch",
        right="the epoch is bumped, so that its producer cannot go on (KAFKA-6119)",
        anomalies=("torn-txn", "lost-write", "aborted-read"),
        hunt=Hunt(
            workloads=("transactions",),
            nemeses=("partition:clients-responses@leader",),
            settings=TIMELY | TV1 | {"fault_s": 2.5, "partitions": 6},
        ),
    ),
    "timeout-commits": Mutant(
        area="timeouts",
        wrong="a transaction whose time is over is committed, with what there is of it",
        right="it is aborted",
        anomalies=("torn-txn",),
        hunt=Hunt(
            workloads=("transactions",),
            nemeses=("pause:short@leader", "pause:short@random"),
            settings=TIMELY,
        ),
    ),
    "late-commit-answered": Mutant(
        area="timeouts",
        wrong="a commit that comes after the transaction timed out is answered as done",
        right="PRODUCER_FENCED",
        anomalies=("lost-write",),
        hunt=Hunt(
            workloads=("transactions",),
            nemeses=("pause:short@leader", "pause:short@random"),
            settings=TIMELY,
        ),
    ),
    # ---- offsets
    "offset-commit-not-replicated": Mutant(
        area="offsets",
        wrong="a commit of offsets is answered when the coordinator has it",
        right="when all in-sync replicas of its log have",
        anomalies=("offset-commit-regression", "group-duplicate"),
        hunt=Hunt(workloads=("groups",), nemeses=GROUP_COORDINATORS, settings=OFTEN),
    ),
    "groups-forget-on-load": Mutant(
        area="offsets",
        wrong="a new group coordinator begins without the offsets of its log",
        right="it loads them",
        anomalies=("group-duplicate", "offset-commit-regression"),
        hunt=Hunt(workloads=("groups",), nemeses=GROUP_COORDINATORS, settings=OFTEN),
    ),
    "offsets-visible-before-commit": Mutant(
        area="offsets",
        wrong="offsets of a transaction count before it is committed, and when it is aborted",
        right="with its commit marker",
        anomalies=("eos-loss",),
        hunt=Hunt(workloads=("copier",), nemeses=("client:crash-in-transaction",)),
    ),
    "offsets-of-aborted-txn": Mutant(
        area="offsets",
        wrong="offsets of an aborted transaction count",
        right="they are dropped",
        anomalies=("eos-loss",),
        hunt=Hunt(workloads=("copier",), nemeses=("client:crash-in-transaction",)),
    ),
    "offsets-of-committed-txn-dropped": Mutant(
        area="offsets",
        wrong="offsets of a committed transaction are dropped",
        right="they count",
        anomalies=("eos-duplicate",),
        hunt=Hunt(workloads=("copier",), nemeses=("client:crash@member",)),
    ),
    "unstable-offsets-answered": Mutant(
        area="offsets",
        wrong="a member is told offsets that an ending transaction is about to change",
        right="UNSTABLE_OFFSET_COMMIT, until it has ended (KIP-447)",
        anomalies=("eos-duplicate",),
        hunt=Hunt(
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
        hunt=Hunt(workloads=("copier",), nemeses=("client:crash@member",)),
    ),
    "old-offset-answered": Mutant(
        area="offsets",
        wrong="a member is told an older offset than the committed one",
        right="the newest",
        anomalies=("offset-commit-regression", "group-duplicate", "eos-duplicate"),
        hunt=Hunt(workloads=("groups", "copier"), nemeses=("none", "client:crash")),
    ),
    "offset-of-next-batch": Mutant(
        area="offsets",
        wrong="a member is told an offset one too high",
        right="that of the next record to read",
        anomalies=("group-skip", "eos-loss"),
        hunt=Hunt(workloads=("groups", "copier"), nemeses=("none", "client:crash")),
    ),
    # ---- groups
    "generation-not-checked": Mutant(
        area="groups",
        wrong="a member that was thrown out goes on committing offsets",
        right="ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID",
        anomalies=("offset-commit-regression", "group-duplicate", "eos-duplicate"),
        hunt=Hunt(
            workloads=("copier",),
            nemeses=("client:pause@member",),
            settings={"transaction_timeout_s": 8, "duration_s": 16},
        ),
    ),
    "generation-not-bumped": Mutant(
        area="groups",
        wrong="a rebalance leaves the generation as it is",
        right="it rises, so that members of the one before are told",
        anomalies=("eos-duplicate", "offset-commit-regression", "group-duplicate"),
        hunt=None,
    ),
    "partitions-given-twice": Mutant(
        area="groups",
        wrong="every member of a group is given every partition",
        right="each partition has one member",
        anomalies=("eos-duplicate", "offset-commit-regression", "group-duplicate"),
        hunt=Hunt(workloads=("copier", "groups")),
    ),
    # ---- consumer reads
    "lso-ignores-open": Mutant(
        area="consumer reads",
        wrong="read_committed consumers are given records of open transactions",
        right="they stop at the last stable offset",
        anomalies=("aborted-read", "precommitted-read"),
        hunt=Hunt(workloads=("transactions",)),
    ),
    "reads-above-hw": Mutant(
        area="consumer reads",
        wrong="consumers are given records above the high watermark",
        right="records that every in-sync replica has",
        anomalies=("inconsistent-offsets", "lost-write", "aborted-read", "duplicate"),
        hunt=Hunt(workloads=PILES, nemeses=DIVERGING, settings=CROWD),
    ),
    "aborted-index-by-first-offset": Mutant(
        area="consumer reads",
        wrong="a fetch names the aborted transactions that began in it, not those that began before",
        right="all that have records in it",
        anomalies=("aborted-read",),
        hunt=Hunt(workloads=("transactions",), settings={"abort_share": 0.4}),
    ),
    "aborted-not-filtered": Mutant(
        area="consumer reads",
        wrong="a read_committed consumer hands out records of aborted transactions",
        right="it passes them over",
        anomalies=("aborted-read",),
        hunt=Hunt(workloads=("transactions",)),
    ),
    "abort-marker-not-seen": Mutant(
        area="consumer reads",
        wrong="a consumer goes on passing a producer's records over after its abort marker",
        right="until the marker",
        anomalies=("poll-skip", "int-poll-skip", "lost-write"),
        hunt=Hunt(workloads=("transactions",), settings=TV1),
    ),
    "drops-what-does-not-fit": Mutant(
        area="consumer reads",
        wrong="a consumer drops fetched records that do not fit into one poll",
        right="the next poll hands them out",
        anomalies=("poll-skip", "int-poll-skip", "group-skip", "eos-loss", "lost-write"),
        hunt=Hunt(
            workloads=("copier",),
            nemeses=("client:crash@member",),
            settings={"rate": 40, "batch_max": 20},
        ),
    ),
    "starts-over-on-error": Mutant(
        area="consumer reads",
        wrong="a consumer begins anew after any failed fetch",
        right="it goes on from its position",
        anomalies=("nonmonotonic-poll", "int-nonmonotonic-poll"),
        hunt=Hunt(workloads=QUEUES, nemeses=("elections", "kill:one@leader")),
    ),
}
"""Name -> mutant, by area."""
