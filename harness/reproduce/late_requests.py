"""KAFKA-17754: a late EndTxn; KAFKA-19446: a late marker. A proxy holds the request back, and delivers it on
its own connection."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from core.errors import ClusterError
from core.op import TopicPartition
from core.runtime import run_blocking
from core.wire import Action, WireRule
from harness.processes.waiting import NotYet, until
from harness.reproduce.cluster import PAUSE_S, NotReached
from harness.reproduce.library_producer import LibraryProducer
from harness.reproduce.stage import FiveBrokers

CAUGHT_S: Final = 10.0
SHORT_S: Final = 0.5
"""Shorter than librdkafka waits for an answer itself (socket.timeout.ms)."""
ACTS_S: Final = 10.0
"""A coordinator that acts upon a late request has written its markers much sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformedEndings:
    """Transactions of one producer, each ending acknowledged. records: (partition, offset) -> value, and
    whether its transaction committed."""

    transactional_id: str
    records: Mapping[tuple[TopicPartition, int], tuple[str, bool]]


def late_end(stage: FiveBrokers, name: str, good: bool, *, first_commits: bool) -> PerformedEndings:
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
        WireRule(number=late, api="end_txn", action=Action.DETACH, transactional_id=producer.transactional_id)
    )
    producer.end(commit=first_commits)
    if wire.wait(late, "caught", CAUGHT_S) is None:
        raise NotReached("the proxy caught no EndTxn")
    producer.begin()
    offset = producer.write(p0, "second, before")
    _deliver(stage, late)
    _acted(stage, p0, offset)
    producer.write(p1, "second, after")
    producer.end(commit=first_commits is good)
    return PerformedEndings(transactional_id=producer.transactional_id, records=producer.records)


def doubted_end(stage: FiveBrokers, name: str, good: bool, *, by_library: bool) -> PerformedEndings:
    """A commit has no answer, since its EndTxn is late, and is asked for again: by librdkafka itself
    (by_library), or by an application that waits a shorter time. On the good side the application makes a new
    client with the same transactional id instead, before librdkafka asks again: that fences the late request.

    The next transaction is aborted. Source: librdkafka issue 5423.
    """
    p0, p1 = stage.create(name, [(stage.d, stage.e, stage.c), (stage.e, stage.d, stage.c)])
    producer = LibraryProducer(stage, stage.producer(name, stage.d).transactional_id)
    wire, late = stage.cluster.wire, stage.cluster.wire.number()
    producer.begin()
    producer.write(p0, "first")
    wire.add(
        WireRule(number=late, api="end_txn", action=Action.HOLD, transactional_id=producer.transactional_id)
    )
    if good or not by_library:
        try:
            producer.end(commit=True, seconds=SHORT_S)
        except ClusterError as error:
            stage.say(str(error))
        else:
            raise NotReached("the commit was acknowledged, though its request waits")
    if good:
        producer = LibraryProducer(stage, producer.transactional_id)
        stage.say("a new client has called init_transactions")
    else:
        producer.end(commit=True)
    producer.begin()
    offset = producer.write(p0, "second, before")
    refused = _deliver(stage, late)
    if bool(refused) is not good:
        raise NotReached(f"the late EndTxn is answered with error {refused}")
    if not good:
        _acted(stage, p0, offset)
    producer.write(p1, "second, after")
    producer.end(commit=False)
    return PerformedEndings(transactional_id=producer.transactional_id, records=producer.records)


def late_marker(stage: FiveBrokers, name: str, good: bool) -> PerformedEndings:
    """The marker of the first transaction's abort waits between the coordinator and the leader; the
    coordinator sends another one on a new connection. The first one arrives when the second transaction has
    written, which commits. On the good side the same client speaks transaction version 2.
    """
    (p0,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    producer = stage.producer(name, stage.d, 2 if good else 1)
    late = stage.cluster.wire.number()
    rule = WireRule(
        number=late,
        api="write_txn_markers",
        action=Action.DETACH,
        nodes=(stage.d,),
        partition=(p0.topic, p0.partition),
        between=True,
    )

    producer.init()
    producer.write(p0, "first", stage.d)
    run_blocking(stage.cluster.rule([rule]))
    producer.end(commit=False)
    seen(stage, late, "caught")
    first = frozenset(producer.acknowledged)
    _acted(stage, p0, 0)
    stage.say("the first marker waits; the coordinator has sent a second one, and the leader wrote it")
    producer.write(p0, "second", stage.d)
    ((_, offset),) = producer.acknowledged.keys() - first
    run_blocking(stage.cluster.lift([late]))
    seen(stage, late, "answered")
    stage.say(f"the first marker arrives; the last stable offset is {stage.stable(p0)}")
    if not good:
        _acted(stage, p0, offset)
    producer.end(commit=True)
    records = {at: (value, at not in first) for at, value in producer.acknowledged.items()}
    return PerformedEndings(transactional_id=producer.transactional_id, records=records)


def seen(stage: FiveBrokers, late: int, what: str) -> None:
    """Wait until a rule between brokers has done this. Raises: NotReached."""

    def done() -> None:
        if not any(one.what == what for one in run_blocking(stage.cluster.seen(late))):
            raise NotReached(f"nothing was {what}")

    until(CAUGHT_S, PAUSE_S, done)


def _deliver(stage: FiveBrokers, late: int) -> int | None:
    """Let the late EndTxn go; the error in its answer. Raises: NotReached."""
    wire = stage.cluster.wire
    wire.release(late)
    answered = wire.wait(late, "answered", CAUGHT_S)
    if answered is None:
        raise NotReached("no broker answered the late EndTxn")
    stage.say(f"the late EndTxn (version {answered.version}) arrives; its answer has error {answered.error}")
    return answered.error


def _acted(stage: FiveBrokers, tp: TopicPartition, offset: int) -> None:
    """Wait until a partition has the marker of what a request ended. Raises: NotReached."""
    try:
        stage.stable_beyond(tp, offset, "the late request ended nothing", ACTS_S)
    except NotYet as error:
        raise NotReached(str(error)) from error
