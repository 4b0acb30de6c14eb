"""Workloads: what the clients of a run do. One file each; file name = registry key = CLI value (a hyphen for
an underscore). Its docstring is its user documentation. To add one: its file and a line in `registry`.

application   A program of yours between two topics: it reads records, and writes what it makes of
              them.
compacted     Records with keys in a compacted topic: of each key Kafka keeps the newest record,
              or nothing.
copier        Consume, transform, produce: records are copied from one topic to another, exactly
              once.
fencing       Zombie twins: two clients share one transactional id, and take it from each other.
fresh_topic   Idempotent bursts to partitions that were created a moment ago.
groups        Consumer groups with rebalances, and three ways of committing offsets.
prefixed      Names of a workload on a cluster that is not the harness's own: each begins
              with the run's prefix.
queue         Sends and reads without transactions.
registry      The registry of workloads: every name that a run can be asked for.
send_modes    The ways in which applications send: waiting, pipelining, forgetting, giving up early.
share         A share group: members acquire records and acknowledge each one.
sink          Consumers write what they read to a database: the two writes that no transaction of Kafka
              spans.
specs         What workloads share: session settings of a producer, a transactional producer, a
              consumer; and what plain producers and plain readers do.
transactions  Atomic writes over several partitions, some with reads in the same transaction.
"""
