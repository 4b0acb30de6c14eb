"""What every implementation of `core.session.Session` keeps: one suite for all of them.

A test class for an implementation inherits from `SessionContract` and has a fixture `sessions`.
(The name of this file is one that pytest rewrites assertions in; it holds no test of its own.)
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Self

import pytest

from core.client_settings import SessionSpec
from core.op import AssignmentKind, Isolation, TopicPartition
from core.payload import Foreign, decode, encode
from core.runtime import run_blocking
from core.session import (
    Acked,
    AssignmentEvent,
    Definite,
    Delivery,
    EndReached,
    Failed,
    Fetched,
    Indefinite,
    Record,
    Session,
    Unknown,
)
from harness.clients.librdkafka.session import connect

PATIENCE_S: Final = 30.0
RUN: Final = "contract"
LEVELS: Final = (Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED)
NUMBERS: Final = itertools.count(1)
"""Names and process numbers; never used twice in one run of the tests."""


@dataclass(frozen=True, slots=True)
class System:
    """A system under test, as these tests use it."""

    connect: Callable[[SessionSpec], Session]
    create_topic: Callable[[str, int], None]


class Sessions:
    """Opens sessions and makes topics for one test; closes what was opened."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.opened: list[Session] = []

    @classmethod
    def of_cluster(cls, cluster: Any) -> Self:
        """librdkafka's sessions on a cluster. cluster: a `core.cluster.Cluster`."""
        return cls(
            System(
                connect=lambda spec: connect(cluster.endpoint().args, spec),
                create_topic=lambda name, count: run_blocking(cluster.create_topic(name, count, 3, {})),
            )
        )

    def close(self) -> None:
        """Close all that were opened."""
        for session in self.opened:
            run_blocking(session.close())

    def drop(self, session: Session) -> None:
        """Close one session now."""
        self.opened.remove(session)
        run_blocking(session.close())

    def connect(self, **spec: Any) -> Session:
        """A session; what the test does not say is a plain default."""
        number = next(NUMBERS)
        defaults: dict[str, Any] = {"slot": 0, "process": number, "deadline_s": PATIENCE_S}
        session = self.system.connect(SessionSpec(**{**defaults, **spec}))
        self.opened.append(session)
        return session

    def topic(self, partitions: int = 1) -> tuple[TopicPartition, ...]:
        """The partitions of a new topic; each holds one record, as a run's warm-up leaves it.

        A producer that pipelines onto a partition that was never written to may lose records
        without an error (reference: KAFKA-15591), which is not what these tests are about.
        """
        name = f"t{next(NUMBERS)}"
        self.system.create_topic(name, partitions)
        tps = tuple(TopicPartition(name, partition) for partition in range(partitions))
        first = self.connect(acks=-1, idempotent=True)
        for tp in tps:
            assert acked(send(first, tp, FIRST)) == [0]
        return tps

    def reader(self, isolation: Isolation, *tps: TopicPartition, **spec: Any) -> Session:
        """A consumer at the beginning of these partitions."""
        session = self.connect(isolation=isolation, **spec)
        run_blocking(session.assign(dict.fromkeys(tps, -2)))
        return session


def record(tp: TopicPartition, value: int) -> Record:
    return Record(tp, value, encode(RUN, tp, value, 100))


FIRST = 2**40
"""Value of the record that each topic begins with."""


def send(session: Session, tp: TopicPartition, *values: int) -> list[Delivery]:
    return run_blocking(session.send([record(tp, value) for value in values]))


def acked(deliveries: list[Delivery]) -> list[int]:
    """Offsets; fails where a record was not acknowledged."""
    assert all(isinstance(d, Acked) for d in deliveries), deliveries
    return [d.offset for d in deliveries if isinstance(d, Acked)]


def value(fetched: Fetched) -> int:
    found = decode(RUN, fetched.tp, fetched.payload)
    assert not isinstance(found, Foreign)
    return found


def read_to_end(session: Session, *tps: TopicPartition) -> list[Fetched]:
    """Everything up to the first end that the consumer tells of each partition."""
    until = time.monotonic() + PATIENCE_S
    fetched: list[Fetched] = []
    ended: set[TopicPartition] = set()
    while not ended >= set(tps):
        assert time.monotonic() < until, f"no end of {set(tps) - ended}"
        fetched += run_blocking(session.poll(500, 100))
        ended |= {event.tp for event in session.events() if isinstance(event, EndReached)}
    return fetched


