"""Coordinators of transactions and groups, and the logs that they keep.

classic_group                       One consumer group: members, generations, rebalances (the
                                    classic protocol; Kafka's ClassicGroup).
consumer_group                      One consumer group: members, epochs, what each is to have and what
                                    it has (KIP-848; Kafka's ConsumerGroup).
consumer_group_coordinator          Membership of consumer groups by heartbeats alone (KIP-848).
consumer_group_records              Records of consumer groups in `__consumer_offsets` (KIP-848), and
                                    what they say of members.
coordinator_runtime                 The internal topic in which a coordinator keeps its state: who
                                    coordinates what, loading, appending.
coordinators                        A broker as coordinator of transactions and groups: what the
                                    broker has to hand to these parts.
current_assignment_builder          What a member is given next on its way to its target (Kafka's
                                    CurrentAssignmentBuilder, KIP-848).
group_coordinator                   The group coordinator: membership and assignments of consumer
                                    groups.
group_metadata_manager              The log of the group coordinator and its state in memory: groups
                                    and committed offsets.
log_cleaner                         Which logs of a broker are compacted, and when (Kafka's
                                    LogCleanerManager).
offset_metadata_manager             Committing and fetching the offsets of consumer groups.
partition_assignors                 Assignors of the group coordinator: which member of a consumer
                                    group is to have which partitions (KIP-848).
producer_id_manager                 Producer ids, which brokers hand out from blocks that the
                                    controller gives them (KIP-730).
topic_regex_resolver                Expressions by which members of consumer groups
                                    subscribe, and the topics that they stand for (KIP-848).
transaction_coordinator             The transaction coordinator: transactional ids, their producer
                                    ids and epochs, two-phase commit.
transaction_marker_channel_manager  The second phase of a transaction: markers into all its
                                    partitions.
transaction_metadata                The state of one transactional id, and how it may change
                                    (Kafka's TransactionMetadata).
transaction_state_manager           The log of the transaction coordinator, and what is in memory of
                                    it: loading, appending, both phases.
"""
