"""Schedules of coordinators: what one of them wrote or answered, and the next one does not know.

A schedule performs its steps up to the producer's commit and its answer. It raises NotReached where the
cluster takes another way than the one that it describes: such a run shows nothing. `attempts` judges what
happened to the records.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from core.op import TopicPartition
from core.runtime import run_blocking
from harness.brokers.admin.connection import AdminError
from harness.processes.waiting import NotYet, until
from harness.reproduce.cluster import PAUSE_S, STEP_S, NotReached
from harness.reproduce.group_offsets import busy
from harness.reproduce.group_offsets import commit as commit_offset
from harness.reproduce.group_offsets import committed as committed_offset
from harness.reproduce.producer import RequestRefused, WireProducer
from harness.reproduce.stage import FiveBrokers

NO_MARKER = "partition 0 has no abort marker"
APPENDED_S = 1.0
"""A coordinator has appended a commit much sooner."""
ANSWERED_S = 3.0
"""A coordinator whose followers all fetch answers much sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformedTransaction:
    """One performed schedule. acknowledged: whether a coordinator acknowledged the commit; where it refused,
    it promised nothing about the records."""

    producer: WireProducer
    tps: list[TopicPartition]
    acknowledged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformedCommit:
    """One performed schedule of a commit of offsets. acknowledged: by the coordinator that led no more.
    offset: that the group committed. found: its committed offset at the next coordinator. early: the answer
    was there before the next coordinator had any commit that could be taken for this one."""

    group: str
    acknowledged: bool
    offset: int
    found: int
    early: bool


@contextmanager
def meanwhile(
    stage: FiveBrokers, what: str, once: Callable[[], tuple[int, ErrorCode]]
) -> Iterator[Future[str]]:
    """Send one request in the background; say its answer at the end of the block."""

    def answer() -> str:
        try:
            node, code = once()
            return f"broker {node}: {code.name.upper()}"
        except (AdminError, KeyError):
            return "no answer"

    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(answer)
        yield sent
        stage.say(f"{what} → {sent.result()}")


def hand_over(stage: FiveBrokers, producer: WireProducer, old: int, new: int) -> str:
    """Take the partition from a coordinator; what the next one knows of the transaction."""
    done = stage.hand_over(old, new)
    state = stage.loaded(new, producer)
    stage.say(f"{done}; broker {new} coordinates and has loaded: {state}")
    return state


def lag(stage: FiveBrokers, good: bool) -> None:
    """On the bad side, cut C off from A and B: it stays in sync for `replica.lag.time.max.ms`."""
    if not good:
        stage.cut((stage.c, stage.a), (stage.c, stage.b))
        stage.say("C cannot fetch from A and B; it stays in sync for 30 s")


def expect(stage: FiveBrokers, sent: Future[str], good: bool) -> None:
    """A answers if, and only if, all followers can fetch what it appended. Raises: NotReached."""
    try:
        answer = sent.result(ANSWERED_S)
    except TimeoutError:
        answer = ""
    if bool(answer) is not good:
        raise NotReached(f"A answers {answer}" if answer else "A does not answer, though no follower lags")


def commit(stage: FiveBrokers, producer: WireProducer, tps: list[TopicPartition]) -> PerformedTransaction:
    """The producer commits."""
    try:
        producer.end(commit=True)
    except RequestRefused as error:
        stage.say(str(error))
        return PerformedTransaction(producer=producer, tps=tps, acknowledged=False)
    return PerformedTransaction(producer=producer, tps=tps, acknowledged=True)


def uncommitted_partition(stage: FiveBrokers, name: str, good: bool) -> PerformedTransaction:
    """A cannot replicate to C that partition 1 is in the transaction. B acts upon it; C does not know it."""
    p0, p1 = tps = stage.create(name, [(stage.d, stage.e, stage.c), (stage.e, stage.d, stage.c)])
    producer = stage.producer(name, stage.d)
    producer.init()
    producer.write(p0, "zero", stage.d)
    lag(stage, good)
    with meanwhile(stage, "the first AddPartitionsToTxn(1)", lambda: producer.add_once(p1)) as sent:
        expect(stage, sent, good)
        if (state := hand_over(stage, producer, stage.a, stage.b)) != "Ongoing 0,1":
            raise NotReached(f"B loaded {state}")
    producer.write(p1, "one", stage.e)
    if (state := hand_over(stage, producer, stage.b, stage.c)) != ("Ongoing 0,1" if good else "Ongoing 0"):
        raise NotReached(f"C loaded {state}")
    stage.heal()
    return commit(stage, producer, tps)


