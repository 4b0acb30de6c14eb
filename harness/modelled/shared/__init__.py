"""What both kinds of modelled clusters have: settings, channels, disks, evidence.

base_time               When clocks of the model begin.
channels                Channels of modelled nodes: at which listener they ask others, and how long they
                        wait for the answer.
consumer_group_records  Records of consumer groups (KIP-848) as Kafka's `__consumer_offsets` has them.
coordinator_records     Records of the coordinators as Kafka's logs have them.
disk_copy               A copy of what the disk of a modelled node holds, which the node's further life
                        leaves alone.
evidence                The evidence of modelled nodes: the tables of `history.evidence` from what is
                        durable.
group_settings          Settings of groups of a modelled cluster.
metadata_log            The metadata log of a modelled node as Kafka writes it: rows of the tables of
                        `history.evidence`.
server_log              The server log of a modelled node in Kafka's words: the lines that checks read
                        (`history.broker_logs`).
settings                Settings of modelled brokers by the config of a run, and which ones they refuse.
share_records           Records of the share coordinators as Kafka's `__share_group_state` has them
                        (KIP-932), and dead letters.
topic_uuids             Ids of modelled topics: they follow from names.
znodes                  The log of a modelled ZooKeeper as rows of evidence: data as Kafka writes them,
                        in JSON.
"""
