"""Load clients: one client loop, one life of a client, and the pool of them.

application      A program of the user between two topics, judged by what it leaves.
consumer_state   What one process reads: its positions, what an op may copy or commit of it, and its journal
                 lines.
command          Clients of a program of the user, which speaks JSON lines.
database         The database of a run, which consumers of the workload `sink` write to.
executor         The client loop: op → session verbs → outcome, journaled.
librdkafka       A session over confluent-kafka.
pool             The load clients of a run: start, command, crash, restart, pause, and notice which are lost.
registry         The kinds of load clients: one visible dict.
share_state      What one member of a share group holds, and its journal lines.
worker           The life of one load client, in whatever runs it.
worker_main      A worker process (`python -m harness.clients.worker_main RUN SLOT`).
worker_process   Worker processes as their parent holds them: start, command, listen, pause, end.
worker_protocol  What the run program and its load clients say to each other.

One worker process per logical client, started with `Popen` in a session of its own (never forked:
librdkafka's threads do not survive a fork). Commands arrive on stdin, counters leave on stdout every 250
ms, and the end of stdin ends the worker. The generator lives in the worker: there is no central
dispatcher.

A client that a fault crashes kills itself at the point that the fault names, or the harness kills it
after 2 s. It reaches such a point only where something is at stake: records in the transaction, or
offsets of polled records. Healing starts a new worker of the slot, which takes the first process number
without a journal. A client that dies without a fault is lost and stays down. A paused client has a guard
that resumes it if the harness dies.

Workers ignore SIGINT. The first Ctrl-C heals, stops, seals and checks what was recorded; the second kills
the workers. Quiescence waits twice the verb deadline + 2 s (one op, one close), then sends SIGKILL.
"""
