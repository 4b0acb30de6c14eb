"""Assignors of the group coordinator: which member of a consumer group is to have which partitions (KIP-848).

`uniform` of members that want the same topics is Kafka's, given the order of members and partitions, which is
that of hash tables there. Where their topics differ, and for `range`, only what Kafka promises is the same:
each partition has one member that wants it, members have about the same number (`uniform`), and who has a
partition keeps it where the numbers allow that.
Source: UniformHomogeneousAssignmentBuilder, UniformHeterogeneousAssignmentBuilder, RangeAssignor.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from model.protocol.messages import Partition

Wanted = Mapping[str, Sequence[Partition]]
"""By member, in the order in which they came: partitions of the topics that it wants, in order."""
Targets = dict[str, tuple[Partition, ...]]


def uniform(wanted: Wanted, before: Mapping[str, Sequence[Partition]]) -> Targets:
    """before: targets so far."""
    if len({tuple(tps) for tps in wanted.values()}) == 1:
        return _homogeneous(wanted, before)
    return _heterogeneous(wanted, before)


def _homogeneous(wanted: Wanted, before: Mapping[str, Sequence[Partition]]) -> Targets:
    every = next(iter(wanted.values()))
    taken = {tp for name in wanted for tp in before.get(name, ())}
    free = [tp for tp in every if tp not in taken]
    quota, extra = divmod(len(every), len(wanted))
    given: dict[str, list[Partition]] = {}
    room: dict[str, int] = {}
    for n, name in enumerate(wanted):
        held = [tp for tp in before.get(name, ()) if tp in every]
        most = quota + (extra > 0)
        given[name], over = held[:most], held[most:]
        free += over
        left = most - len(given[name])
        takes_extra = extra > 0
        if left and takes_extra and len(wanted) - n > extra:
            left, takes_extra = left - 1, False  # for another member to claim
        extra -= takes_extra
        room[name] = left
    for name, left in room.items():
        given[name] += free[:left]
        free = free[left:]
    return {name: tuple(sorted(tps)) for name, tps in given.items()}


def _heterogeneous(wanted: Wanted, before: Mapping[str, Sequence[Partition]]) -> Targets:
    given: dict[str, list[Partition]] = {name: [] for name in wanted}
    for tp in sorted({tp for tps in wanted.values() for tp in tps}):
        takers = [name for name, tps in wanted.items() if tp in tps]
        had = next((name for name in takers if tp in before.get(name, ())), None)
        given[had or min(takers, key=lambda name: len(given[name]))].append(tp)
    while (move := _unfair(wanted, given)) is not None:
        giver, taker, tp = move
        given[giver].remove(tp)
        given[taker].append(tp)
    return {name: tuple(sorted(tps)) for name, tps in given.items()}


def _unfair(wanted: Wanted, given: Mapping[str, Sequence[Partition]]) -> tuple[str, str, Partition] | None:
    """A partition, who has it, and who wants it and has two less."""
    for giver, held in given.items():
        for tp in held:
            for taker, tps in wanted.items():
                if tp in tps and len(given[taker]) <= len(held) - 2:
                    return giver, taker, tp
    return None


def ranges(wanted: Wanted, before: Mapping[str, Sequence[Partition]]) -> Targets:
    """Of each topic, neighbouring partitions to each member in turn."""
    given: dict[str, list[Partition]] = {name: [] for name in wanted}
    for topic in sorted({tp[0] for tps in wanted.values() for tp in tps}):
        takers = sorted(name for name, tps in wanted.items() if any(tp[0] == topic for tp in tps))
        tps = [tp for tp in wanted[takers[0]] if tp[0] == topic]
        quota, extra = divmod(len(tps), len(takers))
        for n, name in enumerate(takers):
            begin = n * quota + min(n, extra)
            given[name] += tps[begin : begin + quota + (n < extra)]
    return {name: tuple(sorted(tps)) for name, tps in given.items()}


ASSIGNORS: Final[Mapping[str, Callable[[Wanted, Mapping[str, Sequence[Partition]]], Targets]]] = {
    "uniform": uniform,
    "range": ranges,
}
"""By name, the default first (group.consumer.assignors)."""
