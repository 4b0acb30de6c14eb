"""What a client's program has to do: one function a case, whose docstring says it in one line.

A case raises `CaseUnmet` with what the client did instead.
"""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from core.op import AssignmentKind, Isolation, TopicPartition
from core.runtime import run_blocking
from core.session import Acked, AssignmentEvent, CommittedSeen, Failed
from harness.clients.command.session import CommandSession
from harness.conformance.stage import PATIENCE_S, ConformanceStage, acked, error_of, must, read, records, send

COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED


def acknowledged(stage: ConformanceStage) -> None:
    """Acknowledged records stand in the log, at the offsets that were named, in their order."""
    (tp,) = stage.topic()
    offsets = acked(stage.producer(), records(tp, 50))
    found = stage.log_of(tp, UNCOMMITTED)
    must(list(found.values()) == list(range(50)), f"the log holds {list(found.values())[:60]}")
    named = dict(zip(offsets, range(50), strict=True))
    must(named == found, f"it named {offsets[:10]} …, and the records stand at {list(found)[:10]} …")


def idempotent(stage: ConformanceStage) -> None:
    """An idempotent producer writes each record once, in order, to several partitions."""
    tps = stage.topic(3)
    producer = stage.producer(idempotent=True)
    for first in range(0, 90, 30):
        acked(producer, [one for tp in tps for one in records(tp, 10, first)])
    for tp in tps:
        found = list(stage.log_of(tp, UNCOMMITTED).values())
        wanted = [first + n for first in range(0, 90, 30) for n in range(10)]
        must(found == wanted, f"{tp} holds {found}")


def refused(stage: ConformanceStage) -> None:
    """A record outside of a transaction is `failed`, and is not written."""
    (tp,) = stage.topic()
    producer = stage.producer(idempotent=True, transactional_id=stage.name())
    run_blocking(producer.begin())
    run_blocking(producer.commit())
    (delivery,) = send(producer, records(tp, 1))
    must(isinstance(delivery, Failed), f"it is {delivery}")
    must(stage.log_of(tp, UNCOMMITTED) == {}, "it stands in the log")


def timed_out(stage: ConformanceStage) -> None:
    """While no broker answers, a record is `unknown` in time, and the client works again afterwards."""
    (tp,) = stage.topic()
    producer = stage.producer(deadline_s=3.0, settings={"message.timeout.ms": "1500"})
    acked(producer, records(tp, 1))
    brokers = stage.cluster.brokers
    run_blocking(stage.cluster.pause(brokers))
    begun = monotonic()
    try:
        (delivery,) = send(producer, records(tp, 1, first=1))
    finally:
        run_blocking(stage.cluster.resume(brokers))
    must(not isinstance(delivery, Acked), "it is acknowledged, and no broker ran")
    must(not isinstance(delivery, Failed), f"it is {delivery}, and it may have reached a broker")
    must(monotonic() - begun < 3.0 + 2.0, f"`flush` took {monotonic() - begun:.1f} s, and had 3 s")
    until = monotonic() + PATIENCE_S
    while not isinstance(send(producer, records(tp, 1, first=2))[0], Acked):
        must(monotonic() < until, f"nothing is acknowledged for {PATIENCE_S:g} s after brokers run again")


def broker_killed(stage: ConformanceStage) -> None:
    """The leader is killed between sends: what is acknowledged is there, what is `failed` is not."""
    (tp,) = stage.topic()
    producer = stage.producer(idempotent=True)
    deliveries = send(producer, records(tp, 20))
    leader = run_blocking(stage.cluster.roles()).leaders[tp]
    run_blocking(stage.cluster.kill([leader]))
    try:
        for first in range(20, 100, 20):
            deliveries += send(producer, records(tp, 20, first))
    finally:
        stage.revive(leader)
    found = list(stage.log_of(tp, UNCOMMITTED).values())
    for value, delivery in enumerate(deliveries):
        must(
            not isinstance(delivery, Acked) or value in found, f"record {value} was acknowledged, and is gone"
        )
        must(
            not isinstance(delivery, Failed) or value not in found, f"record {value} is {delivery}, and there"
        )
    must(len(set(found)) == len(found), f"the idempotent producer wrote records twice: {found}")
    must(any(isinstance(one, Acked) for one in deliveries[20:]), "nothing is acknowledged by 2 of 3 brokers")


def committed(stage: ConformanceStage) -> None:
    """A committed transaction is read at both levels, an aborted one at read_uncommitted only."""
    (tp,) = stage.topic()
    producer = stage.producer(idempotent=True, transactional_id=stage.name())
    for first, end in ((0, producer.commit), (5, producer.abort), (10, producer.commit)):
        run_blocking(producer.begin())
        acked(producer, records(tp, 5, first))
        run_blocking(end())
    there = stage.log_of(tp, COMMITTED)
    must(list(there.values()) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14], f"the log holds {list(there.values())}")
    for level, count in ((COMMITTED, 10), (UNCOMMITTED, 15)):
        reader = stage.consumer(level)
        run_blocking(reader.assign({tp: -2}))
        offsets = [one.offset for one in read(reader, count)]
        must(offsets == list(stage.log_of(tp, level)), f"at {level.name.lower()} the client read {offsets}")


