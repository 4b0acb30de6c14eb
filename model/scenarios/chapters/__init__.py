"""The scenarios, one module a subject; docs/model.md is printed from them.

acknowledgement        Scenarios: when a producer is answered, and what the minimum of replicas in
                       sync promises.
assignment             Scenarios: which brokers hold a partition, and how it is moved.
clients                Scenarios: what a producer does on its own between `send` and the report.
consumers              Scenarios: what applications of consumers lose and repeat, and the cures.
controller             Scenarios: the controller of the ZooKeeper era is elected, and finds that a
                       broker is gone.
controller_epochs      Scenarios: what keeps brokers and ZooKeeper from obeying a controller that
                       was replaced.
coordinators           Scenarios: where the coordinator of a transactional id is, and what survives
                       it.
election               Scenarios: who leads a partition, and what happens to a leader that returns.
eligible               Scenarios: eligible leader replicas (KIP-966), and the loss that they
                       prevent.
fencing                Scenarios: fetches that belong to another leader epoch (KIP-320).
group_offsets          Scenarios: committed offsets, their log and its coordinator.
groups                 Scenarios: members, generations and the coordinator of a consumer group.
herd                   Scenarios: what a cluster without a controller would cost: the herd, counted.
idempotence            Scenarios: producer ids, epochs and sequences, and what a log recognises by
                       them (KIP-98).
isr                    Scenarios: who is in sync, and how leader and controller agree on it.
late_ends              Scenarios: an EndTxn that arrives late (KAFKA-17754), with both transaction
                       versions.
late_records           Scenarios: records and markers that arrive after the end of their
                       transaction.
leader_writes          Scenarios: in-sync sets of the ZooKeeper era, which leaders write themselves
                       and tell of later.
numbering              Scenarios: idempotent producers that lose and repeat.
positions              Scenarios: the position of a consumer, and what moves it.
producer_state         Scenarios: what a log knows of a producer id, and for how long.
quorum                 Scenarios: the metadata quorum of KRaft, how brokers are known to it, and
                       quorums beside in-sync sets.
replication            Scenarios: how records reach the followers, when the high watermark moves,
                       when a producer is answered.
storage                Scenarios: what a crash leaves of a log, and what a power loss.
transactional_clients  Scenarios: what a transactional producer does on its own.
transactions           Scenarios: a transaction from its coordinator to its readers.
truncation             Scenarios: how a follower cuts its log back, and what went wrong when it did
                       so by its high watermark.
zombies                Scenarios: who may continue with a transactional id, and for how long.
"""
