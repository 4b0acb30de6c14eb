"""Requests and answers, as Kafka names them.

consumer_group_messages  What members of consumer groups say to their coordinator (KIP-848).
controller_messages      What brokers and the controller say to each other, and the voters of the
                         metadata quorum (KRaft).
coordinator_messages     What is said to coordinators of transactions and groups, and by them to
                         leaders.
messages                 What nodes and clients of a modelled cluster say to each other: Kafka's
                         requests and responses.
requests                 All requests and responses of the model, and the table by which a node finds
                         who handles a request.
share_messages           What members of share groups say to coordinators and leaders, and leaders to
                         the coordinators of share state (KIP-932).
zookeeper_messages       Messages of the ZooKeeper era: between brokers and the ensemble, controllers
                         and brokers.
"""
