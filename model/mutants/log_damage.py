"""Planted bugs that damage logs alone: clients of these runs see nothing wrong.

The checks of histories cannot find them; rules about logs have to. Most would harm clients after a failover,
or once the log is loaded again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDamage:
    """A planted bug; its name is the key in `LOG_DAMAGE`.

    wrong: what it does. rules: one of these rules about logs refuses it (`checkers.logs`). workload, nemesis,
    brokers, seed, settings: of a run in which it does so.
    """

    wrong: str
    rules: tuple[str, ...]
    workload: str = "transactions"
    nemesis: str = "none"
    brokers: int = 3
    seed: int = 1
    settings: Mapping[str, object] = field(default_factory=dict)


REPLICAS: Final = ("replicas-equal", "log-matching")

NEWER: Final = {"client_settings": {"consumer.group.protocol": "consumer"}}
"""Groups of KIP-848."""

LOG_DAMAGE: Final[dict[str, LogDamage]] = {
    "follower-writes-other-times": LogDamage(
        wrong="a follower writes another time into the batches that it appends", rules=REPLICAS
    ),
    "follower-drops-a-batch": LogDamage(
        wrong="a follower leaves out every hundredth batch", rules=(*REPLICAS, "offsets-dense")
    ),
    "epoch-cache-begins-late": LogDamage(
        wrong="a follower notes the begin of a leader epoch one record too far", rules=("epoch-checkpoint",)
    ),
    "high-watermark-noted-too-high": LogDamage(
        wrong="the checkpoint has a high watermark beyond the log's end", rules=("ends-within-log",)
    ),
    "followers-forget-sequences": LogDamage(
        wrong="a follower does not remember the newest batch of a producer",
        rules=("producer-snapshot",),
        workload="queue",
    ),
    "aborted-index-loses-entries": LogDamage(
        wrong="a follower keeps no index of aborted transactions", rules=("aborted-index",)
    ),
    "marker-of-a-later-coordinator": LogDamage(
        wrong="a marker has an epoch that no coordinator had", rules=("marker-coordinator",)
    ),
    "complete-keeps-partitions": LogDamage(
        wrong="the coordinator writes that a transaction is complete, and its partitions again",
        rules=("transaction-partitions-kept",),
    ),
    "prepare-loses-a-partition": LogDamage(
        wrong="the coordinator writes its decision without one of the partitions that get markers",
        rules=("marker-decided", "transaction-partitions-kept"),
    ),
    "prepare-with-old-epoch": LogDamage(
        wrong="the coordinator writes its decision with the epoch before that of the markers",
        rules=("marker-decided", "transaction-producer-epoch"),
    ),
    "epoch-logged-twice-raised": LogDamage(
        wrong="the coordinator logs an epoch above the one that InitProducerId answers (as in KAFKA-19367)",
        rules=("transaction-producer-epoch",),
        workload="fencing",
    ),
    "begin-moves": LogDamage(
        wrong="the coordinator writes a later begin of the transaction with its decision",
        rules=("transaction-times-kept",),
    ),
    "generation-logged-as-first": LogDamage(
        wrong="the group coordinator writes every generation as the first one",
        rules=("generations-rise",),
        workload="groups",
        nemesis="client",
    ),
    "generation-forgotten-on-load": LogDamage(
        wrong="a new group coordinator counts generations from the begin",
        rules=("generations-rise",),
        workload="groups",
        nemesis="kill:one@group-coordinator",
        seed=5,
    ),
    "subscription-keeps-epoch": LogDamage(
        wrong="a member that wants other topics leaves the epoch of its group (KIP-848) as it is, so that no "
        "targets are computed for it (as in KAFKA-19899)",
        rules=("subscription-raises-epoch",),
        workload="groups",
        settings=NEWER,
    ),
    "targets-unknown-on-load": LogDamage(
        wrong="a new group coordinator passes over the records of targets (KIP-848), as over types of "
        "records that it does not know (KIP-915), and computes others for the same epoch",
        rules=("targets-followed",),
        workload="groups",
        nemesis="kill:one@group-coordinator",
        seed=2,
        settings=NEWER,
    ),
    "group-in-another-partition": LogDamage(
        wrong="the records of a group are in a partition that the hash of its name does not name",
        rules=("group-place",),
        workload="groups",
    ),
    "producers-kept-by-truncation": LogDamage(
        wrong="a log that is truncated remembers the batches that were cut off",
        rules=("producer-snapshot",),
        workload="send-modes",
        nemesis="partition:isolate@leader",
        seed=0,
    ),
    "fenced-leads-on": LogDamage(
        wrong="the controller leaves its partitions to a broker that it fences",
        rules=("fenced-leads-nothing",),
        workload="queue",
        nemesis="pause:long@leader",
    ),
    "leader-epoch-skips": LogDamage(
        wrong="a new leader's epoch is two above the one before",
        rules=("leader-epoch-rises", "topics-known"),
        workload="queue",
        nemesis="restart:graceful",
    ),
    "partition-epoch-skips": LogDamage(
        wrong="a change of a partition raises its epoch by two",
        rules=("partition-epoch-rises",),
        workload="queue",
        nemesis="restart:graceful",
    ),
    "eligible-and-in-sync": LogDamage(
        wrong="replicas that are in sync count as eligible, too",
        rules=("in-sync-set", "change-has-cause"),
        workload="queue",
        nemesis="restart:graceful",
    ),
    "stranger-in-sync": LogDamage(
        wrong="the in-sync set has a broker that is not a replica",
        rules=("in-sync-set",),
        brokers=5,
        workload="queue",
        nemesis="restart:graceful",
    ),
    "producer-id-blocks-overlap": LogDamage(
        wrong="the next block of producer ids begins with the last id of this one",
        rules=("producer-id-blocks",),
    ),
}
"""Name -> planted bug."""
