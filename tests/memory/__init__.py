"""A tiny cluster in memory, behind the same seam as real Kafka.

`broker` holds the logs (in the process of the harness), `session` is the client (in the workers),
`cluster` is the `Cluster`. It replicates nothing: a partition is served by the first of its nodes that
is up, not frozen and not cut off, and waits while there is none. With it the harness's own fault
tests run without Docker. It is not a model of Kafka.

`broker_settings["memory.bug"]` plants a bug: `lose` (acknowledged records vanish), `duplicate`,
`show-aborted` (aborted records are served at read_committed), `swap` (records change places),
`unfenced` (whoever has a transactional id may use it), `keep-offsets` (aborted transactions commit their
offsets, and their groups rebalance).
"""
