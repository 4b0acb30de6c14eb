"""The herd: how leaders were to be elected before there was a controller (drafts of 0.8), to be counted.

Every replica watches the ephemeral znode of its partition's leader, and tries to create it when it is gone.
When a broker dies, each replica of each partition that it led is notified, and all but one try without
success: with p partitions of r replicas that is p(r - 1) notifications and as many writes. One controller
gets a single notification, whatever p is, and writes p times.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from model.protocol.messages import Partition
from model.protocol.zookeeper_messages import Create, GetData, ZkError
from model.zookeeper.zookeeper import ZooKeeper


def leader_path(tp: Partition) -> str:
    """Held by the broker that leads a partition."""
    return f"/leaders/{tp[0]}-{tp[1]}"


@dataclass(slots=True)
class SelfElecting:
    """The replicas of one broker. `leads`: partitions whose znode it created."""

    me: int
    zookeeper: ZooKeeper
    session: int
    partitions: tuple[Partition, ...]
    leads: set[Partition] = field(default_factory=set)
    _seen: int = 0

    def elect(self, now: int, tps: Iterable[Partition]) -> None:
        """Try to lead these partitions; watch their leaders."""
        for tp in tps:
            path = leader_path(tp)
            made, _ = self.zookeeper.run(
                now, self.session, [Create(path, self.me, ephemeral=True), GetData(path, watch=True)]
            ) or (None, None)
            if made is not None and made.error is ZkError.OK:
                self.leads.add(tp)

    def wake(self, now: int) -> None:
        """Handle the notifications since the last time."""
        known = self.zookeeper.sessions.get(self.session)
        paths = [event.path for event in known.events] if known is not None else []
        if known is not None and known.events:
            self._seen = known.events[-1].number
        self.zookeeper.heard(now, self.session, self._seen)
        self.elect(now, [tp for tp in self.partitions if leader_path(tp) in paths])
