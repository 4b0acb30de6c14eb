"""Presets: named sets of settings.

A *control* is a preset that must misbehave: it lists the anomaly classes that the run has to find
(`expect`). Another one may say what its run has to reach (`require`): one that does not shows nothing of it.
"""

from typing import Any, Final

GIVEN_UP: Final = "reached:given-up"
"""Required of a run whose producers are to give sends up: one where none did says nothing about that."""

NamedSettings = dict[str, Any]
"""Settings of a run by their names."""

FAST_CLEANER: Final[dict[str, str]] = {
    "log.roll.ms": "2000",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
"""Settings of brokers: segments are closed, and compacted, after some seconds."""

SINK: Final[NamedSettings] = {"workload": "sink", "nemesis": "client:crash-before-commit@member"}
SINK_CURED: Final[NamedSettings] = SINK | {
    "nemesis": "client:crash-before-commit@member,client:crash@member,kill"
}

SHARE_BROKERS: Final[dict[str, str]] = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "2000",
    "group.share.min.session.timeout.ms": "3000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.delivery.count.limit": "10",
    "share.coordinator.state.topic.num.partitions": "5",
}
SHARE_LIMIT: Final = SHARE_BROKERS | {"group.share.delivery.count.limit": "2"}
SHARE: Final[NamedSettings] = {
    "workload": "share",
    "client_settings": {},
    "partitions": 3,
    "rate": 40,
    "batch_max": 10,
    "broker_settings": SHARE_BROKERS,
}

