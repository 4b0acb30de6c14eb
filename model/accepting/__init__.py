"""The model as acceptor: a log, in the order of its offsets, that the model's brokers must have accepted.

refusal  What an acceptor says of a place in a log.

An acceptor gets one log, record by record, keeps the state that the model has there, and refuses what no
broker of the model would have appended in that state. It never searches: the log fixes the order. Where a
log's beginning is gone (compaction, deletion) it starts as unknown and accepts what some beginning allows.
The invariants of simulated runs use the same acceptors.
"""