def eventually(session: Session, enough: Callable[[list[Fetched]], bool]) -> list[Fetched]:
    """Poll until what was read is enough."""
    until = time.monotonic() + PATIENCE_S
    fetched: list[Fetched] = []
    while not enough(fetched):
        assert time.monotonic() < until, f"read {len(fetched)} records only"
        fetched += run_blocking(session.poll(500, 100))
    return fetched


def values_seen(sessions: Sessions, isolation: Isolation, *tps: TopicPartition) -> list[int]:
    """Values that a new consumer reads up to the end, without the warm-up's."""
    reader = sessions.reader(isolation, *tps, report_end=True)
    return [value(f) for f in read_to_end(reader, *tps) if value(f) != FIRST]


def settled(sessions: Sessions, isolation: Isolation, tp: TopicPartition, end: int) -> list[int]:
    """`values_seen`, once the end of the partition is at least `end` (markers come late)."""
    until = time.monotonic() + PATIENCE_S
    while True:
        reader = sessions.reader(isolation, tp, report_end=True)
        seen, reached = [], -1
        while reached < 0:
            assert time.monotonic() < until, f"no end of {tp}"
            seen += [value(f) for f in run_blocking(reader.poll(500, 100)) if value(f) != FIRST]
            for event in reader.events():
                reached = event.offset if isinstance(event, EndReached) else reached
        if reached >= end:
            return seen
        sessions.drop(reader)


def take_over(session: Session, tps: set[TopicPartition], other: Session | None = None) -> int:
    """Poll until the session is assigned exactly these partitions; the generation."""
    until = time.monotonic() + PATIENCE_S
    held: set[TopicPartition] = set()
    generation = -1
    while time.monotonic() < until:
        run_blocking(session.poll(1, 50))
        if other is not None:
            run_blocking(other.poll(1, 50))
        for event in session.events():
            if not isinstance(event, AssignmentEvent):
                continue
            if event.kind is AssignmentKind.ASSIGNED:
                held |= set(event.tps)
                generation = event.generation
            else:
                held -= set(event.tps)
        if held == tps:
            return generation
    raise AssertionError(f"holds {held} and not {tps}")


