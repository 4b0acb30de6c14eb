"""The log of the group coordinator (`__consumer_offsets`), record by record: groups and their members.

Of a classic group the log has each generation that got an assignment, or came to have no members. Of a group
of KIP-848 (consumer, share, streams) it has every change: its epochs, its members, the assignment
that is meant for each, and the one that each has.

Left out, as a record says neither who wrote it nor by what right: whether a commit came from a member of the
generation, which offsets a group may commit, and when those of a transaction take effect (when its marker
is there; that the marker is the right one is a question of the partition, `data_partition`). A group may be
removed and come again, and a client without membership may commit under any name at any time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from core.java_hash import java_hash
from model.accepting.refusal import Refusal
from model.protocol.messages import Partition

CLASSIC = "classic"
CONSUMER = "consumer"


class GenerationMember(NamedTuple):
    """assigned: None = its form is not known. static: it has an instance id (KIP-345), and
    may come again under another name."""

    member: str
    assigned: tuple[Partition, ...] | None = ()
    static: bool = False


class Generation(NamedTuple):
    """A classic group. leader: "" = none."""

    group: str
    generation: int
    leader: str
    members: tuple[GenerationMember, ...]


class GroupEpoch(NamedTuple):
    """A group of KIP-848 of this kind changed."""

    kind: str
    group: str
    epoch: int


class GroupMember(NamedTuple):
    """A member is there, and wants these topics. static: as of `GenerationMember`. regex: it wants topics
    of such names, too; "" = it has no expression."""

    kind: str
    group: str
    member: str
    topics: frozenset[str] = frozenset()
    static: bool = False
    regex: str = ""


class TargetMember(NamedTuple):
    """What a member is to have."""

    kind: str
    group: str
    member: str
    partitions: tuple[Partition, ...] = ()


class TargetEpoch(NamedTuple):
    """All targets are those of this epoch of the group."""

    kind: str
    group: str
    epoch: int


class CurrentMember(NamedTuple):
    """What a member has, and has not given up yet; -1 and -2 are epochs of one that leaves. stable: it has
    nothing to give up, and waits for nothing."""

    kind: str
    group: str
    member: str
    epoch: int
    partitions: tuple[Partition, ...] = ()
    stable: bool = False


class Tombstone(NamedTuple):
    """A tombstone. what: type of the record that it is for. kind: CLASSIC, or as in the records."""

    what: type
    kind: str
    group: str
    member: str = ""


GroupRecord = Generation | GroupEpoch | GroupMember | TargetMember | TargetEpoch | CurrentMember | Tombstone


@dataclass(slots=True)
class _Group:
    """A group of KIP-848. epoch, assignment_epoch: -1 = no record has it yet. members: the topics that each
    wants. changed: members that want other topics than when the group got its epoch. expressions: of members
    that have one; rewritten: members that have had another one since the group got its epoch."""

    kind: str
    epoch: int = -1
    assignment_epoch: int = -1
    members: dict[str, frozenset[str]] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    expressions: dict[str, str] = field(default_factory=dict)
    rewritten: set[str] = field(default_factory=set)
    targets: dict[str, tuple[Partition, ...]] = field(default_factory=dict)
    current: dict[str, CurrentMember] = field(default_factory=dict)


@dataclass(slots=True)
class OffsetsLog:
    """See the module. `whole`: nothing of the log is gone by compaction. number, count: of the partition, and
    how many there are; 0 = unknown. `asked`: rule -> how often."""

    whole: bool = True
    number: int = 0
    count: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    generations: dict[str, Generation] = field(default_factory=dict)
    _groups: dict[str, _Group] = field(default_factory=dict)

    def accept(self, offset: int, record: GroupRecord) -> Iterator[Refusal]:
        """The next record; what no coordinator would have written."""
        match record:
            case Generation():
                yield from self._generation(offset, record)
            case Tombstone():
                self._removed(record)
            case _:
                yield from self._one_type(offset, record)
                yield from self._modern(offset, self._of(record.kind, record.group), record)

    def _of(self, kind: str, group: str) -> _Group:
        return self._groups.setdefault(group, _Group(kind))

    def _refused(self, rule: str, offset: int, why: str, before: str = "") -> Refusal:
        return Refusal(rule=rule, offset=offset, why=why, before=before)

    def placed(self, offset: int, group: str) -> Iterator[Refusal]:
        """A record of any kind is of this group: the partition is the one of its coordinator."""
        if not self.count:
            return
        self.asked["group-place"] += 1
        belongs = java_hash(group) % self.count
        if belongs != self.number:
            yield self._refused("group-place", offset, f"the hash of group {group} names partition {belongs}")

    # ---- classic groups

    def _generation(self, offset: int, record: Generation) -> Iterator[Refusal]:
        group = record.group
        known = self.generations.get(group)
        self.generations[group] = record
        what = f"group {group} is written with generation {record.generation}"
        self.asked["one-group-type"] += 1
        if (modern := self._groups.get(group)) is not None and modern.epoch >= 0:
            before = f"it is a {modern.kind} group with epoch {modern.epoch}"
            yield self._refused("one-group-type", offset, f"{what} of the classic protocol", before)
        names = {one.member for one in record.members}
        if record.members:
            self.asked["generation-has-leader"] += 1
            if record.leader not in names:
                why = f"{what}, whose leader {record.leader or 'none'} is not one of {_list(names)}"
                yield self._refused("generation-has-leader", offset, why)
        yield from self._assigned_once(offset, what, {one.member: one.assigned for one in record.members})
        if known is None:
            return
        self.asked["generations-rise"] += 1
        mine, theirs = ({one.member for one in two.members if not one.static} for two in (record, known))
        before = f"generation {known.generation} of {_list(theirs)}"
        if record.generation < known.generation:
            yield self._refused("generations-rise", offset, what, before)
        elif record.generation == known.generation and theirs and mine != theirs:
            yield self._refused("generations-rise", offset, f"{what} once more, of {_list(mine)}", before)

    def _assigned_once(
        self, offset: int, what: str, owned: dict[str, tuple[Partition, ...] | None]
    ) -> Iterator[Refusal]:
        if not any(owned.values()):
            return
        self.asked["one-owner"] += 1
        owner: dict[Partition, str] = {}
        for member, partitions in owned.items():
            for tp in partitions or ():
                if owner.setdefault(tp, member) != member:
                    why = f"{what}: {tp[0]}-{tp[1]} is assigned to {owner[tp]} and to {member}"
                    yield self._refused("one-owner", offset, why)

    # ---- groups of KIP-848

    def _one_type(
        self, offset: int, record: GroupEpoch | GroupMember | TargetMember | TargetEpoch | CurrentMember
    ) -> Iterator[Refusal]:
        self.asked["one-group-type"] += 1
        classic, known = self.generations.get(record.group), self._groups.get(record.group)
        what = f"a record of a {record.kind} group is written for {record.group}"
        if classic is not None:
            before = f"it is a classic group with generation {classic.generation}"
            yield self._refused("one-group-type", offset, what, before)
        elif known is not None and known.kind != record.kind:
            yield self._refused("one-group-type", offset, what, f"it is a {known.kind} group")

    def _modern(
        self,
        offset: int,
        group: _Group,
        record: GroupEpoch | GroupMember | TargetMember | TargetEpoch | CurrentMember,
    ) -> Iterator[Refusal]:
        name = record.group
        match record:
            case GroupEpoch(_, _, epoch):
                if group.epoch >= 0:
                    self.asked["group-epochs-rise"] += 1
                    if epoch <= group.epoch:
                        why = f"the epoch of group {name} becomes {epoch}"
                        yield self._refused("group-epochs-rise", offset, why, f"it is {group.epoch}")
                group.epoch = epoch
                group.changed.clear()
                group.rewritten.clear()
            case GroupMember():
                self._wants(group, record)
            case TargetMember(_, _, member, partitions):
                yield from self._known(offset, name, group, member)
                yield from self._raised(offset, name, group)
                group.targets[member] = partitions
            case TargetEpoch(_, _, epoch):
                yield from self._bounded(offset, group, f"the assignment of group {name}", epoch)
                yield from self._raised(offset, name, group)
                group.assignment_epoch = epoch
                if group.kind == CONSUMER:
                    what = f"the assignment of group {name} for epoch {epoch}"
                    yield from self._assigned_once(offset, what, dict(group.targets))
                    for has in group.current.values():
                        yield from self._followed(offset, group, has)
            case CurrentMember():
                yield from self._raised(offset, name, group)
                yield from self._current(offset, group, record)

    def _wants(self, group: _Group, record: GroupMember) -> None:
        before = group.members.get(record.member)
        group.members[record.member] = record.topics
        # Who takes the place of a static member wants what that one wanted.
        replaces = record.static and before is None
        if record.topics != (before or frozenset()) and not replaces:
            group.changed.add(record.member)
        known = group.expressions.pop(record.member, "")
        if record.regex:
            group.expressions[record.member] = record.regex
            group.rewritten |= {record.member} if record.regex != known else set()

    def _raised(self, offset: int, name: str, group: _Group) -> Iterator[Refusal]:
        if not self.whole or group.kind != CONSUMER:
            return
        self.asked["subscription-raises-epoch"] += 1
        if group.changed:
            why = f"group {name} has epoch {group.epoch} as before {_list(group.changed)} wanted other topics"
            yield self._refused("subscription-raises-epoch", offset, why)
            group.changed.clear()

    def _followed(self, offset: int, group: _Group, has: CurrentMember) -> Iterator[Refusal]:
        """Of a stable member in the epoch of targets that are those of the group. An expression that is not
        resolved yet stands for no topic: its member gives whole topics up, and the group keeps its epoch."""
        if not has.stable or not has.epoch == group.assignment_epoch == group.epoch:
            return
        if has.member not in group.targets and not self.whole:
            return
        self.asked["targets-followed"] += 1
        target = group.targets.get(has.member, ())
        unknown = has.member not in group.members  # the log is not whole: it may be a member that did so
        less = has.member in group.rewritten or (unknown and group.rewritten)
        topics = {partition[0] for partition in has.partitions if less}
        followed = tuple(place for place in target if not less or place[0] in topics)
        if {*has.partitions} != {*followed}:
            why = (
                f"member {has.member} of group {has.group} has {_places(has.partitions)} in epoch {has.epoch}"
            )
            yield self._refused("targets-followed", offset, why, f"its target is {_places(target)}")

    def _current(self, offset: int, group: _Group, record: CurrentMember) -> Iterator[Refusal]:
        name, member = record.group, record.member
        yield from self._known(offset, name, group, member)
        yield from self._bounded(offset, group, f"member {member} of group {name}", record.epoch)
        known = group.current.get(member)
        if known is not None and 0 <= record.epoch < known.epoch:
            why = f"the epoch of member {member} of group {name} becomes {record.epoch}"
            yield self._refused("member-epochs-bounded", offset, why, f"it is {known.epoch}")
        group.current[member] = record
        if group.kind != CONSUMER:
            return
        yield from self._followed(offset, group, record)
        if not record.partitions:
            return
        self.asked["one-owner"] += 1
        for other in group.current.values():
            if other.member != member and (both := {*other.partitions} & {*record.partitions}):
                tps = _places(both)
                why = f"member {member} of group {name} gets {tps}, which {other.member} has not given up"
                yield self._refused("one-owner", offset, why)

    def _known(self, offset: int, name: str, group: _Group, member: str) -> Iterator[Refusal]:
        if not self.whole:
            return
        self.asked["members-known"] += 1
        if member not in group.members:
            why = f"{member} is given an assignment, and is not a member of group {name}"
            yield self._refused("members-known", offset, why, f"members {_list(group.members)}")

    def _bounded(self, offset: int, group: _Group, what: str, epoch: int) -> Iterator[Refusal]:
        if group.epoch < 0:
            return
        self.asked["member-epochs-bounded"] += 1
        if epoch > group.epoch:
            why = f"{what} gets epoch {epoch}"
            yield self._refused("member-epochs-bounded", offset, why, f"the group has epoch {group.epoch}")

    def _removed(self, record: Tombstone) -> None:
        if record.kind == CLASSIC:
            self.generations.pop(record.group, None)
            return
        group = self._groups.get(record.group)
        if group is None:
            return
        if record.what is GroupEpoch:
            self._groups.pop(record.group)
        elif record.what is GroupMember:
            group.members.pop(record.member, None)
            group.expressions.pop(record.member, None)
            group.changed.discard(record.member)
        elif record.what is TargetMember:
            group.targets.pop(record.member, None)
        elif record.what is CurrentMember:
            group.current.pop(record.member, None)


def _places(partitions: Iterable[Partition]) -> str:
    return _list({f"{topic}-{number}" for topic, number in partitions})


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
