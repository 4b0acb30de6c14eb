"""What a controller of the ZooKeeper era knows of its cluster (ControllerContext), how it reads and changes
that, and how it tells brokers.

Reading and changing are generators: they yield ops of ZooKeeper and go on with the results.

Not here: when that is done (`zk_controller`).
"""

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from model.election import change
from model.messages import Partition, PartitionState
from model.node import settings_of
from model.settings import Settings
from model.zk_channels import Channels
from model.zk_messages import LeaderAndIsr, UpdateMetadata
from model.zk_paths import (
    IDS,
    TOPICS,
    PartitionData,
    broker_path,
    brokers_of,
    data_of,
    state_path,
    topic_path,
)
from model.zookeeper import Children, Create, GetData, Op, Result, SetData, ZkError

Steps = Generator[list[Op], Sequence[Result], None]
"""Something under way."""

Choose = Callable[[Partition, PartitionState], PartitionState]
"""The state that follows."""


class Deposed(Exception):
    """A newer controller has been at work."""


@dataclass(slots=True)
class Context:
    """`epoch`: of the controller. `live`: brokers, with the change that created their znode. `leaving`:
    those of them that want to go. `topics`: assignments, by number of the partition. `states`: of
    partitions, as last seen."""

    me: int
    epoch: int
    settings: Settings
    live: dict[int, int] = field(default_factory=dict)
    leaving: set[int] = field(default_factory=set)
    topics: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    states: dict[Partition, PartitionState] = field(default_factory=dict)
    channels: Channels = field(default_factory=Channels)

    def electable(self) -> set[int]:
        """Brokers that may lead."""
        return set(self.live) - self.leaving

    def changed(self, tp: Partition, state: PartitionState, **how: Any) -> PartitionState:
        """The state that follows (`election.change`)."""
        return change(state, settings_of(self.settings, tp[0]), self.electable(), **how)

    def replicas(self, tp: Partition) -> tuple[int, ...]:
        """Its assignment."""
        return self.topics[tp[0]][tp[1]]

    def missing(self) -> list[Partition]:
        """Partitions that have no state yet."""
        tps = [(name, n) for name, found in self.topics.items() for n in range(len(found))]
        return [tp for tp in tps if tp not in self.states]

    # ---- reading

    def read_brokers(self) -> Steps:
        """Who lives; watched from now on."""
        (ids,) = yield [Children(IDS, watch=True)]
        brokers = brokers_of(ids)
        found = yield [GetData(broker_path(n)) for n in brokers]
        self.live = {
            n: r.created for n, r in zip(brokers, found, strict=True) if r.error is ZkError.OK
        }

    def read_topics(self) -> Generator[list[Op], Sequence[Result], list[Partition]]:
        """Topics that were not known, and the states of their partitions; the partitions. Watched from now
        on."""
        (found,) = yield [Children(TOPICS, watch=True)]
        names = [name for name in found.children if name not in self.topics]
        for name, topic in zip(
            names, (yield [GetData(topic_path(name)) for name in names]), strict=True
        ):
            self.topics[name] = topic.data
        tps = [(name, number) for name in names for number in range(len(self.topics[name]))]
        yield from self.read_states(tps)
        return tps

    def read_states(
        self, tps: Sequence[Partition]
    ) -> Generator[list[Op], Sequence[Result], dict[Partition, int]]:
        """Read states; the version of each that exists. Raises: Deposed."""
        versions = {}
        for tp, read in zip(tps, (yield [GetData(state_path(tp)) for tp in tps]), strict=True):
            data: PartitionData = read.data
            if read.error is ZkError.OK:
                if data.controller_epoch > self.epoch:
                    raise Deposed
                self.states[tp] = data.state(self.replicas(tp), read.version)
                versions[tp] = read.version
        return versions

    # ---- changing

    def make(self, tps: Sequence[Partition]) -> Steps:
        """First states: the first live replica leads, all live ones are in sync."""
        made: dict[Partition, PartitionState] = {}
        for tp in tps:
            alive = [n for n in self.replicas(tp) if n in self.electable()]
            if alive:
                isr = tuple(sorted(alive))
                made[tp] = PartitionState(self.replicas(tp), isr, alive[0], 0, 0)
        if made:
            yield [Create(state_path(tp), data_of(s, self.epoch)) for tp, s in made.items()]
            yield from self.read_states(list(made))  # its own, also where it was created before
            self.tell(made)

    def change(self, tps: Sequence[Partition], choose: Choose, *, always: bool = False) -> Steps:
        """Read states, write what follows from them unless somebody else wrote meanwhile (then again), and
        tell. always: a new leader epoch also where the state stays as it is."""
        left = list(tps)
        while left:
            versions = yield from self.read_states(left)
            wanted = {}
            for tp in versions:
                state = self.states[tp]
                after = choose(tp, state)
                if always or after != state:
                    wanted[tp] = after._replace(leader_epoch=state.leader_epoch + 1)
            results = yield [
                SetData(state_path(tp), data_of(after, self.epoch), versions[tp])
                for tp, after in wanted.items()
            ]
            left = []
            for (tp, after), result in zip(wanted.items(), results, strict=True):
                if result.error is ZkError.OK:
                    self.states[tp] = after._replace(partition_epoch=result.version)
                else:
                    left.append(tp)
        if tps:
            self.tell(tps)

    # ---- telling

    def tell(self, tps: Collection[Partition]) -> None:
        """Everybody, of these partitions: replicas what to do, all brokers what there is."""
        self.lead(tps, self.live)
        self.update(self.live, tps)

    def lead(self, tps: Iterable[Partition], brokers: Collection[int]) -> None:
        """LeaderAndIsr to those of the brokers that are replicas."""
        parts: dict[int, dict[Partition, PartitionState]] = {n: {} for n in brokers}
        for tp in tps:
            for broker in self.states[tp].replicas if tp in self.states else ():
                if broker in parts:
                    parts[broker][tp] = self.states[tp]
        for broker, told in parts.items():
            if told:
                self.send(broker, LeaderAndIsr, told)

    def update(self, brokers: Iterable[int], tps: Iterable[Partition]) -> None:
        """UpdateMetadata, with who lives."""
        parts = {tp: self.states[tp] for tp in tps if tp in self.states}
        for broker in brokers:
            self.send(broker, UpdateMetadata, sorted(self.live), parts)

    def send(self, broker: int, kind: type[Any], *fields: Any) -> None:
        """A request of this controller."""
        self.channels.send(broker, kind, self.me, self.epoch, *fields)
