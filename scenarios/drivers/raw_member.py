"""A stage with members of the group "g" who send by hand what consumers send automatically.

    s.joins("A")                    JoinGroup; answered when all have joined the rebalance that it causes
    s.syncs("A", A=(0,), B=(1,))    SyncGroup; the leader of the group brings who gets which partitions
    s.beats("A"), s.leaves("A")     Heartbeat, LeaveGroup
    s.commits("A", 5)               OffsetCommit of partition 0; of "" = a client that is not a member

What each was answered stands in `told`, as in `raw_producer`. `s.position()` is what the coordinator says
of the offset of partition 0.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from core.internal_topics import GROUP_TOPIC
from core.java_hash import java_hash
from model.coordinator.classic_group import ClassicGroup, GroupRecord
from model.coordinator.group_metadata_manager import TOMBSTONE, LoadedPartition, OffsetRecord
from model.errors import KafkaError
from model.protocol.coordinator_messages import (
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    OffsetCommit,
    SyncGroup,
    SyncGroupResponse,
)
from model.protocol.requests import Request
from scenarios.drivers import raw_producer
from scenarios.drivers.cluster import GROUP, TOPIC, A, data
from scenarios.drivers.raw_producer import RawProducerStage, named
from scenarios.framework import look

SESSION_MS = 3000
REBALANCE_MS = 5000


@dataclass(slots=True)
class RawMember:
    """What a member has in hand."""

    member: str = ""
    generation: int = -1


class RawMemberStage(RawProducerStage):
    """See the module."""

    @cached_property
    def members(self) -> dict[str, RawMember]:
        """By name; "" is a client that is not a member."""
        return {"": RawMember()}

    # ---- state

    @property
    def loaded(self) -> LoadedPartition | None:
        """What the group's coordinator has in memory."""
        broker = self.nodes.get(self.coordinator(GROUP, GROUP_TOPIC))
        number = self.number(GROUP, GROUP_TOPIC)
        return broker.coordinators.group_log.loaded.get(number) if broker else None

    @property
    def group(self) -> ClassicGroup | None:
        """The group, as its coordinator knows it."""
        return self.loaded.groups.get(GROUP) if self.loaded is not None else None

    def look(self, column: str) -> object:
        """See `framework.Stage`."""
        return look(COLUMNS, self, column)

    def alias(self, member: str) -> str:
        """The member with this id; "someone" where the stage does not know it."""
        names = (name for name, m in self.members.items() if name and m.member == member)
        return next(names, "someone")

    # ---- what members do

    def _to(self, name: str, request: Request[A], made: Callable[[A], str]) -> Self:
        return self._say(name, request, self.coordinator(GROUP, GROUP_TOPIC), name, made)

    def joins(self, name: str) -> Self:
        """See the module."""
        mine = self.members.setdefault(name, RawMember())

        def made(answer: JoinGroupResponse) -> str:
            if answer.error is not KafkaError.NONE:
                return named(answer)
            mine.member, mine.generation = answer.member, answer.generation
            leads = ", leads" if answer.leader == answer.member else ""
            return f"generation {answer.generation}{leads}"

        request = JoinGroup(GROUP, mine.member, SESSION_MS, REBALANCE_MS, (TOPIC,))
        return self._to(name, request, made)

    def syncs(self, name: str, **assignments: Sequence[int]) -> Self:
        """See the module."""
        mine = self.members[name]
        given = {
            self.members[other].member: tuple(data(n) for n in numbers)
            for other, numbers in assignments.items()
        }

        def made(answer: SyncGroupResponse) -> str:
            if answer.error is not KafkaError.NONE:
                return named(answer)
            return "gets " + (" ".join(f"{t}{n}" for t, n in answer.partitions) or "nothing")

        return self._to(name, SyncGroup(GROUP, mine.generation, mine.member, given), made)

    def beats(self, name: str) -> Self:
        """See the module."""
        mine = self.members[name]
        return self._to(name, Heartbeat(GROUP, mine.generation, mine.member), named)

    def leaves(self, name: str) -> Self:
        """See the module."""
        return self._to(name, LeaveGroup(GROUP, self.members[name].member), named)

    def commits(self, name: str, offset: int, number: int = 0) -> Self:
        """See the module."""
        mine = self.members[name]
        request = OffsetCommit(GROUP, mine.generation, mine.member, {data(number): offset})
        return self._to(name, request, named)

    def wait_beating(self, milliseconds: int, *names: str) -> Self:
        """Time passes, and these members send heartbeats."""
        told = dict(self.told)
        for _ in range(milliseconds // 500):
            self.wait(500)
            for name in names:
                self.beats(name)
        self.told |= {name: told[name] for name in names if self.told[name] == "ok"}
        return self


def two(s: RawMemberStage) -> None:
    """A and B are members, with a partition each."""
    s.joins("A").syncs("A", A=(0, 1)).joins("B").joins("A").syncs("B").syncs("A", A=(0,), B=(1,))


def _members(s: RawMemberStage, _: str) -> object:
    """Members, the leader of the group with an asterisk."""
    group = s.group
    if group is None:
        return None
    return [s.alias(name) + ("*" if name == group.leader else "") for name in group.members]


def _log(s: RawMemberStage, n: str) -> object:
    """The group's partition of `__consumer_offsets`, of the leader or a broker: offsets of partitions,
    generations in brackets."""
    replica = s.replica((GROUP_TOPIC, s.number(GROUP, GROUP_TOPIC)), int(n or -1))
    if replica is None:
        return "down"
    return [brief(record) for _, _, record in replica.log.records()]


def brief(record: object) -> str:
    """An offset of a partition, or a generation in brackets."""
    if isinstance(record, OffsetRecord):
        offset = "–" if record.offset == TOMBSTONE else record.offset
        return f"{record.partition[0]}{record.partition[1]}={offset}"
    assert isinstance(record, GroupRecord)
    return f"[{record.generation}]"


def _where(s: RawMemberStage, _: str) -> object:
    """Hash of the group's name, its partition, who coordinates it."""
    number = s.number(GROUP, GROUP_TOPIC)
    return f"{java_hash(GROUP)} → {number} → broker {s.coordinator(GROUP, GROUP_TOPIC)}"


COLUMNS: Mapping[str, Callable[[RawMemberStage, str], object]] = {
    "group": lambda s, _: f"{s.group.state.value} {s.group.generation}" if s.group is not None else None,
    "members": _members,
    "others learn": lambda s, _: s.told.get(""),
    "offset p0": lambda s, _: s.position(data(0)),
    r"offsets log(?: at (\d))?": _log,
    "coordinator of the group": _where,
    **raw_producer.COLUMNS,
}
