"""Schedules of plain producers: a request late, refused or unanswered, a leader alone, replicas that move."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Event
from typing import Final

from kio.schema.errors import ErrorCode

from checkers.checks.durability import LOST
from checkers.checks.send_order import BETWEEN_OPS as DISORDER
from checkers.checks.uniqueness import DUPLICATE
from core.op import TopicPartition
from core.runtime import run_blocking
from core.wire import Action, WireRule
from harness.reproduce.cluster import STEP_S, NotReached
from harness.reproduce.library_producer import PlainProducer
from harness.reproduce.stage import FiveBrokers

SEEN_S: Final = 20.0
LARGE: Final = 3000
"""Bytes of a record that a topic refuses whose `max.message.bytes` is SMALL."""
SMALL: Final = 2000
MOVES: Final = 6
HUGE, MANY = 10_000, 300
"""Bytes and number of records that a replica which is throttled does not get."""
AT_ONCE: Final = 20
"""Records that a producer sends before it waits for them, while leaders move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a producer sent, in order, and what was reported to it as delivered."""

    sent: Sequence[tuple[TopicPartition, str]]
    acknowledged: frozenset[tuple[TopicPartition, str]]

    @property
    def tps(self) -> list[TopicPartition]:
        """Where it sent records."""
        return sorted({tp for tp, _ in self.sent})


def anomalies(performed: Sent, logs: Mapping[TopicPartition, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """What the logs show, by class and in a sentence. logs: the values in each partition, by offset."""
    found = {tp: Counter(values) for tp, values in logs.items()}
    for tp, value in performed.sent:
        copies = found[tp][value]
        if copies > 1:
            yield DUPLICATE, f"{value[:20]!r} is {copies} times in {tp.topic}-{tp.partition}"
        if not copies and (tp, value) in performed.acknowledged:
            yield LOST, f"{value[:20]!r}, which was acknowledged, is not in {tp.topic}-{tp.partition}"
    for tp in performed.tps:
        first = {value: place for place, value in reversed(list(enumerate(logs[tp])))}
        order = [value for at, value in performed.sent if at == tp and value in first]
        if order != sorted(order, key=first.__getitem__):
            yield DISORDER, f"{tp.topic}-{tp.partition} has {', '.join(dict.fromkeys(logs[tp]))}"


def sent_by(producer: PlainProducer) -> Sent:
    """What a producer did."""
    return Sent(sent=tuple(producer.sent), acknowledged=frozenset(producer.acknowledged))


def _rule(stage: FiveBrokers, tp: TopicPartition, action: Action, error: int = 0) -> int:
    """Take the next Produce to a partition; the number of the rule."""
    number = stage.cluster.wire.number()
    where = (tp.topic, tp.partition)
    stage.cluster.wire.add(
        WireRule(number=number, api="produce", action=action, partition=where, error=error)
    )
    return number


def _expect(stage: FiveBrokers, number: int, what: str) -> None:
    """Wait until a rule did something. Raises: NotReached."""
    if (seen := stage.cluster.wire.wait(number, what, SEEN_S)) is None:
        raise NotReached(f"no Produce was {what}")
    error = "" if seen.error is None else f", error {seen.error}"
    stage.say(f"Produce (version {seen.version}) to broker {seen.node}: {what}{error}")


def late_produce(stage: FiveBrokers, name: str, good: bool) -> Sent:
    """The network holds a Produce back; the producer sends it again; then the first one arrives."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    producer = PlainProducer(stage, {"enable.idempotence": good})
    producer.write(tp, "zero")
    late = _rule(stage, tp, Action.DETACH)
    producer.write(tp, "one")
    _expect(stage, late, "caught")
    stage.cluster.wire.release(late)
    _expect(stage, late, "answered")
    producer.write(tp, "two")
    return sent_by(producer)


