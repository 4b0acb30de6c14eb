"""KAFKA-19632: a leader that begins within a batch delivers again what is before its start."""

from typing import Final

from checkers.checks.share_groups import COUNT, REDELIVERY
from checkers.engine.findings import LogFinding
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import SLACK_MS, LabelledRun
from checkers.known_bugs.transaction_fates import Suspicion
from checkers.logs.accept_share import START, StartFell, starts_stored, starts_that_fell
from checkers.logs.classes import VIOLATION
from core.op import TopicPartition

RIGHT: Final = (4, 2)
"""First version whose leaders take nothing below their start."""


def _below_start(suspicion: Suspicion) -> bool:
    """When the record was delivered, the start offset that was stored was in the same batch, and above it."""
    finding, run, history = suspicion.finding, suspicion.run, suspicion.history
    if not run.versions.some_before(RIGHT, finding.at_ns):
        return False
    shared, until = run.shared(finding), history.wall_ms(finding.at_ns) + SLACK_MS
    stored = run.evidence.once(starts_stored)
    mine = (starts for key, starts in stored.items() if run.share_partition(key) == shared)
    newest = [start for starts in mine for ms, start in starts if ms <= until][-1:]
    return bool(newest) and _in_one_batch(run, shared[1], finding.key[2], newest[0])


def _went_back(run: LabelledRun, finding: LogFinding) -> bool:
    """The start fell within a batch: a leader had begun in it, and has delivered again what is before."""
    place = finding.log, finding.offset
    fell = (one for one in run.evidence.once(starts_that_fell) if (one.log, one.offset) == place)
    return finding.check == START and any(_within_batch(run, one) for one in fell)


def _within_batch(run: LabelledRun, fell: StartFell) -> bool:
    _, tp = run.share_partition(fell.key)
    old = run.versions.some_before(RIGHT, run.ns_of(fell.ms))
    return old and _in_one_batch(run, tp, fell.after, fell.before)


def _in_one_batch(run: LabelledRun, tp: TopicPartition, offset: int, start: int) -> bool:
    """A start offset is above the offset, in the same batch."""
    batch = run.batch(tp, start)
    return batch is not None and batch["base"] <= offset < start


BUG: Final = KnownBug(
    title="Share groups: what was accepted is delivered again, where the leader begins within a batch",
    url="https://issues.apache.org/jira/browse/KAFKA-19632",
    link="KAFKA-19632",
    versions="Kafka 4.1; right from 4.2.0 on",
    doc="""\
A member accepts the first records of a batch and some in its middle, and has the answer. Another broker
becomes leader, or the same one after the last member there has left, and reads what is stored: the start
offset, and which records behind it have ended. It fetches the batch, which begins below the start offset,
and takes all of it up to the first stored record for new. Where nothing behind the start offset is stored, it
begins there, as it should. What it stores next may set the start offset back.

`--preset share --nemesis elections` (seed 1, 20 s) on 4.1.2: 12 records in two batches were delivered again,
with count 1, in the 2 minutes in which the run waited for a member that was given nothing
([KAFKA-19846](#kafka-19846)).""",
    evidence="Some brokers were older than 4.2. A record was delivered again after it had ended, or with a"
    " delivery count that is not above the one before; the newest record of `__share_group_state` by then has"
    " a start offset that is above it, in the same batch. In brokers’ logs: the record that sets the start"
    " offset back, within one batch.",
    anomalies=(REDELIVERY, COUNT),
    match=_below_start,
    in_logs={VIOLATION: _went_back},
)
