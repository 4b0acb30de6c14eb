"""Kafka's clients.

client_metadata              What every modelled client has: its view of the cluster, and requests with
                             answers that may not come.
consumer                     A consumer as real ones are: positions, fetches to the leaders, isolation,
                             committed offsets.
consumer_coordinator         A member of a consumer group (classic protocol, eager): joins, is assigned,
                             sends heartbeats, commits.
consumer_membership_manager  A member of a consumer group in the protocol of KIP-848.
group_member                 What members of consumer groups have in common, whichever protocol they speak.
producer                     A producer as real ones are: batches, a window of requests, retries,
                             idempotence, transactions.
share_consumer               A member of a share group: joins, acquires records, acknowledges them.
transactional_producer       The transactional side of a producer: its id, the partitions of the open
                             transaction, its end.
"""
