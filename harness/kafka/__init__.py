"""The system `kafka`: real brokers in containers.

broker_config  A node's `server.properties`: in KRaft mode broker and controller at once, or
               one of them; what all brokers have in common.
broker_settings  Which settings of real brokers a run may have: sizes, times and
               counts.
cluster        What a cluster of Kafka can do that others in containers cannot: lose a log
               directory, be out of space on a disk, change its voters.
evidence       What nodes left on disk: copied out of their containers, parsed, and
               gone again but for the tables.
images         Images of Kafka's nodes, one per version and deployment, and one for two
               versions of an upgrade.
jars           Kafka's jars of one version, from Maven Central by the Ivy that PySpark ships.
kraft          Kafka's nodes in KRaft mode as a deployment: any released version from 3.3 on.
nodes          What all deployments of Kafka's nodes share: image, evidence, power losses.
quorum         The metadata quorum of a cluster in KRaft mode: who votes at first, and where that
               is kept.
system         Kafka as a system under test.
power          Power losses of nodes: what they had not flushed to disk is cut off
               their logs.
two_versions   A cluster whose nodes change from one version to a later one, and
               back.
zookeeper      Brokers that keep their metadata in ZooKeeper as a deployment: versions to 3.9.

A run has N brokers (3) with tight timings. From 3.3 on they are in KRaft mode, combined or with isolated
controllers (`controllers` 1 or 3). Earlier ones, and with `metadata=zookeeper` those to 3.9, have ZooKeeper,
one node or three (`ensemble`). Each version and deployment has one image, built locally; only its base, a JRE
on Debian, is pulled if a registry answers, and made with mmdebstrap otherwise. Nodes have static addresses on
a private network; client listeners are published on the loopback. The harness talks to the brokers through a
listener of its own, so that it still sees the cluster while clients are cut off.

One atomic `iptables-restore` in the node's network namespace cuts links, again after each revival of the
node. Halves and rings need 5 brokers: with 3, halves are an isolated node and a ring cuts every pair. If
the plan has `links`, toxiproxy stands before the client listeners. The controller is the leader of the
metadata quorum (DescribeQuorum); on ZooKeeper, the broker that most brokers name in answer to Metadata, whose
`controller_id` is any live broker in KRaft. Roles are what several nodes agree on. A topic's name belongs to
one run on a new cluster: "exists already" in answer to its creation is a broker's own repetition of the
request, and success.

Runs of one machine keep apart, also those of two users: a socket that the process keeps bound holds its ports
(`brokers.addresses`), another one its name (`containers.claims`). Each connection of clients and of the
harness proves that its broker is one of the run's cluster; where it is not, the run ends and is unknown.

A reaper process in its own session removes containers and networks after a SIGKILL of the harness, and
retries for 3 minutes if the engine was too slow for the harness to do it. What is left where both were
killed, the next run removes.
"""
