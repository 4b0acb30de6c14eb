"""The cluster's metadata: image, leader election, placement of replicas.

election        Choosing a partition's leader and its next state (KRaft's PartitionChangeBuilder;
                KIP-966).
image           The metadata of a cluster, as the records of the metadata log make it (KRaft).
replica_placer  Which brokers hold the replicas of a new topic's partitions (KIP-36;
                StripedReplicaPlacer, AdminUtils).
"""
