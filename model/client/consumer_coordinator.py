"""A member of a consumer group (classic protocol, eager): joins, is assigned, sends heartbeats, commits.

What the application has to see it sees in its polls: `lost` or `given` partitions wait in `news` until it
takes them, and a member that has to give partitions up joins again only after that.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from model.client.client_metadata import BACKOFF_MS, RETRIABLE, ClientMetadata
from model.client.group_member import ASSIGNED, COMMITTED, LOST, REVOKED, GroupEvent, GroupMember
from model.errors import NO_ERROR, KafkaError
from model.protocol.coordinator_messages import (
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    OffsetFetch,
    OffsetFetchResponse,
    SyncGroup,
    SyncGroupResponse,
)
from model.protocol.messages import Partition

HEARTBEAT_MS: Final = 300
JOINED: Final = ("fetching", "stable")
"""States in which it has an assignment and keeps sending heartbeats."""


class ConsumerCoordinator(GroupMember):
    """See the module."""

    def __init__(
        self, group: str, topics: Sequence[str], cluster: ClientMetadata, session_ms: int, *, stable: bool
    ) -> None:
        super().__init__(group, topics, cluster, stable=stable)
        self.session_ms = session_ms
        self._asked_ms = -1
        self._assignments = 0
        self._assigned: dict[str, int] = {}
        """How many partitions each topic had when this member assigned them; none: another one leads."""

    # ---- what the application does

    def take_news(self) -> list[GroupEvent]:
        """What happened since the last call; a revocation is accepted with it."""
        news, self.news = self.news, []
        for item in news:
            if item.kind in (REVOKED, LOST):
                self.partitions = ()
                self._state = "out"
        return news

    def leave(self) -> None:
        """Leave the group, without waiting for the answer."""
        if self.member:
            request = LeaveGroup(self.group, self.member)
            self._wanted.append(lambda node: self._say(node, "leave", request, self._failed))
        self._state = "left"

    # ---- time and answers

    def pump(self, now: int) -> None:
        """Send what is to be sent."""
        node = self._coordinator(now)
        if node < 0:
            return
        if self._state == "out" and not self.news and self._knows_partitions():
            join = JoinGroup(self.group, self.member, self.session_ms, self.session_ms, self.topics)
            self._state = "joining"
            self._say(node, "join", join, self._left_out, self._joined)
        if self._state == "stable" and self._assigned and self._assigned != self._counts():
            self._give_up(REVOKED)  # the leader joins again (ConsumerCoordinator.rejoinNeededOrPending)
        if self._state in JOINED and now >= self._beat_at:
            self._beat_at = now + HEARTBEAT_MS
            beat = Heartbeat(self.group, self.generation, self.member)
            self._say(node, "beat", beat, self._failed)
        if self._state == "fetching":
            self._asked_ms = now if self._asked_ms < 0 else self._asked_ms
            fetch = OffsetFetch(self.group, self.partitions, self.stable)
            # An answer to an older question tells of other partitions.
            fetched = partial(self._offsets_answered, self._assignments)
            self._ask(node, f"offsets {self._assignments}", fetch, fetched)

    def _counts(self) -> dict[str, int]:
        known = Counter(topic for topic, _ in self.cluster.leaders)
        return {topic: known[topic] for topic in self.topics}

    def _knows_partitions(self) -> bool:
        """Who joins may have to assign them: a leader without metadata would assign nothing."""
        known = {topic for topic, _ in self.cluster.leaders}
        self.cluster.wanted |= not known.issuperset(self.topics)
        return known.issuperset(self.topics)

    def _left_out(self, error: KafkaError, now: int) -> None:
        self._state = "out"
        self._failed(error, now)

    def _joined(self, answer: JoinGroupResponse, now: int) -> None:
        self.member, self.generation = answer.member, answer.generation
        self._state = "syncing"
        assignments = _ranges(answer.members, self.cluster) if answer.members else {}
        self._assigned = self._counts() if answer.members else {}
        request = SyncGroup(self.group, self.generation, self.member, assignments)
        node, _ = self.cluster.coordinator(self.group, True, now)
        node = node if node >= 0 else self.cluster.any_node()
        self._say(node, "sync", request, self._left_out, self._synced)

    def _synced(self, answer: SyncGroupResponse, now: int) -> None:
        self.partitions = tuple(answer.partitions)
        self.news.append(GroupEvent(ASSIGNED, self.partitions, self.generation, at_ms=now))
        self._state = "fetching" if self.partitions else "stable"
        self._assignments += 1
        self._asked_ms = -1
        self._beat_at = now

    def _offsets_answered(self, assignment: int, answer: OffsetFetchResponse | None, now: int) -> None:
        if self._state != "fetching" or assignment != self._assignments:
            return
        if answer is None or answer.error is not NO_ERROR:
            self._failed(answer.error if answer else KafkaError.REQUEST_TIMED_OUT, now)
            return
        self._state = "stable"
        for tp, epoch in answer.epochs.items():
            self.cluster.seen(tp, epoch)
        offsets = dict(answer.offsets)
        self.news.append(GroupEvent(COMMITTED, self.partitions, self.generation, offsets, self._asked_ms))

    def _failed(self, error: KafkaError, now: int) -> None:
        if error is NO_ERROR:
            return
        if error is KafkaError.REBALANCE_IN_PROGRESS:
            self._give_up(REVOKED)
        elif error in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION):
            if error is KafkaError.UNKNOWN_MEMBER_ID:
                self.member = ""
            self._give_up(LOST)
        elif error in RETRIABLE:
            self._pause = now + BACKOFF_MS
            self.cluster.forget(self.group, True)
        else:
            self._pause = now + BACKOFF_MS

    def _give_up(self, kind: str) -> None:
        """Partitions are to be given up; the application does that with its next poll."""
        if self._state in JOINED:
            self._state = "revoking"
            self.news.append(GroupEvent(kind, self.partitions, self.generation))


def _ranges(
    members: Mapping[str, Sequence[str]], cluster: ClientMetadata
) -> dict[str, tuple[Partition, ...]]:
    """Range assignment: of each topic, neighbouring partitions to each member in turn."""
    given: dict[str, list[Partition]] = {member: [] for member in members}
    topics = sorted({topic for wanted in members.values() for topic in wanted})
    for topic in topics:
        tps = sorted(tp for tp in cluster.leaders if tp[0] == topic)
        takers = sorted(member for member, wanted in members.items() if topic in wanted)
        for n, tp in enumerate(tps):
            given[takers[n * len(takers) // len(tps)]].append(tp)
    return {member: tuple(tps) for member, tps in given.items()}
