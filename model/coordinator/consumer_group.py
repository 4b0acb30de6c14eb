"""One consumer group: members, epochs, what each is to have and what it has (KIP-848; Kafka's ConsumerGroup).

The state is the replay of the group's records. The group epoch rises with what members want and with who is
there; targets are computed for a group epoch (the assignment epoch); each member moves on to them by its own
heartbeats, which gives it that epoch (the member epoch).

    Empty → Assigning → Reconciling → Stable → Assigning → …
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from model.coordinator.consumer_group_records import (
    CURRENT,
    EXPRESSION,
    LEAVES,
    MEMBER,
    TARGET,
    TARGETS,
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupTombstone,
    MemberState,
    OfConsumerGroup,
)
from model.coordinator.topic_regex_resolver import ResolvedRegularExpression
from model.eras import Era
from model.errors import KafkaError, Refused
from model.protocol.messages import Partition

STABLE: Final = MemberState.STABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember:
    """See the records. assigned, revoking: since which member epoch it has each partition."""

    member: str
    instance: str = ""
    topics: tuple[str, ...] = ()
    rebalance_ms: int = -1
    assignor: str = ""
    regex: str = ""
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = STABLE
    assigned: Mapping[Partition, int] = field(default_factory=dict)
    revoking: Mapping[Partition, int] = field(default_factory=dict)

    def said(self, group: str) -> ConsumerGroupMemberMetadata:
        """The record of what it said of itself."""
        return ConsumerGroupMemberMetadata(
            group, self.member, self.topics, self.rebalance_ms, self.instance, self.assignor, self.regex
        )

    def has(self, group: str) -> ConsumerGroupCurrentMemberAssignment:
        """The record of what it has."""
        held, going = tuple(sorted(self.assigned.items())), tuple(sorted(self.revoking.items()))
        return ConsumerGroupCurrentMemberAssignment(
            group, self.member, self.epoch, self.previous_epoch, self.state, held, going
        )


@dataclass(slots=True)
class ConsumerGroup:
    """See the module. `members` by id, in the order in which they came. Times of the coordinator, which no
    record has: `heard` of members; `until`: when one has to have given up its partitions, and the member
    epoch that it then has to have left; `unresolved`: expressions that are resolved next; `refreshed`: up to
    which change of topics `metadata` are looked at. `resolved`: what expressions of members stand for."""

    group: str
    epoch: int = 0
    metadata: tuple[tuple[str, int], ...] = ()
    assignment_epoch: int = 0
    assigned_ms: int = 0
    members: dict[str, ConsumerGroupMember] = field(default_factory=dict)
    targets: dict[str, tuple[Partition, ...]] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    until: dict[str, tuple[int, int]] = field(default_factory=dict)
    resolved: dict[str, ResolvedRegularExpression] = field(default_factory=dict)
    unresolved: tuple[str, ...] = ()
    refreshed: int = -1

    @classmethod
    def new(cls, group: str, era: Era) -> Self:
        """A group without records."""
        begin = int(era.begins_in_epoch_one)
        return cls(group, epoch=begin, assignment_epoch=begin)

    def copy(self) -> "ConsumerGroup":
        """A group that changes without this one, but for its times."""
        return replace(
            self, members=dict(self.members), targets=dict(self.targets), resolved=dict(self.resolved)
        )

    def restart(self, now: int) -> None:
        """A coordinator has read the group's records: its times begin."""
        self.heard = dict.fromkeys(self.members, now)
        self.until = {
            name: (now + member.rebalance_ms, member.epoch)
            for name, member in self.members.items()
            if member.state is MemberState.UNREVOKED_PARTITIONS
        }

    def forget_owners(self) -> None:
        """With a planted bug: what members have is not known any more; who they are, is."""
        for name, member in self.members.items():
            self.members[name] = replace(member, state=STABLE, assigned={}, revoking={})

    @property
    def state(self) -> str:
        """Kafka's name (ConsumerGroup.maybeUpdateGroupState)."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        reconciled = all(
            m.state is STABLE and m.epoch == self.assignment_epoch for m in self.members.values()
        )
        return "Stable" if reconciled else "Reconciling"

    def replay(self, record: OfConsumerGroup) -> None:
        """The next record of the group."""
        match record:
            case ConsumerGroupMetadata(_, epoch, metadata):
                self.epoch, self.metadata = epoch, metadata
            case ConsumerGroupMemberMetadata(_, name, topics, rebalance_ms, instance, assignor, regex):
                self.members[name] = replace(
                    self._known(name),
                    topics=topics,
                    rebalance_ms=rebalance_ms,
                    instance=instance,
                    assignor=assignor,
                    regex=regex,
                )
            case ConsumerGroupTargetAssignmentMember(_, name, partitions):
                self.targets[name] = partitions
            case ConsumerGroupTargetAssignmentMetadata(_, epoch, at_ms):
                self.assignment_epoch, self.assigned_ms = epoch, at_ms
            case ConsumerGroupCurrentMemberAssignment(_, name, epoch, before, state, assigned, revoking):
                self.members[name] = replace(
                    self._known(name),
                    epoch=epoch,
                    previous_epoch=before,
                    state=MemberState(state),
                    assigned=dict(assigned),
                    revoking=dict(revoking),
                )
            case ConsumerGroupRegularExpression(_, regex, topics, version, at_ms):
                self.resolved[regex] = ResolvedRegularExpression(topics, version, at_ms)
            case GroupTombstone():
                self._take_back(record)

    def _known(self, name: str) -> ConsumerGroupMember:
        return self.members.get(name) or ConsumerGroupMember(member=name)

    def _take_back(self, record: GroupTombstone) -> None:
        known = self.members.get(record.member)
        if record.what == TARGETS:
            self.assignment_epoch, self.assigned_ms = -1, 0
        elif record.what == TARGET:
            self.targets.pop(record.member, None)
        elif record.what == EXPRESSION:
            self.resolved.pop(record.regex, None)
        elif record.what == MEMBER:
            self.members.pop(record.member, None)
        elif record.what == CURRENT and known is not None:
            self.members[record.member] = replace(
                known, epoch=LEAVES, previous_epoch=LEAVES, assigned={}, revoking={}
            )

    # ---- questions

    def expressions(self) -> Counter[str]:
        """How many members subscribe by each expression."""
        return Counter(m.regex for m in self.members.values() if m.regex)

    def wanted(self, member: ConsumerGroupMember) -> tuple[str, ...]:
        """The topics that a member wants, by name and by what is known of its expression."""
        found = self.resolved.get(member.regex)
        return tuple(sorted({*member.topics, *(found.topics if found is not None else ())}))

    def owned(self) -> set[Partition]:
        """Partitions that some member has, or has still to give up."""
        return {tp for m in self.members.values() for held in (m.assigned, m.revoking) for tp in held}

    def static(self, instance: str) -> ConsumerGroupMember | None:
        """The member with this instance id."""
        return next((m for m in self.members.values() if m.instance == instance), None)

    def member(self, name: str) -> ConsumerGroupMember:
        """The member of this id. Raises: Refused (UNKNOWN_MEMBER_ID)."""
        found = self.members.get(name)
        if found is None:
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
        return found

    def may_fetch(self, name: str, epoch: int) -> None:
        """Refuse a fetch of offsets that is not of a member in its present epoch
        (ConsumerGroup.validateOffsetFetch). Raises: Refused (UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH)."""
        if (name or epoch >= 0) and epoch != self.member(name).epoch:
            raise Refused(KafkaError.STALE_MEMBER_EPOCH)

    def may_commit(
        self, name: str, epoch: int, partitions: Iterable[Partition], *, by_assignment: bool
    ) -> None:
        """Refuse a commit that is not of a member in its present epoch; by_assignment: nor in an earlier
        one, since which it has had the partitions (KIP-1251; ConsumerGroup.validateOffsetCommit).

        Raises: Refused (UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH).
        """
        member = self.member(name)
        if epoch == member.epoch:
            return
        if epoch > member.epoch or not by_assignment:
            raise Refused(KafkaError.STALE_MEMBER_EPOCH)
        for tp in partitions:
            since = member.assigned.get(tp, member.revoking.get(tp))
            if since is None or epoch < since:
                raise Refused(KafkaError.STALE_MEMBER_EPOCH)
