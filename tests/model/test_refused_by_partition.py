"""What a broker answers for a partition that it does not hold, and in which order a leader refuses."""

from typing import Any

import pytest
from msgspec import structs

from model.eras import ERAS
from model.errors import KafkaError
from model.log.unified_log import RecordBatch
from model.metadata.image import PartitionRecord
from model.protocol.messages import (
    Fetch,
    FetchPartition,
    ListOffsets,
    OffsetForLeaderEpoch,
    Partition,
    PartitionState,
    Produce,
)
from model.replication.node import NodeState
from model.replication.replica import Replica
from model.replication.replica_manager import ReplicaManager
from model.settings import Settings

HELD, ELSEWHERE, NONE = ("held", 0), ("elsewhere", 0), ("none", 0)
LED = PartitionState((1, 2), (1, 2), 1, 0, 0)

# ---- no replica


def answers(era: str, tp: Partition) -> dict[str, KafkaError]:
    """Of broker 1, which leads `HELD`: by request."""
    node = NodeState(1, Settings(era=ERAS[era]))
    node.image.apply(PartitionRecord(HELD, LED))
    node.image.apply(PartitionRecord(ELSEWHERE, structs.replace(LED, replicas=(2, 3), isr=(2, 3), leader=2)))
    node.replicas[HELD] = Replica(1, node.settings)
    node.replicas[HELD].become(LED, 0)
    manager = ReplicaManager(node, lambda _tp, _follower: None)
    came: list[Any] = []
    manager.produce(Produce(1, {tp: RecordBatch(-1, -1, ("m",))}), came.append)
    manager.fetch(Fetch(-1, {tp: FetchPartition(0)}, max_wait_ms=0), came.append)
    produced, fetched = came
    return {
        "produce": produced.results[tp][0],
        "fetch": fetched.parts[tp].error,
        "ends": manager.list_offsets(ListOffsets([tp])).parts[tp][0],
        "epochs": manager.epoch_ends(OffsetForLeaderEpoch(2, {tp: (-1, 0)})).parts[tp][0],
    }


NO_ERROR = KafkaError.NONE
UNKNOWN = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
ASK_THE_LEADER = KafkaError.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("era", ["0.10", "0.11", "2.0", "2.4", "3.3", "4.4"])
def test_a_partition_that_does_not_exist_is_unknown(era: str) -> None:
    assert set(answers(era, NONE).values()) == {UNKNOWN}
    assert set(answers(era, HELD).values()) == {NO_ERROR}


@pytest.mark.parametrize(
    ("era", "error", "of_epochs"),
    [
        ("0.11", UNKNOWN, UNKNOWN),
        ("2.0", ASK_THE_LEADER, UNKNOWN),
        ("2.4", ASK_THE_LEADER, ASK_THE_LEADER),
        ("4.4", ASK_THE_LEADER, ASK_THE_LEADER),
    ],
)
def test_who_has_no_replica_of_a_partition_sends_to_its_leader_since_2_0(
    era: str, error: KafkaError, of_epochs: KafkaError
) -> None:
    """KAFKA-6796, KAFKA-7347."""
    assert answers(era, ELSEWHERE) == {"produce": error, "fetch": error, "ends": error, "epochs": of_epochs}


# ---- the order of refusals


def refused(acks: int, isr: tuple[int, ...], *, leads: int = 1, **fields: Any) -> KafkaError:
    """The answer to a batch of producer 7, of which the log has one with epoch 3 and sequence 0."""
    node = NodeState(1, Settings(era=ERAS["4.4"], min_isr=2))
    replica = node.replicas[HELD] = Replica(1, node.settings)
    replica.become(LED, 0)
    replica.append(RecordBatch(-1, -1, ("first",), 7, 3, 0), 1)
    replica.become(structs.replace(LED, isr=isr, leader=leads, partition_epoch=1), 0)
    manager = ReplicaManager(node, lambda _tp, _follower: None)
    results: list[dict[Partition, tuple[KafkaError, int]]] = []
    manager.append({HELD: RecordBatch(-1, -1, ("next",), **fields)}, acks, 0, results.append)
    return results[0][HELD][0]


OLD_EPOCH = {"producer_id": 7, "producer_epoch": 2, "sequence": 0}
UNVERIFIED = {"producer_id": 8, "producer_epoch": 0, "sequence": 0, "transactional": True}
AGAIN = {"producer_id": 7, "producer_epoch": 3, "sequence": 0}
GAP = {"producer_id": 7, "producer_epoch": 3, "sequence": 9}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (OLD_EPOCH, KafkaError.INVALID_PRODUCER_EPOCH),
        (UNVERIFIED, KafkaError.INVALID_TXN_STATE),
        (GAP, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_a_leader_asks_who_is_in_sync_before_it_looks_at_the_producer(
    fields: dict[str, Any], error: KafkaError
) -> None:
    """Partition.appendRecordsToLeader: producers send again what too few could take, and not the others."""
    assert refused(-1, (1,), **fields) is KafkaError.NOT_ENOUGH_REPLICAS
    assert refused(-1, (1,), leads=2, **fields) is KafkaError.NOT_LEADER_OR_FOLLOWER
    assert refused(-1, (1, 2), **fields) is error
    assert refused(1, (1,), **fields) is error


def test_a_batch_that_the_log_has_is_refused_as_well_where_too_few_are_in_sync() -> None:
    assert refused(-1, (1,), **AGAIN) is KafkaError.NOT_ENOUGH_REPLICAS
    assert refused(1, (1,), **AGAIN) is NO_ERROR
