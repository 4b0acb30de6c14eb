"""A member of a consumer group in the protocol of KIP-848: heartbeats alone, and one step after the other.

What the coordinator wants it to have it compares with what it has. Partitions that it is to give up it gives
up when the application polls, and says so at once; new ones it has from then on, and asks where the group
stands in them. Everything else it keeps, and continues to read.
Source: KIP-848; Java: AbstractMembershipManager.reconcile, ConsumerHeartbeatRequestManager.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from model.client.client_metadata import BACKOFF_MS, RETRIABLE, ClientMetadata
from model.client.group_member import ASSIGNED, COMMITTED, LOST, REVOKED, GroupEvent, GroupMember
from model.coordinator.consumer_group_records import LEAVES
from model.errors import NO_ERROR, KafkaError
from model.protocol.consumer_group_messages import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse
from model.protocol.coordinator_messages import OffsetFetch, OffsetFetchResponse
from model.protocol.messages import Partition

REFUSED = (KafkaError.FENCED_MEMBER_EPOCH, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.GROUP_ID_NOT_FOUND)
"""What makes a member give up everything and join again."""


class ConsumerMembershipManager(GroupMember):
    """See the module. member: its id, which it chooses itself. rebalance_ms: how long it may take to give
    partitions up."""

    newer = True

    def __init__(
        self,
        group: str,
        topics: Sequence[str],
        cluster: ClientMetadata,
        member: str,
        rebalance_ms: int,
        *,
        stable: bool,
        bugs: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(group, topics, cluster, stable=stable)
        self.bugs = bugs
        self.member = member
        self.rebalance_ms = rebalance_ms
        self._target: frozenset[Partition] = frozenset()
        self._giving: frozenset[Partition] = frozenset()
        """What it is to give up, until the application polls."""
        self._unplaced: dict[Partition, int] = {}
        """New partitions, and when it first asked for their offsets (-1: not yet)."""
        self._said: tuple[Partition, ...] = ()
        """What it said last that it has."""
        self._question = 0
        self._joins = 0
        """How often it has joined: an answer to what it said before that tells nothing of it now."""
        self._whole = True
        """It says everything with its next heartbeat: it joins, or the answer to the last one is missing."""

    # ---- what the application does

    def take_news(self) -> list[GroupEvent]:
        """See `GroupMember`."""
        news, self.news = self.news, []
        for item in news:
            if item.kind == LOST:
                self._state = "out"
            elif item.kind == REVOKED:
                self._drop(item.partitions)
                self._giving, self._beat_at = frozenset(), 0
        return news

    def leave(self) -> None:
        """See `GroupMember`."""
        if self._state == "member":
            request = ConsumerGroupHeartbeat(self.group, self.member, LEAVES)
            self._wanted.append(lambda node: self._say(node, "leave", request, lambda error, now: None))
        self._state = "left"

    # ---- time and answers

    def pump(self, now: int) -> None:
        """See `GroupMember`."""
        node = self._coordinator(now)
        if node < 0 or self._state in ("left", "lost"):
            return
        if self._state == "out":
            self._state, self._whole, self._beat_at, self.generation = "joining", True, now, 0
            self._joins += 1
        if self._state == "member":
            self._reconcile(now)
        if now >= self._beat_at and f"beat {self._joins}" not in self._under_way:
            self._beat(node)
        if self._unplaced and self._state == "member":
            self._place(node, now)

    def _beat(self, node: int) -> None:
        joins = self._state == "joining"
        whole = joins or self._whole
        self._said = () if joins else self.partitions
        request = ConsumerGroupHeartbeat(
            self.group,
            self.member,
            0 if joins else self.generation,
            "",
            self.rebalance_ms if whole else -1,
            self.topics if whole else None,
            self._said,
        )
        self._say(node, f"beat {self._joins}", request, self._failed, partial(self._beaten, self._joins))

    def _beaten(self, joins: int, answer: ConsumerGroupHeartbeatResponse, now: int) -> None:
        if joins != self._joins or self._state == "lost":
            return
        self._state, self._whole = "member", False
        self.generation = answer.member_epoch
        self._beat_at = now + (answer.heartbeat_ms if self._said == self.partitions else 0)
        if answer.assignment is not None:
            self._target = frozenset(answer.assignment)
            self._reconcile(now)

    def _reconcile(self, now: int) -> None:
        """Towards what it is to have; one revocation at a time."""
        if self._giving:
            return
        held = set(self.partitions)
        gone, new = held - self._target, tuple(sorted(self._target - held))
        if gone:
            self._giving = frozenset(gone)
            self.news.append(GroupEvent(REVOKED, tuple(sorted(gone)), self.generation))
        elif new:
            self.partitions = tuple(sorted(self._target))
            self._unplaced |= dict.fromkeys(new, -1)
            self._question += 1
            self._beat_at = now
            self.news.append(GroupEvent(ASSIGNED, new, self.generation, at_ms=now))

    def _drop(self, partitions: Iterable[Partition]) -> None:
        gone = set(partitions)
        self.partitions = tuple(tp for tp in self.partitions if tp not in gone)
        self._unplaced = {tp: at for tp, at in self._unplaced.items() if tp not in gone}
        self._question += 1

    def _place(self, node: int, now: int) -> None:
        """Ask where the group stands in new partitions."""
        self._unplaced = {tp: now if at < 0 else at for tp, at in self._unplaced.items()}
        wanted = tuple(sorted(self._unplaced))
        fetch = OffsetFetch(self.group, wanted, self.stable, self.member, self.generation)
        # An answer to an older question may be of another time of the same partitions.
        self._ask(node, f"offsets {self._question}", fetch, partial(self._placed, self._question))

    def _placed(self, question: int, answer: OffsetFetchResponse | None, now: int) -> None:
        if question != self._question or self._state != "member":
            return
        error = KafkaError.REQUEST_TIMED_OUT if answer is None else answer.error
        if answer is None or error is not NO_ERROR:
            self._failed(error, now)
            return
        for tp, epoch in answer.epochs.items():
            self.cluster.seen(tp, epoch)
        asked_ms = min(self._unplaced.values())
        placed, self._unplaced = tuple(sorted(self._unplaced)), {}
        offsets = dict(answer.offsets)
        self.news.append(GroupEvent(COMMITTED, placed, self.generation, offsets, asked_ms))

    def _failed(self, error: KafkaError, now: int) -> None:
        """Of heartbeats and questions for offsets."""
        self._whole, self._pause = True, now + BACKOFF_MS
        if error in REFUSED and self._state != "lost":
            held, self.partitions = self.partitions, ()
            self._drop(held)
            self._target = self._giving = frozenset()
            self.news = [item for item in self.news if item.kind != REVOKED]
            self._state = "lost"
            if "fenced-member-keeps-partitions" in self.bugs:
                held = ()  # nothing is taken from the consumer, which reads on
            self.news.append(GroupEvent(LOST, held, self.generation))
        elif error in RETRIABLE:
            self.cluster.forget(self.group, True)
