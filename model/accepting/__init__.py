"""The model as acceptor: a log, in the order of its offsets, that the model's brokers must have accepted.

data_partition    A log that producers write to, as the model's leader decides
                  it: sequences, epochs, markers.
metadata_log      The metadata log of KRaft, record by record, against the
                  controller (`model.metadata.election`).
metadata_records  Records of the metadata log as an acceptor takes them, and the
                  image that they make.
offsets_log       The log of the group coordinator: groups and their members.
partition_state   A state of a partition, and the one that follows it: what
                  holds for whatever cause it was changed.
refusal           What an acceptor says of a place in a log.
transaction_log   A partition of `__transaction_state`, as coordinators write
                  it: the records of each transactional id.

An acceptor gets one log, record by record, keeps the state that the model has there, and refuses what no
broker of the model would have appended in that state. It never searches: the log fixes the order. Where a
log's beginning is gone (compaction, deletion) it starts as unknown and accepts what some beginning allows.
The invariants of simulated runs use the same acceptors.
"""
