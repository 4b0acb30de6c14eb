"""A share group writes dead letters of transactions' markers."""

from typing import Final

from checkers.checks.dead_letters import PHANTOM, OfNothing
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.transaction_fates import Suspicion

SINCE: Final = (4, 4)
"""First version with dead-letter queues."""


def _of_marker(suspicion: Suspicion) -> bool:
    """A node's log has the marker of a transaction at the offset."""
    finding, run = suspicion.finding, suspicion.run
    assert isinstance(finding, OfNothing)
    tp, _, offset = finding.key
    return any(row["offset"] == offset for row in run.evidence.of("control", run.partition(tp)).to_pylist())


BUG: Final = KnownBug(
    title="Share groups: dead letters of transaction markers",
    url="findings/dead-letters.md#markers",
    link="our finding",
    versions="Kafka 4.4.0, the first with dead-letter queues",
    doc="""\
A share partition acquires the offsets of transaction markers like those of records, and counts their
deliveries. The client skips them, and acknowledges them as gaps, together with the records around them. Where
it does not get to (it is closed, its lock ends, its connection breaks), they become available again, come to
the delivery limit, and the leader writes a dead letter of each, with the key and the value of the marker
where `errors.deadletterqueue.copy.record.enable` is set.""",
    evidence="A dead letter names an offset at which the final reads show no record, and a node's log has the"
    " marker of a transaction.",
    anomalies=(PHANTOM,),
    match=_of_marker,
)
