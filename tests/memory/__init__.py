"""The simulated cluster in real time, in memory, behind the same seam as real Kafka.

`real_time` drives the simulation at the pace of this machine's clock, `cluster` is the `Cluster`, in the
process of the harness; it serves sessions (in the workers, `session`) on a socket. With it the harness's own
fault tests run without Docker, and start no process for a broker.

`broker_settings["memory.bug"]` plants a bug: one of `model.mutants`, or one of the messages between clients
and the cluster: `lose` (acknowledged records are never shown), `duplicate` (records are sent twice),
`misplace` (another offset is acknowledged than the record has).
"""
