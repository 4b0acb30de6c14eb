"""The log of the group coordinator, and what is in memory of it: loading and unloading with leadership.

Not here: requests (`groups`, `commits`), what records mean (`offsets`), a group's states (`membership`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from model.coordinator_messages import JoinAnswer, SyncAnswer
from model.errors import KafkaError, Refused
from model.membership import Group
from model.node import GROUP_TOPIC, Node
from model.offsets import GroupRecord, Offsets
from model.serving import Serving
from model.state_log import StateLog


@dataclass(slots=True)
class Loaded:
    """One partition of `__consumer_offsets` that this broker coordinates."""

    offsets: Offsets
    groups: dict[str, Group] = field(default_factory=dict)


class GroupLog:
    """See the module. `loaded` by number of the partition. controller(): -1 unknown."""

    def __init__(self, node: Node, serving: Serving, controller: Callable[[], int]) -> None:
        self.node = node
        self.bugs = node.settings.bugs
        count = node.settings.offsets_partitions
        self.log = StateLog(node, serving, GROUP_TOPIC, count, controller)
        self.loaded: dict[int, Loaded] = {}

    def became(self, number: int) -> None:
        """Leadership of a partition of the log may have changed."""
        if self.log.became(number):
            gone = self.loaded.pop(number, None)
            for group in gone.groups.values() if gone is not None else ():
                self.dismiss(group, KafkaError.NOT_COORDINATOR)

    def _load(self) -> None:
        """Replay logs: groups as they were written last, offsets as far as they are committed."""
        for number, replica in self.log.loaded():
            offsets, written = Offsets(self.bugs), replica.log.records()
            if "groups-forget-on-load" in self.bugs:
                # Readers begin anew where nothing is committed.
                offsets.applied, written = replica.log.end, iter(())
            offsets.apply(replica.log, replica.high_watermark)
            groups = {
                record.group: Group.restored(record, self.node.now)
                for _, _, record in written
                if isinstance(record, GroupRecord)
            }
            self.loaded[number] = Loaded(offsets, groups)

    def at(self, group: str) -> tuple[int, Loaded]:
        """The partition of the group, which is loaded here, with everything that is committed.

        Raises: Refused (NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS).
        """
        number = self.log.number(group)
        self.log.check(number)
        loaded = self.loaded[number]
        replica = self.node.replicas[self.log.partition(number)]
        loaded.offsets.apply(replica.log, replica.high_watermark)
        return number, loaded

    def member(self, loaded: Loaded, name: str, member: str, generation: int) -> Group:
        """The group, of which this is a member of the present generation.

        Raises: Refused (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION).
        """
        group = loaded.groups.get(name)
        if group is None or member not in group.members:
            raise Refused(KafkaError.UNKNOWN_MEMBER_ID)
        if generation != group.generation:
            raise Refused(KafkaError.ILLEGAL_GENERATION)
        return group

    def dismiss(self, group: Group, error: KafkaError) -> None:
        """Answer everybody who waits with an error."""
        for member in group.members.values():
            if member.joining is not None:
                self.node.reply(*member.joining, JoinAnswer(error))
            if member.syncing is not None:
                self.node.reply(*member.syncing, SyncAnswer(error))
            member.joining = member.syncing = None

    def tick(self) -> None:
        """Load."""
        self._load()
        for loaded in self.loaded.values():
            loaded.offsets.settle()

    @property
    def timeout_ms(self) -> int:
        """Of an append."""
        return self.node.settings.request_timeout_ms
