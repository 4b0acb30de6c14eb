"""The system `kafka`: real brokers in containers.

addresses      Addresses of one cluster: ports on the host's loopback and a private
               subnet.
admin          Questions to chosen brokers by Kafka's raw protocol.
asked          What the harness asks brokers over a listener of its own: the part of a
               cluster that is the same wherever its brokers run.
between        Proxies that know frames, in the network of each broker, between
               it and others.
broker_config  A node's `server.properties`: KRaft; broker and controller at once, or
               one of them.
broker_settings  Which settings of real brokers a run may have: sizes, times and
               counts.
client         A session over confluent-kafka.
cluster        A real Kafka cluster in containers: KRaft nodes of any released
               version from 3.3 on.
containers     Docker: engine, images, nodes, network faults, cleaning up.
evidence       What nodes left on disk: copied out of their containers, parsed, and
               gone again but for the tables.
node_ends      The ends of nodes that the run had not asked for: each is seen once,
               and no new start hides one.
power          Power losses of nodes: what they had not flushed to disk is cut off
               their logs.
proxied        Proxies between clients and the client listeners of brokers: toxiproxy,
               and the one that knows frames.
waiting        Waiting: with a deadline for something that is not there yet, and for
               several things done at once.

A run has N brokers (3) in KRaft mode, combined or with isolated controllers (`controllers` 1 or 3), of
any released version from 3.3 on, with tight timings. Each version has one image, built locally; only its
base, a JRE on Debian, is pulled if a registry answers, and made with mmdebstrap otherwise. Nodes have
static addresses on a private network; client listeners are published on the loopback. The harness talks
to the brokers through a listener of its own, so that it still sees the cluster while clients are cut off.

One atomic `iptables-restore` in the node's network namespace cuts links, again after each revival of the
node. Halves and rings need 5 brokers: with 3, halves are an isolated node and a ring cuts every pair. If
the plan has `links`, toxiproxy stands before the client listeners. The controller is the leader of the
metadata quorum (DescribeQuorum); the `controller_id` of Metadata is any live broker in KRaft. Roles are
what several nodes agree on. A topic's name belongs to one run on a new cluster: "exists already" in
answer to its creation is a broker's own repetition of the request, and success.

Runs of one machine keep apart, also those of two users: a socket that the process keeps bound holds its ports
(`addresses`), another one its name (`containers.claims`). Each connection of clients and of the harness
proves that its broker is one of the run's cluster; where it is not, the run ends and is unknown.

A reaper process in its own session removes containers and networks after a SIGKILL of the harness, and
retries for 3 minutes if the engine was too slow for the harness to do it. What is left where both were
killed, the next run removes.
"""
