"""A broker as follower: one fetcher for each broker that leads something it follows.

A fetcher works in rounds, each at once after the one before (AbstractFetcherThread.doWork). Partitions whose
leader changed first ask where their newest epoch ends there, and cut their logs back (KIP-101); then the
fetcher asks for all others of its leader in one request.

An error delays its own partition only, for replica.fetch.backoff.ms, and the fetcher asks for the others
meanwhile: a follower may be up to date in one partition and behind in another, and is in sync in both. A
fetch without an answer delays all partitions of its leader. A new leader epoch ends the delay.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from model.errors import NO_ERROR, KafkaError
from model.protocol.messages import (
    Fetch,
    FetchPartition,
    FetchResponse,
    OffsetForLeaderEpoch,
    OffsetForLeaderEpochResponse,
    Partition,
)
from model.replication.node import NodeState
from model.replication.replica import Replica
from model.replication.replication_quota import ReplicationQuota


@dataclass(slots=True)
class ReplicaFetcherManager:
    """Fetchers by leader. moved: called with partitions whose high watermark moved. `under_way`: leaders that
    are being asked."""

    node: NodeState
    moved: Callable[[Partition], None]
    under_way: set[int] = field(default_factory=set)
    quota: ReplicationQuota = field(default_factory=ReplicationQuota)

    def pump(self) -> None:
        """Begin a round of every fetcher that does not wait for an answer."""
        followed: dict[int, dict[Partition, Replica]] = {}
        busy = {self.node.me, -1} | self.under_way
        for tp, replica in self.node.replicas.items():
            leader = replica.state.leader
            if leader not in busy and not replica.failed:
                if leader in followed:
                    followed[leader][tp] = replica
                else:
                    followed[leader] = {tp: replica}
        for leader, replicas in followed.items():
            if not self._truncate(leader, replicas):
                self._fetch(leader, replicas)

    def _followed(self, leader: int) -> dict[Partition, Replica]:
        """The partitions of one fetcher."""
        replicas = self.node.replicas.items()
        return {tp: r for tp, r in replicas if r.state.leader == leader and not r.failed}

    def _truncate(self, leader: int, replicas: Mapping[Partition, Replica]) -> bool:
        """Ask where epochs end; whether a partition has to know."""
        node = self.node
        fenced = node.settings.era.fenced_fetch  # requests carry the leader epoch (KIP-320)
        cutting = {
            tp: (r.state.leader_epoch if fenced else -1, r.asked_epoch)
            for tp, r in replicas.items()
            if r.truncating and r.delayed_until <= node.now
        }
        if cutting:
            self.under_way.add(leader)
            request = OffsetForLeaderEpoch(node.me, cutting)
            node.ask(leader, "fetch", request, partial(self._cut, leader, request))
        return bool(cutting)

    def _fetch(self, leader: int, replicas: Mapping[Partition, Replica]) -> None:
        """Fetch what neither truncates nor is delayed, nor is throttled."""
        node = self.node
        now, fenced = node.now, node.settings.era.fenced_fetch
        parts = {
            tp: FetchPartition(r.log.end, r.state.leader_epoch if fenced else -1, r.log.start, r.topic_id)
            for tp, r in replicas.items()
            if not r.truncating and r.delayed_until <= now and not (r.lag and self.quota.throttles(tp, now))
        }
        if parts:
            self.under_way.add(leader)
            epoch = -1 if node.settings.era.zookeeper else node.broker_epoch
            wait, most = node.settings.fetch_wait_ms, node.settings.fetch_records
            fetch = Fetch(node.me, parts, max_wait_ms=wait, most=most, broker_epoch=epoch)
            node.ask(leader, "fetch", fetch, partial(self._append, leader, fetch))

    def _cut(
        self, leader: int, request: OffsetForLeaderEpoch, answer: OffsetForLeaderEpochResponse | None
    ) -> None:
        self.under_way.discard(leader)
        for tp, (of, asked) in request.parts.items():
            replica = self.node.replicas.get(tp)
            if replica is None or replica.state.leader != leader or not replica.truncating:
                continue
            if asked != replica.asked_epoch or of not in (-1, replica.state.leader_epoch):
                continue  # leader and epoch changed meanwhile
            error, epoch, end = answer.parts[tp] if answer is not None else (None, -1, -1)
            if error is NO_ERROR:
                replica.cut(epoch, end)
            else:
                self._met(error, replica)
        self._fetch(leader, self._followed(leader))
        self.pump()

    def _append(self, leader: int, request: Fetch, answer: FetchResponse | None) -> None:
        self.under_way.discard(leader)
        if answer is None:
            for one in self._followed(leader).values():
                self._met(None, one)
        moved = []
        for tp, found in answer.parts.items() if answer is not None else ():
            replica = self.node.replicas.get(tp)
            if replica is None or replica.state.leader != leader or replica.truncating:
                continue
            asked = request.parts[tp]
            of_now = asked.leader_epoch == replica.state.leader_epoch or asked.leader_epoch == -1
            of_now = of_now and asked.topic_id == replica.topic_id
            if not of_now or asked.offset != replica.log.end:
                continue  # an answer to what was asked under another epoch, or before a cut
            error = found.error
            if error is NO_ERROR:
                before = replica.high_watermark
                replica.take(found.batches, found.high_watermark, found.start)
                replica.lag = max(0, found.high_watermark - replica.log.end)
                self.quota.record(tp, found.batches, self.node.now)
                if replica.high_watermark != before:
                    moved.append(tp)
            elif error is KafkaError.OFFSET_OUT_OF_RANGE:
                self._start_over(replica, found.start, found.end)
            else:
                self._met(error, replica)
        for tp in moved:
            self.moved(tp)
        self.pump()

    def _met(self, error: KafkaError | None, replica: Replica) -> None:
        """An error of a partition, None = no answer came. Where the leader has a later epoch, the fetcher
        leaves the partition out until this broker knows it (AbstractFetcherThread.onPartitionFenced)."""
        now = self.node.now
        if error is KafkaError.FENCED_LEADER_EPOCH:
            replica.failed = True
        elif replica.delayed_until <= now:
            replica.delayed_until = now + self.node.settings.fetch_backoff_ms

    def _start_over(self, replica: Replica, start: int, end: int) -> None:
        """The leader's log, from start to end, did not reach to where this one ends, or begins behind it
        (AbstractFetcherThread.fetchOffsetAndTruncate)."""
        log = replica.log
        if end < log.end:
            log.truncate(end)
            replica.high_watermark = min(replica.high_watermark, log.end)
        elif start > log.end:
            log.restart(start)
            replica.high_watermark = start
