"""A share group writes dead letters of what it did not archive (KIP-1191)."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from core.client_settings import SessionSpec
from core.dead_letters import COPIED, ENABLED
from core.dead_letters import TOPIC as QUEUE
from core.op import Acknowledgement, Isolation, Outcome, TopicPartition
from core.presets import SHARE_LIMIT
from core.runtime import run_blocking
from core.session import AcquiredRecord
from harness.clients.librdkafka.session import KafkaSession
from harness.processes.waiting import NotYet, until
from harness.reproduce.cluster import STEP_S, NotReached
from harness.reproduce.library_producer import LibraryProducer, PlainProducer
from harness.reproduce.stage import FiveBrokers

LIMIT: Final = int(SHARE_LIMIT["group.share.delivery.count.limit"])
LOCK_S: Final = 12.0
"""Long enough for an election, and for another member to join and to be given the record."""
BRIEF_S: Final = 2.0
TICK_S: Final = 1.0
"""A lock has ended so long after its time: a timer of Kafka ticks each 200 ms."""
WRITTEN_S: Final = 4.0
"""So long after a lock has ended its letter is there: a timer, a write of state and one of the letter."""
POLL_MS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PerformedLetters:
    """What a schedule left. accepted: offsets of records that members accepted, with the answer. markers: of
    transactions' markers. letters: what is in the queue, by offset of the record: delivery count."""

    tp: TopicPartition
    accepted: frozenset[int]
    markers: frozenset[int]
    letters: Mapping[int, int]


def by_former_leader(stage: FiveBrokers, name: str, good: bool) -> PerformedLetters:
    """A member holds a record by its last delivery when the preferred leader is elected; the new leader gives
    the record to another member, which accepts it. On the good side the leader stays, and the member that
    holds the record accepts it."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    PlainProducer(stage, {"acks": -1}).write(tp, "record")
    _make_group(stage, name, LOCK_S)
    stage.reorder(tp, (stage.e, stage.d, stage.c))
    with _member(stage, name, 0) as first, _member(stage, name, 1) as second:
        run_blocking(first.subscribe([name]))
        _acknowledge(first, _given(first, tp, 1), Acknowledgement.RELEASE)
        held = _given(first, tp, LIMIT)
        ends = time.monotonic() + LOCK_S
        stage.say(f"a member holds the record by its delivery {LIMIT}, the last one; broker {stage.d} leads")
        if good:
            _acknowledge(first, held, Acknowledgement.ACCEPT)
        else:
            run_blocking(stage.cluster.elect_preferred([tp]))
            stage.leads(stage.e, tp)
            stage.say(f"broker {stage.e} leads: it is the preferred leader")
            run_blocking(second.subscribe([name]))
            _acknowledge(second, _given(second, tp, LIMIT), Acknowledgement.ACCEPT)
        if time.monotonic() > ends:
            raise NotReached("the record was accepted when the lock at the former leader had ended")
        stage.say("a member has accepted the record, and has the answer")
        time.sleep(max(0.0, ends + WRITTEN_S - time.monotonic()))  # a letter that is not written has no event
    return PerformedLetters(
        tp=tp,
        accepted=frozenset(one.offset for one in held),
        markers=frozenset(),
        letters=_letters(stage, name),
    )


def of_markers(stage: FiveBrokers, name: str, good: bool) -> PerformedLetters:
    """A member accepts a record of a transaction, which commits then: the marker is given out alone, and
    librdkafka says nothing of an answer without a record. On the good side the transaction commits first, and
    both are given out together."""
    (tp,) = stage.create(name, [(stage.d, stage.e, stage.c)])
    producer = LibraryProducer(stage, name)
    producer.begin()
    record = producer.write(tp, "committed")
    if good:
        producer.end(commit=True)
    _make_group(stage, name, BRIEF_S)
    with _member(stage, name, 0) as member:
        run_blocking(member.subscribe([name]))
        _acknowledge(member, _given(member, tp, 1), Acknowledgement.ACCEPT)
        stage.say("the member has accepted the record, and has the answer")
        if not good:
            producer.end(commit=True)
        ends = time.monotonic() + LIMIT * (BRIEF_S + TICK_S) + WRITTEN_S
        while time.monotonic() < ends:
            if run_blocking(member.acquire(POLL_MS)).records:
                raise NotReached("the record is given out again")
    return PerformedLetters(
        tp=tp, accepted=frozenset([record]), markers=frozenset([record + 1]), letters=_letters(stage, name)
    )


def _make_group(stage: FiveBrokers, name: str, lock_s: float) -> None:
    """A share group with a dead-letter queue, at Kafka's default isolation level. name: of the group. lock_s:
    how long a member holds a record."""
    queue = f"dlq.{name}"
    stage.create(queue, [(stage.d, stage.e, stage.c)], {ENABLED: "true"})
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": f"{lock_s * 1000:.0f}",
        QUEUE: queue,
        COPIED: "true",
    }
    run_blocking(stage.cluster.configure_groups({name: settings}))


@contextmanager
def _member(stage: FiveBrokers, group: str, number: int) -> Iterator[KafkaSession]:
    spec = SessionSpec(
        slot=number, process=number, isolation=Isolation.READ_UNCOMMITTED, group=group, share=True
    )
    member = KafkaSession(stage.cluster.endpoint().args, spec)
    try:
        yield member
    finally:
        run_blocking(member.close())


def _given(member: KafkaSession, tp: TopicPartition, count: int) -> Sequence[AcquiredRecord]:
    """What the group gives to a member, by its `count`-th delivery. Raises: NotYet."""

    def given() -> Sequence[AcquiredRecord]:
        if not (records := run_blocking(member.acquire(POLL_MS)).records):
            raise NotYet(f"the share group gives nothing of {tp}")
        return records

    records = until(STEP_S, 0, given)
    if any(one.count != count for one in records):
        raise NotReached(f"the records have delivery counts {[one.count for one in records]}, not {count}")
    return records


def _acknowledge(member: KafkaSession, records: Sequence[AcquiredRecord], kind: Acknowledgement) -> None:
    """Raises: NotReached, where the leader does not answer OK."""
    said = {one.tp: [(each.offset, kind) for each in records if each.tp == one.tp] for one in records}
    for outcome, code in run_blocking(member.acknowledge(said)).values():
        if outcome is not Outcome.OK:
            raise NotReached(f"{kind.name}: {code}")


def _letters(stage: FiveBrokers, name: str) -> dict[int, int]:
    letters = run_blocking(stage.cluster.dead_letters(f"dlq.{name}"))
    return {one.offset: one.times for one in letters}
