"""One consumer group: members, generations, rebalances (the classic protocol; Kafka's ClassicGroup).

    Empty → PreparingRebalance → CompletingRebalance → Stable → PreparingRebalance → …

A rebalance waits for all members to join again, at most for their rebalance timeout; then a new generation
begins, whose leader assigns the partitions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from model.errors import KafkaError
from model.protocol.coordinator_messages import JoinGroup, JoinGroupResponse, SyncGroupResponse
from model.protocol.messages import Partition
from model.protocol.requests import Answer


class ClassicGroupState(StrEnum):
    """Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


EMPTY, PREPARING = ClassicGroupState.EMPTY, ClassicGroupState.PREPARING
COMPLETING, STABLE = ClassicGroupState.COMPLETING, ClassicGroupState.STABLE


Protocols = tuple[tuple[str, bytes], ...]
"""Assignors that a member names, and what it says to each."""


class MemberRecord(NamedTuple):
    """A member of a `GroupRecord`. protocols: see `JoinGroup`."""

    member: str
    session_ms: int
    rebalance_ms: int
    topics: tuple[str, ...]
    assigned: tuple[Partition, ...]
    protocols: Protocols = ()


class GroupRecord(NamedTuple):
    """A generation of a group, written when its leader has assigned the partitions."""

    group: str
    generation: int
    leader: str
    members: tuple[MemberRecord, ...]


@dataclass(slots=True)
class ClassicGroupMember:
    """`heard`: when it last gave a sign of life. joining, syncing: answers its request that waits."""

    member: str
    session_ms: int
    rebalance_ms: int
    topics: tuple[str, ...]
    heard: int
    assigned: tuple[Partition, ...] = ()
    protocols: Protocols = ()
    joining: Answer | None = None
    syncing: Answer | None = None

    def dismiss(self, error: KafkaError) -> None:
        """Answer what waits with an error."""
        if self.joining is not None:
            self.joining(JoinGroupResponse(error))
        if self.syncing is not None:
            self.syncing(SyncGroupResponse(error))
        self.joining = self.syncing = None


@dataclass(slots=True)
class ClassicGroup:
    """See the module. `until`: when the rebalance ends without the members that have not joined.
    `members` by id, in the order in which they came."""

    group: str
    state: ClassicGroupState = EMPTY
    generation: int = 0
    leader: str = ""
    members: dict[str, ClassicGroupMember] = field(default_factory=dict)
    until: int = 0

    @classmethod
    def restored(cls, record: GroupRecord, now: int) -> "ClassicGroup":
        """As its newest record tells it; every member has a whole session from now on."""
        members = {
            m.member: ClassicGroupMember(
                m.member, m.session_ms, m.rebalance_ms, m.topics, now, m.assigned, m.protocols
            )
            for m in record.members
        }
        state = STABLE if members else EMPTY
        return cls(record.group, state, record.generation, record.leader, members)

    def record(self) -> GroupRecord:
        """What is written of this generation."""
        members = tuple(
            MemberRecord(m.member, m.session_ms, m.rebalance_ms, m.topics, m.assigned, m.protocols)
            for m in self.members.values()
        )
        return GroupRecord(self.group, self.generation, self.leader, members)

    # ---- members

    def join(self, member: str, request: JoinGroup, answer: Answer, now: int) -> bool:
        """A member joins, or joins again; whether it asks for what the generation is already."""
        topics, protocols = tuple(request.topics), tuple(request.protocols)
        known = self.members.get(member)
        if known is not None and (known.topics, known.protocols) == (topics, protocols):
            told = self.state is COMPLETING or (self.state is STABLE and member != self.leader)
            if told:
                known.heard = now
                return True
        if known is None:
            known = self.members[member] = ClassicGroupMember(
                member, request.session_ms, request.rebalance_ms, topics, now
            )
        known.session_ms, known.rebalance_ms = request.session_ms, request.rebalance_ms
        known.topics, known.protocols = topics, protocols
        known.heard, known.joining = now, answer
        return False

    def accepts(self, request: JoinGroup) -> bool:
        """Whether the member names an assignor that all others name (ClassicGroup.supportsProtocols)."""
        others = [m for m in self.members.values() if m.member != request.member]
        return not others or bool(_common([tuple(request.protocols), *(m.protocols for m in others)]))

    @property
    def protocol(self) -> str:
        """The assignor that most members prefer, among those that all name; "" = none is named
        (ClassicGroup.selectProtocol)."""
        named = [m.protocols for m in self.members.values()]
        common = _common(named)
        votes = [next((name for name, _ in its if name in common), "") for its in named]
        return max(sorted(set(votes)), key=votes.count, default="")

    def metadata(self) -> dict[str, bytes]:
        """What each member says to the assignor."""
        chosen = self.protocol
        return {name: dict(m.protocols).get(chosen, b"") for name, m in self.members.items()}

    def dismiss(self, error: KafkaError) -> None:
        """Answer all that waits with an error."""
        for member in self.members.values():
            member.dismiss(error)

    def prepare(self, now: int) -> None:
        """A rebalance begins."""
        self.state = PREPARING
        self.until = now + max((m.rebalance_ms for m in self.members.values()), default=0)

    def everybody_joined(self) -> bool:
        """All members have joined."""
        return all(m.joining is not None for m in self.members.values())

    def next_generation(self, now: int, *, bump: bool = True) -> None:
        """The rebalance continues with those who joined."""
        self.members = {name: m for name, m in self.members.items() if m.joining is not None}
        self.generation += bump
        self.leader = next(iter(self.members), "")  # who has been there longest
        self.state = COMPLETING if self.members else EMPTY
        self.until = now + max((m.rebalance_ms for m in self.members.values()), default=0)
        for member in self.members.values():
            member.heard, member.assigned = now, ()

    def silent(self, now: int) -> list[str]:
        """Members that were not heard of for a session, or did not sync in the time of the rebalance. Who
        waits for the others is not silent."""
        late = self.state is COMPLETING and now >= self.until
        return [
            name
            for name, m in self.members.items()
            if (m.joining is None and m.syncing is None and now - m.heard > m.session_ms)
            or (late and m.syncing is None)
        ]


def _common(named: Sequence[Protocols]) -> set[str]:
    """Names of assignors that all have; where none names any, the one without a name."""
    if not any(named):
        return {""}
    return set.intersection(*({name for name, _ in its} for its in named))
