"""Generators: pure schedules of ops, and the random sources they draw from.

A generator is an iterator of `Planned` ops for one process (one incarnation of a slot). It sees no
clock and no client: it says how long to wait before each op, the client loop waits. The same seed
gives the same ops, whatever the cluster does.

Not here: what a workload sends (`workloads`), executing (`harness.clients.executor`).
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from core.keys import EACH, KEYS
from core.op import Op, Poll, Send, TopicPartition, value_of


@dataclass(frozen=True, slots=True)
class Planned:
    """An op and how long after the invocation of the previous one it is to be invoked.

    first: what follows relies on it; the process continues only if it was OK.
    """

    wait_s: float
    op: Op
    first: bool = False


def source(seed: int, *path: object) -> random.Random:
    """The random source of one purpose: the same for the same seed and path, in any process."""
    return random.Random("/".join(map(str, (seed, *path))))


@dataclass(slots=True)
class Values:
    """The values that one process sends: unique in the run (`op.value_of`)."""

    process: int
    taken: int = 0

    def send(self, tp: TopicPartition) -> Send:
        """A micro-op that sends the next value to `tp`."""
        return Send(tp, self.reserve(1))

    def keyed(self, tp: TopicPartition, key: int, *, tombstone: bool) -> Send:
        """A micro-op that sends the next value of a key to `tp` (`core.keys`)."""
        n = (self.taken // EACH + 1) * EACH + tombstone * KEYS + key
        self.taken = n
        return Send(tp, value_of(self.process, n))

    def reserve(self, count: int) -> int:
        """The first of `count` values that nothing else will get."""
        first = value_of(self.process, self.taken + 1)
        self.taken += count
        return first


@dataclass(frozen=True, slots=True)
class Pace:
    """Waits between ops, uniform in 0..2x the mean, so that clients do not march in step."""

    rng: random.Random
    per_second: float
    """Ops per second; 0 = no waiting."""

    def wait_s(self) -> float:
        """The next wait."""
        return self.rng.uniform(0, 2 / self.per_second) if self.per_second else 0.0


def first_contact(tps: tuple[TopicPartition, ...], values: Values, *, txn: bool) -> Planned:
    """One record to each partition, so that never two are in flight to a partition that does not
    know the producer yet.

    A broker (2.5 to 4.4) accepts any sequence number from a producer it does not know (KAFKA-15591);
    when the first of several batches in flight is refused, the client then reports it delivered
    although it is not in the log. That loss is a workload of its own, not noise in all others.
    """
    op = Op(f="first-contact", mops=tuple(map(values.send, tps)), txn=txn)
    return Planned(0.0, op, first=True)


def batches(slot: "Slot", tps: tuple[TopicPartition, ...], pace: Pace, most: int) -> Iterator[Planned]:
    """Send ops for ever: 1 to `most` records each, to partitions drawn from `tps`."""
    while True:
        count = slot.rng.randint(1, most)
        mops = tuple(slot.values.send(slot.rng.choice(tps)) for _ in range(count))
        yield Planned(pace.wait_s(), Op(f="send", mops=mops))


def polls() -> Iterator[Planned]:
    """Poll for ever."""
    while True:
        yield Planned(0.0, Op(f="poll", mops=(Poll(),)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """What a workload's generator knows of the client that it plans for."""

    slot: int
    process: int
    tps: tuple[TopicPartition, ...]
    rng: random.Random
    values: Values = field(init=False)

    def of(self, topic: str) -> tuple[TopicPartition, ...]:
        """The partitions of one topic."""
        return tuple(tp for tp in self.tps if tp.topic == topic)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", Values(self.process))
