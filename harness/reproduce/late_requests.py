"""KAFKA-17754: a late EndTxn. The proxy holds it back, and delivers it on its own connection."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from core.op import TopicPartition
from core.wire import Action, Rule
from harness.kafka.waiting import NotYet, until
from harness.reproduce.library_producer import LibraryProducer
from harness.reproduce.stage import PAUSE_S, FiveBrokers, NotReached

CAUGHT_S: Final = 10.0
ACTS_S: Final = 10.0
"""A coordinator that acts upon a late request has written its markers much sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Transactions of one producer, each ending acknowledged. records: (partition, offset) -> value, and
    whether its transaction committed."""

    transactional_id: str
    records: Mapping[tuple[TopicPartition, int], tuple[str, bool]]


def late_end(stage: FiveBrokers, name: str, good: bool, *, first_commits: bool) -> Ended:
    """EndTxn of the first transaction is late: it arrives when the second one has written to partition 0.
    That one adds partition 1 then, and ends the other way; on the good side, the same way.

    Without the second partition the producer's own EndTxn would be refused (KAFKA-17754).
    """
    p0, p1 = stage.create(name, [(stage.d, stage.e, stage.c), (stage.e, stage.d, stage.c)])
    producer = LibraryProducer(stage, stage.producer(name, stage.d).transactional_id)
    wire = stage.cluster.wire
    producer.begin()
    producer.write(p0, "first")
    late = wire.number()
    wire.add(
        Rule(number=late, api="end_txn", action=Action.DETACH, transactional_id=producer.transactional_id)
    )
    producer.end(commit=first_commits)
    if wire.wait(late, "caught", CAUGHT_S) is None:
        raise NotReached("the proxy caught no EndTxn")
    producer.begin()
    offset = producer.write(p0, "second, before")
    _deliver(stage, late, p0, offset)
    producer.write(p1, "second, after")
    producer.end(commit=first_commits is good)
    return Ended(transactional_id=producer.transactional_id, records=producer.records)


def _deliver(stage: FiveBrokers, late: int, tp: TopicPartition, offset: int) -> None:
    """Let the late EndTxn go, and wait until the partition has the marker of what it ended.

    Raises: NotReached.
    """
    wire = stage.cluster.wire
    wire.release(late)
    answered = wire.wait(late, "answered", CAUGHT_S)
    if answered is None:
        raise NotReached("no broker answered the late EndTxn")
    stage.say(f"the late EndTxn (version {answered.version}) arrives; its answer has error {answered.error}")

    def acted() -> None:
        if stage.stable(tp) <= offset:
            raise NotYet("the late EndTxn ended nothing")

    try:
        until(ACTS_S, PAUSE_S, acted)
    except NotYet as error:
        raise NotReached(str(error)) from error
