"""Which scenarios of docs/model.md are played on real brokers, and why each other one is not.

A test compares both lists with the scenarios that there are: a new one has to be put into one of them.
"""

from collections.abc import Mapping
from typing import Final

PLAYED: Final = (
    # clients
    *("batches-in-flight", "retries", "delivery-timeout", "send-modes", "epoch-bump"),
    # idempotence, producer-state
    *("without-producer-id", "sequences", "reordering", "pipelining", "five-batches"),
    *("producer-epochs", "producer-state-restart", "unknown-producer-taken"),
    # transactions, zombies, transactional-clients
    *("isolation", "consume-transform-produce", "consumer-only"),
    *("zombie-producer", "unfinished-predecessor", "transaction-timeout", "own-epoch"),
    *("expired-id", "open-id"),
    *("commit-waits", "abort-waits", "abort-in-doubt", "end-retried"),
    # late-ends, late-records
    *("late-commit", "late-abort", "late-end-noticed", "late-end-early", "late-end-refused"),
    *("verification", "late-after-timeout", "late-joins-next", "late-joins-not"),
    # groups, group-offsets, consumers, positions
    *("join-group", "leave-group", "overtaken-rebalance", "fenced-member"),
    *("offsets-without-members", "exactly-once", "transactional-id-by-partition"),
    *("commit-before", "commit-after", "commit-automatically", "commit-automatically-threads"),
    *("slow-consumer", "rewind", "out-of-range"),
)
"""By chapter."""

_ONE_PARTITION: Final = """
    reassignment reassignment-same-leader
    fetch-after-produce second-fetch-round fetch-in-purgatory remote-leo caught-up-outside-isr end-goes-back
    offset-not-available
    isr-shrink-failure isr-shrink-epoch isr-shrink-slow isr-expansion partition-epoch ineligible-replica
    deposed-leader
    acks under-replicated min-isr min-isr-before-3-7
    clean-election preferred-leader unclean-off unclean-on all-down-wait all-down-first operator-election
    returning-leader-retried returning-leader-lost
    last-replica-standing eligible-replicas eligible-until-minimum
    loss-by-high-watermark no-loss-by-epoch divergence-by-high-watermark no-divergence-by-epoch last-offset
    divergence-by-unknown-epoch epoch-walk
    fetch-of-an-old-epoch fenced-fetch consumer-and-truncation consumer-and-zombie broker-fencing
    crash-keeps power-loss-drops flush-every-message
"""
_MESSAGES_OF_BROKERS: Final = """
    acks-of-producers producer-state-truncation
    fresh-partition fresh-partition-implied fresh-partition-one fresh-partition-before
    transaction-commit last-stable-offset
    coordinator-after-decision decision-replicated old-coordinator
    decision-acted-upon acknowledged-abort acknowledged-abort-v2 acknowledged-abort-mended
    acknowledged-hidden acknowledged-hidden-mended
    verification-guard late-marker late-marker-refused
    group-coordinator offset-answered-early offset-answered-when-committed
    cut-off-commit-acknowledged cut-off-commit-refused
"""
_BROKERS: Final = """
    metadata-refresh written-partition bump-renumbers bump-keeps-numbers consumer-leader-change
    producer-state-failover find-coordinator coordinator-before-decision
    leaderless-partition leaderless-partition-before
"""
_ZOOKEEPER: Final = """
    controller-election controller-session broker-failure control-epochs split-brain
    controller-session-over deleted-controller leader-writes-isr deposed-leader-writes
    isr-change-notifications herd
"""

REASONS: Final[Mapping[str, str]] = {
    "its steps are messages between replicas of one partition, which no client delivers": _ONE_PARTITION,
    "it holds messages between brokers": _MESSAGES_OF_BROKERS,
    "it needs several brokers, and the cluster of the comparison has one": _BROKERS,
    "it is about ZooKeeper": " ".join((_ZOOKEEPER, "state-decided-anew")),
    "it is about the controllers' quorum, and here is one controller": """
        quorum-election quorum-succession quorum-and-isr""",
    "it is about the assignment of replicas to brokers": "assignment-rule assignment-random assignment-racks",
    "a producer id has 32767 epochs, and no setting makes it fewer": "epochs-used-up",
    "Kafka compacts only closed segments, at times of its own": "offsets-compaction",
    "its brokers are older than all that are compared, or have a feature off": """
        one-batch unknown-producer hanging-transaction exactly-once-before-kip-447""",
    "a new leader of its group is the first one in a hash table, so any member": "rebalance-timeout",
}
"""Why -> scenarios."""

NOT_PLAYED: Final[Mapping[str, str]] = {
    name: reason for reason, names in REASONS.items() for name in names.split()
}
"""Scenario -> why it is not played."""
