"""The metadata log (`__cluster_metadata`), record by record, against the model's controller.

Each node's log is judged, committed or not: a leader of the quorum has applied the log before it decides. A
record is what an active controller may decide in the state that the records before it make.
"""

from typing import Final

from checkers.logs.judgement import LogRule


def _rule(name: str, claim: str, source: str, anomaly: str = "model-violation") -> LogRule:
    return LogRule(name=name, ring=1, anomaly=anomaly, claim=claim, source=source)


RULES: Final = (
    _rule(
        "metadata-logs-agree",
        "Metadata logs that have a record of the same offset and epoch in common are equal up to there.",
        "KIP-595; Raft, 5.3",
        "replica-divergence",
    ),
    _rule("metadata-in-order", "Offsets of the metadata log rise, and its epochs do not fall.", "KIP-595"),
    _rule(
        "leader-epoch-rises",
        "The leader epoch of a partition rises with every change of its leader, and never falls.",
        "KIP-101; PartitionRegistration.merge",
    ),
    _rule(
        "partition-epoch-rises",
        "The partition epoch rises by one with every change of a partition.",
        "KIP-497; PartitionRegistration.merge",
    ),
    _rule(
        "in-sync-set",
        "In-sync replicas are replicas, the leader is one of them, and who is eligible is not in sync.",
        "KIP-497, KIP-966",
    ),
    _rule(
        "unclean-election",
        "Where unclean.leader.election.enable is false, who becomes leader was in sync or eligible.",
        "KIP-966; ReplicationControlManager",
        "unclean-election",
    ),
    _rule(
        "change-has-cause",
        "A change of a partition is what the controller makes of its state for some cause: a broker that is "
        "fenced, comes back or leaves, a request of the leader, an election, a reassignment.",
        "PartitionChangeBuilder",
    ),
    _rule("fenced-leads-nothing", "A broker that is fenced leads no partition.", "KIP-631"),
    _rule(
        "broker-epochs-rise",
        "A broker's epoch rises with each new process, and a change of its registration names the newest.",
        "KIP-631; ClusterControlManager",
    ),
    _rule(
        "producer-id-blocks", "Blocks of producer ids do not overlap.", "KIP-730; ProducerIdControlManager"
    ),
    _rule(
        "topics-known",
        "Ids and names of topics are unique, and a partition belongs to a topic that was created before it.",
        "KIP-516; ReplicationControlManager",
    ),
    _rule(
        "snapshot-is-image", "A snapshot holds what the records of the log before its offset make.", "KIP-630"
    ),
)
