"""A replica that was away copies aborted transactions and a later one in one append, and leads again."""

from typing import Final

from core.op import TopicPartition
from core.runtime import run_blocking
from harness.reproduce.late_requests import PerformedEndings
from harness.reproduce.library_producer import PADDING, LibraryProducer, PlainProducer
from harness.reproduce.stage import FiveBrokers

VALUE_BYTES: Final = 4000
BEFORE: Final = 150
"""Records that all replicas have: 0.6 MB, so that a fetch from the beginning (1 MB by default) ends
among the aborted records."""
ABORTED: Final = 200
"""Transactions of one record: 0.8 MB, which a follower copies by one fetch (1 MB by default)."""


def skipping_index(stage: FiveBrokers, name: str, good: bool) -> PerformedEndings:
    """E is restarted in order, as in a rolling restart, and leads its partition again once it is in sync.
    Meanwhile a producer aborts transactions, and then another one commits. On the good side both do so when
    E is in sync again, so that E copies each batch as it is written."""
    (tp,) = stage.create(name, [(stage.e, stage.d, stage.c)])
    filler = PlainProducer(stage, {"acks": -1, "batch.num.messages": 1}, says=False)
    filler.send(tp, *(_padded(f"before {number}") for number in range(BEFORE)))
    filler.wait()
    run_blocking(stage.cluster.shut_down([stage.e]))
    stage.leads(stage.d, tp)
    stage.say(f"E is shut down in order; broker {stage.d} leads")
    performed = PerformedEndings(transactional_id="", records={}) if good else _ended(stage, name, tp)
    run_blocking(stage.cluster.revive([stage.e]))
    stage.in_sync_are({stage.c, stage.d, stage.e}, tp)
    stage.say("E is started, and in sync")
    if good:
        performed = _ended(stage, name, tp)
    run_blocking(stage.cluster.elect_preferred([tp]))
    stage.leads(stage.e, tp)
    stage.say(f"broker {stage.e} leads again: it is the preferred leader")
    return performed


def _ended(stage: FiveBrokers, name: str, tp: TopicPartition) -> PerformedEndings:
    """Transactions that were aborted one after another, and one of another producer, which committed."""
    first, second = (LibraryProducer(stage, f"{name}-{role}", says=False) for role in ("aborts", "commits"))
    for number in range(ABORTED):
        first.begin()
        first.write(tp, _padded(f"aborted {number}"))
        first.end(commit=False)
    second.begin()
    second.write(tp, _padded("committed"))
    second.end(commit=True)
    stage.say(f"{ABORTED} transactions are aborted, and then one of another producer is committed")
    return PerformedEndings(
        transactional_id=first.transactional_id, records={**first.records, **second.records}
    )


def _padded(text: str) -> str:
    return text.ljust(VALUE_BYTES, PADDING)