def fenced(stage: ConformanceStage) -> None:
    """A producer that a successor fenced commits nothing, and says so: not `ok`, and fatal."""
    (tp,) = stage.topic()
    name = stage.name()
    old, new = (stage.producer(idempotent=True, transactional_id=name) for _ in range(2))
    run_blocking(old.begin())
    acked(old, records(tp, 1))
    run_blocking(new.begin())
    acked(new, records(tp, 1, first=1))
    error = error_of(lambda: run_blocking(old.commit()))
    must(error is not None, "`commit` of the fenced producer is `ok`")
    must(old.fatal is not None, f"the answer to its `commit` ({error}) is not fatal")
    run_blocking(new.commit())
    found = list(stage.log_of(tp, COMMITTED).values())
    must(found == [1], f"the log holds {found} at read_committed, and 1 alone was committed")


def positions(stage: ConformanceStage) -> None:
    """`assign`, `poll`, `position` and `seek` agree; a poll keeps to its number and its time."""
    one, two = stage.filled(10, partitions=2)
    reader = stage.consumer()
    run_blocking(reader.assign({one: 7, two: -2}))
    found = read(reader, 13)
    offsets = {tp: [at.offset for at in found if at.tp == tp] for tp in (one, two)}
    must(offsets == {one: [7, 8, 9], two: list(range(10))}, f"read {offsets}")
    at = run_blocking(reader.position())
    must(at == {one: 10, two: 10}, f"`position` is {at} after all was read")
    begun = monotonic()
    must(run_blocking(reader.poll(10, 300)) == [], "a poll at the end returned records")
    must(monotonic() - begun < 2, f"a poll that may wait 0.3 s took {monotonic() - begun:.1f} s")
    run_blocking(reader.seek({one: 9, two: 4}))
    sizes, found = [], []
    until = monotonic() + PATIENCE_S
    while len(found) < 7 and monotonic() < until:
        found += (some := run_blocking(reader.poll(3, 500)))
        sizes.append(len(some))
    must(max(sizes, default=0) <= 3, f"a poll for at most 3 records returned {max(sizes, default=0)}")
    offsets = {tp: [at.offset for at in found if at.tp == tp] for tp in (one, two)}
    must(offsets == {one: [9], two: [4, 5, 6, 7, 8, 9]}, f"after `seek` read {offsets}")


class Member:
    """A member of a group, and what it holds by its events."""

    def __init__(self, session: CommandSession, topic: str) -> None:
        self.session = session
        self.held: set[TopicPartition] = set()
        self.committed: dict[TopicPartition, int] = {}
        """Offsets of the group, as the client was given them."""
        run_blocking(session.subscribe([topic]))

    def poll(self) -> None:
        """One poll, and its events."""
        run_blocking(self.session.poll(1, 100))
        for event in self.session.events():
            if isinstance(event, CommittedSeen):
                self.committed.update(event.offsets)
            if isinstance(event, AssignmentEvent):
                self._change(event)

    def _change(self, event: AssignmentEvent) -> None:
        if event.kind is AssignmentKind.ASSIGNED:
            self.held |= set(event.tps)
        elif event.kind is not AssignmentKind.RESET:  # a position moved, and the partition stays
            self.held -= set(event.tps)


def _share(tps: set[TopicPartition], *members: Member) -> None:
    """Poll until each member holds some of these partitions, and together all. Raises: Unmet."""
    until = monotonic() + PATIENCE_S
    while not all(member.held for member in members) or _held(members) != sorted(tps):
        numbers = " and ".join(str(len(member.held)) for member in members)
        must(
            monotonic() < until,
            f"after {PATIENCE_S:g} s members hold {numbers} of {len(tps)}, by their events",
        )
        for member in members:
            member.poll()


def _held(members: Sequence[Member]) -> list[TopicPartition]:
    return sorted(tp for member in members for tp in member.held)


def group(stage: ConformanceStage) -> None:
    """A group continues where it committed; members tell what they get and give, and share partitions."""
    tps = set(stage.filled(10, partitions=4))
    topic, name = next(iter(tps)).topic, stage.name()
    one = Member(stage.consumer(group=name), topic)
    _share(tps, one)
    run_blocking(one.session.commit_offsets(dict.fromkeys(tps, 6)))
    two = Member(stage.consumer(group=name), topic)
    _share(tps, one, two)
    must(
        set(two.committed.values()) == {6},
        f"`committed` says {two.committed or 'nothing'}, and 6 was committed for each partition",
    )
    stage.drop(one.session)
    _share(tps, two)
    at = run_blocking(two.session.position())
    must(
        all(offset in range(6, 11) or offset == -1 for offset in at.values()), f"after 6 was committed: {at}"
    )


def transaction_offsets(stage: ConformanceStage) -> None:
    """Offsets that were added to a transaction share its fate."""
    (tp,) = stage.filled(10)
    name = stage.name()
    copier = stage.session(
        acks=-1, idempotent=True, transactional_id=stage.name(), isolation=COMMITTED, group=name
    )
    run_blocking(copier.subscribe([tp.topic]))
    read(copier, 10)
    for offset, end in ((4, copier.commit), (8, copier.abort)):
        run_blocking(copier.begin())
        run_blocking(copier.send_offsets({tp: offset}))
        run_blocking(end())
    stage.drop(copier)
    successor = stage.consumer(group=name)
    run_blocking(successor.subscribe([tp.topic]))
    first = read(successor, 1)[0].offset
    must(first == 4, f"the group continues at {first}; 4 was committed, and 8 aborted")


CASES: Final[dict[str, Callable[[ConformanceStage], None]]] = {
    "acknowledged": acknowledged,
    "idempotent": idempotent,
    "refused": refused,
    "timed-out": timed_out,
    "broker-killed": broker_killed,
    "transactions": committed,
    "fenced": fenced,
    "positions": positions,
    "group": group,
    "transaction-offsets": transaction_offsets,
}
"""By name, in the order in which they are tried."""