def refused_first(stage: FiveBrokers, name: str, good: bool, *, idempotent: bool) -> Sent:
    """The first of five requests in flight is refused with NOT_ENOUGH_REPLICAS, those behind it are not.

    Bad sides: without idempotence; with it, in a partition that has no record of the producer.
    """
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    producer = PlainProducer(stage, {"enable.idempotence": good or idempotent, "batch.num.messages": 1})
    known = good or not idempotent
    if known:
        producer.write(tp, "zero")
    else:
        producer.write(stage.create(f"{name}-other", [(stage.d, stage.e, stage.c)])[0], "zero")
    refused = _rule(stage, tp, Action.REFUSE, int(ErrorCode.not_enough_replicas))
    producer.send(tp, "one", "two", "three", "four", "five")
    producer.wait()
    _expect(stage, refused, "caught")
    return sent_by(producer)


def epoch_bump(stage: FiveBrokers, name: str, good: bool) -> Sent:
    """Partition 0 has a record whose acknowledgement is lost; then partition 1 refuses a record for good. On
    the good side it takes it."""
    places = [(stage.d, stage.e, stage.c), (stage.e, stage.d, stage.c)]
    p0, p1 = stage.create(name, places, {"max.message.bytes": str(SMALL)})
    producer = PlainProducer(stage, {"enable.idempotence": True})
    producer.write(p0, "zero")
    producer.write(p1, "zero")
    unanswered = _rule(stage, p0, Action.DROP_RESPONSE)
    producer.send(p0, "one")
    _expect(stage, unanswered, "answered")
    producer.send(p1, "one" if good else "large".ljust(LARGE, "."))
    producer.wait()
    return sent_by(producer)


def alone(stage: FiveBrokers, name: str, good: bool) -> Sent:
    """A leader is cut off from all other nodes, and not from its clients. Another one is elected."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    producer = PlainProducer(stage, {"acks": -1 if good else 1})
    producer.write(tp, "zero")
    stage.cut(*((stage.d, node) for node in stage.cluster.nodes if node != stage.d))
    producer.send(tp, "one")
    if not good:
        producer.wait()
    stage.leads(stage.e, tp, stage.a)
    stage.say("E leads; D, which is cut off, takes itself for the leader")
    stage.heal()
    producer.wait()
    producer.write(tp, "two")
    return sent_by(producer)


def moved(stage: FiveBrokers, name: str, good: bool) -> Sent:
    """A partition's leader moves to a follower and back while records are sent, as an operator or a rebalance
    moves it. No node and no link fails."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    settings = {"enable.idempotence": True} if good else {"acks": 1, "max.in.flight": 1}
    producer = PlainProducer(stage, settings, says=False)
    producer.write(tp, "zero")
    stage.stable_beyond(tp, 0, "the followers do not fetch")
    moves, enough = 0, Event()

    def send() -> None:
        for number in count(step=AT_ONCE):
            producer.send(tp, *(str(number + one) for one in range(AT_ONCE)))
            producer.wait()
            if enough.wait(0.001):
                return

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send)
        try:
            for moves in range(1, MOVES + 1):
                order = (stage.e, stage.d, stage.c) if moves % 2 else (stage.d, stage.e, stage.c)
                stage.reorder(tp, order)
                run_blocking(stage.cluster.elect_preferred([tp]))
                stage.leads(order[0], tp, stage.a)
        finally:
            enough.set()
        sending.result()
    stage.say(f"the leader moved {moves} times; {len(producer.acknowledged)} records were acknowledged")
    return sent_by(producer)


