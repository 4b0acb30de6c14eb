"""Judging the logs that brokers left behind (`history.evidence`): no client is asked.

accept_controllers   The log of ZooKeeper, controller by controller: who they are,
                     and how soon one follows the other.
accept_data          Ring 1, logs of producers: each batch is one that the model's
                     leader would have appended.
accept_leaders       The log of ZooKeeper: the leaders that its controllers choose, by
                     which brokers live.
accept_metadata      The metadata log (`__cluster_metadata`), record by record,
                     against the model's controller.
accept_notices       The log of ZooKeeper: leaders change in-sync replicas themselves,
                     and give notice of it to the controller.
accept_offsets       The log of the group coordinator (`__consumer_offsets`), record
                     by record, against what it may write.
accept_share         The log of the share coordinators
                     (`__share_group_state`), share partition by share
                     partition.
accept_transactions  Ring 1, `__transaction_state`: each record is one that a
                     coordinator of the model would have written.
accept_znodes        The log of ZooKeeper, change by change: what Kafka's controller
                     and leaders may write there.
answers              Ring 3, clients: what they learned about transactions is in the
                     coordinators' log.
audit                Ring 0: what the files of brokers say of one partition agrees,
                     replica with replica and file with log.
captured_messages    The messages that were seen on the network, as rules about
                     them need them.
classes              Anomaly classes that only logs show, and where Kafka permits
                     their findings.
cleaned_to           How far a log of a compacted topic may have been cleaned, where
                     the cleaner's checkpoint does not say it.
clocks               How far the times of clients, of messages and of brokers' logs
                     may be apart.
cluster_era          Which behaviours of Kafka a cluster had, by what it has finalized
                     in its metadata log.
coordinator_log      The transaction coordinators' log of a run, read once.
decisions            Ring 3, transactions: the coordinators' log decides and the
                     markers of partitions obey.
decisions_in_sync    Ring 3, transactions: a coordinator decides with enough replicas
                     in sync beside it.
elections            What the metadata log of KRaft, or the log of ZooKeeper, says of a
                     partition: its leaders, epoch by epoch.
flushes              Ring 3, flushes: what brokers were set to flush, they had flushed
                     when they died.
lineage              Ring 3, records: what leaders of one epoch had, the leaders of
                     later epochs have.
markers              Markers of transactions in partitions, and which transaction
                     each batch of a producer can be of, by epochs and times.
messages             Ring 4: what brokers say to each other and to clients, when
                     they say it.
metadata_rows        Rows of the metadata log as the records that the model's acceptor
                     takes.
orders               Ring 4: what a controller of the time of ZooKeeper tells brokers,
                     and what they answer, with the log of ZooKeeper.
placement            Where the replicas of new partitions were placed, against the
                     placers of the model: KRaft's, and the one of the time of
                     ZooKeeper; and how many replicas Kafka's own topics got.
power_losses         Losses of power by the metadata log: since when a replica was
                     out, and until when.
producer_files       Files that brokers compute from a log of producers, against the
                     model: snapshots and the aborted index.
producer_walk        Logs of producers, fed to the model: what it refuses, and the
                     state of producers at given offsets.
registry             The rules about logs: checks of evidence, by the modules that
                     apply them.
replicas             The logs of one partition, one for each node and take, as
                     columns; where two of them differ.
rule                 A rule about brokers' logs: a check of evidence.
share_answers        Ring 3, share groups: what members had answered is in the
                     share coordinators' log.
transactions         What the coordinators' log (`__transaction_state`) says of
                     transactions, id by id.
untimed              What is certain of a producer's transactions where nodes have
                     clocks of their own (`checkers.logs.clocks`).
zookeeper_log        What the log of ZooKeeper says of Kafka: partitions, brokers and
                     controllers, change by change.
zookeeper_time       How much time has passed for those who use ZooKeeper: while it is
                     down, none can act and no session ends.

Each rule is a `checkers.engine.check.Check` that reads evidence, or evidence and the history of the clients.
The rules of a module share its kernel over one partition (`Evidence.of`), or its join over all: one pass over
the rows decides them. Where evidence is silent the answer is a doubt, never a pass.

To add a rule: docs/extending.md.
"""
