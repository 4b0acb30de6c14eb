"""The simulated system: the reference model under a deterministic scheduler, in one process.

scheduler  virtual time, tasks           network    connections with delays, cuts and resets
nodes      broker processes              session    the clients' side of the seam
cluster    `Cluster` and its capabilities

One seed, one history, to the byte. Not here: the protocol (`model`), workloads, nemeses, checks.
"""
