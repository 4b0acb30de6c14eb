package kafka.server.share;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfigProvider;
import org.apache.kafka.coordinator.share.ShareCoordinatorConfig;
import org.apache.kafka.coordinator.share.ShareCoordinatorShard;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetrics;
import org.apache.kafka.coordinator.share.metrics.ShareCoordinatorMetricsShard;
import org.apache.kafka.server.share.PartitionMetadataProvider;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.dlq.ShareGroupDLQManager;
import org.apache.kafka.server.share.dlq.ShareGroupDLQRecordParameter;
import org.apache.kafka.server.share.fetch.RecordState;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.ReadShareGroupStateParameters;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;
import org.apache.kafka.timeline.SnapshotRegistry;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.mockito.AdditionalAnswers.returnsSecondArg;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyInt;
import static org.mockito.Mockito.doAnswer;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

/**
 * A share group with a dead-letter queue: a share partition was dropped, or its leader has a successor, and its timers
 * and its writes are carried out. The share partitions are Kafka's, and so is the shard of the share coordinator, which
 * decides what is fenced. Made for the test are the way between them (a write may be refused, or come late), a timer
 * without a clock, and a dead-letter queue that collects. The constructors are those of 4.4.0.
 */
class FencedSharePartitionTest {
    private static final String GROUP = "billing";
    private static final TopicIdPartition P0 = new TopicIdPartition(Uuid.randomUuid(), 0, "payments");
    private static final int LIMIT = 2;
    private static final ShareGroupDLQRecordParameter LETTER = new ShareGroupDLQRecordParameter(
        GROUP, P0, 0, 0, Optional.of((short) LIMIT), Optional.of(ShareGroupDLQManager.DELIVERY_COUNT_EXCEEDED));

    private final ShareGroupConfigProvider config = mock(ShareGroupConfigProvider.class);
    private final ShareGroupDLQManager queue = mock(ShareGroupDLQManager.class);
    private final Persister way = mock(Persister.class);
    private final Timer timer = mock(Timer.class);
    private final ShareCoordinatorShard coordinator = coordinator();

    private final List<ShareGroupDLQRecordParameter> letters = new ArrayList<>();
    private final List<TimerTask> locks = new ArrayList<>();
    private final List<Runnable> late = new ArrayList<>();
    private int epoch = 0;
    private boolean away = false;
    private boolean slow = false;

    @BeforeEach
    void fakes() {
        when(config.deliveryCountLimitOrDefault(any(), anyInt())).then(returnsSecondArg());
        when(config.partitionMaxRecordLocksOrDefault(any(), anyInt())).then(returnsSecondArg());
        when(config.recordLockDurationMsOrDefault(any(), anyInt())).then(returnsSecondArg());
        when(config.errorsDLQTopicName(GROUP)).thenReturn(Optional.of("dlq.payments"));
        when(queue.enqueue(any())).then(call -> {
            letters.add(call.getArgument(0));
            return CompletableFuture.completedFuture(null);
        });
        when(way.readState(any())).then(call -> read(call.getArgument(0)));
        when(way.writeState(any())).then(call -> write(call.getArgument(0)));
        doAnswer(call -> {
            TimerTask lock = call.getArgument(0);
            new TimerTaskEntry(lock, lock.delayMs); // it registers with the task, which counts as cancelled without
            return locks.add(lock);
        }).when(timer).add(any());
    }

    /** The new leader's member accepts the record before the lock ends. The twin: the leader stays, no member accepts. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aRecordThatTheNewLeaderHasAcceptedGetsNoLetter(boolean leaderMoves) {
        SharePartition former = inItsLastDelivery();
        if (leaderMoves) {
            SharePartition next = leader(1);
            former.markFenced();
            assertEquals(LIMIT, delivered(next, "member-2"), "one delivery was stored");
            acknowledge(next, "member-2", AcknowledgeType.ACCEPT).join();
        }

        locksEnd();
        assertEquals(leaderMoves ? List.of() : List.of(LETTER), letters);
    }

    /**
     * A leader cannot store that it archives the record. Where the write is refused, since the coordinator knows a later
     * leader, that one decides; the former leader's broker has not heard of it. The twin: the coordinator is away. Then
     * this leader archives the record all the same, on purpose (KAFKA-20245, PR 22080), and the letter is right.
     */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aFormerLeaderThatHasNotHeardOfItsSuccessorWritesNoLetter(boolean fenced) {
        inItsLastDelivery();
        if (fenced)
            leader(1);
        else
            away = true;

        locksEnd();
        assertEquals(fenced ? List.of() : List.of(LETTER), letters);
    }

