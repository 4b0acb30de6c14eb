"""How a node of the model is asked: by clients in Kafka's protocol, by other nodes on their own listener.

api_call              Requests of clients as a broker serves them: what an API is made of, and the
                      responses that it builds.
apis_cluster          What every broker serves: versions, metadata, and what administrators ask.
apis_consumer_groups  What coordinators of consumer groups serve to members that speak the protocol of
                      KIP-848.
apis_data             What leaders of partitions serve: Produce, Fetch, ListOffsets, DeleteRecords,
                      OffsetForLeaderEpoch, DescribeProducers.
apis_groups           What coordinators of consumer groups serve.
apis_settings         Settings of topics, brokers and groups, and the levels of features.
apis_share_groups     What brokers serve to members of share groups (KIP-932): as coordinators of groups,
                      and as leaders.
apis_transactions     What coordinators of transactions serve, and what concerns producer ids.
clients               Connections of clients: frames of Kafka's protocol in, responses out, one request
                      after the other.
cut_links             Links of a node that are cut: what it sends over them waits, and what comes over them
                      it does not read.
peer_frames           Frames between nodes: Kafka's headers, two requests as Kafka encodes them, and packed
                      values of the model.
peer_share_state      WriteShareGroupState between nodes as Kafka encodes it (version 0): see `peer_frames`.
peers                 Connections between nodes, on a listener that only nodes dial: what they carry is in
                      `peer_frames`.
topic_ids             Ids of topics as brokers of the model tell them to clients.
"""
