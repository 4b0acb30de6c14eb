"""A reference model of Kafka's replication and transaction protocol, in pure Python.

State machines that take an event and return what they do about it. No sockets, clocks, threads or
randomness, and no import of the rest of the project: whoever drives them (a simulator, a checker) hands
in the time and everything else.

log        one replica's log: batches, leader epochs, producer state, markers, the unflushed tail
eras       which historical behaviour is in force
errors     Kafka's error codes, by name

Not here: driving the machines, histories, verdicts.
"""