    /**
     * A rejection is not stored yet when the share partition is dropped; its successor's member accepts the record, and
     * then the write of the rejection comes. The twin: the successor has a later leader epoch, which fences that write.
     */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aWriteOfADroppedSharePartitionLeavesWhatWasStoredSince(boolean sameLeader) {
        SharePartition dropped = leader(0);
        assertEquals(1, delivered(dropped, "member-1"));
        slow = true;
        acknowledge(dropped, "member-1", AcknowledgeType.REJECT);
        slow = false;
        dropped.markFenced(); // as SharePartitionManager does when the group's last session at the broker ends

        SharePartition successor = leader(sameLeader ? 0 : 1);
        assertEquals(1, delivered(successor, "member-2"), "neither delivery nor rejection was stored");
        acknowledge(successor, "member-2", AcknowledgeType.ACCEPT).join();
        assertEquals(RecordState.ACKNOWLEDGED, stored());

        late.forEach(Runnable::run);
        assertEquals(RecordState.ACKNOWLEDGED, stored());
        assertEquals(List.of(), letters);
    }

    /** The share partition of the first leader: member-1 has the record, released it once, and has it again. */
    private SharePartition inItsLastDelivery() {
        SharePartition partition = leader(0);
        assertEquals(1, delivered(partition, "member-1"));
        acknowledge(partition, "member-1", AcknowledgeType.RELEASE).join();
        assertEquals(LIMIT, delivered(partition, "member-1"));
        return partition;
    }

    private SharePartition leader(int leaderEpoch) {
        epoch = leaderEpoch;
        SharePartition partition = new SharePartition(GROUP, P0, leaderEpoch, 200, LIMIT, 100, timer, Time.SYSTEM, way,
            mock(PartitionMetadataProvider.class), key -> { }, config,
            mock(SharePartitionManager.SharePartitionListener.class), () -> true, queue);
        partition.maybeInitialize().join();
        return partition;
    }

    /** The delivery count with which this member is given the record. */
    private int delivered(SharePartition partition, String member) {
        MemoryRecords records = MemoryRecords.withRecords(Compression.NONE, new SimpleRecord("paid".getBytes()));
        FetchPartitionData fetched = new FetchPartitionData(Errors.NONE, 1, 0, records, Optional.empty(),
            OptionalLong.empty(), Optional.empty(), OptionalInt.empty(), false);
        return partition.acquire(member, ShareAcquireMode.BATCH_OPTIMIZED, 500, 500, 0, fetched,
            FetchIsolation.HIGH_WATERMARK).acquiredRecords().get(0).deliveryCount();
    }

    private CompletableFuture<Void> acknowledge(SharePartition partition, String member, AcknowledgeType type) {
        return partition.acknowledge(member, List.of(new ShareAcknowledgementBatch(0, 0, List.of(type.id))));
    }

    private void locksEnd() {
        for (TimerTask lock : List.copyOf(locks))
            if (!lock.isCancelled())
                lock.run();
    }

