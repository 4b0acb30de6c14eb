"""`inquest demo`: a loss found, explained, and absent where Kafka mended its cause; no Docker, no Kafka.

Two simulated runs of one seed, before and after KIP-101. Kafka 0.10 cut the log of a replica that started off
at its high watermark, which comes a fetch later than the records (KIP-101; docs/model/truncation.md).
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
Why: each in-sync replica had these records, so they were acknowledged. A follower hears one fetch later
that they are committed. One that was killed in between started again, cut its log off at its old high
watermark, as Kafka did before 0.11, and was elected: the records were gone everywhere. Since KIP-101 a
replica asks the leader where its epoch ended, and cuts nothing that was committed. The same run, with the
Kafka of today:
"""
AFTER: Final = """
The report shows the first lost record, who led, and each broker's log around it: open it in a browser.
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
