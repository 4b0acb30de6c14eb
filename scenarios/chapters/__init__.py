"""The scenarios, one module a chapter: its docstring begins with the title.

acknowledgement        Acknowledgement.
assignment             Assignment.
clients                Producers as real ones are.
consumer_groups        Consumer groups of KIP-848.
consumers              Consumers and their applications.
controller             The controller of the ZooKeeper era.
controller_epochs      One controller at a time.
coordinators           Coordinators of transactions.
election               Election.
eligible               Eligible leader replicas.
fencing                Fencing of fetches.
group_offsets          Committed offsets.
groups                 Consumer groups.
half_ended             Transactions that end in half of their partitions.
idempotence            Idempotent producers.
isr                    In-sync replicas.
late_ends              The end of a transaction arrives late.
late_records           Records and markers arrive late.
leader_writes          In-sync sets that leaders write.
numbering              Idempotent producers that lose and repeat.
positions              Positions.
producer_state         What a log knows of a producer.
quorum                 The metadata quorum.
replication            Replication.
share_groups           Share groups.
dead_letters           Their dead-letter queues.
storage                Page cache and flush.
transactional_clients  Transactional producers as real ones are.
transactions           Transactions.
truncation             Truncation.
zombies                Fencing of producers, and timeouts.
"""
