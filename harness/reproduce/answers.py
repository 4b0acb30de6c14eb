"""Schedules whose last answer is wrong, and no record is lost or doubled by it.

Requests are made by hand: librdkafka speaks transaction version 1, and asks once more when it likes.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from kio.schema.add_offsets_to_txn.v3.response import AddOffsetsToTxnResponse
from kio.schema.consumer_group_heartbeat.v0.response import ConsumerGroupHeartbeatResponse
from kio.schema.errors import ErrorCode
from kio.schema.produce.v11.response import ProduceResponse as NewerProduce
from kio.schema.txn_offset_commit.v2.response import TxnOffsetCommitResponse

from core.op import TopicPartition
from core.runtime import run_blocking
from core.wire import Action, WireRule
from harness.processes.waiting import NotYet, until
from harness.protocol.topics import in_topics
from harness.reproduce.cluster import PAUSE_S, STEP_S, NotReached
from harness.reproduce.coordinators import NO_MARKER, meanwhile
from harness.reproduce.group_offsets import committed
from harness.reproduce.late_requests import seen
from harness.reproduce.producer import RequestRefused, WireProducer
from harness.reproduce.stage import FiveBrokers

BRIEF: Final = timedelta(seconds=2)
"""Of a transaction whose time is to be up."""
SCAN: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
"""A setting of brokers: how often a coordinator looks for such transactions (Kafka: each 10 s)."""
GATHERED_S: Final = 0.5
"""A leader has taken a question by then; nothing outside of it shows that."""
NEW_GROUPS: Final = {"group.coordinator.rebalance.protocols": "classic,consumer"}
"""A setting of brokers of 3.9: they have the groups of KIP-848, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformedRequest:
    """One performed schedule. asked: the request, in words. answer: what a broker said to it. wrong, right:
    what it says with the bug, and without."""

    transactional_id: str
    asked: str
    answer: str
    wrong: str
    right: str


def _answer(ask: Callable[[], None]) -> str:
    """The last answer to a request that is sent until it succeeds."""
    try:
        ask()
    except RequestRefused as error:
        return error.answer
    return "NONE"


def _between(stage: FiveBrokers, producer: WireProducer, action: Action) -> int:
    """What happens to the next question about a producer between brokers; the number of the rule."""
    number, asked = stage.cluster.wire.number(), producer.transactional_id
    rule = WireRule(
        number=number, api="add_partitions_to_txn", action=action, transactional_id=asked, between=True
    )
    run_blocking(stage.cluster.rule([rule]))
    return number


def _add_offsets(producer: WireProducer, group: str) -> None:
    """The group's offsets belong to the open transaction. Raises: RequestRefused."""

    def add() -> tuple[int, ErrorCode]:
        node = producer.coordinator()
        answer = producer.call(node, AddOffsetsToTxnResponse, **producer.identity, group_id=group)
        return node, answer.error_code

    producer.until_done("AddOffsetsToTxn", add)


def _commit_offset(producer: WireProducer, coordinator: int, group: str, tp: TopicPartition) -> None:
    """Offset 0 of a partition, by the open transaction, of no member. Raises: RequestRefused."""
    part = {"partition_index": tp.partition, "committed_offset": 0, "committed_metadata": ""}
    offsets = {"group_id": group, "topics": in_topics([(tp, part)])}

    def commit() -> tuple[int, ErrorCode]:
        answer = producer.call(coordinator, TxnOffsetCommitResponse, **producer.identity, **offsets)
        return coordinator, answer.topics[0].partitions[0].error_code

    producer.until_done("TxnOffsetCommit", commit)


def opened_again(stage: FiveBrokers, name: str, good: bool) -> PerformedRequest:
    """A second instance asks for its epoch while a transaction of the first one is open, by transaction
    version 2. Both sides are the same schedule."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    first, second = (stage.producer(name, stage.d, 2) for _ in range(2))
    first.init()
    first.write(tp, "zero", stage.d)
    second.init()
    risen = second.epoch - first.epoch
    return PerformedRequest(
        transactional_id=first.transactional_id,
        asked="InitProducerId over an open transaction",
        answer=f"the epoch is {risen} higher",
        wrong="the epoch is 3 higher",
        right="the epoch is 2 higher",
    )


def asked_again(stage: FiveBrokers, name: str, good: bool) -> PerformedRequest:
    """A producer asks for the next epoch of its own, and does not hear the answer: it sends the same request
    again. On the bad side another broker is the coordinator by then."""
    producer = stage.producer(name, stage.d)
    producer.init()
    known = producer.identity
    producer.init(known)
    given = producer.identity
    stage.say(f"epoch {given['producer_epoch']} is given, and the producer does not hear of it")
    if not good:
        stage.say(stage.hand_over(stage.a, stage.b))
    answer = _answer(lambda: producer.init(known))
    return PerformedRequest(
        transactional_id=producer.transactional_id,
        asked="InitProducerId once more, with the epoch before",
        answer="the same epoch" if producer.identity == given else answer,
        wrong="PRODUCER_FENCED",
        right="the same epoch",
    )


def late_permission(stage: FiveBrokers, name: str, good: bool) -> PerformedRequest:
    """A leader asks the coordinator whether a record may be written, and hears late that it may: the time of
    the transaction is up, and its partition has the marker. Both sides are the same schedule."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    producer = stage.producer(name, stage.d)
    producer.timeout = BRIEF
    producer.init()
    producer.until_done("AddPartitionsToTxn(0)", lambda: producer.add_once(tp))
    late = _between(stage, producer, Action.DELAY_RESPONSE)
    batch = producer.batch(tp, "zero")
    with meanwhile(stage, "Produce(0, zero)", lambda: producer.send_once(tp, "zero", stage.d, batch)) as sent:
        seen(stage, late, "answered")
        if stage.stable(tp) > 0:
            raise NotReached("the leader asks when the transaction is aborted")
        stage.stable_beyond(tp, 0, NO_MARKER)
        stage.say("the coordinator has aborted the transaction; the leader hears now that it may write")
        run_blocking(stage.cluster.lift([late]))
    return PerformedRequest(
        transactional_id=producer.transactional_id,
        asked="Produce of a transaction whose time is up",
        answer=sent.result().rpartition(": ")[2],
        wrong="INVALID_TXN_STATE",
        right="INVALID_PRODUCER_EPOCH",
    )


