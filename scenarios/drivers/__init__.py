"""Drivers of scenarios: who sends, delivers and looks. `COLUMNS` of each: what tables can show of its stage.

clients              A stage with clients that act on their own: producers, consumers and members of groups.
cluster              A stage on which a whole small cluster plays: brokers, a controller, and clients.
messages             Messages of a stage: under way, or to be held.
partition            A stage with one partition on a few brokers, on which messages about it wait for steps.
raw_consumer_member  A stage with members of the consumer group "g" (KIP-848) who send by hand what consumers
                     send themselves.
raw_member           A stage with members of the group "g" who send by hand what consumers send automatically.
raw_producer         A stage with producers who send by hand what Kafka clients send automatically.
raw_share_member     A stage with members of the share group "g" who send by hand what share consumers send
                     automatically.
zookeeper            A stage with brokers on ZooKeeper: a scene whose node 9 is the ensemble.
"""