def uncommitted_abort(stage: FiveBrokers, name: str, good: bool) -> PerformedTransaction:
    """A cannot replicate the abort of the transaction to C. B aborts one half; C does not know the abort."""
    p0, p1 = tps = stage.create(name, [(stage.d, stage.e, stage.c), (stage.e, stage.d, stage.c)])
    first, second = (stage.producer(name, stage.d) for _ in range(2))
    first.init()
    first.write(p0, "zero", stage.d)
    first.write(p1, "one", stage.e)
    stage.cut((stage.b, stage.e))  # B's marker reaches partition 0 only
    lag(stage, good)
    with meanwhile(stage, "InitProducerId of a second instance", second.init_once) as sent:
        expect(stage, sent, good)
        hand_over(stage, first, stage.a, stage.b)
        stage.stable_beyond(p0, 1, NO_MARKER)
        stage.say("partition 0 has an abort marker")
        state = hand_over(stage, first, stage.b, stage.c)
    if state != "Ongoing 0,1" and not good:
        raise NotReached(f"C loaded {state}")
    stage.heal()
    return commit(stage, first, tps)


def leaderless(stage: FiveBrokers, name: str, good: bool) -> PerformedTransaction:
    """All replicas of partition 1 are down when the transaction commits. Both sides are the same schedule."""
    p0, p1 = tps = stage.create(name, [(stage.a, stage.b, stage.d), (stage.d, stage.e, stage.c)])
    producer = stage.producer(name, stage.a)
    producer.init()
    producer.write(p0, "zero", stage.a)
    producer.write(p1, "one", stage.d)
    run_blocking(stage.cluster.shut_down([stage.c, stage.d, stage.e]))
    stage.leads(-1, p1, stage.a)
    stage.say("C, D and E are shut down: partition 1 has no leader; A coordinates")
    return commit(stage, producer, tps)


def late_record(stage: FiveBrokers, name: str, good: bool) -> PerformedTransaction:
    """A record arrives when its transaction is aborted and its partition has the marker. Another producer
    then commits in that partition. Both sides are the same schedule."""
    (p0,) = tps = stage.create(name, [(stage.d, stage.e, stage.c)])
    late, other = stage.producer(f"{name}-late", stage.d), stage.producer(name, stage.d)
    late.init()
    late.write(p0, "zero", stage.d)
    batch = late.batch(p0, "late")
    late.end(commit=False)
    stage.stable_beyond(p0, 1, NO_MARKER)
    stage.say("partition 0 has the abort marker; a record of that transaction arrives now")
    try:
        late.send(p0, "late", stage.d, batch)
    except RequestRefused as error:
        stage.say(str(error))
    other.init()
    other.write(p0, "one", stage.d)
    return commit(stage, other, tps)


def followed(stage: FiveBrokers, name: str, good: bool) -> PerformedCommit:
    """A has a commit of offsets that no follower has, and has much to do. B becomes leader; A follows it, and
    hears of B's high watermark before it is unloaded. Both sides are the same schedule.

    The followers' requests wait at proxies: where links are cut, A's own requests to B wait for time-outs and
    retransmissions, too, which often last longer than A is busy.
    """
    brokers = stage.cluster.admin
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    producer = stage.producer(name, stage.d)  # what the group commits, it could have read
    producer.init()
    for value in ("zero", "one"):
        producer.write(tp, value, stage.d)
    producer.end(commit=True)
    offsets, (a, b, c), (group, other, slow) = stage.groups(name)
    stage.reorder(offsets, (a, b, c))
    run_blocking(stage.cluster.elect_preferred([offsets]))
    stage.leads(a, offsets)

    def done(node: int, who: str, offset: int) -> None:
        if (code := commit_offset(brokers, node, who, tp, offset)) != ErrorCode.none:
            raise NotYet(f"OffsetCommit({offset}) at broker {node}: {code.name.upper()}")

    def next_has_one() -> bool:
        answered = sent.done()
        done(b, other, 1)
        return answered

    until(STEP_S, PAUSE_S, lambda: done(a, group, 1))
    stage.reorder(offsets, (b, a, c))
    with stage.no_fetches(a, (b, c)), ThreadPoolExecutor(1) as pool:
        sent = pool.submit(commit_offset, brokers, a, group, tp, 2)
        with suppress(TimeoutError):
            code = sent.result(APPENDED_S)
            raise NotReached(f"broker {a} answers {code.name.upper()}, though no follower fetches")
        with busy(brokers, a, slow):
            run_blocking(stage.cluster.elect_preferred([offsets]))
            stage.leads(b, offsets)
            early = until(STEP_S, PAUSE_S, next_has_one)
            stage.say(f"broker {b} leads {offsets}, and acknowledged a commit of another group")
            answer = sent.result()
    found = committed_offset(brokers, b, group, tp)
    stage.say(f"OffsetCommit(2) → broker {a}: {answer.name.upper()}; broker {b} has {found}")
    acknowledged = answer == ErrorCode.none
    return PerformedCommit(group=group, acknowledged=acknowledged, offset=2, found=found, early=early)
