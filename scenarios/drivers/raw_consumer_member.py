"""A stage with members of the consumer group "g" (KIP-848) who send by hand what consumers send themselves.

    s.joins("A")               ConsumerGroupHeartbeat with epoch 0; `instance`: of a static member; `regex`:
                               of one that subscribes by an expression, else by the name of the topic
    s.beats("A", 0, 1)         ConsumerGroupHeartbeat of a member that says that it has p0 and p1
    s.leaves("A")              ConsumerGroupHeartbeat with epoch -1; `for_now`: -2
    s.commits("A", 5)          OffsetCommit of partition 0 in the member's epoch

What each was answered stands in `told`, as in `raw_producer`: "2: p0 p1" is a member epoch and an assignment,
"2" the same epoch and nothing new to have.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from core.internal_topics import GROUP_TOPIC
from model.coordinator.consumer_group import ConsumerGroup
from model.coordinator.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupTombstone,
    MemberState,
)
from model.coordinator.group_metadata_manager import TOMBSTONE, OffsetRecord
from model.errors import KafkaError
from model.protocol.consumer_group_messages import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse
from model.protocol.coordinator_messages import OffsetCommit
from model.protocol.messages import Partition
from scenarios.drivers import raw_producer
from scenarios.drivers.cluster import GROUP, TOPIC, data
from scenarios.drivers.raw_producer import RawProducerStage, named
from scenarios.framework import look

REBALANCE_MS = 5000
APART_MS = 1000
"""Distance between two assignments (Settings.consumer_assignment_ms)."""
STATES = {MemberState.UNREVOKED_PARTITIONS: " unrevoked", MemberState.UNRELEASED_PARTITIONS: " unreleased"}


@dataclass(slots=True)
class RawConsumer:
    """What a member has in hand. member: its id."""

    member: str
    instance: str = ""
    epoch: int = 0


class RawConsumerStage(RawProducerStage):
    """See the module."""

    @cached_property
    def consumers(self) -> dict[str, RawConsumer]:
        """Members by name."""
        return {}

    # ---- state

    @property
    def group(self) -> ConsumerGroup | None:
        """The group, as its coordinator knows it."""
        broker = self.nodes.get(self.coordinator(GROUP, GROUP_TOPIC))
        if broker is None:
            return None
        loaded = broker.coordinators.group_log.loaded.get(self.number(GROUP, GROUP_TOPIC))
        return loaded.consumer_groups.get(GROUP) if loaded is not None else None

    @property
    def epochs(self) -> tuple[int, int, int]:
        """The first three epochs of a group, from that of the first member on."""
        first = ConsumerGroup.new(GROUP, self.settings.era).epoch + 1
        return first, first + 1, first + 2

    def look(self, column: str) -> object:
        """See `framework.Stage`."""
        return look(COLUMNS, self, column)

    # ---- what members do

    def joins(self, name: str, *, instance: str = "", regex: str | None = None) -> Self:
        """See the module. Who joins again has nothing, and keeps its id."""
        mine = self.consumers.setdefault(name, RawConsumer(name, instance))
        mine.epoch = 0
        return self._beat(
            name, rebalance_ms=REBALANCE_MS, topics=(TOPIC,) if regex is None else (), owned=(), regex=regex
        )

    def beats(self, name: str, *owned: int) -> Self:
        """See the module."""
        return self._beat(name, owned=tuple(map(data, owned)))

    def leaves(self, name: str, *, for_now: bool = False) -> Self:
        """See the module."""
        self.consumers[name].epoch = -2 if for_now else -1
        return self._beat(name)

    def _beat(
        self,
        name: str,
        rebalance_ms: int = -1,
        topics: Sequence[str] | None = None,
        owned: Sequence[Partition] | None = None,
        regex: str | None = None,
    ) -> Self:
        mine = self.consumers[name]
        request = ConsumerGroupHeartbeat(
            GROUP, mine.member, mine.epoch, mine.instance, rebalance_ms, topics, owned, regex=regex
        )

        def made(answer: ConsumerGroupHeartbeatResponse) -> str:
            if answer.error is not KafkaError.NONE:
                return named(answer)
            mine.epoch = answer.member_epoch
            if answer.assignment is None:
                return str(answer.member_epoch)
            return f"{answer.member_epoch}: {_names(answer.assignment)}"

        return self._say(name, request, self.coordinator(GROUP, GROUP_TOPIC), name, made)

    def commits(self, name: str, offset: int, number: int = 0) -> Self:
        """See the module."""
        mine = self.consumers[name]
        request = OffsetCommit(GROUP, mine.epoch, mine.member, {data(number): offset}, newer=True)
        return self._say(name, request, self.coordinator(GROUP, GROUP_TOPIC), name, named)

    def wait_beating(self, milliseconds: int, name: str, *owned: int) -> Self:
        """Time passes, and this member sends heartbeats."""
        told = self.told[name]
        for _ in range(milliseconds // 500):
            self.wait(500).beats(name, *owned)
        self.told[name] = told
        return self


def shared(s: RawConsumerStage) -> None:
    """A has p0, B has p1, both with epoch 2."""
    s.joins("A").wait(APART_MS).joins("B").beats("A", 0, 1).beats("A", 0).beats("B")


def _names(partitions: Sequence[Partition]) -> str:
    return " ".join(f"{topic}{number}" for topic, number in partitions) or "nothing"


def _member(s: RawConsumerStage, name: str) -> object:
    """Epoch and partitions of a member; those that it has still to give up in brackets, and its state."""
    group, mine = s.group, s.consumers.get(name)
    member = group.members.get(mine.member) if group is not None and mine is not None else None
    if member is None:
        return None
    return in_words(member.epoch, member.assigned, member.revoking, member.state)


def in_words(epoch: int, assigned: Iterable[Partition], revoking: Iterable[Partition], state: int) -> str:
    """A member: "1: p0 (p1) unrevoked"."""
    going = sorted(revoking)
    leaving = f" ({_names(going)})" if going else ""
    return f"{epoch}: {_names(sorted(assigned))}{leaving}{STATES.get(MemberState(state), '')}"


def _expression(s: RawConsumerStage, regex: str) -> object:
    """The topics that an expression of members stands for."""
    found = s.group.resolved.get(regex) if s.group is not None else None
    return sorted(found.topics) if found is not None else None


def _log(s: RawConsumerStage, n: str) -> object:
    """The group's partition of `__consumer_offsets`, of the leader or a broker."""
    replica = s.replica((GROUP_TOPIC, s.number(GROUP, GROUP_TOPIC)), int(n or -1))
    if replica is None:
        return "down"
    return [brief(record) for _, _, record in replica.log.records()]


