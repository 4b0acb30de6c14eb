"""The system `simulated`: the reference model in virtual time, in one process.

admin           What administrators ask of a simulated cluster: topics, preferred
                elections, the order of replicas.
client_runtime  The state machines of a modelled client in virtual time: pumped,
                answered, paused, killed, waited for.
cluster         The simulated cluster: `Cluster` and what nemeses need, over nodes
                of the reference model.
evidence        The evidence of a simulated run: what the disks of its nodes have and had
                (`modelled.shared.evidence`).
frames          The messages of a simulated run as the tables of evidence that a capture
                on a network makes.
invariants      Safety invariants of a simulated cluster.
message_text    What a message of the model says, in few words, by what it is about
                (see `history.trace.TracedMessage`).
network         Connections between nodes and clients: delay, order, cuts, resets.
nodes           Processes of a simulated cluster's nodes: they run, stand still, die and
                come back.
proxies         What stands between clients and the brokers' client listeners, when
                their links are bad: the proxies.
run             A simulated run: the run program in virtual time and in memory.
run_folder      A simulated run as a run folder: the same files that a run of real
                Kafka leaves.
scheduler       Virtual time: a heap of (time, sequence, call), tasks that wait for it,
                and the runtime of a simulated run.
session         A session on the simulated cluster: the modelled producer and
                consumer behind Kafka's verbs.
share_session   The sharing half of a session on the simulated cluster: the modelled
                member of a share group behind the verbs of `core.session.Sharing`.
share_text      What a message about share groups says, in few words (see `message_text`).
toxics          Toxiproxy's toxics at the level of messages: when one comes through,
                and when the connection is closed.
tracer          Fills the trace of a simulated run: it looks on, and changes
                nothing.
wire            Rules of the wire: single requests of clients come late or are lost.
worker_task     A load client of a simulated run: a task that can be crashed and paused.

The same workloads, client loop, nemeses, phases, files and checks, behind the same `Session` and
`Cluster`. One seed decides everything: the same config and schedule give the same journals to the byte,
whatever `PYTHONHASHSEED` is. `era` chooses historical behaviour (`model.eras`: `0.10` … `4.3`), `mutant`
plants a bug (`model.mutants`), each with the anomaly that it must cause.

A node handles one request of a connection at a time. Connections delay, reorder among each other, break
with their processes, and hold what is sent over a cut link: that is how requests arrive late. A crash
keeps the page cache, a power loss only the flushed part. Toxics act on whole messages by estimated sizes.
Kafka's protocols are messages between state machines here, not bytes on a wire. By default brokers are
the newest ones, with clients that speak transaction version 2, which librdkafka does not (`era=4.3-tv1`
has clients like it). Eras up to 2.4 keep their metadata in ZooKeeper: one more node, the ensemble,
which is reliable and no target of nemeses.

The trace holds every message and every change of state. Recording it changes no run (a test compares the
bytes) and costs 30 to 50 % more time, so `explore` does without it.
"""
