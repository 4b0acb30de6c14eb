"""Many short simulated runs, with and without planted bugs; shrinking a run.

exploration  `inquest model explore`: runs of seeds without planted bugs, and runs for each
             planted bug until one shows it.
explained    Findings that known weaknesses of Kafka explain, in simulated runs.
forked       Work in processes of this machine, forked from this one: each takes the next
             piece as soon as it is free.
profile      From a seed to a run: which workload under which nemesis, on which
             cluster.
repeats      Runs on real brokers, made again: which classes they show, and how often.
result       The result of an exploration: as JSON, as a table, as an exit code.
shrink       From a run with a finding to a smallest one that still has it
             (delta debugging).
trial        One run of an exploration: simulated in memory, checked in this process,
             judged.

`explore` performs many short runs: runs without a planted bug must be clean, and the checks must find
each planted bug as an anomaly that its twin without the bug does not show. `replay` repeats a recorded
run and compares journals byte by byte. `shrink` leaves out faults (ddmin), then time, load and nodes that
a finding does not need; each try is a whole run of the same seed, or several on real brokers. The result is
a run folder whose faults are those of its schedule.
"""
