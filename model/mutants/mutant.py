"""What a planted bug is, and where it shows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class HuntingGround:
    """Where a mutant shows: runs of these workloads under these nemeses (the names of the command line),
    with `settings` of the run in addition to those of every exploration."""

    workloads: tuple[str, ...]
    nemeses: tuple[str, ...] = ("none",)
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One planted bug; its name is the key in `MUTANTS`.

    wrong, right: what it does, and what Kafka does. anomalies: classes that it causes, the principal one
    first; each further one is another face of the same damage. hunt: None where no nemesis of today causes
    what it takes; scenarios (`scenarios`) or tests of the model show it. no_trace: why brokers' logs are
    those of a sound cluster; "" = it leaves a trace, which some rule about logs should find.
    """

    wrong: str
    right: str
    anomalies: tuple[str, ...]
    hunt: HuntingGround | None
    no_trace: str = ""


Areas = dict[str, dict[str, Mutant]]
"""Part of the protocol -> name -> mutant."""

EARLY: Final = "an answer comes too early, or to the wrong question; the log does not tell answers"
CLIENT: Final = "a client does what brokers have to accept, or misreports what they answered"
READER: Final = "only what is read is wrong"
MEMORY: Final = "the coordinator answers by a state in memory that is not the one of its log"

QUEUES: Final = ("queue", "transactions")
PILES: Final = ("send-modes", "transactions")
"""Workloads that leave records at a leader without followers."""

LEADERS: Final = ("kill:one@leader", "partition:isolate@leader", "pause:long@leader")
DIVERGING: Final = ("partition:isolate@leader", "partition:one-way-in@leader")
LAGGING: Final = (
    "partition:one-way-in@random,kill:one@leader",
    "pause:short@random,kill:one@leader",
    "partition:isolate@random,kill:one@leader",
)
"""A replica falls behind, and meanwhile the leader dies."""
ALL_DOWN: Final = ("kill:all", "kill:majority", "kill:one@leader")
COORDINATORS: Final = (
    "pause:short@random,kill:one@txn-coordinator",
    "client:crash-in-transaction,kill:one@txn-coordinator",
)
"""The coordinator dies while transactions are held up or abandoned."""
GROUP_COORDINATORS: Final = ("pause:short@random,kill:one@group-coordinator",)
UNANSWERED: Final = ("partition:clients-responses@leader", "partition:clients-responses")

LONG: Final = {"fault_s": 5, "calm_s": 1, "duration_s": 15}
"""Faults that outlive the session of a broker and the lag that an in-sync replica may have."""
LONGER: Final = {"fault_s": 8, "calm_s": 1, "duration_s": 30}
"""One fault begins and ends in the midst of another one."""
SENT_AGAIN: Final = {"fault_s": 2, "calm_s": 0.5, "producers": 6, "verb_deadline_s": 20}
"""Producers keep sending a batch until a broker answers."""
CROWD: Final = LONG | {"partitions": 1, "producers": 8, "rate": 40, "consumers": 2}
"""Every fault hits the same partition, and many clients are in the middle of something."""
PAIR: Final = CROWD | {"replication_factor": 2, "duration_s": 20}
"""Two replicas; the minimum needs both."""
OFTEN: Final = {"fault_s": 1.2, "calm_s": 0.3, "duration_s": 12, "producers": 6}
"""Many short faults: what they have to hit lasts milliseconds."""
BUSY: Final = {
    "rate": 250,
    "producers": 10,
    "batch_max": 2,
    "partitions": 1,
    "consumers": 0,
    "fault_s": 1,
    "calm_s": 1.2,
    "duration_s": 8,
}
"""Many small transactions: some are always about to end."""
TWO_BROKERS: Final = {"brokers": 2, "controllers": 3, "replication_factor": 2, "min_insync_replicas": 1}
"""The broker that stands still holds the only other replica of everything."""
TIMELY: Final = {"transaction_timeout_s": 1, "fault_s": 1.5, "calm_s": 0.5}
"""Transactions are held up for longer than their time-out."""
CROSSED: Final = {
    "brokers": 5,
    "controllers": 3,
    "replication_factor": 1,
    "min_insync_replicas": 1,
    "partitions": 4,
    "producers": 16,
    "consumers": 1,
    "rate": 100,
    "batch_max": 2,
    "abort_share": 0.5,
    "fault_s": 6,
    "calm_s": 0.4,
    "duration_s": 20,
    "verb_deadline_s": 30,
    "transaction_timeout_s": 30,
}
"""Coordinators are cut from leaders for long, but not from the controllers: markers pile up."""
DOOMED: Final = {"recovery_deadline_s": 15}
"""It may never recover."""
IMPATIENT: Final = {"verb_deadline_s": 2}
RETURNING: Final = (
    PAIR
    | IMPATIENT
    | {
        "brokers": 2,
        "controllers": 3,
        "preset": "acks1",
        "rate": 20,
        "fault_s": 12,
        "calm_s": 4,
        "duration_s": 50,
    }
)
"""Two replicas lead in turn, each with records that the other one has not, and the first comes back first."""
TV1: Final = {"era": "4.2-tv1"}
"""Clients of transaction version 1, as librdkafka is."""
HELD: Final = TV1 | {"verb_deadline_s": 1, "fault_s": 1.5, "calm_s": 0.5, "abort_share": 0.3, "producers": 6}
"""Requests are held up in the network for longer than their clients wait."""
