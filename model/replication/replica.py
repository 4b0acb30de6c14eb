"""One replica of one partition on one broker: leader or follower, high watermark, in-sync set.

The two halves of Kafka's replication as a state machine. The leader keeps the log end of each follower (its
*remote LEO*), learnt from the offset that the follower fetches from; the high watermark is the lowest end
among the in-sync replicas; the follower appends what it is given and takes the leader's high watermark
over. What a follower does when the leader changes depends on the era (KIP-101, KIP-279).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from model.errors import KafkaError, Refused
from model.log.unified_log import RecordBatch, UnifiedLog
from model.metadata.image import MetadataImage
from model.protocol.messages import PartitionState
from model.settings import Settings

UNKNOWN: Final = -1
"""Remote LEO of a follower that has not fetched since this replica became leader (before 2.4 also: whose
newest fetch was out of range)."""

BELOW_MINIMUM: Final = frozenset({"hw-below-min-isr", "min-isr-ignored"})
"""Planted bugs: the high watermark continues where the in-sync set is below its minimum."""


@dataclass(slots=True)
class RemoteReplica:
    """What a leader knows of a follower. `caught_up_ms`: when it last had everything that there was;
    `fetch_ms`, `fetch_end`: time of its newest fetch, and the leader's log end then; `broker_epoch`: the
    one that it fetched with, -1 = it said none (KIP-903). `start`: its log start offset."""

    end: int = UNKNOWN
    start: int = UNKNOWN
    caught_up_ms: int = -1
    fetch_ms: int = -1
    fetch_end: int = 0
    broker_epoch: int = -1


class Replica:
    """See the module. `high_watermark` counts records: everything below it is committed. image: what the
    broker knows of others, None = that each of them may be in sync."""

    def __init__(
        self, me: int, settings: Settings, log: UnifiedLog | None = None, image: MetadataImage | None = None
    ) -> None:
        self.me = me
        self.settings = settings
        self.image = image
        self.era = settings.era
        self.bugs = settings.bugs
        self.log = log or UnifiedLog(settings.era, settings.bugs)
        self.topic_id = -1
        self.high_watermark = 0
        self.state = PartitionState((), (), -1, -1, -1)
        self.remotes: dict[int, RemoteReplica] = {}
        self.proposed: tuple[int, ...] | None = None
        """In-sync set that the controller was asked for and has not answered yet."""
        self.epoch_begin = 0
        """Where the epoch that this replica leads begins."""
        self.truncating = False
        """A follower that has to learn from the leader where to cut its log back."""
        self.asked_epoch = -1
        self.failed = False
        """A follower that was given what does not fit its log, or whose epoch is an old one: it fetches no
        more in this epoch (KIP-461)."""
        self.delayed_until = 0
        """A follower that met an error: it asks nothing before this time, unless the leader epoch changes."""
        self.lag = UNKNOWN
        """How far a follower was behind the leader's high watermark when it fetched last in this epoch. Only
        with 0 it counts as in sync for its own throttle (PartitionFetchState.isReplicaInSync)."""

    @property
    def leads(self) -> bool:
        """This replica believes that it leads."""
        return self.state.leader == self.me

    @property
    def isr(self) -> tuple[int, ...]:
        """In-sync set as last received from the controller."""
        return self.state.isr

    @property
    def maximal_isr(self) -> set[int]:
        """In-sync set including members that are asked for or about to leave: no member in doubt is left
        out of the high watermark (KIP-497)."""
        return {*self.state.isr, *(self.proposed or ())}

    @property
    def min_isr(self) -> int:
        """How many have to be in sync."""
        return self.settings.effective_min_isr(len(self.state.replicas))

    @property
    def acknowledging(self) -> set[int]:
        """In-sync set that has to reach its minimum for acks=all, once the records are committed."""
        return set(self.state.isr) if self.era.zookeeper else self.maximal_isr

    # ---- what the controller decided

    def become(self, state: PartitionState, now: int) -> None:
        """Take over a newer state. A new leader epoch starts over as leader or follower.

        An older one is none: the answer to AlterPartition may have overtaken the metadata log.
        """
        if not self.era.zookeeper and state.partition_epoch < self.state.partition_epoch:
            return
        old, self.state = self.state, state
        newer = state.partition_epoch > old.partition_epoch or state.leader_epoch > old.leader_epoch
        if newer or "old-news-end-a-request" in self.bugs:
            self.proposed = None
        if state.leader_epoch == old.leader_epoch and state.leader == old.leader:
            if self.leads and state.replicas != old.replicas:
                self._know(now)  # a reassignment: who came is unknown, who went is forgotten
            return
        if self._goes_on(old):
            return
        self.truncating = self.failed = False
        self.delayed_until = 0
        self.lag = UNKNOWN
        if state.leader == self.me:
            self._lead(now, again=old.leader == self.me)
        elif state.leader >= 0:
            self._follow()

    def _goes_on(self, old: PartitionState) -> bool:
        """A follower whose leader only got the next epoch (the controller of the ZooKeeper era gives one
        with every change) follows on: before KIP-320 it is not asked to cut its log back."""
        state = self.state
        same = state.leader == old.leader != self.me and state.leader_epoch == old.leader_epoch + 1
        return same and not self.era.fenced_fetch

    def _lead(self, now: int, *, again: bool) -> None:
        """Begin to lead an epoch. again: this replica led the one before. Then it knows the ends of its
        followers' logs as before, and only their time to catch up begins (Replica.resetReplicaState)."""
        self.log.epochs.lead(self.state.leader_epoch, self.log.end)
        self.epoch_begin = self.log.end
        if "producers-lost-on-election" in self.bugs:
            self.log.producers.clear()
        if not again and "remote-ends-kept" not in self.bugs:
            self.remotes = {}
        self._know(now)
        for node, remote in self.remotes.items():
            member = node in self.state.isr
            remote.caught_up_ms = now if member else -1
            if again:
                remote.fetch_end = self.log.end
                remote.fetch_ms = now if member or self.era.zookeeper else -1
        self.advance(now)

    def _know(self, now: int) -> None:
        """Keep a `RemoteReplica` of each follower. A new one's end is unknown; members of the in-sync set get
        the whole lag time from now on."""
        self.remotes = {
            node: self.remotes.get(node) or RemoteReplica(caught_up_ms=now if node in self.state.isr else -1)
            for node in self.state.replicas
            if node != self.me
        }

    def _follow(self) -> None:
        if "remote-ends-kept" not in self.bugs:
            self.remotes = {}
        if "keep-tail" in self.bugs:
            return
        if "truncate-too-far" in self.bugs:  # an in-sync follower drops what is committed
            self.log.truncate(self.log.epochs[-1][1] if self.log.epochs else 0)
            self.high_watermark = min(self.high_watermark, self.log.end)
        if self.era.truncate_by_epoch and "truncate-to-hw" not in self.bugs:
            self.truncating = self.log.end > 0
            self.asked_epoch = self.log.epochs.last
        else:
            self.log.truncate(self.high_watermark)

    # ---- leader

    def append(self, batch: RecordBatch, acks: int, check: Callable[[], None] | None = None) -> RecordBatch:
        """Append as leader; the batch as it stands in the log (an older one: it was sent before). check: of
        the batch's producer, after the leader and the in-sync set (Partition.appendRecordsToLeader).

        Raises: Refused.
        """
        if not self.leads:
            raise Refused(KafkaError.NOT_LEADER_OR_FOLLOWER)
        few = acks == -1 and len(self.state.isr) < self.min_isr
        if few and "min-isr-ignored" not in self.bugs:
            raise Refused(KafkaError.NOT_ENOUGH_REPLICAS)
        if check is not None:
            check()
        placed = self.log.append(batch, self.state.leader_epoch)
        self._flush()
        return placed

    def fetched_by(
        self, follower: int, offset: int, now: int, broker_epoch: int = -1, start: int = 0
    ) -> bool:
        """A follower, whose log begins at `start`, fetches from `offset`, which this log has: it has
        everything between. Whether the high watermark moved."""
        remote = self.remotes.get(follower)
        if remote is None:
            return False
        end = self.log.end
        if offset >= end:
            remote.caught_up_ms = now
        elif offset >= remote.fetch_end:
            # It has what there was when it fetched last: then it was caught up (KAFKA-2988).
            remote.caught_up_ms = max(remote.caught_up_ms, remote.fetch_ms)
        if "lag-by-last-fetch" in self.bugs:
            remote.caught_up_ms = now
        still = remote.end == offset and self.era.moves_by_new_ends
        remote.end, remote.fetch_ms, remote.fetch_end = offset, now, end
        remote.broker_epoch, remote.start = broker_epoch, start
        if "isr-expands-early" in self.bugs and follower not in self.state.isr:
            remote.caught_up_ms = now
        if still and not self.bugs:
            return False
        return (self.high_watermark < self.log.end or bool(self.bugs)) and self.advance(now)

    def fetched_out_of_range(self, follower: int) -> None:
        """A follower fetches from an offset that this log has not: that shows nothing of what it has."""
        remote = self.remotes.get(follower)
        if remote is not None and not self.era.read_before_known:
            remote.end = remote.start = UNKNOWN
            remote.fetch_ms, remote.fetch_end = -1, 0

    def advance(self, now: int) -> bool:
        """Raise the high watermark as far as it goes. Whether it moved."""
        if self.state.leader != self.me:
            return False
        if self.high_watermark >= self.log.end and not self.bugs:
            return False  # it is as far as it can be
        isr = self.state.isr
        few = len(isr) < self.min_isr
        if few and self.era.committed_by_minimum and not self.bugs & BELOW_MINIMUM:
            return False
        lowest = self.log.end
        waited: Collection[int] = isr if self.proposed is None else self.maximal_isr
        if "hw-ignores-proposed" in self.bugs:
            waited = isr if self.proposed is None else self.proposed
        by_majority = "hw-by-majority" in self.bugs
        for node, remote in self.remotes.items():
            if remote.end < lowest and not by_majority and (node in waited or self._joins(node, now)):
                lowest = remote.end
        if by_majority:
            ends = sorted([self.log.end, *(r.end for r in self.remotes.values())], reverse=True)
            lowest = ends[len(ends) // 2]
        if "hw-is-leader-end" in self.bugs:
            lowest = self.log.end
        if lowest > self.high_watermark:
            self.high_watermark = lowest
            return True
        return False

    def delete_before(self, offset: int) -> None:
        """Records below `offset` go (Partition.deleteRecordsOnLeader).

        Raises: Refused (OFFSET_OUT_OF_RANGE: they are not all committed).
        """
        if not 0 <= offset <= self.high_watermark:
            raise Refused(KafkaError.OFFSET_OUT_OF_RANGE)
        self.log.delete_before(offset)

    def low_watermark(self, alive: Collection[int]) -> int:
        """The lowest log start offset, as this leader knows it, of its own replica and those on `alive`
        brokers; -1 where one of them has not fetched yet (Partition.lowWatermarkIfLeader)."""
        return min([self.log.start, *(its.start for node, its in self.remotes.items() if node in alive)])

    def latest_offset(self, *, committed: bool) -> int:
        """The end of the log that clients receive: the last stable offset if `committed`, else the high
        watermark.

        Raises: Refused (OFFSET_NOT_AVAILABLE, KIP-207: a later end may have been answered before).
        """
        if self.era.offset_not_available and self.high_watermark < self.epoch_begin:
            raise Refused(KafkaError.OFFSET_NOT_AVAILABLE)
        return self.log.stable(self.high_watermark) if committed else self.high_watermark

    def _joins(self, follower: int, now: int) -> bool:
        """A replica outside of the set that is about to join it: the high watermark waits for it, else
        it would never get there while records keep coming (Partition.shouldWaitForReplicaToJoinIsr)."""
        remote = self.remotes[follower]
        if remote.caught_up_ms < 0 or now - remote.caught_up_ms > self.settings.replica_lag_ms:
            return False
        if self.image is None or not self.era.awaits_eligible:
            return True
        return remote.end != UNKNOWN and self.image.may_join(follower, remote.broker_epoch)

    def shrunk_isr(self, now: int) -> tuple[int, ...] | None:
        """In-sync set without those who had not everything for longer than the lag allows; None: no member
        has to leave, or another change is not decided yet."""
        if not self.leads or self.proposed is not None:
            return None
        isr, end = self.state.isr, self.log.end
        late = now - self.settings.replica_lag_ms
        gone = [
            node
            for node, remote in self.remotes.items()
            if remote.end != end and remote.caught_up_ms < late and node in isr
        ]
        return tuple(sorted({*isr} - {*gone})) if gone else None

    def grown_isr(self, follower: int) -> tuple[int, ...] | None:
        """In-sync set with a follower that has just fetched; None: it does not join now.

        It has to have everything below the high watermark, and to have reached the begin of this epoch
        (KAFKA-7128). Only a fetch shows that: what it had before it was away proves nothing.
        """
        if follower in self.state.isr:
            return None
        remote = self.remotes.get(follower)
        if not self.leads or self.proposed is not None or remote is None:
            return None
        needed = self.high_watermark
        if self.era.joined_in_epoch:
            needed = max(needed, self.epoch_begin)
        if remote.end < needed and "isr-expands-early" not in self.bugs:
            return None
        return tuple(sorted({*self.state.isr, follower}))

    # ---- follower

    def cut(self, epoch: int, end: int) -> bool:
        """The leader's answer to "where does `asked_epoch` end": cut the log back accordingly.

        Whether the follower may fetch now; else `asked_epoch` is what to ask next (KIP-279).
        """
        self.truncating = False
        walks = self.era.epoch_walk and "no-epoch-walk" not in self.bugs
        mine, own_end = self.log.end_of(epoch) if walks else (-1, -1)
        if end < 0:
            self.log.truncate(self.high_watermark)
        elif own_end < 0:
            self.log.truncate(end)
        elif mine != epoch:
            self.log.truncate(own_end)
            self.asked_epoch, self.truncating = mine, True
        else:
            self.log.truncate(min(own_end, end))
        self.high_watermark = min(self.high_watermark, self.log.end)
        return not self.truncating

    def take(self, batches: Sequence[RecordBatch], high_watermark: int, start: int = 0) -> None:
        """Append what the leader gave, and take over its log start, and its high watermark as far as the log
        reaches: also a lower one, of a leader that does not know yet what is committed."""
        log = self.log
        if batches:
            for batch in batches:
                if batch.last < log.end:
                    continue
                if log.start == log.end and batch.base < log.end:
                    log.restart(batch.base)  # the log start lies within a batch (KAFKA-6975)
                if batch.base != log.end:  # the logs differ below
                    self.failed = True
                    return
                self._copy(batch)
            self._flush()
        self.high_watermark = max(log.start, min(high_watermark, log.end))
        if start > log.start:
            log.delete_before(min(start, self.high_watermark))

    def _copy(self, batch: RecordBatch) -> None:
        log = self.log
        if not self.bugs:
            log.copy(batch)
            return
        if "follower-writes-other-times" in self.bugs:
            batch = replace(batch, appended_ms=batch.appended_ms + 1)
        log.copy(batch)
        if "follower-drops-a-batch" in self.bugs and len(log.batches) % 100 == 0:
            log.lose(len(log.batches) - 2)
        if "followers-forget-sequences" in self.bugs and batch.producer_id in log.producers:
            del log.producers[batch.producer_id].batches[-1:]
        if "aborted-index-loses-entries" in self.bugs:
            log.aborted.clear()

    def _flush(self) -> None:
        """To disk, where enough was appended since the last time (log.flush.interval.messages)."""
        every = self.settings.flush_every
        if every and self.log.end - self.log.flushed >= every:
            self.log.flush()
