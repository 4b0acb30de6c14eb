"""Questions to chosen brokers by Kafka's raw protocol, over plain connections or TLS, with SASL or without.

broker_views       Ask all brokers of a cluster at once, and agree on roles from their answers.
connection         Connections to one chosen broker: addresses, security, deadlines.
deletions          Records deleted on request: DeleteRecords (KIP-107); and topics.
elections          Leaders moved on request: preferred elections, and the order of replicas that
                   decides who is preferred.
features           A cluster that is upgraded: whether its quorum is whole, and the levels of its
                   features (KIP-584).
log_directories    What a broker says of its log directories: DescribeLogDirs (KIP-113).
open_transactions  Transactions that are open now, and which coordinator owns them (KIP-664).
partitions         Further partitions for topics: CreatePartitions (KIP-195).
protocol           Questions to one chosen broker: what it says of the cluster, offsets.
reassignments      Replicas moved on request: AlterPartitionReassignments (KIP-455).
sasl               SASL of admin connections: PLAIN (RFC 4616), and SCRAM with SHA-256 or SHA-512
                   (RFC 5802).
settings           Settings of topics, brokers and groups: DescribeConfigs, IncrementalAlterConfigs (KIP-339).
share_groups       Share groups: their settings, and where they stand (KIP-932).
throttles          Replication throttled on request (KIP-73).
voters             Members of the metadata quorum removed and added on request (KIP-853).
"""