class SessionContract:
    """The tests."""

    # sending and reading

    def test_what_is_acknowledged_is_read_at_its_offset(self, sessions: Sessions) -> None:
        tps = sessions.topic(3)
        sent = [record(tps[n % 3], n) for n in range(90)]
        before = time.monotonic_ns()
        deliveries = run_blocking(sessions.connect(acks=-1, idempotent=True).send(sent))
        placed = {(r.tp, o): r.value for r, o in zip(sent, acked(deliveries), strict=True)}
        assert all(before < d.ns < time.monotonic_ns() for d in deliveries if isinstance(d, Acked))
        assert len(placed) == 90
        for isolation in LEVELS:
            reader = sessions.reader(isolation, *tps, report_end=True)
            fetched = [f for f in read_to_end(reader, *tps) if value(f) != FIRST]
            assert {(f.tp, f.offset): value(f) for f in fetched} == placed
            for tp in tps:
                assert [f.offset for f in fetched if f.tp == tp] == list(range(1, 31))

    def test_nothing_to_send_is_sent(self, sessions: Sessions) -> None:
        assert run_blocking(sessions.connect(acks=-1).send([])) == []

    def test_without_acks_there_is_no_offset(self, sessions: Sessions) -> None:
        (tp,) = sessions.topic()
        assert acked(send(sessions.connect(acks=0), tp, 1)) == [-1]

    def test_foreign_payloads_are_handed_out_as_they_are(self, sessions: Sessions) -> None:
        here, there = sessions.topic(2)
        producer = sessions.connect(acks=-1)
        theirs = encode(RUN, there, 5, 100)
        payloads = [b"not ours", b"", theirs, theirs[:-1], encode("another run", here, 5, 100)]
        for payload in payloads:
            acked(run_blocking(producer.send([Record(here, 0, payload)])))
        reader = sessions.reader(Isolation.READ_COMMITTED, here, report_end=True)
        fetched = read_to_end(reader, here)[1:]
        assert [f.payload for f in fetched] == payloads
        assert [decode(RUN, f.tp, f.payload) for f in fetched] == [
            Foreign.UNREADABLE,
            Foreign.UNREADABLE,
            Foreign.MISDIRECTED,
            Foreign.CORRUPT,
            Foreign.OTHER_RUN,
        ]

    def test_a_poll_is_bounded_in_records_and_in_time(self, sessions: Sessions) -> None:
        (tp,) = sessions.topic()
        acked(send(sessions.connect(acks=-1), tp, *range(20)))
        reader = sessions.reader(Isolation.READ_COMMITTED, tp)
        sizes: list[int] = []
        while sum(sizes) < 21:
            sizes.append(len(run_blocking(reader.poll(6, 100))))
        assert max(sizes) <= 6
        begin = time.monotonic()
        assert run_blocking(reader.poll(6, 300)) == []
        assert 0.2 < time.monotonic() - begin < PATIENCE_S

    def test_the_end_is_told_of_an_empty_partition_too(self, sessions: Sessions) -> None:
        name = f"t{next(NUMBERS)}"
        sessions.system.create_topic(name, 1)
        tp = TopicPartition(name, 0)
        reader = sessions.reader(Isolation.READ_COMMITTED, tp, report_end=True)
        until = time.monotonic() + PATIENCE_S
        ends: list[EndReached] = []
        while not ends and time.monotonic() < until:
            assert run_blocking(reader.poll(10, 100)) == []
            ends += [event for event in reader.events() if isinstance(event, EndReached)]
        assert {(e.tp, e.offset) for e in ends} == {(tp, 0)}

    def test_reading_starts_where_it_is_assigned_and_goes_on_where_it_is_sought(
        self, sessions: Sessions
    ) -> None:
        one, two = sessions.topic(2)
        producer = sessions.connect(acks=-1, idempotent=True)
        for tp in (one, two):
            acked(send(producer, tp, *range(1, 10)))
        reader = sessions.connect(isolation=Isolation.READ_COMMITTED)
        run_blocking(reader.assign({one: 7, two: -2}))
        fetched = eventually(reader, lambda fetched: len(fetched) >= 3 + 10)
        assert [f.offset for f in fetched if f.tp == one] == [7, 8, 9]
        assert [f.offset for f in fetched if f.tp == two] == list(range(10))
        assert run_blocking(reader.position()) == {one: 10, two: 10}
        run_blocking(reader.seek({one: 9, two: -2}))
        fetched = eventually(reader, lambda fetched: len(fetched) >= 1 + 10)
        assert [f.offset for f in fetched if f.tp == one] == [9]
        assert [f.offset for f in fetched if f.tp == two] == list(range(10))
        run_blocking(reader.assign({two: 4}))
        fetched = eventually(reader, lambda fetched: len(fetched) >= 6)
        assert [(f.tp, f.offset) for f in fetched] == [(two, offset) for offset in range(4, 10)]
        assert run_blocking(reader.position()) == {two: 10}

    def test_a_seek_right_after_the_assignment_counts(self, sessions: Sessions) -> None:
        (tp,) = sessions.topic()
        acked(send(sessions.connect(acks=-1, idempotent=True), tp, *range(1, 10)))
        reader = sessions.reader(Isolation.READ_COMMITTED, tp)
        run_blocking(reader.seek({tp: 6}))
        fetched = eventually(reader, lambda fetched: len(fetched) >= 4)
        assert [f.offset for f in fetched] == [6, 7, 8, 9]

    def test_an_offset_beyond_the_end_is_reset_to_the_beginning_and_told(self, sessions: Sessions) -> None:
        (tp,) = sessions.topic()
        reader = sessions.connect(isolation=Isolation.READ_COMMITTED)
        run_blocking(reader.assign({tp: 1000}))
        assert [f.offset for f in eventually(reader, lambda fetched: len(fetched) >= 1)] == [0]
        events = [e for e in reader.events() if isinstance(e, AssignmentEvent)]
        assert [(e.kind, e.tps, e.position) for e in events] == [(AssignmentKind.RESET, (tp,), 1000)]

    # transactions

    @pytest.mark.parametrize("ends", ["commit", "abort"])
    def test_a_transaction_is_seen_by_its_end_and_by_the_level(self, sessions: Sessions, ends: str) -> None:
        one, two = sessions.topic(2)
        producer = sessions.connect(acks=-1, transactional_id=f"x{next(NUMBERS)}")
        run_blocking(producer.begin())
        assert acked(run_blocking(producer.send([record(one, 1), record(two, 2)]))) == [1, 1]
        run_blocking(getattr(producer, ends)())
        assert producer.fatal is None
        committed = {one: [1], two: [2]} if ends == "commit" else {one: [], two: []}
        for tp in (one, two):
            assert settled(sessions, Isolation.READ_COMMITTED, tp, 3) == committed[tp]
        assert sorted(values_seen(sessions, Isolation.READ_UNCOMMITTED, one, two)) == [1, 2]

    def test_an_open_transaction_ends_what_read_committed_sees(self, sessions: Sessions) -> None:
        (tp,) = sessions.topic()
        producer = sessions.connect(acks=-1, transactional_id=f"x{next(NUMBERS)}")
        run_blocking(producer.begin())
        acked(send(producer, tp, 1))
        acked(send(sessions.connect(acks=-1), tp, 2))
        assert values_seen(sessions, Isolation.READ_COMMITTED, tp) == []
        assert values_seen(sessions, Isolation.READ_UNCOMMITTED, tp) == [1, 2]
        run_blocking(producer.commit())
        assert settled(sessions, Isolation.READ_COMMITTED, tp, 4) == [1, 2]

    def test_transactions_follow_each_other(self, sessions: Sessions) -> None:
        (tp,) = sessions.topic()
        producer = sessions.connect(acks=-1, transactional_id=f"x{next(NUMBERS)}")
        for n in range(1, 7):
            run_blocking(producer.begin())
            acked(send(producer, tp, n))
            run_blocking(producer.commit() if n % 2 else producer.abort())
        assert settled(sessions, Isolation.READ_COMMITTED, tp, 13) == [1, 3, 5]

    def test_outside_of_a_transaction_nothing_is_sent(self, sessions: Sessions) -> None:
        (tp,) = sessions.topic()
        producer = sessions.connect(acks=-1, transactional_id=f"x{next(NUMBERS)}")
        run_blocking(producer.begin())
        run_blocking(producer.commit())
        assert [type(d) for d in send(producer, tp, 1)] == [Failed]
        assert values_seen(sessions, Isolation.READ_UNCOMMITTED, tp) == []

    def test_a_successor_fences_and_the_fenced_one_proves_nothing(self, sessions: Sessions) -> None:
        (tp,) = sessions.topic()
        name = f"x{next(NUMBERS)}"
        zombie = sessions.connect(acks=-1, transactional_id=name)
        run_blocking(zombie.begin())
        acked(send(zombie, tp, 1))
        successor = sessions.connect(acks=-1, transactional_id=name)
        run_blocking(successor.begin())
        acked(send(successor, tp, 2))
        with pytest.raises(Indefinite) as fenced:
            run_blocking(zombie.commit())
        assert not fenced.value.wants_abort
        assert zombie.fatal is not None
        with pytest.raises(Indefinite):
            run_blocking(zombie.abort())
        assert not any(isinstance(d, Acked) for d in send(zombie, tp, 3))
        with pytest.raises((Definite, Indefinite)):
            run_blocking(zombie.begin())
        run_blocking(successor.commit())
        assert successor.fatal is None
        assert settled(sessions, Isolation.READ_COMMITTED, tp, 5) == [2]

    def test_what_a_fenced_producer_still_sends_is_unknown_and_never_committed(
        self, sessions: Sessions
    ) -> None:
        (tp,) = sessions.topic()
        name = f"x{next(NUMBERS)}"
        zombie = sessions.connect(acks=-1, transactional_id=name)
        run_blocking(zombie.begin())
        acked(send(zombie, tp, 1))
        run_blocking(sessions.connect(acks=-1, transactional_id=name).begin())
        # The partition is in the transaction already: nothing but the records themselves meets
        # the fence.
        deliveries = send(zombie, tp, 2, 3)
        assert [type(d) for d in deliveries] == [Unknown, Unknown]
        assert zombie.fatal is not None
        assert settled(sessions, Isolation.READ_COMMITTED, tp, 3) == []

    # groups

    def test_a_group_goes_on_where_it_committed(self, sessions: Sessions) -> None:
        tps = set(sessions.topic(2))
        topic, group = next(iter(tps)).topic, f"g{next(NUMBERS)}"
        producer = sessions.connect(acks=-1, idempotent=True)
        for tp in tps:
            acked(send(producer, tp, *range(1, 10)))
        member = sessions.connect(isolation=Isolation.READ_COMMITTED, group=group)
        run_blocking(member.subscribe([topic]))
        generation = take_over(member, tps)
        assert run_blocking(member.commit_offsets(dict.fromkeys(tps, 4))) == generation
        sessions.drop(member)
        successor = sessions.connect(isolation=Isolation.READ_COMMITTED, group=group)
        run_blocking(successor.subscribe([topic]))
        fetched = eventually(successor, lambda fetched: len(fetched) >= 12)
        for tp in tps:
            assert [f.offset for f in fetched if f.tp == tp] == list(range(4, 10))
        assert run_blocking(successor.position()) == dict.fromkeys(tps, 10)

    def test_members_share_and_the_last_one_takes_all(self, sessions: Sessions) -> None:
        tps = set(sessions.topic(4))
        topic, group = next(iter(tps)).topic, f"g{next(NUMBERS)}"
        one, two = (sessions.connect(isolation=Isolation.READ_COMMITTED, group=group) for _ in range(2))
        run_blocking(one.subscribe([topic]))
        first = take_over(one, tps)
        run_blocking(two.subscribe([topic]))
        until = time.monotonic() + PATIENCE_S
        held: dict[str, set[TopicPartition]] = {"one": set(tps), "two": set()}
        while not (held["one"] and held["two"] and held["one"] | held["two"] == tps):
            assert time.monotonic() < until, held
            for name, session in (("one", one), ("two", two)):
                run_blocking(session.poll(1, 50))
                for event in session.events():
                    if isinstance(event, AssignmentEvent):
                        assigned = event.kind is AssignmentKind.ASSIGNED
                        held[name] = set(event.tps) if assigned else held[name] - set(event.tps)
        assert not held["one"] & held["two"]
        sessions.drop(one)
        assert take_over(two, tps) > first

    @pytest.mark.parametrize("ends", ["commit", "abort"])
    def test_offsets_of_a_transaction_share_its_fate(self, sessions: Sessions, ends: str) -> None:
        (tp,) = sessions.topic()
        group = f"g{next(NUMBERS)}"
        acked(send(sessions.connect(acks=-1, idempotent=True), tp, *range(1, 10)))
        copier = sessions.connect(
            acks=-1, transactional_id=f"x{next(NUMBERS)}", isolation=Isolation.READ_COMMITTED, group=group
        )
        run_blocking(copier.subscribe([tp.topic]))
        generation = take_over(copier, {tp})
        run_blocking(copier.begin())
        assert run_blocking(copier.send_offsets({tp: 7})) == generation
        run_blocking(getattr(copier, ends)())
        sessions.drop(copier)
        successor = sessions.connect(isolation=Isolation.READ_COMMITTED, group=group)
        run_blocking(successor.subscribe([tp.topic]))
        fetched = eventually(successor, lambda fetched: any(f.offset == 9 for f in fetched))
        assert fetched[0].offset == (7 if ends == "commit" else 0)

    def test_closing_is_idempotent_and_frees_the_group(self, sessions: Sessions) -> None:
        tps = set(sessions.topic(2))
        group = f"g{next(NUMBERS)}"
        settings = {"consumer.session.timeout.ms": "60000"}
        member = sessions.connect(isolation=Isolation.READ_COMMITTED, group=group, settings=settings)
        run_blocking(member.subscribe([next(iter(tps)).topic]))
        take_over(member, tps)
        sessions.drop(member)
        run_blocking(member.close())
        other = sessions.connect(isolation=Isolation.READ_COMMITTED, group=group)
        run_blocking(other.subscribe([next(iter(tps)).topic]))
        take_over(other, tps)  # sooner than the session time-out would free the group
