"""A reference model of Kafka: replication, transactions, groups, share groups. No clock, no threads.

accepting    The model as acceptor: a log that the model's brokers must have accepted.
broker       One node of a modelled cluster: broker, controller of the quorum, or both.
client       Kafka's clients.
coordinator  Coordinators of transactions and groups, and the logs that they keep.
eras         Eras: which of Kafka's historical behaviours is in force.
errors       Kafka's error codes, as far as the model gives them.
kraft        Metadata by a Raft quorum (KRaft).
log          One replica's log.
metadata     The cluster's metadata: image, leader election, placement of replicas.
mutants      Planted bugs: each makes the model break one rule of Kafka's protocol, and has to be
             found.
protocol     Requests and answers, as Kafka names them.
replication  Replicas of partitions on one broker: leaders, followers, in-sync sets.
server       What ties replicas and coordinators to the metadata of the cluster.
settings     Settings of a modelled cluster, by the meaning of Kafka's own. Times in milliseconds.
share        Share groups: records that members of a group acquire and acknowledge one by one.
zookeeper    Metadata in ZooKeeper (Kafka up to 2.x, eras up to 2.4).
"""
