"""The group coordinator: membership and assignments of consumer groups.

A broker coordinates the groups that fall into the partitions of `__consumer_offsets` that it leads. A
generation is written to the log before its assignments are answered.

Not here: a group's own states (`membership`), offsets (`commits`, `offsets`), loading (`group_log`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from model.coordinator_messages import (
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveGroup,
    SyncAnswer,
    SyncGroup,
)
from model.errors import KafkaError, Refused
from model.group_log import GroupLog
from model.membership import COMPLETING, EMPTY, PREPARING, STABLE, Group, Waiting
from model.messages import Answer, Partition

Handler = Callable[[int, int, Any], None]


class Groups:
    """See the module."""

    def __init__(self, log: GroupLog) -> None:
        self.node = log.node
        self.bugs = log.bugs
        self.log = log
        self._names = 0

    def handlers(self) -> dict[type, Handler]:
        """What it answers, by request."""
        return {
            JoinGroup: self.join,
            SyncGroup: self.sync,
            Heartbeat: self._simple(self._heartbeat),
            LeaveGroup: self._simple(self._leave),
        }

    def join(self, connection: int, correlation: int, request: JoinGroup) -> None:
        """Key 11: answered when the rebalance that it causes has everybody."""
        try:
            number, loaded = self.log.at(request.group)
            if request.session_ms < self.node.settings.group_session_min_ms:
                raise Refused(KafkaError.INVALID_SESSION_TIMEOUT)
            group = loaded.groups.get(request.group)
            if request.member and (group is None or request.member not in group.members):
                raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
        except Refused as refused:
            self.node.reply(connection, correlation, JoinAnswer(refused.error))
            return
        group = loaded.groups.setdefault(request.group, Group(request.group))
        member = request.member
        if not member:
            self._names += 1  # unique for all times: the epoch rises with each coordinator
            member = f"{request.group}-{self.log.log.epochs[number]}-{self._names}"
        if group.join(member, request, (connection, correlation), self.node.now):
            self._tell(group, member, (connection, correlation))
            return
        if group.state is not PREPARING:
            self._rebalance(group)
        self._go_on(number, group)

    def _rebalance(self, group: Group) -> None:
        for member in group.members.values():
            if member.syncing is not None:
                self.node.reply(*member.syncing, SyncAnswer(KafkaError.REBALANCE_IN_PROGRESS))
                member.syncing = None
        group.prepare(self.node.now)

    def _go_on(self, number: int, group: Group) -> None:
        """Begin the next generation when everybody has joined, or the time is over."""
        if group.state is not PREPARING:
            return
        if not group.everybody_joined() and self.node.now < group.until:
            return
        group.next_generation(self.node.now, bump="generation-not-bumped" not in self.bugs)
        for name, member in group.members.items():
            if member.joining is not None:
                self._tell(group, name, member.joining)
                member.joining = None
        if group.state is EMPTY:
            record = group.record()
            self.log.log.append(number, (record,), self.log.timeout_ms, lambda _: None)

    def _tell(self, group: Group, member: str, waiting: Waiting) -> None:
        members = {name: m.topics for name, m in group.members.items()}
        told = members if member == group.leader else {}
        self.node.reply(
            *waiting, JoinAnswer(KafkaError.NONE, group.generation, member, group.leader, told)
        )

    def sync(self, connection: int, correlation: int, request: SyncGroup) -> None:
        """Key 14: the partitions of the member; the group leader brings them."""
        try:
            number, loaded = self.log.at(request.group)
            group = self.log.member(loaded, request.group, request.member, request.generation)
            if group.state is PREPARING:
                raise Refused(KafkaError.REBALANCE_IN_PROGRESS)
        except Refused as refused:
            self.node.reply(connection, correlation, SyncAnswer(refused.error))
            return
        member = group.members[request.member]
        member.heard = self.node.now
        if group.state is STABLE:
            answer = SyncAnswer(KafkaError.NONE, member.assigned)
            self.node.reply(connection, correlation, answer)
            return
        member.syncing = (connection, correlation)
        if request.member == group.leader:
            self._assign(number, group, request.assignments)

    def _assign(
        self, number: int, group: Group, assignments: Mapping[str, Sequence[Partition]]
    ) -> None:
        for name, member in group.members.items():
            member.assigned = tuple(assignments.get(name, ()))
        if "partitions-given-twice" in self.bugs:  # everybody has what anybody has
            every = tuple(sorted({tp for given in assignments.values() for tp in given}))
            for member in group.members.values():
                member.assigned = every
        generation = group.generation

        def written(error: KafkaError) -> None:
            if group.generation != generation or group.state is not COMPLETING:
                return  # another rebalance began
            if error is not KafkaError.NONE:
                self.log.dismiss(group, error)
                return
            group.state = STABLE
            for member in group.members.values():
                if member.syncing is not None:
                    answer = SyncAnswer(KafkaError.NONE, member.assigned)
                    self.node.reply(*member.syncing, answer)
                    member.syncing, member.heard = None, self.node.now

        self.log.log.append(number, (group.record(),), self.log.timeout_ms, written)

    def _heartbeat(self, request: Heartbeat) -> KafkaError:
        """Key 12."""
        _, loaded = self.log.at(request.group)
        group = self.log.member(loaded, request.group, request.member, request.generation)
        group.members[request.member].heard = self.node.now
        if group.state is PREPARING:
            return KafkaError.REBALANCE_IN_PROGRESS
        return KafkaError.NONE

    def _leave(self, request: LeaveGroup) -> KafkaError:
        """Key 13."""
        number, loaded = self.log.at(request.group)
        group = loaded.groups.get(request.group)
        if group is None or request.member not in group.members:
            return KafkaError.UNKNOWN_MEMBER_ID
        self._remove(number, group, [request.member])
        return KafkaError.NONE

    def _remove(self, number: int, group: Group, members: Sequence[str]) -> None:
        for name in members:
            member = group.members.pop(name)
            if member.joining is not None:
                self.node.reply(*member.joining, JoinAnswer(KafkaError.UNKNOWN_MEMBER_ID))
            if member.syncing is not None:
                self.node.reply(*member.syncing, SyncAnswer(KafkaError.UNKNOWN_MEMBER_ID))
        if group.state is not PREPARING:
            self._rebalance(group)
        self._go_on(number, group)

    # ---- time

    def tick(self) -> None:
        """Remove members that are silent; end rebalances whose time is over."""
        for number, loaded in self.log.loaded.items():
            for group in list(loaded.groups.values()):
                silent = group.silent(self.node.now)
                if silent:
                    self._remove(number, group, silent)
                self._go_on(number, group)

    def _simple(self, function: Callable[[Any], KafkaError]) -> Handler:
        """A handler that answers at once with an error or none."""

        def handle(connection: int, correlation: int, request: Any) -> None:
            try:
                error = function(request)
            except Refused as refused:
                error = refused.error
            self.node.reply(connection, correlation, Answer(error))

        return handle
