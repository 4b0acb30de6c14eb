"""Replicas of partitions on one broker: leaders, followers, in-sync sets.

add_partitions_to_txn_manager  A leader makes sure that a transaction is open before its first
                               record is appended (KIP-890).
alter_partition_manager        A leader asks the controller for another in-sync set (AlterPartition,
                               KIP-497).
node                           What the parts of one broker share: its replicas, its view of the
                               cluster, and what it wants done.
replica                        One replica of one partition on one broker: leader or follower, high
                               watermark, in-sync set.
replica_fetcher_manager        A broker as follower: one fetcher for each broker that leads
                               something it follows.
replica_manager                A broker as leader: produce and fetch, and the requests that wait
                               (Kafka's purgatory).
replication_quota              How much of throttled partitions a broker fetches, or serves, in a
                               second (KIP-73).
"""
