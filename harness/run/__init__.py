"""The run program, for every system and both runtimes.

backend          A system under test as the harness makes, asks and removes it.
cluster_monitor  Looks at the cluster during a run: which node leads what, and where the logs end.
faults           Executing a plan of faults against a running cluster and its clients.
follow           Looks at a run while it records: findings that are final already.
guide            What decides about the phase of faults beside the plan.
log_ends         The ends of all logs, once the clients are closed: what the final reads have to reach.
planning         What a run is to do, before anything is started.
program          The phases of a run, written once.
progress         What a person sees during a run: lasting lines, and one status line on a terminal.
recovery         When a run is warm, and when a cluster has recovered.
share_groups     The share groups of a run: what they need before, and what is recorded of them after.

Phases: set-up → warm-up → faults → heal → recover → quiesce → final reads → collect → seal.

- Warm-up: every partition has a leader that all brokers agree on; every client has completed an op, and
  every group has received records. A new idempotent or transactional producer sends one record to each
  partition and waits for it before it pipelines (KAFKA-15591).
- Recover: within `recovery_deadline_s` all brokers answer and agree, every data partition has its full
  ISR, every client has completed an op invoked after healing, and in every group a member has received
  records by such an op (not every member: there may be more members than partitions). So has every consumer
  without a group: a poll that succeeds and is empty shows no service. Otherwise the cluster did not recover,
  exit code 3. If the harness itself could not heal every fault, the recording is broken (unknown) and the
  run says nothing about the cluster.
- What ends without having been asked to, what cannot be healed, a clock that jumps: an event at once, and an
  incident of the verdict (docs/checks.md, section 3). The program looks at nodes twice a second, and before
  each start, so that healing hides no end. All of healing has two minutes, and less where what runs the
  cluster does not answer; then the load stops, and the run ends unknown.
- Quiesce: all clients close, and LSO = HW within the transaction timeout + 1 s + 5 s; otherwise
  `stuck-lso`, and DescribeProducers names what the leaders still hold open: `hanging-txn`. Data
  partitions are the workload's and those of every other topic seen, except internal ones: `fresh-topic`
  creates topics during the run.
- Final reads: fresh consumers at both isolation levels read up to the ends that the leaders list,
  unchanged for 2 s. A read that reaches them is complete: an acknowledged record that it did not show is
  lost, also one at or above the end, and one without an offset. A read that stops short makes the checks
  that need it *unknown*.
- Collect: the nodes' logs are kept; then all nodes are killed, and what they have on disk becomes tables
  (`history.evidence`). Evidence that is missing is noted, and breaks nothing.
"""