PRESETS: dict[str, NamedSettings] = {
    # What Kafka promises to keep: acks=all, idempotent producers, min.insync.replicas 2.
    "safe": {},
    # Control. A leader that is cut off from its followers still acknowledges acks=1 records;
    # after healing it truncates them away.
    "acks1": {
        "nemesis": "partition:isolate@leader",
        "acks": 1,
        "idempotent": False,
        "expect": ("lost-write",),
    },
    # Control. A request that times out at the client while the broker is frozen is sent again;
    # the thawed broker appends both.
    "no-idempotence": {
        "nemesis": "pause:short@leader,partition:clients-responses@leader",
        "idempotent": False,
        "client_settings": {
            "producer.socket.timeout.ms": "1000",
            "producer.linger.ms": "0",
            "producer.batch.num.messages": "1",
        },
        "expect": ("duplicate",),
    },
    # Control. Consumers at read_uncommitted are shown records of aborted transactions.
    "read-uncommitted": {
        "workload": "transactions",
        "isolation": "read_uncommitted",
        "abort_share": 0.3,
        "expect": ("aborted-read",),
    },
    # A time-out of EndTxn ends its producer (librdkafka issue 5423): the op is given up before librdkafka
    # asks again, and a new client fences what comes late. Where a connection is reset, librdkafka asks again
    # at once.
    "rebuild-on-doubt": {
        "workload": "transactions",
        "nemesis": "wire:endtxn",
        "verb_deadline_s": 5.0,
        "client_settings": {"producer.socket.timeout.ms": "6000"},
    },
    # What was safe before producers were idempotent: acks=all, one request in flight. Nothing is lost
    # or reordered; what is sent again after a lost answer stands twice.
    "safe-legacy": {
        "idempotent": False,
        "client_settings": {"producer.max.in.flight.requests.per.connection": "1"},
    },
    # Control. With acks=0 the client calls a record delivered once it is on its way.
    "acks0": {"nemesis": "kill:one@leader", "acks": 0, "idempotent": False, "expect": ("lost-write",)},
    # Control. A follower that misses records becomes leader; the old leader's records are gone, and
    # their offsets hold others.
    "unclean": {
        "nemesis": "unclean",
        "acks": 1,
        "idempotent": False,
        "min_insync_replicas": 1,
        "unclean_leader_election": True,
        "expect": ("lost-write", "inconsistent-offsets"),
    },
    # Consume, transform, produce in one transaction, while copiers die with transactions open.
    "exactly-once": {"workload": "copier", "nemesis": "client:crash-in-transaction,kill"},
    # Control. A copier that dies after producing and before committing its offsets: its successor
    # produces the same again.
    "at-least-once": {
        "workload": "copier",
        "nemesis": "client:crash-before-commit@member",
        "commit": "after",
        "expect": ("eos-duplicate",),
    },
    # Control. A copier that dies after committing its offsets and before producing: the copy is never made.
    "at-most-once": {
        "workload": "copier",
        "nemesis": "client:crash-after-commit@member",
        "commit": "before",
        "expect": ("eos-loss",),
    },
    # Control. A copier that reads on after it aborted a transaction, as clients do that do not seek back
    # (KAFKA-17582): what it had read is never copied, and its next transaction commits an offset behind it.
    "no-rewind": {
        "workload": "copier",
        "nemesis": "none",
        "commit": "without-rewind",
        "expect": ("eos-loss",),
    },
    # Control. The copies are in a transaction, and their offsets are committed by hand beside it: an abort
    # takes the copies back, and leaves the offsets.
    "commit-beside": {"workload": "copier", "nemesis": "none", "commit": "beside", "expect": ("eos-loss",)},
    # Control. A client commits every 5 s what its copier was given: after a crash records are copied again.
    # They are lost where the commit falls between the poll and the copies, which is seldom and permitted.
    "auto-commit": {
        "workload": "copier",
        "nemesis": "client:crash@member",
        "commit": "automatic",
        "expect": ("eos-duplicate",),
    },
    # Control. The same beside transactions of the copies: what is aborted is passed all the same, and what
    # was committed in the last seconds before a crash is copied again.
    "auto-commit-beside": {
        "workload": "copier",
        "nemesis": "client:crash@member",
        "commit": "automatic-beside",
        "expect": ("eos-duplicate", "eos-loss"),
    },
    # Control. One replica, acks=all: what the only broker has not flushed is gone with its power.
    "one-replica": {
        "nemesis": "power:one@leader",
        "replication_factor": 1,
        "min_insync_replicas": 1,
        "expect": ("lost-write",),
    },
    # Control. With auto.offset.reset=latest, Kafka's default, a group begins a new partition behind the
    # records that came before it knew of the partition. (Modelled clients begin at the first record always.)
    "added-partitions": {
        "workload": "groups",
        "nemesis": "add-partitions",
        "client_settings": {"consumer.auto.offset.reset": "latest"},
        "expect": ("group-skip",),
    },
    # Not a control, for nothing that Kafka promises is broken: each election fails sends that one retry would
    # bring through. What it may find is forbidden all the same: librdkafka sends again, uncounted, after
    # NOT_LEADER_OR_FOLLOWER, which a leader that resigns also answers for what it has appended; such records
    # stand twice. Modelled clients do not send again.
    "no-retries": {
        "nemesis": "restart:rolling",
        "idempotent": False,
        "client_settings": {"producer.retries": "0"},
        "require": GIVEN_UP,
    },
    # Likewise: sends are given up while the cluster still recovers, and may be in the log all the same.
    "retries-too-short": {
        "nemesis": "kill:one@leader",
        "client_settings": {"producer.message.timeout.ms": "1000"},
        "require": GIVEN_UP,
    },
    # The cure, under the same fault: a send that is tried for a minute is not given up.
    "retries-long": {
        "nemesis": "kill:one@leader",
        "client_settings": {"producer.message.timeout.ms": "60000"},
        "verb_deadline_s": 60.0,
        "require": "in-doubt<=0%",
    },
    # No promise of Kafka's is at stake: one producer in four waits for no acknowledgement, and sends faster
    # than its client takes records off a queue of four, where each one is for 50 ms at least. What the
    # client refuses has failed, and may be in no log. A first contact needs a place for each partition.
    "queue-full": {
        "workload": "send-modes",
        "nemesis": "none",
        "partitions": 4,
        "batch_max": 1,
        "rate": 800,
        "client_settings": {"producer.queue.buffering.max.messages": "4", "producer.linger.ms": "50"},
        "require": GIVEN_UP,
    },
    # Consumers get 1000 bytes of a partition at a time, and 2000 in all, or one batch where that is more:
    # a poll has a part of the records, also while members of the group change. (librdkafka refuses a fetch of
    # less than its greatest message.)
    "small-fetches": {
        "workload": "queue",
        "nemesis": "kill:one@leader,client:crash@member",
        "consumers": 6,
        "rate": 60,
        "client_settings": {
            "consumer.fetch.message.max.bytes": "1000",
            "consumer.fetch.max.bytes": "2000",
            "consumer.message.max.bytes": "1000",
        },
    },
    # Transactions over up to 60 partitions, and as many of the coordinators' log as Kafka has by default.
    "wide": {
        "workload": "transactions",
        "nemesis": "kill,partition",
        "partitions": 60,
        "transaction_partitions": 60,
        "batch_max": 100,
        "rate": 40,
        "broker_settings": {"transaction.state.log.num.partitions": "50"},
    },
    # Control. A consumer that dies after it committed its rows to the database and before it commits their
    # offsets to Kafka: its successor writes the same again.
    "sink-plain": SINK | {"sink": "plain", "expect": ("eos-duplicate",)},
    # The three cures, under the same fault and more: each row is there once.
    "sink-unique-id": SINK_CURED | {"sink": "unique-id"},
    "sink-offset-in-transaction": SINK_CURED | {"sink": "offset-in-transaction"},
    "sink-optimistic-lock": SINK_CURED | {"sink": "optimistic-lock"},
    # All brokers lose power at once, and each record was flushed before it was acknowledged: nothing is lost.
    # A broker that was in sync for 12 s has noted what it flushed (rule flushed-as-set): pauses are longer,
    # and no replica falls out of the in-sync set as its disk is slow.
    "flush-each": {
        "nemesis": "power:all",
        "rate": 20,
        "duration_s": 90.0,
        "calm_s": 40.0,
        "broker_settings": {"log.flush.interval.messages": "1", "replica.lag.time.max.ms": "10000"},
    },
    # All brokers lose power at once. They look twice a second for logs whose last flush is a second ago:
    # what was acknowledged 12 s before is kept (docs/checks.md, "What is flushed"). So long before a loss no
    # other fault may have been in force, or a replica may have come back too late to have flushed it. Brokers
    # look from their start on; by default, from 30 s after it.
    "flush-timed": {
        "nemesis": "power:all",
        "duration_s": 180.0,
        "calm_s": 40.0,
        "broker_settings": {
            "log.flush.interval.ms": "1000",
            "log.flush.scheduler.interval.ms": "500",
            "log.initial.task.delay.ms": "0",
        },
    },
    # Control. All brokers lose power at once, and flushing is left to the operating system, as by default:
    # replication keeps nothing.
    "power-all": {"nemesis": "power:all", "expect": ("lost-write",)},
    # A compacted topic, and a cleaner that has something to do within seconds. A replica that is away for
    # longer than delete.retention.ms may bring deleted keys back.
    "compacted": {
        "workload": "compacted",
        "nemesis": "kill",
        "topic_settings": {"cleanup.policy": "compact", "delete.retention.ms": "20000"},
        "broker_settings": FAST_CLEANER,
    },
    # A share group whose members hold records for two seconds at most, as brokers permit here. Coordinators
    # of its state are quickly up. Its members have no choice of a protocol, as those of other groups have.
    # Each of the partitions has two members. A record may be delivered ten times, the maximum of Kafka 4.1:
    # where its members may have been given it unseen as often as it may be, nothing is known of it.
    "share": SHARE,
    # Its records come to the limit.
    "share-limit": SHARE | {"broker_settings": SHARE_LIMIT},
    # What it archives, rejected or come to the limit, brokers write to a dead-letter queue (Kafka 4.4).
    "dead-letters": SHARE | {"broker_settings": SHARE_LIMIT, "dead_letters": True},
    # No control: what it finds (KAFKA-15591, without any fault) is forbidden, known and not fixed in
    # the versions that can be run today.
    "fresh-topic": {"workload": "fresh-topic", "nemesis": "none"},
}
"""What each preset sets in addition to the defaults; options given by the user win over it."""
