"""Lines of brokers' logs, as releases word them: each pattern reads those of every release that has them."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from history.broker_logs import CoordinatorElected, MarkersSent, OffsetsLoadedLine, broker_logs
from history.replica_lines import ReplicaLine, replica_lines
from history.run_folder import Run

AT = "2026-11-29T10:30:31.965Z"
WALL = datetime(2026, 11, 29, 10, 30, 31, 965000, tzinfo=UTC)


def logged(folder: Path, line: str) -> Run:
    """A run whose broker 3 logged this."""
    run = Run(folder)
    log = run.cluster / "3" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text(f"{AT} INFO {line}\n")
    return run


@pytest.mark.parametrize(
    "line",
    [
        # 3.9.1
        "kafka.coordinator.transaction.TransactionStateManager - [Transaction State Manager 3]: Sending txn"
        " markers for TransactionalIdCoordinatorEpochAndTransitMetadata(inquest-0,1,COMMIT,"
        "TransactionMetadata(transactionalId=inquest-0, producerId=2000, producerEpoch=0,"
        " txnTimeoutMs=10000, state=PrepareCommit, pendingState=Some(CompleteCommit),"
        " topicPartitions=HashSet(transactions-4, transactions-1), txnStartTimestamp=1795924784216,"
        " txnLastUpdateTimestamp=1795924784344),TxnTransitMetadata(producerId=2000, lastProducerId=2000,"
        " producerEpoch=0, lastProducerEpoch=-1, txnTimeoutMs=10000, txnState=CompleteCommit,"
        " topicPartitions=Set(), txnStartTimestamp=1795924784216, txnLastUpdateTimestamp=1795924787381))"
        " after loading partition 0",
        # 4.4.0
        "kafka.coordinator.transaction.TransactionStateManager - [Transaction State Manager 3]: Sending txn"
        " markers for TransactionalIdCoordinatorEpochAndTransitMetadata[transactionalId=inquest-0,"
        " coordinatorEpoch=1, result=COMMIT, txnMetadata=TransactionMetadata(transactionalId=inquest-0,"
        " producerId=2000, prevProducerId=2000, nextProducerId=-1, producerEpoch=0, lastProducerEpoch=-1,"
        " txnTimeoutMs=10000, state=PREPARE_COMMIT, pendingState=Optional[COMPLETE_COMMIT],"
        " topicPartitions=[transactions-4, transactions-1], txnStartTimestamp=1795924784216,"
        " txnLastUpdateTimestamp=1795924784344, clientTransactionVersion=TV_0),"
        " transitMetadata=TxnTransitMetadata[producerId=2000, prevProducerId=2000, nextProducerId=-1,"
        " producerEpoch=0, lastProducerEpoch=-1, txnTimeoutMs=10000, txnState=COMPLETE_COMMIT,"
        " topicPartitions=[], txnStartTimestamp=1795924784216, txnLastUpdateTimestamp=1795924787381,"
        " clientTransactionVersion=TV_0]] after loading partition 0",
    ],
    ids=["3.9.1", "4.4.0"],
)
def test_markers_that_a_coordinator_sends_after_loading(tmp_path: Path, line: str) -> None:
    assert broker_logs(logged(tmp_path, line)).sent == [
        MarkersSent(
            node=3,
            wall=WALL,
            partition=0,
            transactional_id="inquest-0",
            producer_id=2000,
            producer_epoch=0,
            commit=True,
            updated_ms=1795924784344,
            partitions=frozenset(["transactions-4", "transactions-1"]),
        )
    ]


@pytest.mark.parametrize(
    "line",
    [
        # 2.8.2
        "state.change.logger - [Broker id=3] Leader __transaction_state-4 starts at leader epoch 5 from"
        " offset 283 with high watermark 281 ISR [3,2,1] addingReplicas [] removingReplicas []. Previous"
        " leader epoch was 4.",
        # 3.9.1 and 4.4.0
        "state.change.logger - [Broker id=3] Leader __transaction_state-4 with topic id"
        " Some(AwCoYnS8RkutKsRlUzhnJA) starts at leader epoch 5 from offset 283 with partition epoch 0, high"
        " watermark 281, ISR [3,2,1], adding replicas [] and removing replicas [] . Previous leader None and"
        " previous leader epoch was 4.",
    ],
    ids=["2.8.2", "4.4.0"],
)
def test_a_coordinator_that_is_elected(tmp_path: Path, line: str) -> None:
    assert broker_logs(logged(tmp_path, line)).elected == [
        CoordinatorElected(
            node=3, wall=WALL, partition=4, epoch=5, start=283, high_watermark=281, isr=frozenset({1, 2, 3})
        )
    ]


@pytest.mark.parametrize(
    "line",
    [
        "kafka.coordinator.group.GroupMetadataManager - [Group Metadata Manager on Broker 3]: Finished"
        " loading offsets and group metadata from __consumer_offsets-2 in 82 milliseconds.",
        "kafka.coordinator.group.GroupMetadataManager - [GroupMetadataManager brokerId=3] Finished loading"
        " offsets and group metadata from __consumer_offsets-2 in 4 milliseconds.",
        "kafka.coordinator.group.GroupMetadataManager - [GroupMetadataManager brokerId=3] Finished loading"
        " offsets and group metadata from __consumer_offsets-2 in 21 milliseconds for epoch 0, of which 10"
        " milliseconds was spent in the scheduler.",
    ],
    ids=["0.11.0.3", "1.1.1", "3.9.1"],
)
def test_offsets_that_a_coordinator_has_loaded(tmp_path: Path, line: str) -> None:
    assert broker_logs(logged(tmp_path, line)).loaded == [OffsetsLoadedLine(node=3, wall=WALL, partition=2)]


LEADS = ReplicaLine(node=3, wall=WALL, end=1272, high=1270, cut=False, leads=True, epoch=4)
EARLIER = ReplicaLine(node=3, wall=WALL, end=1272, high=-1, cut=False, leads=True, epoch=4)
FOLLOWS = ReplicaLine(node=3, wall=WALL, end=1272, high=1270, cut=False, epoch=4)
CUT = ReplicaLine(node=3, wall=WALL, end=1272, high=-1, cut=True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "kafka.cluster.Partition - Partition [queue,3] on broker 3: queue-3 starts at Leader Epoch 4 from"
            " offset 1272. Previous Leader Epoch was: 3",
            EARLIER,
        ),
        (
            "kafka.cluster.Partition - [Partition queue-3 broker=3] queue-3 starts at Leader Epoch 4 from"
            " offset 1272. Previous Leader Epoch was: 3",
            EARLIER,
        ),
        (
            "kafka.cluster.Partition - [Partition queue-3 broker=3] queue-3 starts at leader epoch 4 from"
            " offset 1272 with high watermark 1270. Previous leader epoch was 3.",
            LEADS,
        ),
        (
            "state.change.logger - [Broker id=3] Leader queue-3 starts at leader epoch 4 from offset 1272"
            " with high watermark 1270 ISR [3,2,1] addingReplicas [] removingReplicas []. Previous leader"
            " epoch was 3.",
            LEADS,
        ),
        (
            "state.change.logger - [Broker id=3] Follower queue-3 starts at leader epoch 4 from offset 1272"
            " with high watermark 1270. Previous leader epoch was 3.",
            FOLLOWS,
        ),
        (
            "state.change.logger - [Broker id=3] Leader queue-3 with topic id Some(QfKwX18VQ8ajPm5gqTZxJg)"
            " starts at leader epoch 4 from offset 1272 with partition epoch 6, high watermark 1270, ISR"
            " [3,1,2], adding replicas [] and removing replicas [] . Previous leader None and previous leader"
            " epoch was -1.",
            LEADS,
        ),
        (
            "state.change.logger - [Broker id=3] Follower queue-3 starts at leader epoch 4 from offset 1272"
            " with partition epoch 0 and high watermark 1270. Current leader is 2. Previous leader None and"
            " previous leader epoch was -1.",
            FOLLOWS,
        ),
        ("kafka.log.Log - Truncating log queue-3 to offset 1272.", CUT),
        ("kafka.log.Log - [Log partition=queue-3, dir=/data] Truncating to offset 1272", CUT),
        ("kafka.log.UnifiedLog - [UnifiedLog partition=queue-3, dir=/data] Truncating to offset 1272", CUT),
        (
            "org.apache.kafka.storage.internals.log.UnifiedLog - [UnifiedLog partition=queue-3, dir=/data]"
            " Truncating to offset 1272",
            CUT,
        ),
    ],
    ids=[
        "0.11.0.3",
        "1.1.1",
        "2.4.1",
        "2.8.2",
        "2.8.2-follows",
        "4.4.0",
        "4.4.0-follows",
        "0.11.0.3-cut",
        "2.8.2-cut",
        "3.9.1-cut",
        "4.4.0-cut",
    ],
)
def test_where_a_replica_begins_and_is_cut(tmp_path: Path, line: str, said: ReplicaLine) -> None:
    run = logged(tmp_path, line)
    assert replica_lines(run, "queue-3") == [said]
    assert replica_lines(run, "queue-33") == replica_lines(run, "ueue-3") == []


@pytest.mark.parametrize(
    "line",
    [
        "kafka.log.Log - Truncating queue-3 to 2704 has no effect as the largest offset in the log is 2703.",
        "kafka.log.Log - [Log partition=queue-3, dir=/data] Truncating to 0 has no effect as the largest"
        " offset in the log is -1",
    ],
    ids=["0.11.0.3", "2.8.2"],
)
def test_a_cut_without_effect_is_none(tmp_path: Path, line: str) -> None:
    assert replica_lines(logged(tmp_path, line), "queue-3") == []
