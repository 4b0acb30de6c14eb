"""A broker as follower: one fetcher for each broker that leads something it follows.

A fetcher asks for all partitions of its leader in one request, and asks again as soon as it is answered.
Partitions whose leader changed first ask where their newest epoch ends there, and cut their logs back
(KIP-101); only then do they fetch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from model.errors import KafkaError
from model.protocol.messages import (
    Fetch,
    FetchPartition,
    FetchResponse,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochResponse,
    Partition,
)
from model.protocol.requests import Response
from model.replication.node import NodeState
from model.replication.replica import Replica

BACKOFF_MS = 100


@dataclass(slots=True)
class ReplicaFetcherManager:
    """Fetchers by leader. moved: called with partitions whose high watermark moved. `under_way`: leaders that
    are being asked; `pause`: not before this time."""

    node: NodeState
    moved: Callable[[Partition], None]
    under_way: set[int] = field(default_factory=set)
    pause: dict[int, int] = field(default_factory=dict)

    def pump(self) -> None:
        """Ask every leader that is not being asked."""
        followed: dict[int, list[tuple[Partition, Replica]]] = {}
        me = self.node.me
        for tp, replica in self.node.replicas.items():
            leader = replica.state.leader
            if leader not in (me, -1) and not replica.failed:
                followed.setdefault(leader, []).append((tp, replica))
        for leader, replicas in followed.items():
            if leader not in self.under_way and self.pause.get(leader, 0) <= self.node.now:
                self._ask(leader, replicas)

    def _ask(self, leader: int, replicas: list[tuple[Partition, Replica]]) -> None:
        self.under_way.add(leader)
        node = self.node
        era = node.settings.era
        cutting = {
            tp: (r.state.leader_epoch if era.fenced_fetch else -1, r.asked_epoch)
            for tp, r in replicas
            if r.truncating
        }
        if cutting:
            request = OffsetForLeaderEpoch(node.me, cutting)
            node.ask(leader, "fetch", request, partial(self._cut, leader, request))
            return
        parts = {
            tp: FetchPartition(r.log.end, r.state.leader_epoch if era.fenced_fetch else -1)
            for tp, r in replicas
        }
        epoch = -1 if era.zookeeper else node.broker_epoch
        wait = node.settings.fetch_wait_ms
        fetch = Fetch(node.me, parts, max_wait_ms=wait, broker_epoch=epoch)
        node.ask(leader, "fetch", fetch, partial(self._append, leader, fetch))

    def _answered(self, leader: int, answer: Response | None) -> None:
        self.under_way.discard(leader)
        if answer is None:
            self.pause[leader] = self.node.now + BACKOFF_MS

    def _cut(
        self, leader: int, request: OffsetForLeaderEpoch, answer: OffsetForLeaderEpochResponse | None
    ) -> None:
        self._answered(leader, answer)
        for tp, (error, epoch, end) in answer.parts.items() if answer is not None else ():
            replica = self.node.replicas.get(tp)
            if replica is None or replica.state.leader != leader or not replica.truncating:
                continue
            of, asked = request.parts[tp]
            if asked != replica.asked_epoch or of not in (-1, replica.state.leader_epoch):
                continue  # leader and epoch changed meanwhile
            if error is KafkaError.NONE:
                replica.cut(epoch, end)
            else:
                self.pause[leader] = self.node.now + BACKOFF_MS
        self.pump()

    def _append(self, leader: int, request: Fetch, answer: FetchResponse | None) -> None:
        self._answered(leader, answer)
        moved = []
        for tp, found in answer.parts.items() if answer is not None else ():
            replica = self.node.replicas.get(tp)
            if replica is None or replica.state.leader != leader or replica.truncating:
                continue
            asked = request.parts[tp]
            of_now = asked.leader_epoch in (-1, replica.state.leader_epoch)
            if not of_now or asked.offset != replica.log.end:
                continue  # an answer to what was asked under another epoch, or before a cut
            if found.error is KafkaError.OFFSET_OUT_OF_RANGE:
                self._start_over(replica, found.start, found.high_watermark)
            elif found.error is not KafkaError.NONE:
                self.pause[leader] = self.node.now + BACKOFF_MS
            else:
                before = replica.high_watermark
                replica.take(found.batches, found.high_watermark)
                if replica.high_watermark != before:
                    moved.append(tp)
        for tp in moved:
            self.moved(tp)
        self.pump()

    def _start_over(self, replica: Replica, start: int, end: int) -> None:
        """The leader's log does not reach to where this one ends, or begins behind it."""
        if replica.log.end < start:
            replica.log.restart(start)
            replica.high_watermark = start
        else:
            replica.log.truncate(max(end, start))
            replica.high_watermark = min(replica.high_watermark, replica.log.end)
