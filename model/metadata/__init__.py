"""The cluster's metadata: image, leader election, placement of replicas.

election                Choosing a partition's leader and its next state (KRaft's PartitionChangeBuilder;
                        KIP-966).
image                   The metadata of a cluster, as the records of the metadata log make it (KRaft).
replica_placer          Which brokers hold the replicas of a new topic's partitions with ZooKeeper (KIP-36;
                        AdminUtils).
striped_replica_placer  Which brokers hold the replicas of new partitions in a KRaft cluster
                        (StripedReplicaPlacer, KIP-36).
"""
