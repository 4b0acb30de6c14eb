"""A share group writes dead letters of transactions' markers that no member acknowledged."""

from typing import Final

from checkers.checks.dead_letters import PHANTOM, OfNothing
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.transaction_fates import Suspicion


def _of_marker(suspicion: Suspicion) -> bool:
    """Each letter is of a delivery at the limit, and the log that the partition has at the end has the marker
    of a transaction at the offset."""
    finding, run = suspicion.finding, suspicion.run
    assert isinstance(finding, OfNothing)
    tp, offset = run.partition(finding.tp), finding.key[2]
    log = run.survivor(tp)
    if log is None or any(one.times != finding.limit for one in finding.letters):
        return False
    where = log.take, log.node, offset
    rows = run.evidence.of("control", tp).to_pylist()
    return any((row["take"], row["node"], row["offset"]) == where for row in rows)


BUG: Final = KnownBug(
    title="Share groups: dead letters of transaction markers that no member acknowledged",
    page="findings/dead-letters.md#markers",
    link="our finding",
    versions="librdkafka 2.16, which forgets the gaps of an answer without records; Kafka 4.4.0, the first"
    " with dead-letter queues",
    doc="""\
A share partition acquires the offsets of transaction markers like those of records, and counts their
deliveries. The client skips them, and is to acknowledge them as gaps. librdkafka does that together with the
records around them, and forgets the gaps of an answer without any record: that is its bug, which the Java
client had until [PR 19295](https://github.com/apache/kafka/pull/19295). A marker without an acknowledgement
becomes available again, comes to the delivery limit, and the leader writes a dead letter of it, with the
marker's value where `errors.deadletterqueue.copy.record.enable` is set: that is Kafka's part. By source it
takes no such client: members that end with the marker in hand, as often as the limit says, do it, too.""",
    evidence="Dead letters name an offset at which the final reads show no record, and where the partition's"
    " log, as a clean leader has it at the end, has the marker of a transaction; each has the delivery count"
    " of the limit.",
    anomalies=(PHANTOM,),
    match=_of_marker,
)
