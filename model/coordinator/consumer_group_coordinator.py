"""Membership of consumer groups by heartbeats alone (KIP-848).

A heartbeat says who a member is, what it wants and what it has; the coordinator answers with the member's
epoch and what it is to have. What a heartbeat changes is records of the group's log first, and it is answered
when they are replicated.

Expressions of members are resolved apart from heartbeats, and not more often than every 10 s.

Left out: racks, members of the classic protocol in such a group and the change of a
group with members from one protocol to the other (refused: GROUP_ID_NOT_FOUND, INCONSISTENT_GROUP_PROTOCOL).
Source: KIP-848; GroupMetadataManager.consumerGroupHeartbeat, .consumerGroupLeave, .consumerGroupFenceMembers,
.maybeUpdateRegularExpressions, .handleRegularExpressionsResult
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from model.coordinator.classic_group import EMPTY
from model.coordinator.consumer_group import STABLE, ConsumerGroup, ConsumerGroupMember
from model.coordinator.consumer_group_records import (
    CLASSIC,
    EXPRESSION,
    LEAVES,
    LEAVES_FOR_NOW,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupTombstone,
    OfConsumerGroup,
    member_tombstones,
)
from model.coordinator.current_assignment_builder import UNREVOKED, CurrentAssignmentBuilder
from model.coordinator.group_metadata_manager import GroupMetadataManager, LoadedPartition
from model.coordinator.partition_assignors import ASSIGNORS
from model.coordinator.topic_regex_resolver import REFRESH_MS, check_expression, resolve
from model.errors import NO_ERROR, KafkaError, Refused
from model.protocol.consumer_group_messages import (
    ConsumerGroupDescribe,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumer,
)
from model.protocol.messages import Partition
from model.protocol.requests import Answer, Handlers

UNIFORM: Final = next(iter(ASSIGNORS))


@dataclass(slots=True)
class _Change:
    """A group as it is to be: a copy, with the records that it has and the first one has not."""

    group: ConsumerGroup
    records: list[OfConsumerGroup] = field(default_factory=list)

    def add(self, *records: OfConsumerGroup) -> None:
        """One more record."""
        for record in records:
            self.records.append(record)
            self.group.replay(record)


class ConsumerGroupCoordinator:
    """See the module."""

    def __init__(self, log: GroupMetadataManager) -> None:
        self.log = log
        self.node = log.node
        self.bugs = log.bugs
        self._topics: dict[str, int] = {}
        self._new_version = self._changed_version = 0

    def register(self, handlers: Handlers) -> None:
        """Add its handlers."""
        handlers.on(ConsumerGroupHeartbeat, self._heartbeat, ConsumerGroupHeartbeatResponse)
        handlers.at_once(ConsumerGroupDescribe, self._describe, ConsumerGroupDescribeResponse)

    def _heartbeat(self, request: ConsumerGroupHeartbeat, answer: Answer) -> None:
        """Key 68."""
        _check(request)
        number, loaded = self.log.at(request.group)
        if request.member_epoch in (LEAVES, LEAVES_FOR_NOW):
            change = self._leave(loaded, request)
            response = ConsumerGroupHeartbeatResponse(NO_ERROR, request.member, request.member_epoch)
        else:
            change, response = self._beat(loaded, request)

        def done(error: KafkaError) -> None:
            answer(response if error is NO_ERROR else ConsumerGroupHeartbeatResponse(error))

        self._write(number, loaded, change, done)

    def _write(
        self, number: int, loaded: LoadedPartition, change: _Change, done: Callable[[KafkaError], None]
    ) -> None:
        """Append the records of a change; what the log refuses has not happened."""
        group = change.group

        def written(error: KafkaError) -> None:
            if error is NO_ERROR and change.records:
                loaded.committed[group.group] = group
            done(error)

        if self.log.write(number, tuple(change.records), written):
            loaded.groups.pop(group.group, None)
            loaded.consumer_groups[group.group] = group
            for times in (group.heard, group.until):
                for gone in times.keys() - group.members.keys():
                    del times[gone]

    # ---- heartbeats

    def _beat(
        self, loaded: LoadedPartition, request: ConsumerGroupHeartbeat
    ) -> tuple[_Change, ConsumerGroupHeartbeatResponse]:
        change = self._opened(loaded, request)
        group, name = change.group, request.member
        assignor = _assignor(group)
        before = self._static(change, request) if request.instance else self._dynamic(change, request)
        topics = before.topics if request.topics is None else tuple(sorted(set(request.topics)))
        member = replace(
            before,
            topics=topics,
            instance=request.instance or before.instance,
            rebalance_ms=before.rebalance_ms if request.rebalance_ms < 0 else request.rebalance_ms,
            assignor=request.assignor or before.assignor,
            regex=before.regex if request.regex is None else request.regex,
        )
        counts = group.expressions()
        if member != before or name not in group.members:
            change.add(member.said(group.group))
        resolved = self._expressions(change, before.regex, member.regex, counts)
        raises = (topics != before.topics or resolved) and "subscription-keeps-epoch" not in self.bugs
        if self.node.settings.era.assignor_raises_epoch:
            raises = raises or _assignor(group) != assignor
        self._refresh(change, raises=raises or group.epoch == 0)
        if group.assignment_epoch < group.epoch and self._may_assign(group):
            self._assign(change)
        self._reconcile(
            change, name, request, changed=(topics, member.regex) != (before.topics, before.regex)
        )
        group.heard[name] = self.node.now
        member = group.members[name]
        subscribes = request.topics is not None or request.regex is not None
        whole = request.rebalance_ms >= 0 and subscribes and request.owned is not None
        shown = request.member_epoch == 0 or whole or member.assigned != before.assigned
        assignment = tuple(sorted(member.assigned)) if shown else None
        every = self.node.settings.consumer_heartbeat_ms
        return change, ConsumerGroupHeartbeatResponse(NO_ERROR, name, member.epoch, every, assignment)

    def _opened(self, loaded: LoadedPartition, request: ConsumerGroupHeartbeat) -> _Change:
        """A change of the group, which is new where a member joins. Raises: Refused (GROUP_ID_NOT_FOUND)."""
        name, joins = request.group, request.member_epoch == 0
        known, classic = loaded.consumer_groups.get(name), loaded.groups.get(name)
        if known is not None:
            return _Change(known.copy())
        if not joins or (classic is not None and classic.state is not EMPTY):
            raise Refused(KafkaError.GROUP_ID_NOT_FOUND)
        change = _Change(ConsumerGroup.new(name, self.node.settings.era))
        if classic is not None:
            change.records.append(GroupTombstone(CLASSIC, name))
        return change

    def _dynamic(self, change: _Change, request: ConsumerGroupHeartbeat) -> ConsumerGroupMember:
        """The member; a new one where it joins. Raises: Refused (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH)."""
        known = change.group.members.get(request.member)
        if known is None and request.member_epoch == 0:
            return ConsumerGroupMember(member=request.member)
        known = change.group.member(request.member)
        self._check_epoch(known, request)
        return known

    def _static(self, change: _Change, request: ConsumerGroupHeartbeat) -> ConsumerGroupMember:
        """The member with this instance id. Who joins with it takes the place of one that left for now.
        Raises: Refused (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, FENCED_MEMBER_EPOCH).
        """
        group, known = change.group, change.group.static(request.instance)
        if request.member_epoch != 0:
            known = _of_instance(known, request)
            self._check_epoch(known, request)
            return known
        if known is None:
            return ConsumerGroupMember(member=request.member)
        if known.epoch != LEAVES_FOR_NOW:
            raise Refused(KafkaError.UNRELEASED_INSTANCE_ID)
        target = group.targets.get(known.member, ())
        new = replace(known, member=request.member, epoch=0, previous_epoch=0)
        change.add(*member_tombstones(group.group, known.member), new.said(group.group))
        change.add(ConsumerGroupTargetAssignmentMember(group.group, new.member, target))
        change.add(new.has(group.group))
        return new

    def _check_epoch(self, member: ConsumerGroupMember, request: ConsumerGroupHeartbeat) -> None:
        """Who comes with the epoch before the present one did not get its last answer; what it has, it still
        may have (throwIfConsumerGroupMemberEpochIsInvalid). Raises: Refused (FENCED_MEMBER_EPOCH)."""
        epoch, owned = request.member_epoch, request.owned
        if epoch == member.epoch or (epoch == 0 and self.node.settings.era.rejoins_with_epoch_zero):
            return
        lost = epoch == member.previous_epoch and owned is not None and member.assigned.keys() >= set(owned)
        if epoch > member.epoch or not lost:
            raise Refused(KafkaError.FENCED_MEMBER_EPOCH)

    def _refresh(self, change: _Change, *, raises: bool) -> None:
        """A new epoch, where there are other topics than before, too. Whether there are is asked with a new
        epoch, and where topics changed: an expression that is taken back raises none
        (ModernGroup.hasMetadataExpired; Kafka looks at changes of the group's topics alone)."""
        group = change.group
        self._look_at_topics()
        if not raises and group.refreshed >= self._changed_version:
            return
        group.refreshed = self._changed_version
        metadata = self._metadata(group)
        if raises or metadata != group.metadata:
            change.add(ConsumerGroupMetadata(group.group, group.epoch + 1, metadata))

    def _metadata(self, group: ConsumerGroup) -> tuple[tuple[str, int], ...]:
        """The topics that members want, as far as there are any of these names."""
        wanted = {topic for member in group.members.values() for topic in group.wanted(member)}
        found = Counter(topic for topic, _ in self.node.image.partitions if topic in wanted)
        return tuple(sorted(found.items()))

    def _may_assign(self, group: ConsumerGroup) -> bool:
        """Enough time has passed since the last assignment (canComputeNextTargetAssignment)."""
        settings = self.node.settings
        if not settings.era.assignments_spaced or not group.assigned_ms:
            return True
        return self.node.now >= group.assigned_ms + settings.consumer_assignment_ms

    def _assign(self, change: _Change) -> None:
        """New targets, for the present epoch of the group (TargetAssignmentBuilder)."""
        group = change.group
        parts: dict[str, list[tuple[str, int]]] = {}
        for tp in sorted(self.node.image.partitions):
            parts.setdefault(tp[0], []).append(tp)
        wanted = {
            name: [tp for topic in group.wanted(member) for tp in parts.get(topic, ())]
            for name, member in group.members.items()
        }
        targets = ASSIGNORS[_assignor(group)](wanted, group.targets)
        for name in wanted:
            if group.targets.get(name) != targets[name]:
                change.add(ConsumerGroupTargetAssignmentMember(group.group, name, targets[name]))
        at_ms = self.node.now if self.node.settings.era.assignments_spaced else 0
        change.add(ConsumerGroupTargetAssignmentMetadata(group.group, group.epoch, at_ms))

    def _reconcile(
        self, change: _Change, name: str, request: ConsumerGroupHeartbeat, *, changed: bool
    ) -> None:
        """One step of a member towards its target (maybeReconcile)."""
        group = change.group
        member = group.members[name]
        if not changed and member.state is STABLE and member.epoch == group.assignment_epoch:
            return
        built = CurrentAssignmentBuilder(
            member=member,
            topics=group.wanted(member),
            target=group.targets.get(name, ()),
            target_epoch=group.assignment_epoch,
            # With a planted bug two members have a partition until the first one has given it up.
            taken=() if "partition-given-before-release" in self.bugs else group.owned(),
            owned=request.owned,
            changed=changed,
        ).build()
        if built == member:
            return
        change.add(built.has(group.group))
        group.until.pop(name, None)
        if built.state is UNREVOKED:
            group.until[name] = (self.node.now + built.rebalance_ms, built.epoch)

    # ---- expressions

    def _expressions(self, change: _Change, old: str, new: str, counts: Counter[str]) -> bool:
        """A member has another expression than before. counts: members by expression, before. The result:
        what it wants now is known, and other than before. Raises: Refused (INVALID_REGULAR_EXPRESSION)."""
        group = change.group
        last = next(iter(group.resolved.values()), None)
        unknown = len(group.resolved)
        brings = new != old and bool(new) and not counts[new]
        if brings:
            check_expression(new)
        resolved = new != old and (new in group.resolved if new else bool(old))
        if new != old and old and counts[old] == 1:
            change.add(GroupTombstone(EXPRESSION, group.group, regex=old))
        wanted = group.expressions()
        if not wanted or group.unresolved:
            return resolved
        self._look_at_topics()
        if last is not None and self.node.now <= last.at_ms + REFRESH_MS:
            return resolved
        if brings or len(wanted) != unknown or (last.version if last is not None else 0) < self._new_version:
            group.unresolved = tuple(sorted(wanted))
        return resolved

    def _look_at_topics(self) -> None:
        """Note the versions of the metadata with which topics were new, or were other ones."""
        image = self.node.image
        if image.topics.keys() - self._topics.keys():
            self._new_version = image.offset
        if image.topics != self._topics:
            self._changed_version = image.offset
            self._topics = dict(image.topics)

    def _resolved(self, before: ConsumerGroup) -> _Change:
        """What the group's expressions stand for now; other topics are a new epoch."""
        change = _Change(before.copy())
        group, image = change.group, self.node.image
        group.unresolved = ()
        self._look_at_topics()
        subscribed = group.expressions()
        changed = False
        for regex, one in resolve(before.unresolved, image.topics, image.offset, self.node.now).items():
            if subscribed[regex]:
                known = group.resolved.get(regex)
                changed |= one.topics != (known.topics if known is not None else ())
                change.add(ConsumerGroupRegularExpression(group.group, regex, *one))
        metadata = self._metadata(group)
        if changed or metadata != group.metadata:
            group.refreshed = self._changed_version
            change.add(ConsumerGroupMetadata(group.group, group.epoch + 1, metadata))
        return change

    # ---- the end of members

    def _leave(self, loaded: LoadedPartition, request: ConsumerGroupHeartbeat) -> _Change:
        known = loaded.consumer_groups.get(request.group)
        if known is None:
            raise Refused(KafkaError.GROUP_ID_NOT_FOUND)
        change = _Change(known.copy())
        if not request.instance:
            self._remove(change, [known.member(request.member).member])
            return change
        member = _of_instance(known.static(request.instance), request)
        if request.member_epoch == LEAVES:
            self._remove(change, [member.member])
            return change
        # Who comes back has had the partitions since epoch 0 (consumerGroupStaticMemberGroupLeave).
        held = dict.fromkeys(member.assigned, 0)
        change.add(replace(member, epoch=LEAVES_FOR_NOW, assigned=held, revoking={}).has(request.group))
        return change

    def _remove(self, change: _Change, names: Sequence[str]) -> None:
        group = change.group
        counts = group.expressions()
        for name in names:
            change.add(*member_tombstones(group.group, name))
        for regex in counts.keys() - group.expressions().keys():
            change.add(GroupTombstone(EXPRESSION, group.group, regex=regex))
        change.add(ConsumerGroupMetadata(group.group, group.epoch + 1, self._metadata(group)))

    def tick(self) -> None:
        """Remove members that are silent, or did not give up in time. Resolve expressions."""
        for number, loaded in self.log.loaded.items():
            for group in list(loaded.consumer_groups.values()):
                late = self._late(group)
                if late:
                    change = _Change(group.copy())
                    self._remove(change, late)
                    self._write(number, loaded, change, lambda _: None)
                elif group.unresolved:
                    self._write(number, loaded, self._resolved(group), lambda _: None)

    def _late(self, group: ConsumerGroup) -> list[str]:
        now, session = self.node.now, self.node.settings.consumer_session_ms
        found = []
        for name, member in group.members.items():
            until, epoch = group.until.get(name, (now + 1, 0))
            if now - group.heard[name] > session or (now >= until and member.epoch == epoch):
                found.append(name)
        return found

    # ---- questions

    def _describe(self, request: ConsumerGroupDescribe) -> ConsumerGroupDescribeResponse:
        """Key 69: what of the group is committed."""
        _, loaded = self.log.at(request.group)
        group = loaded.committed.get(request.group)
        if group is None:
            raise Refused(KafkaError.GROUP_ID_NOT_FOUND)
        members = {
            name: DescribedConsumer(
                m.epoch, m.instance, m.topics, self._held(m), group.targets.get(name, ()), m.regex
            )
            for name, m in group.members.items()
        }
        assignor, state = _assignor(group), group.state
        return ConsumerGroupDescribeResponse(
            NO_ERROR, state, group.epoch, group.assignment_epoch, assignor, members
        )

    def _held(self, member: ConsumerGroupMember) -> tuple[Partition, ...]:
        """What a member has, by the words of its coordinator."""
        going = member.revoking if self.node.settings.era.revoking_described else ()
        return tuple(sorted({*member.assigned, *going}))


def _check(request: ConsumerGroupHeartbeat) -> None:
    """GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.

    Raises: Refused (INVALID_REQUEST, UNSUPPORTED_ASSIGNOR).
    """
    epoch = request.member_epoch
    joins_without = epoch == 0 and (
        request.rebalance_ms < 0
        or request.owned is None
        or len(request.owned) > 0
        or (request.topics is None and request.regex is None)
    )
    unnamed = epoch == LEAVES_FOR_NOW and not request.instance
    if not request.member or not request.group or joins_without or unnamed or epoch < LEAVES_FOR_NOW:
        raise Refused(KafkaError.INVALID_REQUEST)
    if request.assignor and request.assignor not in ASSIGNORS:
        raise Refused(KafkaError.UNSUPPORTED_ASSIGNOR)


def _of_instance(known: ConsumerGroupMember | None, request: ConsumerGroupHeartbeat) -> ConsumerGroupMember:
    """The static member, if it is the one that asks.

    Raises: Refused (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID).
    """
    if known is None:
        raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
    if known.member != request.member:
        raise Refused(KafkaError.FENCED_INSTANCE_ID)
    return known


def _assignor(group: ConsumerGroup) -> str:
    """The one that most members ask for (ConsumerGroup.preferredServerAssignor)."""
    asked = Counter(m.assignor for m in group.members.values() if m.assignor)
    return asked.most_common(1)[0][0] if asked else UNIFORM
