"""A write of share state that came late set the start offset of a share partition back."""

from typing import Final

from checkers.checks.share_groups import REDELIVERY, Redelivery
from checkers.engine.findings import LogFinding
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import SLACK_MS, LabelledRun
from checkers.known_bugs.transaction_fates import Suspicion
from checkers.logs.accept_share import START, StartFell, starts_that_fell
from checkers.logs.classes import VIOLATION

RIGHT: Final = (4, 4)
"""First version where the start only rises."""


def _forgotten(suspicion: Suspicion) -> bool:
    """The record had ended, and lay below the start offset, when that fell; and a leader may have read one
    that was not above it."""
    finding, history, run = suspicion.finding, suspicion.history, suspicion.run
    assert isinstance(finding, Redelivery)
    shared, ms = run.shared(finding), history.wall_ms(finding.at_ns) + SLACK_MS
    ended_ms = history.wall_ms(finding.said.invoke_ns) - SLACK_MS
    late = (one for one in _late(run) if run.share_partition(one.key) == shared and ended_ms <= one.ms)
    return any(one.forgets(finding.key[2], ms) for one in late)


def _fell(run: LabelledRun, finding: LogFinding) -> bool:
    """It is the fall itself."""
    place = finding.log, finding.offset
    return finding.check == START and any((one.log, one.offset) == place for one in _late(run))


def _late(run: LabelledRun) -> list[StartFell]:
    """Falls by a write that came late, where brokers let it. No newer leader wrote it: that one had read the
    start, and would not go back of itself."""
    if not run.versions.some_before(RIGHT):
        return []
    falls = (one for one in run.evidence.once(starts_that_fell) if not one.by_newer)
    return [one for one in falls if run.versions.some_before(RIGHT, run.ns_of(one.ms))]


BUG: Final = KnownBug(
    title="Share groups: a write that comes late sets the start offset back",
    page="https://github.com/apache/kafka/pull/23074",
    link="apache/kafka#23074",
    versions="Kafka 4.1 to 4.3; right from 4.4.0 on",
    doc="""\
The leader of a share partition has its start offset stored with each change of its state. Where no answer
comes it sends the same again. The share coordinator takes the start offset of any write that no newer leader
has fenced: one that comes late sets it back, and what was stored of the records in between is gone. The
leader does not notice. The next leader reads the old start, or the same one, where the last member had left
it: that one delivers again what was accepted or rejected. From 4.4.0 on the higher start offset counts.

The model showed it in random runs under `partition:isolate@group-coordinator`. The tables
[A write that comes late sets the start back](model/share-groups.md#share-start-falls) and
[the next one](model/share-groups.md#share-start-rises) have both sides.

`--preset share --nemesis pause` on 4.3.1 showed it in brokers' logs in the first run of 20 s: where a share
coordinator had stood still, three releases that were sent again came after writes with a higher start (295
after 312). The leader did not change before its next write, so no member noticed.""",
    evidence="A record was delivered again after it had ended; in between, while some brokers were older"
    " than 4.4, a record of `__share_group_state` has a lower start offset of its share partition than the"
    " one before it, in the same state epoch and by no newer leader; the delivered record lies between the"
    " two; and the start was not above it again by then, or when the next leader read it. What was accepted"
    " only after the fall has another cause. A known bug has to explain each delivery of the record after"
    " its end. In brokers’ logs: the record that sets it back.",
    anomalies=(REDELIVERY,),
    match=_forgotten,
    in_logs={VIOLATION: _fell},
)