def brief(record: object) -> str:
    """In few words: "[2]" an epoch of the group, "→2" one of its targets, "A?" what a member said of itself,
    "A→p0" its target, "A=2:p0" what it has, a minus before what is taken back, "p0=3" an offset."""
    match record:
        case OffsetRecord(_, (topic, number), offset):
            return f"{topic}{number}={'–' if offset == TOMBSTONE else offset}"
        case ConsumerGroupMetadata(_, epoch):
            return f"[{epoch}]"
        case ConsumerGroupTargetAssignmentMetadata(_, epoch):
            return f"→{epoch}"
        case ConsumerGroupMemberMetadata(_, member):
            return f"{member}?"
        case ConsumerGroupTargetAssignmentMember(_, member, partitions):
            return f"{member}→{_joined(partitions)}"
        case ConsumerGroupCurrentMemberAssignment(_, member, epoch, _, _, assigned):
            return f"{member}={epoch}:{_joined([tp for tp, _ in assigned])}"
        case ConsumerGroupRegularExpression(_, regex, topics):
            return f"/{regex}/={','.join(topics) or '–'}"
        case GroupTombstone(_, _, member, regex):
            return f"-{member or regex}"
    return "?"


def _joined(partitions: Sequence[Partition]) -> str:
    return ",".join(f"{topic}{number}" for topic, number in partitions) or "–"


COLUMNS: Mapping[str, Callable[[RawConsumerStage, str], object]] = {
    "consumer group": lambda s, _: f"{s.group.state} {s.group.epoch}" if s.group is not None else None,
    r"member ([A-Z]\d?)": _member,
    r"expression (.+)": _expression,
    "offset p0": lambda s, _: s.position(data(0)),
    r"consumers log(?: at (\d))?": _log,
    "coordinator of the group": lambda s, _: f"broker {s.coordinator(GROUP, GROUP_TOPIC)}",
    **raw_producer.COLUMNS,
}
