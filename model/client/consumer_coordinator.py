"""A member of a consumer group (classic protocol, eager): joins, is assigned, sends heartbeats, commits.

What the application has to see it sees in its polls: `lost` or `given` partitions wait in `news` until it
takes them, and a member that has to give partitions up joins again only after that.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from model.client.client_metadata import BACKOFF_MS, RETRIABLE, ClientMetadata
from model.errors import KafkaError
from model.protocol.coordinator_messages import (
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchResponse,
    SyncGroup,
    SyncGroupResponse,
)
from model.protocol.messages import Partition
from model.protocol.requests import AnyRequest, ErrorResponse, Response
from model.replication.node import Ask

HEARTBEAT_MS: Final = 300
REVOKED: Final = "revoked"
LOST: Final = "lost"
ASSIGNED: Final = "assigned"
COMMITTED: Final = "committed"
JOINED: Final = ("fetching", "stable")
"""States in which it has an assignment and keeps sending heartbeats."""


NO_EPOCHS: Final[Mapping[Partition, int]] = {}


class GroupEvent(NamedTuple):
    """What happened to the member's partitions. `offsets`: committed ones (COMMITTED), -1 = none;
    at_ms: when they were asked for; of ASSIGNED, when the assignment arrived."""

    kind: str
    partitions: tuple[Partition, ...]
    generation: int
    offsets: Mapping[Partition, int] = {}
    at_ms: int = -1


class ConsumerCoordinator:
    """See the module. `commits`: outcome by number of a commit: error name, "" = done."""

    def __init__(
        self, group: str, topics: Sequence[str], cluster: ClientMetadata, session_ms: int, *, stable: bool
    ) -> None:
        self.group = group
        self.topics = tuple(topics)
        self.cluster = cluster
        self.session_ms = session_ms
        self.stable = stable
        self.member = ""
        self.generation = -1
        self.partitions: tuple[Partition, ...] = ()
        self.news: list[GroupEvent] = []
        self.commits: dict[int, str] = {}
        self.out: list[Ask] = []
        self._state = "out"
        self._joined: JoinGroupResponse | None = None
        self._under_way: set[str] = set()
        self._pause = 0
        self._beat_at = 0
        self._commit_number = 0
        self._wanted: dict[str, AnyRequest] = {}
        self._asked_ms = -1
        self._assignments = 0

    # ---- what the application does

    def take_news(self) -> list[GroupEvent]:
        """What happened since the last call; a revocation is accepted with it."""
        news, self.news = self.news, []
        for item in news:
            if item.kind in (REVOKED, LOST):
                self.partitions = ()
                self._state = "out"
        return news

    def commit(self, offsets: Mapping[Partition, int], epochs: Mapping[Partition, int] = NO_EPOCHS) -> int:
        """Commit offsets, and the leader epochs of the last records before them, with the present
        generation; the number under which `commits` will tell."""
        self._commit_number += 1
        channel = f"commit {self._commit_number}"
        self._wanted[channel] = OffsetCommit(self.group, self.generation, self.member, dict(offsets), epochs)
        return self._commit_number

    def leave(self) -> None:
        """Leave the group, without waiting for the answer."""
        if self.member:
            self._wanted["leave"] = LeaveGroup(self.group, self.member)
        self._state = "left"

    # ---- time and answers

    def pump(self, now: int) -> None:
        """Send what is to be sent."""
        node, asks = self.cluster.coordinator(self.group, True, now)
        self.out += asks
        if node < 0 or now < self._pause:
            return
        for channel, request in list(self._wanted.items()):
            del self._wanted[channel]
            self._ask(node, channel, request)
        if self._state == "out" and not self.news and self._knows_partitions():
            request = JoinGroup(self.group, self.member, self.session_ms, self.session_ms, self.topics)
            self._state = "joining"
            self._ask(node, "join", request)
        if self._state in JOINED and now >= self._beat_at:
            self._beat_at = now + HEARTBEAT_MS
            self._ask(node, "beat", Heartbeat(self.group, self.generation, self.member))
        if self._state == "fetching":
            self._asked_ms = now if self._asked_ms < 0 else self._asked_ms
            request = OffsetFetch(self.group, self.partitions, self.stable)
            self._ask(node, self._question, request)

    @property
    def _question(self) -> str:
        """Channel of the question for committed offsets of the present assignment: an answer to an older
        one tells of other partitions."""
        return f"offsets {self._assignments}"

    def _knows_partitions(self) -> bool:
        """Who joins may have to assign them: a leader without metadata would assign nothing."""
        known = {topic for topic, _ in self.cluster.leaders}
        self.cluster.wanted |= not known.issuperset(self.topics)
        return known.issuperset(self.topics)

    def _ask(self, node: int, channel: str, request: AnyRequest) -> None:
        if channel not in self._under_way:
            self._under_way.add(channel)
            self.out.append(Ask(node, channel, request))

    def answered(self, channel: str, answer: Response | None, now: int) -> bool:
        """The answer to an `Ask`, None = none came; whether the question was this member's."""
        if self.cluster.answered(channel, answer, now):
            return True
        if channel not in self._under_way:
            return False
        self._under_way.discard(channel)
        if self._state == "left":
            return True
        if channel.startswith("commit "):
            assert isinstance(answer, ErrorResponse | None)
            self._committed(int(channel.split(" ")[1]), answer)
        elif channel == "join":
            assert isinstance(answer, JoinGroupResponse | None)
            self._join_answered(answer, now)
        elif channel == "sync":
            assert isinstance(answer, SyncGroupResponse | None)
            self._sync_answered(answer, now)
        elif channel == self._question:
            assert isinstance(answer, OffsetFetchResponse | None)
            self._offsets_answered(answer, now)
        elif channel == "beat":
            assert isinstance(answer, ErrorResponse | None)
            self._failed(answer.error if answer else KafkaError.REQUEST_TIMED_OUT, now)
        return True

    def _committed(self, number: int, answer: ErrorResponse | None) -> None:
        error = KafkaError.REQUEST_TIMED_OUT if answer is None else answer.error
        self.commits[number] = "" if error is KafkaError.NONE else error.name

    def _join_answered(self, answer: JoinGroupResponse | None, now: int) -> None:
        if answer is None or answer.error is not KafkaError.NONE:
            self._state = "out"
            self._failed(answer.error if answer else KafkaError.REQUEST_TIMED_OUT, now)
            return
        self.member, self.generation = answer.member, answer.generation
        self._state = "syncing"
        assignments = _ranges(answer.members, self.cluster) if answer.members else {}
        request = SyncGroup(self.group, self.generation, self.member, assignments)
        node, _ = self.cluster.coordinator(self.group, True, now)
        self._ask(node if node >= 0 else self.cluster.any_node(), "sync", request)

    def _sync_answered(self, answer: SyncGroupResponse | None, now: int) -> None:
        if answer is None or answer.error is not KafkaError.NONE:
            self._state = "out"
            self._failed(answer.error if answer else KafkaError.REQUEST_TIMED_OUT, now)
            return
        self.partitions = tuple(answer.partitions)
        self.news.append(GroupEvent(ASSIGNED, self.partitions, self.generation, at_ms=now))
        self._state = "fetching" if self.partitions else "stable"
        self._assignments += 1
        self._asked_ms = -1
        self._beat_at = now

    def _offsets_answered(self, answer: OffsetFetchResponse | None, now: int) -> None:
        if self._state != "fetching":
            return
        if answer is None or answer.error is not KafkaError.NONE:
            self._failed(answer.error if answer else KafkaError.REQUEST_TIMED_OUT, now)
            return
        self._state = "stable"
        for tp, epoch in answer.epochs.items():
            self.cluster.seen(tp, epoch)
        offsets = dict(answer.offsets)
        self.news.append(GroupEvent(COMMITTED, self.partitions, self.generation, offsets, self._asked_ms))

    def _failed(self, error: KafkaError, now: int) -> None:
        if error is KafkaError.NONE:
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