def last_replica(stage: FiveBrokers, name: str, good: bool) -> Sent:
    """All followers are shut down in order; the leader, alone in sync, loses power and returns without what
    it had not flushed. Then the followers return. Both sides are the same schedule."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    producer = PlainProducer(stage, {"acks": -1})
    producer.write(tp, "zero")
    producer.write(tp, "one")
    run_blocking(stage.cluster.shut_down([stage.e, stage.c]))
    lost = run_blocking(stage.cluster.lose_power([stage.d]))
    stage.say(f"E and C are shut down; D loses power, and {lost} batches")
    if kept := {"zero", "one"} & {*stage.values_on_disk(stage.d, tp).values()}:
        raise NotReached(f"D lost its power, and has {' and '.join(sorted(kept))} on its disk")
    stage.leads(-1, tp, stage.a)
    run_blocking(stage.cluster.revive([stage.d]))
    stage.awake(stage.d)
    stage.leads(-1 if good else stage.d, tp, stage.a)
    stage.say("D is back " + ("and does not lead" if good else "and leads"))
    stage.heal()
    producer.write(tp, "two")
    return sent_by(producer)


def unclean(stage: FiveBrokers, name: str, good: bool) -> Sent:
    """A leader that alone is in sync dies; a follower comes back. On the good side no broker may lead but the
    dead one (unclean.leader.election.enable=false)."""
    settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": str(not good).lower()}
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)], settings)
    producer = PlainProducer(stage, {"acks": -1})
    producer.write(tp, "zero")
    run_blocking(stage.cluster.shut_down([stage.e, stage.c]))
    producer.write(tp, "one")
    stage.kill(stage.d)
    stage.leads(-1, tp, stage.a)
    run_blocking(stage.cluster.revive([stage.e]))
    stage.awake(stage.e)
    stage.leads(-1 if good else stage.e, tp, stage.a)
    stage.heal()
    producer.write(tp, "two")
    return sent_by(producer)


def removed_replica(stage: FiveBrokers, name: str, good: bool) -> Sent:
    """A partition is given one replica instead of three, and then two; the second one is throttled, as tools
    that move replicas do it. The leader is shut down in order before that one is in sync. No node and no link
    fails. On the good side, the topic's other partition, which is its first one, is changed with it."""
    first, tp = stage.create(name, [(stage.d, stage.e, stage.c)] * 2)
    producer = _filled(stage, tp)
    tps = [first, tp] if good else [tp]
    stage.assign(tps, [stage.d])
    again = partial(stage.assign, tps, [stage.d, stage.e])
    return _stopped_in_mid_copy(stage, producer, tp, again, good=good)


def cancelled_reassignment(stage: FiveBrokers, name: str, good: bool) -> Sent:
    """C is down, and its place on a partition of D is to go to A and E. A cannot copy; E comes into sync. The
    request is cancelled, and made once more; D is shut down in order before E is in sync again. On the good
    side min.insync.replicas is 1."""
    settings = {"min.insync.replicas": "1"} if good else {}
    (tp,) = stage.create(name, [(stage.d, stage.c)], settings)
    producer = _filled(stage, tp)
    run_blocking(stage.cluster.shut_down([stage.c]))
    stage.cut((stage.a, stage.d))
    ask = partial(stage.assign, [tp], [stage.d, stage.e, stage.a], leaving=[stage.c])
    ask()
    stage.in_sync_are({stage.d, stage.e}, tp)
    run_blocking(stage.cluster.cancel_reassignments([tp], STEP_S))
    stage.in_sync_are({stage.d}, tp)
    stage.say("E was in sync when the reassignment was cancelled")
    return _stopped_in_mid_copy(stage, producer, tp, ask, good=good)


def _filled(stage: FiveBrokers, tp: TopicPartition) -> PlainProducer:
    """A producer whose records in a partition take a while to copy, and are acknowledged."""
    producer = PlainProducer(stage, {"acks": -1}, says=False)
    producer.send(tp, *(f"{number}".ljust(HUGE, ".") for number in range(MANY)))
    producer.wait()
    return producer


def _stopped_in_mid_copy(
    stage: FiveBrokers, producer: PlainProducer, tp: TopicPartition, again: Callable[[], None], *, good: bool
) -> Sent:
    """E is added again, throttled, and D is shut down in order before E is in sync."""
    run_blocking(stage.cluster.throttle(stage.e, [tp], 1))
    try:
        again()
        stage.say(f"{len(producer.acknowledged)} records are acknowledged; E gets the partition once more")
        run_blocking(stage.cluster.shut_down([stage.d]))
        stage.leads(-1 if good else stage.e, tp, stage.a)
        stage.say("D is shut down; " + ("no broker leads" if good else "E leads"))
        stage.heal()
    finally:
        run_blocking(stage.cluster.unthrottle([tp]))
    producer.write(tp, "more")
    return sent_by(producer)
