"""What Kafka kept in ZooKeeper, and where.

/controller                                    ephemeral: the broker that is controller
/controller_epoch                              how many controllers there were
/brokers/ids/N                                 ephemeral: a broker that lives
/brokers/topics/T                              replicas of each partition, by number
/brokers/topics/T/partitions/P/state           `LeaderIsrAndControllerEpoch`; version = partition epoch
/isr_change_notification/isr_change_S          partitions whose leaders changed the in-sync set
/admin/preferred_replica_election              partitions to elect the preferred leaders of
/admin/reassign_partitions                     new replicas by partition
/latest_producer_id_block                      first producer id that no broker has
"""

from typing import Final, NamedTuple

from model.protocol.messages import Partition, PartitionState
from model.protocol.zookeeper_messages import ZkResult

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
ISR_CHANGES: Final = "/isr_change_notification"
PREFERRED: Final = "/admin/preferred_replica_election"
REASSIGNED: Final = "/admin/reassign_partitions"
PRODUCER_IDS: Final = "/latest_producer_id_block"

TOP_LEVEL: Final[tuple[tuple[str, object], ...]] = (
    (CONTROLLER_EPOCH, 0),
    (IDS, None),
    (TOPICS, None),
    (ISR_CHANGES, None),
    (PRODUCER_IDS, 1),
    ("/admin", None),
)
"""What an ensemble has before the first broker comes."""


class LeaderIsrAndControllerEpoch(NamedTuple):
    """Data of a partition's state: written by controllers, and by leaders that change the in-sync set."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int

    def state(self, replicas: tuple[int, ...], version: int) -> PartitionState:
        """As brokers know it."""
        return PartitionState(replicas, self.isr, self.leader, self.leader_epoch, version)


def data_of(state: PartitionState, controller_epoch: int) -> LeaderIsrAndControllerEpoch:
    """As it stands in the znode."""
    return LeaderIsrAndControllerEpoch(state.leader, state.leader_epoch, state.isr, controller_epoch)


def broker_path(broker: int) -> str:
    """Of a broker's registration."""
    return f"{IDS}/{broker}"


def topic_path(topic: str) -> str:
    """Of a topic's assignment."""
    return f"{TOPICS}/{topic}"


def state_path(tp: Partition) -> str:
    """Of a partition's state."""
    return f"{TOPICS}/{tp[0]}/partitions/{tp[1]}/state"


def partition_of(path: str) -> Partition | None:
    """The partition whose state a path names."""
    parts = path.split("/")
    if path.startswith(f"{TOPICS}/") and parts[-1] == "state":
        return parts[3], int(parts[5])
    return None


def brokers_of(children: ZkResult) -> list[int]:
    """Broker ids among the children of /brokers/ids."""
    return sorted(int(name) for name in children.children)
