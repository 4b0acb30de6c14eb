"""What a member is given next on its way to its target (Kafka's CurrentAssignmentBuilder, KIP-848).

First it gives up what it is not to have any more, and keeps its epoch until it says that it has; then it gets
the epoch of the targets, and of its target what no other member has. It waits for the rest.

Left out: before 4.2 Kafka takes topics that a member does not want any more from it with the next targets
only; here at once, as later versions do.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from model.coordinator.consumer_group import STABLE, ConsumerGroupMember
from model.coordinator.consumer_group_records import MemberState
from model.protocol.messages import Partition

UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignmentBuilder:
    """target, target_epoch: of the member. topics: those that it wants; changed: with this heartbeat it wants
    others. taken: what members of the group have or have to give up. owned: what it says that it has, None =
    it does not say."""

    member: ConsumerGroupMember
    topics: Collection[str]
    target: Collection[Partition]
    target_epoch: int
    taken: Collection[Partition]
    owned: Collection[Partition] | None
    changed: bool = False

    def build(self) -> ConsumerGroupMember:
        """The member with its next assignment; the same one where nothing changes."""
        member = self.member
        if member.state is STABLE and member.epoch == self.target_epoch:
            return self._without_topics() if self.changed else member
        if member.state is UNREVOKED and self._still_owns(member.revoking):
            return self._without_topics() if self.changed else member
        return self._next()

    def _still_owns(self, partitions: Collection[Partition]) -> bool:
        return self.owned is None or any(tp in partitions for tp in self.owned)

    def _without_topics(self) -> ConsumerGroupMember:
        """The assignment without topics that the member does not want any more (updateCurrentAssignment)."""
        member = self.member
        kept = {tp: epoch for tp, epoch in member.assigned.items() if tp[0] in self.topics}
        if len(kept) == len(member.assigned):
            return member
        gone = {tp: epoch for tp, epoch in member.assigned.items() if tp not in kept}
        revoking = {**member.revoking, **gone}
        if self._still_owns(revoking):
            return self._in_epoch(member.epoch, UNREVOKED, kept, revoking)
        return replace(member, previous_epoch=member.epoch, assigned=kept)

    def _next(self) -> ConsumerGroupMember:
        """Towards the target (computeNextAssignment)."""
        member = self.member
        target = {tp for tp in self.target if tp[0] in self.topics}
        kept = {tp: epoch for tp, epoch in member.assigned.items() if tp in target}
        revoking = {tp: epoch for tp, epoch in member.assigned.items() if tp not in target}
        wanted = target - kept.keys()
        free = {tp for tp in wanted if tp not in self.taken or tp in member.revoking}
        if revoking and self._still_owns(revoking):
            return self._in_epoch(member.epoch, UNREVOKED, kept, revoking)
        given = {**kept, **dict.fromkeys(sorted(free), self.target_epoch)}
        return self._in_epoch(self.target_epoch, STABLE if free == wanted else UNRELEASED, given, {})

    def _in_epoch(
        self,
        epoch: int,
        state: MemberState,
        assigned: Mapping[Partition, int],
        revoking: Mapping[Partition, int],
    ) -> ConsumerGroupMember:
        return replace(
            self.member,
            epoch=epoch,
            previous_epoch=self.member.epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
        )
