"""Metadata in ZooKeeper (Kafka up to 2.x, eras up to 2.4).

controller_channel_manager  A controller's connections to brokers (ControllerChannelManager): in
                            order, one request at a time, each sent again until it is answered or
                            the broker is gone.
controller_context          What a controller of the ZooKeeper era knows of its cluster
                            (ControllerContext), how it reads and changes that, and how it tells
                            brokers.
ensemble                    The process around a ZooKeeper ensemble: requests in, answers out, as
                            for a broker.
herd                        The herd: how leaders were to be elected before there was a controller
                            (drafts of 0.8), to be counted.
kafka_controller            The controller of the ZooKeeper era: what it does when a watch of its
                            fires, step by step.
kafka_zk_client             A broker's client of ZooKeeper: one session, requests in order, events
                            of watches.
zk_admin_manager            What a broker of the ZooKeeper era does for administrators, and for
                            itself, by writing to ZooKeeper.
zk_data                     What Kafka kept in ZooKeeper, and where.
zk_isr_manager              In-sync sets of the ZooKeeper era: leaders write them themselves, and
                            tell the controller afterwards.
zk_metadata                 Metadata of a broker of the ZooKeeper era: its session, its part in the
                            election of the controller, and what the controller tells it.
zookeeper                   A ZooKeeper ensemble as one linearizable state machine: znodes,
                            sessions, watches.
"""
