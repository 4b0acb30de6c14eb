"""The first batches of a fresh partition are accepted out of order; the first one is lost."""

from collections.abc import Mapping
from typing import Final

from checkers.checks.durability import LOST, LostWrite
from checkers.engine.findings import OK
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import LabelledRun, batch_at
from checkers.known_bugs.transaction_fates import Suspicion
from checkers.logs.replicas import ReplicaLog

FIRST: Final = (2, 5)
"""First version that accepts any sequence number of a producer that it does not know."""


def _fresh_partition(suspicion: Suspicion) -> bool:
    """Nothing was acknowledged in the partition when an idempotent producer, with several requests in
    flight, sent the record, which was acknowledged without an offset (by the acknowledgement of a later
    one). Neither it nor an earlier record of that producer was ever read there, and a later one was."""
    finding = suspicion.finding
    assert isinstance(finding, LostWrite)
    if suspicion.run.own_program:
        return False
    process = suspicion.history.processes.get(finding.process)
    if process is None or not process.idempotent or process.in_flight == 1:
        return False
    (sent, *_) = finding.records
    if not suspicion.run.versions.some_since(FIRST, sent.done_ns):
        return False
    # with an offset, a broker appended it there: what is lost was in the log
    inferred = sent.outcome == OK and sent.offset < 0 and finding.fresh and finding.first
    return inferred and _taken_out_of_order(suspicion.run, finding)


def _taken_out_of_order(run: LabelledRun, finding: LostWrite) -> bool:
    """The first batch of the producer in the log has a sequence number above 0, which leaves room for all of
    its records up to the lost one; and no node has a batch from before it. True also where no log is known
    from its beginning."""
    tp = run.partition(finding.tp)
    log = run.survivor(tp)
    if log is None or not log.count or not log.ordered or log.every["base"][0] > 0 or log.gaps.any():
        return True
    rows = run.history.sends({finding.tp: {"process": (finding.process,)}})
    shown = min((row.place for row in rows if row.place >= 0), default=-1)
    later = batch_at(log, shown)
    if later is None:
        return False
    mine = log.whole["producer_id"] == later["producer_id"]
    first = {name: log.whole[name][mine][0] for name in ("producer_epoch", "base_sequence")}
    (sent, *_) = finding.records
    lost = sum(row.outcome == OK and row.value <= sent.value for row in rows)
    return bool(first["base_sequence"] >= lost) and not any(
        _has_earlier(copy, later["producer_id"], first) for copy in run.logs(tp)
    )


def _has_earlier(copy: ReplicaLog, producer_id: int, first: Mapping[str, int]) -> bool:
    """A copy of the log has a batch of the producer, of the same epoch, with a lower sequence number."""
    same = (copy.whole["producer_id"] == producer_id) & (
        copy.whole["producer_epoch"] == first["producer_epoch"]
    )
    return bool((copy.whole["base_sequence"][same] < first["base_sequence"]).any())


BUG: Final = KnownBug(
    title="First batches of a fresh partition accepted out of order, the first one lost",
    link="KAFKA-15591",
    versions="also KAFKA-14312, KAFKA-19880; brokers 2.5 to 4.4",
    doc="""\
A broker accepts any first sequence number from a producer that it does not know. If it refuses the first
of several batches in flight and accepts the second, librdkafka takes the acknowledgement of the second
for the first too: it reports a record as delivered that is not in the log. The workload `fresh-topic`
looks for this bug. In all other workloads a new idempotent producer sends one record to each partition,
and waits for it, before it pipelines (`first_contact`).

librdkafka reports a record without an offset where it infers the acknowledgement from a later batch. A
record that the broker acknowledged at an offset was in the log: its loss has another cause. The refused
batch may also make the producer bump its epoch, and so double records of other partitions
(librdkafka-4953).""",
    evidence="Brokers have 2.5 or later, and the client is not a program of the user's, which may tell no"
    " offsets at all. The producer is idempotent and had several requests in flight, the record was"
    " acknowledged, without an offset, nothing had been acknowledged in the partition when it was sent,"
    " neither the record nor an earlier one of the same producer was ever read there, and a later one was."
    " Where brokers' logs are on record, and that of the partition from its beginning, the first batch of"
    " the producer there has a sequence number that is not lower than the number of the producer's"
    " acknowledged records up to the lost one, and no copy of the log has an earlier one.",
    anomalies=(LOST,),
    match=_fresh_partition,
)