def no_member(stage: FiveBrokers, name: str, good: bool) -> PerformedRequest:
    """A transaction commits offsets of a group that has a member by KIP-848; the request names no member, as
    its versions 0 to 2 cannot. Both sides are the same schedule."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    offsets, _, (group, *_) = stage.groups(name)
    coordinator = stage.leader(offsets, stage.d)
    producer = stage.producer(name, stage.d)
    producer.init()

    def join() -> None:
        answer = producer.call(
            coordinator,
            ConsumerGroupHeartbeatResponse,
            group_id=group,
            member_id="",
            member_epoch=0,
            rebalance_timeout=timedelta(seconds=60),
            subscribed_topic_names=[name],
            topic_partitions=[],
        )
        if answer.error_code != ErrorCode.none:
            raise NotYet(f"ConsumerGroupHeartbeat: {answer.error_code.name.upper()}")

    until(STEP_S, PAUSE_S, join)
    _add_offsets(producer, group)
    answer = _answer(lambda: _commit_offset(producer, coordinator, group, tp))
    producer.end(commit=True)
    return PerformedRequest(
        transactional_id=producer.transactional_id,
        asked="TxnOffsetCommit without a member",
        answer=answer,
        wrong="UNKNOWN_MEMBER_ID",
        right="NONE",
    )


def refused_and_dropped(stage: FiveBrokers, name: str, good: bool) -> PerformedRequest:
    """A transaction has committed an offset of a group; the instance that it fenced commits one of the same
    partition, and is refused. The transaction commits. Both sides are the same schedule."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    offsets, _, (group, *_) = stage.groups(name)
    coordinator = stage.leader(offsets, stage.d)
    fenced, producer = (stage.producer(name, stage.d) for _ in range(2))
    fenced.init()
    producer.init()
    _add_offsets(producer, group)
    _commit_offset(producer, coordinator, group, tp)
    stage.say(f"the fenced instance: {_answer(lambda: _commit_offset(fenced, coordinator, group, tp))}")
    producer.end(commit=True)

    def completed() -> None:
        if not (state := producer.described(stage.a)).startswith("CompleteCommit"):
            raise NotYet(f"the transaction is not complete: {state}")

    until(STEP_S, PAUSE_S, completed)
    return PerformedRequest(
        transactional_id=producer.transactional_id,
        asked="OffsetFetch after the commit",
        answer=f"offset {committed(stage.cluster.admin, coordinator, group, tp)}",
        wrong="offset -1",
        right="offset 0",
    )


def gathered(stage: FiveBrokers, name: str, good: bool) -> PerformedRequest:
    """A leader asks the coordinator about one transaction, and waits. Meanwhile an old client (Produce 9) and
    a newer one (Produce 11) write of transactions that lack the partition: the leader gathers both questions.
    On the good side the newer client writes first."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    asked, old, newer = (stage.producer(f"{name}-{who}", stage.d) for who in ("asked", "old", "newer"))
    for one in (asked, old, newer):
        one.init()
    late = _between(stage, asked, Action.HOLD)
    with ExitStack() as writing:

        def write(producer: WireProducer) -> Future[str]:
            batch, response = producer.batch(tp, "zero"), NewerProduce if producer is newer else None
            once = partial(producer.send_once, tp, "zero", stage.d, batch, response)
            return writing.enter_context(meanwhile(stage, f"Produce of {producer.transactional_id}", once))

        write(asked)
        seen(stage, late, "caught")
        answers = {}
        for one in (newer, old) if good else (old, newer):
            answers[one] = write(one)
            time.sleep(GATHERED_S)
        run_blocking(stage.cluster.lift([late]))
    return PerformedRequest(
        transactional_id=newer.transactional_id,
        asked="Produce 11 of a transaction that lacks the partition",
        answer=answers[newer].result().rpartition(": ")[2],
        wrong="INVALID_TXN_STATE",
        right="TRANSACTION_ABORTABLE",
    )
