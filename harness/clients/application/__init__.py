"""An application of the user's, judged by what it leaves: its output, and the committed offsets of its group.

copies    What the application made of its input, as the last reader sees it.
effects   What the world outside of Kafka shows of an application.
instance  One running instance: its program, and whether its group gets on.
named     The program that the user named, and the settings of a run of one.
position  Where a group stands in a topic, asked of the brokers.
results   The last results of an aggregate, and which input records they name.

An instance is the load client of a slot, so that faults of clients hit it: a worker process starts the
user's program in its own group of processes, and they are paused and killed together. The worker watches the
program and the group; it sees nothing of what the program reads and writes. After the last read of the input
the final reader at read_committed reads the output too, and finds in each record the input record that it was
made of. It writes what it found as the journal of one more process of the first instance's slot: a copy of
each of these inputs, and the group's committed offsets. So checks of copies judge an application as they
judge the workload `copier`. What the instances read is not on record: checks of what groups were given are
not asked.
"""
