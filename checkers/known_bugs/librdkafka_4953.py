"""An idempotent producer writes a record twice after an epoch bump."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from checkers.checks.uniqueness import DUPLICATE, Duplicate
from checkers.engine.findings import NEVER, Shown, What
from checkers.known_bugs.bug import KnownBug
from checkers.known_bugs.labelled_run import LabelledRun
from checkers.known_bugs.transaction_fates import Suspicion
from core.session import UNAWAITED

STATISTICS_NS: Final = 2_000_000_000
"""Statistics come once a second: they may show a change this much later than it happened."""


def _epoch_bump(suspicion: Suspicion) -> bool:
    """A plain idempotent producer bumped its epoch while the record was not acknowledged yet. There is at
    most one more copy for each bump, none was read before the bump, and each has a later epoch than the one
    before it, as far as brokers' logs are known."""
    history, finding = suspicion.history, suspicion.finding
    assert isinstance(finding, Duplicate)
    process = history.processes.get(finding.process)
    sends = finding.only(What.SEND)
    if process is None or not process.idempotent or process.transactional_id or not sends:
        return False
    begin, until = sends[0].invoke_ns, _under_way_until(suspicion, sends[0])
    bumps = [
        later.ns
        # `epoch_cnt` counts answers of InitProducerId; librdkafka raises this epoch without asking
        for earlier, later in pairwise(history.identities(finding.process))
        if later.producer_id == earlier.producer_id and earlier.producer_epoch >= 0
        for _ in range(later.producer_epoch - earlier.producer_epoch)
        if begin <= later.ns <= until + STATISTICS_NS
    ]
    read: dict[int, int] = {}
    for shown in finding.only(What.READ):
        read[shown.offset] = min(shown.done_ns, read.get(shown.offset, NEVER))
    places = sorted({*read, *(one.offset for one in sends if one.offset >= 0)})
    copies = [read.get(place, NEVER) for place in places[1:]]
    return (
        finding.copies == len(places) <= 1 + len(bumps)
        and all(at >= bump - STATISTICS_NS for bump, at in zip(bumps, copies, strict=False))
        and _epochs_rise(suspicion.run, finding.tp, places)
    )


def _epochs_rise(run: LabelledRun, tp: int, places: Sequence[int]) -> bool:
    """Each copy is of the same producer id and of a later epoch than the one before, as far as the logs of
    the end are known."""
    name = run.partition(tp)
    batches = [run.batch(name, place) for place in places]
    known = [(one["producer_id"], one["producer_epoch"]) for one in batches if one is not None]
    return all(one[0] == other[0] and one[1] < other[1] for one, other in pairwise(known))


def _under_way_until(suspicion: Suspicion, sent: Shown) -> int:
    """When a record was acknowledged, or its op ended; of a record without a waiting client: when its client
    gave it up at the latest."""
    if sent.done_ns >= 0:
        return sent.done_ns
    op = suspicion.history.op(sent.op)
    waits_s = suspicion.config.get("verb_deadline_s", 0) if op.error == UNAWAITED else 0
    return op.ended_ns + round(waits_s * 1e9)


BUG: Final = KnownBug(
    title="Idempotent producer writes a record twice after an epoch bump",
    page="https://github.com/confluentinc/librdkafka/issues/4953",
    link="librdkafka issue 4953",
    versions="open",
    doc="""\
An OUT_OF_ORDER_SEQUENCE_NUMBER error on one partition makes librdkafka bump its producer epoch for *all*
partitions. A batch of another partition may be written but not yet acknowledged. librdkafka sends it
again under the new epoch, with sequence 0, and the broker appends it a second time.""",
    evidence="The producer is idempotent and not transactional, and its statistics show a raised epoch"
    " (`eos.producer_epoch`) under the same producer id between sending the record and its"
    " acknowledgement. There is at most one more copy for each raise, and none was read before it. Where"
    " brokers' logs are on record, the copies have the same producer id, and each a later epoch than the"
    " one before it.",
    anomalies=(DUPLICATE,),
    match=_epoch_bump,
)
