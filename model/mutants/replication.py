"""Planted bugs of replicas, elections, metadata and truncation."""

from typing import Final

from model.mutants.mutant import (
    ALL_DOWN,
    CROWD,
    DIVERGING,
    DOOMED,
    EARLY,
    LAGGING,
    LEADERS,
    LONG,
    LONGER,
    PAIR,
    PILES,
    QUEUES,
    RETURNING,
    Areas,
    HuntingGround,
    Mutant,
)

REPLICATION: Final[Areas] = {
    "replication": {
        "ack-before-replication": Mutant(
            wrong="acks=all is answered when the leader has the records",
            right="when every in-sync replica has them (the high watermark has passed them)",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=HuntingGround(QUEUES, LEADERS, LONG),
            no_trace=EARLY,
        ),
        "hw-is-leader-end": Mutant(
            wrong="the high watermark is the end of the leader's log",
            right="it is the lowest end among the in-sync replicas",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=HuntingGround(QUEUES, LEADERS, LONG),
        ),
        "hw-by-majority": Mutant(
            wrong="the high watermark is what a majority of the replicas has, as in Raft",
            right="it is what every in-sync replica has: any of them may lead next",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=HuntingGround(QUEUES, LAGGING, LONG),
        ),
        "hw-ignores-proposed": Mutant(
            wrong="the high watermark follows an in-sync set that the controller was only asked for",
            right="until the answer the larger of both sets counts (KIP-497)",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=HuntingGround(QUEUES, ("pause:long@leader", "partition:isolate@leader"), LONG),
        ),
        "old-news-end-a-request": Mutant(
            wrong="metadata that a leader knows by an answer make it forget the in-sync set that it has asked"
            " for since, as in Kafka 3.3 to 4.4",
            right="the request is still under way, and both sets count until it is answered (KIP-497)",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=None,
        ),
        "hw-below-min-isr": Mutant(
            wrong="the high watermark continues below the minimum of in-sync replicas",
            right="it stands still: eligible replicas need not have what comes now (KIP-966)",
            anomalies=("inconsistent-offsets", "lost-write", "torn-txn"),
            hunt=HuntingGround(
                ("send-modes",),
                ("partition:isolate@random,kill:one@leader", "pause:long@random,kill:one@leader"),
                PAIR | {"acks": 1, "idempotent": False, "fault_s": 7},
            ),
        ),
        "min-isr-ignored": Mutant(
            wrong="acks=all is served with fewer in-sync replicas than the minimum",
            right="NOT_ENOUGH_REPLICAS: what one replica has alone is lost with it",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets", "model-violation"),
            hunt=HuntingGround(
                ("queue", "send-modes"),
                ("partition:isolate@random,kill:one@leader", "pause:long@random,kill:one@leader"),
                LONGER | {"replication_factor": 2},
            ),
        ),
        "remote-ends-kept": Mutant(
            wrong="a broker that leads again counts on the log ends of followers that it knew before",
            right="it waits for their first fetches: they may have cut their logs since",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=None,
        ),
        "lag-by-last-fetch": Mutant(
            wrong="a follower stays in sync as long as it fetches",
            right="as long as it gets what there was within the lag (KAFKA-2988); else it holds writes up",
            anomalies=("not-recovered",),
            hunt=None,
        ),
        "isr-expands-early": Mutant(
            wrong="a follower counts as caught up, and joins the in-sync set, with its first fetch",
            right="when it has everything below the high watermark",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=HuntingGround(
                ("queue",),
                ("partition:one-way-in@random,kill:one@leader", "partition:isolate@random,kill:one@leader"),
                LONGER | {"brokers": 5, "partitions": 5},
            ),
        ),
    },
    "deletion": {
        "deletes-one-too-many": Mutant(
            wrong="DeleteRecords removes the record at its offset as well",
            right="those before it (KIP-107)",
            anomalies=("lost-write",),
            hunt=HuntingGround(("queue",), ("delete-records:half", "delete-records")),
        ),
        "producers-deleted-with-records": Mutant(
            wrong="producers are forgotten with the last of their records",
            right="they are known until producer.id.expiration.ms (KAFKA-7190)",
            anomalies=("duplicate",),
            hunt=None,
        ),
    },
    "topics": {
        "deleted-topic-keeps-logs": Mutant(
            wrong="brokers keep the logs of a deleted topic, and a new one of its name continues them",
            right="each topic has an id, and logs of another id are given up (KIP-516)",
            anomalies=("phantom-read",),
            hunt=HuntingGround(QUEUES, ("recreate-topics:all",)),
        ),
        "deleted-topic-keeps-offsets": Mutant(
            wrong="what groups committed in a deleted topic stays, and counts in a new one of its name",
            right="the coordinators write tombstones for it (OffsetMetadataManager.onPartitionsDeleted)",
            anomalies=("phantom-commit", "offset-commit-regression"),
            hunt=HuntingGround(("groups",), ("recreate-topics:all",), {"duration_s": 15, "rate": 40}),
        ),
    },
    "election": {
        "elects-any-replica": Mutant(
            wrong="the first live replica becomes leader",
            right="one of the in-sync (or eligible) replicas",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=HuntingGround(QUEUES, LAGGING, LONG),
        ),
        "unclean-stays-eligible": Mutant(
            wrong="a broker back from an unclean shutdown may still be elected from the eligible set",
            right="it leaves both sets: the end of its log may be gone (KIP-966)",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=HuntingGround(
                ("queue",),
                ("partition:halves,power:one@leader", "kill:one@random,power:one@leader"),
                {
                    "brokers": 4,
                    "controllers": 3,
                    "replication_factor": 2,
                    "partitions": 8,
                    "fault_s": 4,
                    "calm_s": 0.5,
                    "duration_s": 9,
                },
            ),
        ),
        "removed-stays-eligible": Mutant(
            wrong="a replica that is taken off a partition may still be elected once it is one again, as in"
            " Kafka 4.1 to 4.4",
            right="eligible are replicas (KIP-966): it has given up its log",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=HuntingGround(
                ("queue",),
                ("reassign:shrink,kill:one@leader", "reassign:shrink,restart:graceful"),
                {"brokers": 4, "replication_factor": 2, "partitions": 8, "fault_s": 1, "calm_s": 0.5},
            ),
        ),
        "alter-unfenced": Mutant(
            wrong="the controller takes an in-sync set from a leader that it has replaced",
            right="FENCED_LEADER_EPOCH",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=HuntingGround(("queue",), ("partition:isolate@leader", "pause:long@leader"), LONGER),
        ),
        "alter-unversioned": Mutant(
            wrong="the controller takes an in-sync set that was made from an older one",
            right="INVALID_UPDATE_VERSION: the partition epoch has to be the newest (KIP-497)",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=None,
        ),
        "controller-epoch-ignored": Mutant(
            wrong="brokers obey a controller whose epoch has ended (on ZooKeeper)",
            right="STALE_CONTROLLER_EPOCH",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=None,
        ),
    },
    "epochs": {
        "epoch-not-bumped": Mutant(
            wrong="a new leader keeps the leader epoch of the old one",
            right="the epoch rises with every change of the leader",
            anomalies=("inconsistent-offsets", "lost-write", "not-recovered"),
            hunt=HuntingGround(PILES, DIVERGING, CROWD | DOOMED),
        )
    },
    "metadata": {
        "votes-twice": Mutant(
            wrong="a voter grants its vote to several candidates of one epoch",
            right="to one: else two controllers decide",
            anomalies=("lost-write", "inconsistent-offsets", "not-recovered"),
            hunt=HuntingGround(
                ("queue",),
                ("partition:bridge@controller,pause:long@controller",),
                # From 4.0 on candidates ask first (KIP-996), and seldom stand together.
                {"brokers": 5, "fault_s": 4, "calm_s": 0.3, "duration_s": 20, "era": "3.9", **DOOMED},
            ),
        ),
        "vote-ignores-log": Mutant(
            wrong="a voter grants its vote to a candidate whose metadata log lacks committed records",
            right="to one whose log reaches as far as its own (Raft, 5.4.1)",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            # From 4.0 on who comes back asks first, and those that hear of a leader refuse (KIP-996).
            hunt=HuntingGround(
                QUEUES, ("partition:isolate@leader", "pause:long@leader"), LONG | DOOMED | {"era": "3.9"}
            ),
        ),
        "controller-decides-alone": Mutant(
            wrong="a controller that a majority does not hear continues, and its own log is enough",
            right="it resigns (KAFKA-15489), and nothing is committed that a majority has not got",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=HuntingGround(
                QUEUES, ("partition:isolate@controller",), LONG | DOOMED | {"min_insync_replicas": 1}
            ),
        ),
    },
    "truncation": {
        "keep-tail": Mutant(
            wrong="a follower keeps the end of its log when the leader changes",
            right="it cuts back to where both logs are the same",
            anomalies=("inconsistent-offsets", "lost-write", "torn-txn", "not-recovered"),
            hunt=HuntingGround(PILES, DIVERGING, CROWD | DOOMED),
        ),
        "truncate-to-hw": Mutant(
            wrong="a follower cuts back to its own high watermark, which lags",
            right="to the end of its newest epoch in the leader's log (KIP-101)",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=HuntingGround(QUEUES, ALL_DOWN),
        ),
        "truncate-too-far": Mutant(
            wrong="a follower cuts back to the begin of its newest epoch",
            right="to its end in the leader's log",
            anomalies=("lost-write", "torn-txn", "inconsistent-offsets"),
            hunt=HuntingGround(QUEUES, ALL_DOWN),
        ),
        "no-epoch-walk": Mutant(
            wrong="a follower cuts once, by whatever epoch the leader answers with",
            right="it asks on until both logs have the epoch (KIP-279)",
            anomalies=("inconsistent-offsets", "lost-write", "torn-txn"),
            hunt=HuntingGround(("queue",), ("partition:isolate@leader,kill:one@leader",), RETURNING),
        ),
    },
}
