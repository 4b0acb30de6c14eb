"""The tests of Inquest.

The tests mirror the rooms. What tests the tester:

- pure parts, one by one; the model's scenarios, cell by cell, and planted bugs that break their tables;
- simulated runs: seeds without planted bugs are clean; each planted bug that shows in runs is found,
  beside its clean twin; old eras beside newer ones;
- golden histories (`histories`): of each class a hit, a near miss, an indeterminate; kernel = oracle
  (`oracle`) on random and damaged histories;
- `faults`: planted bugs and clean twins through the whole command line on the simulated cluster in
  real time (`memory`), and faults of the harness itself;
- `contract`: one suite of sessions: on the simulated cluster, the model's brokers, real Kafka; `docker`:
  real brokers;
- `browser`: the report in headless Chromium; `words`: the lint of plain words.

Tests marked `sampled(n)` run one of n shares a day in `make test`, or with `whole_file` their file each n-th
day; `make test-all` runs all of them.
"""
