"""What a controller of the ZooKeeper era knows of its cluster (ControllerContext), how it reads and changes
that, and how it tells brokers.

Reading and changing are generators: they yield ops of ZooKeeper and continue with the results.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from model.metadata.election import change
from model.protocol.messages import Partition, PartitionState
from model.protocol.zookeeper_messages import (
    Children,
    Create,
    GetData,
    LeaderAndIsr,
    SetData,
    StopReplica,
    UpdateMetadata,
    ZkError,
)
from model.replication.node import settings_of
from model.settings import Settings
from model.zookeeper.controller_channel_manager import ControllerChannelManager
from model.zookeeper.kafka_zk_client import Steps
from model.zookeeper.zk_data import (
    IDS,
    TOPICS,
    LeaderIsrAndControllerEpoch,
    broker_path,
    brokers_of,
    data_of,
    state_path,
    topic_path,
)

Choose = Callable[[Partition, PartitionState], PartitionState]
"""The state that follows."""


class Deposed(Exception):
    """A newer controller has been at work."""


@dataclass(slots=True)
class ControllerContext:
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
    channels: ControllerChannelManager = field(default_factory=ControllerChannelManager)

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

    def read_brokers(self) -> Steps[None]:
        """Who lives; watched from now on."""
        (ids,) = yield [Children(IDS, watch=True)]
        brokers = brokers_of(ids)
        found = yield [GetData(broker_path(n)) for n in brokers]
        self.live = {n: r.created for n, r in zip(brokers, found, strict=True) if r.error is ZkError.OK}

    def read_topics(self) -> Steps[list[Partition]]:
        """Topics that were not known, and the states of their partitions; the partitions. Watched from now
        on."""
        (found,) = yield [Children(TOPICS, watch=True)]
        names = [name for name in found.children if name not in self.topics]
        for name, topic in zip(names, (yield [GetData(topic_path(name)) for name in names]), strict=True):
            self.topics[name] = topic.data
        tps = [(name, number) for name in names for number in range(len(self.topics[name]))]
        yield from self.read_states(tps)
        return tps

    def read_states(self, tps: Sequence[Partition]) -> Steps[dict[Partition, int]]:
        """Read states; the version of each that exists. Raises: Deposed."""
        versions = {}
        for tp, read in zip(tps, (yield [GetData(state_path(tp)) for tp in tps]), strict=True):
            data: LeaderIsrAndControllerEpoch = read.data
            if read.error is ZkError.OK:
                if data.controller_epoch > self.epoch:
                    raise Deposed
                self.states[tp] = data.state(self.replicas(tp), read.version)
                versions[tp] = read.version
        return versions

    # ---- changing

    def make(self, tps: Sequence[Partition]) -> Steps[None]:
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

    def change(self, tps: Sequence[Partition], choose: Choose, *, always: bool = False) -> Steps[None]:
        """Read states, write what follows from them unless a broker wrote meanwhile (then again), and
        tell. always: a new leader epoch also where the state stays as it is."""
        left = list(tps)
        while left:
            versions = yield from self.read_states(left)
            wanted = {}
            for tp in versions:
                state = self.states[tp]
                after = choose(tp, state)
                if always or after != state:
                    wanted[tp] = replace(after, leader_epoch=state.leader_epoch + 1)
            results = yield [
                SetData(state_path(tp), data_of(after, self.epoch), versions[tp])
                for tp, after in wanted.items()
            ]
            left = []
            for (tp, after), result in zip(wanted.items(), results, strict=True):
                if result.error is ZkError.OK:
                    self.states[tp] = replace(after, partition_epoch=result.version)
                else:
                    left.append(tp)
        if tps:
            self.tell(tps)

    # ---- telling

    def tell(self, tps: Collection[Partition]) -> None:
        """Send LeaderAndIsr to the replicas and UpdateMetadata to all brokers."""
        self.lead(tps, self.live)
        self.update(self.live, tps)

    def lead(self, tps: Iterable[Partition], brokers: Collection[int]) -> None:
        """LeaderAndIsr to those of the brokers that are replicas."""
        parts: dict[int, dict[Partition, PartitionState]] = {n: {} for n in brokers}
        for tp in tps:
            for broker in self.states[tp].replicas if tp in self.states else ():
                if broker in parts:
                    parts[broker][tp] = self.states[tp]
        for broker, states in parts.items():
            if states:
                self._lead(broker, states)

    def _lead(self, broker: int, states: Mapping[Partition, PartitionState]) -> None:
        self.channels.send(broker, lambda n: LeaderAndIsr(self.me, self.epoch, n, states))

    def update(self, brokers: Iterable[int], tps: Iterable[Partition]) -> None:
        """UpdateMetadata, with the brokers that live."""
        parts = {tp: self.states[tp] for tp in tps if tp in self.states}
        alive = sorted(self.live)
        for broker in brokers:
            self.channels.send(broker, lambda n: UpdateMetadata(self.me, self.epoch, n, alive, parts))

    def stop(self, broker: int, tps: Sequence[Partition], *, delete: bool) -> None:
        """StopReplica to one broker."""
        self.channels.send(broker, lambda n: StopReplica(self.me, self.epoch, n, tps, delete))
