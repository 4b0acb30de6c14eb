"""`inquest demo`: a loss found, explained, and absent where Kafka mended its cause; no Docker, no Kafka.

Two simulated runs of one seed, before and after KIP-101. In Kafka 0.10 a new follower cut its log off at its
high watermark, which comes a fetch later than the records (KIP-101; docs/model/truncation.md).
"""

from collections.abc import Callable
from typing import Final

from core.config import RunConfig, run_config
from core.errors import ExitCode
from core.terminal import show_lines

SETTINGS: Final = {
    "sut": "simulated", "workload": "queue", "nemesis": "kill:majority", "seed": 23, "duration_s": 10,
    "rate": 25, "partitions": 3, "producers": 3, "home_producers": 0, "fault_s": 2.5, "calm_s": 1.5,
    "faults_begin": "planned", "idempotent": False,
}  # fmt: skip
BEFORE: Final = """\
A simulated cluster of Kafka 0.10: three brokers, producers with acks=all, min.insync.replicas 2. Two of the
three brokers are killed, twice, and started again. No election is unclean: nothing may be lost.
"""
WHY: Final = """
Why: each in-sync replica had these records, so they were acknowledged. A follower hears one fetch later that
they are committed: its high watermark is late. Brokers 2 and 3 were dead. Before the controller noticed the
death of 3, it made 3 the leader and 1 its follower, and before Kafka 0.11 a new follower cut its log off at
its own high watermark. Then 1 was elected, and the records were gone everywhere. Since KIP-101 a follower
first asks its leader where the last epoch ended. The same run, with the Kafka of today:
"""
AFTER: Final = """
The report of the first run (its line `report:` is above) shows the first lost record, who led, and each
broker's log around it: open it in a browser.
Next: `make test-run PRESET=acks1` does the like to real brokers; docs/tutorial.md follows it."""


def demo(perform: Callable[[RunConfig], int]) -> ExitCode:
    """Show it. perform: makes and judges a run, prints what it found, and returns its exit code. Returns
    SILENT where the loss does not show, or shows without its cause."""
    show_lines(BEFORE)
    lost = perform(run_config(SETTINGS | {"era": "0.10"}))
    show_lines(WHY)
    valid = perform(run_config(SETTINGS))
    show_lines(AFTER)
    shown = (lost, valid) == (ExitCode.ANOMALY, ExitCode.VALID)
    return ExitCode.VALID if shown else ExitCode.SILENT