    /** A shard that knows the topic, and the share partition from offset 0 on. */
    private static ShareCoordinatorShard coordinator() {
        CoordinatorMetadataImage.TopicMetadata topic = mock(CoordinatorMetadataImage.TopicMetadata.class);
        when(topic.partitionCount()).thenReturn(1);
        CoordinatorMetadataImage image = mock(CoordinatorMetadataImage.class);
        when(image.topicMetadata(P0.topicId())).thenReturn(Optional.of(topic));
        ShareCoordinatorMetrics metrics = mock(ShareCoordinatorMetrics.class);
        when(metrics.newMetricsShard(any(), any())).thenReturn(mock(ShareCoordinatorMetricsShard.class));
        ShareCoordinatorConfig settings = mock(ShareCoordinatorConfig.class);
        when(settings.shareCoordinatorSnapshotUpdateRecordsPerSnapshot()).thenReturn(500);

        ShareCoordinatorShard shard = (ShareCoordinatorShard) new ShareCoordinatorShard.Builder(settings)
            .withSnapshotRegistry(new SnapshotRegistry(new LogContext())).withTime(Time.SYSTEM)
            .withCoordinatorMetrics(metrics).withTopicPartition(new TopicPartition("__share_group_state", 0)).build();
        shard.onLoaded(image);
        replayed(shard, shard.initializeState(new InitializeShareGroupStateRequestData().setGroupId(GROUP).setTopics(List.of(
            new InitializeShareGroupStateRequestData.InitializeStateData().setTopicId(P0.topicId()).setPartitions(List.of(
                new InitializeShareGroupStateRequestData.PartitionData().setPartition(0).setStateEpoch(1)
                    .setStartOffset(0)))))));
        return shard;
    }

    /** The answer; what the shard wrote is committed at once. */
    private static <T> T replayed(ShareCoordinatorShard shard, CoordinatorResult<T, CoordinatorRecord> result) {
        result.records().forEach(one -> shard.replay(0, -1, (short) -1, one));
        return result.response();
    }

    private CompletableFuture<ReadShareGroupStateResult> read(ReadShareGroupStateParameters asked) {
        int leaderEpoch = asked.groupTopicPartitionData().topicsData().get(0).partitions().get(0).leaderEpoch();
        return CompletableFuture.completedFuture(read(leaderEpoch));
    }

    private ReadShareGroupStateResult read(int leaderEpoch) {
        return ReadShareGroupStateResult.from(replayed(coordinator, coordinator.readStateAndMaybeUpdateLeaderEpoch(
            new ReadShareGroupStateRequestData().setGroupId(GROUP).setTopics(List.of(
                new ReadShareGroupStateRequestData.ReadStateData().setTopicId(P0.topicId()).setPartitions(List.of(
                    new ReadShareGroupStateRequestData.PartitionData().setPartition(0).setLeaderEpoch(leaderEpoch))))))));
    }

    /** The state of the record. A read by the newest leader epoch changes nothing. */
    private RecordState stored() {
        return RecordState.forId(
            read(epoch).topicsData().get(0).partitions().get(0).stateBatches().get(0).deliveryState());
    }

    private CompletableFuture<WriteShareGroupStateResult> write(WriteShareGroupStateParameters asked) {
        PartitionStateBatchData data = asked.groupTopicPartitionData().topicsData().get(0).partitions().get(0);
        if (away)
            return CompletableFuture.completedFuture(new WriteShareGroupStateResult.Builder().setTopicsData(List.of(
                new TopicData<>(P0.topicId(), List.of(PartitionFactory.newPartitionErrorData(
                    0, Errors.COORDINATOR_NOT_AVAILABLE.code(), "away"))))).build());
        if (!slow)
            return CompletableFuture.completedFuture(made(data));
        CompletableFuture<WriteShareGroupStateResult> answer = new CompletableFuture<>();
        late.add(() -> answer.complete(made(data)));
        return answer;
    }

    private WriteShareGroupStateResult made(PartitionStateBatchData data) {
        return WriteShareGroupStateResult.from(replayed(coordinator, coordinator.writeState(
            new WriteShareGroupStateRequestData().setGroupId(GROUP).setTopics(List.of(
                new WriteShareGroupStateRequestData.WriteStateData().setTopicId(P0.topicId()).setPartitions(List.of(
                    new WriteShareGroupStateRequestData.PartitionData().setPartition(0)
                        .setStateEpoch(data.stateEpoch()).setLeaderEpoch(data.leaderEpoch())
                        .setStartOffset(data.startOffset()).setDeliveryCompleteCount(data.deliveryCompleteCount())
                        .setStateBatches(data.stateBatches().stream().map(one ->
                            new WriteShareGroupStateRequestData.StateBatch().setFirstOffset(one.firstOffset())
                                .setLastOffset(one.lastOffset()).setDeliveryState(one.deliveryState())
                                .setDeliveryCount(one.deliveryCount())).toList()))))))));
    }
}
