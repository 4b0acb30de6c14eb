"""The system `model`: brokers of the reference model behind Kafka's own protocol, as processes or containers.

cluster       A cluster of the model's brokers as processes of this machine, behind Kafka's own protocol.
deployment    The model's nodes in containers as a deployment, on the network that Kafka's would have.
encoded       What nodes of the model send and store, as bytes: Kafka's own where Kafka defines them.
node          One broker or controller of the model in real time: its events, its answers, what it asks other
              nodes.
node_main     The process of a node: `python -m harness.modelled.real.node_main`.
node_process  A node of the model as the harness holds it: its process, and what it was asked to do.
serving       How a node of the model is asked: by clients in Kafka's protocol, by other nodes on a listener
              of their own.
system        The model's brokers behind Kafka's protocol as a system under test.

The broker of the model is the one that the simulation runs, in the same eras and with the same planted bugs.
Here librdkafka (or any client) speaks to it, so that clients, wire, admin calls and checks are those of a run
on Kafka, and only the broker is another one. One process a node, with one event loop:

    frame → request of kio → requests of the model → the broker → its answers → response of kio → frame

Before a node sends an answer it writes what is durable. A client's batch stays the bytes that it sent. Nodes
speak to each other with packed values of the model in Kafka's frames; only markers are Kafka's own, so that
`wire:markers` can hold them back. The clock is the machine's.

What is not Kafka's protocol closes its connection; an error of the model ends its node with exit code 70, and
the run, without a verdict. A cut link of processes stands still at its ends, as TCP does while packets are
dropped; with `--set containers=true` brokers are containers, and all faults are those of Kafka's containers.

`inquest model contract --sut model` compares such a broker with the model in the same process, by the
scenarios that Kafka's brokers play and by random requests: nothing differs.
Clients of any library are served: librdkafka and Kafka's Java clients are tested.

Groups of consumers are served in both protocols, from era 4.0 on: the classic one and that of KIP-848. Share
groups (KIP-932) are served from era 4.1 on, with dead-letter queues from 4.4 on: all have the settings of
their brokers.

Not there: fetches by topic ids, sessions of fetches, search of offsets by time, deletion of topics, changes
of settings, quotas, security, groups of streams, eras on ZooKeeper; of share groups: acquire mode
record_limit, and changes of their offsets by an administrator. All clients of a cluster speak one transaction
version, that of its era: librdkafka needs an era with 1, Java clients speak both."""
