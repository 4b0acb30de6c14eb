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
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfigProvider;
import org.apache.kafka.server.share.PartitionMetadataProvider;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.dlq.ShareGroupDLQManager;
import org.apache.kafka.server.share.dlq.ShareGroupDLQRecordParameter;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
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
 * A member of a share group with a dead-letter queue has a record in its last delivery, and its lock ends. The share
 * partitions are Kafka's. Made for the test are the share coordinator, which keeps the state of one record and knows
 * the newest leader epoch, a timer without a clock, and a dead-letter queue that collects. The constructor is that
 * of 4.4.0.
 */
class FormerLeaderLettersTest {
    private static final String GROUP = "billing";
    private static final TopicIdPartition P0 = new TopicIdPartition(Uuid.randomUuid(), 0, "payments");
    private static final int LIMIT = 2;
    private static final ShareGroupDLQRecordParameter LETTER = new ShareGroupDLQRecordParameter(
        GROUP, P0, 0, 0, Optional.of((short) LIMIT), Optional.of(ShareGroupDLQManager.DELIVERY_COUNT_EXCEEDED));

    private final ShareGroupConfigProvider config = mock(ShareGroupConfigProvider.class);
    private final ShareGroupDLQManager queue = mock(ShareGroupDLQManager.class);
    private final Persister coordinator = mock(Persister.class);
    private final Timer timer = mock(Timer.class);

    private final List<ShareGroupDLQRecordParameter> letters = new ArrayList<>();
    private final List<TimerTask> locks = new ArrayList<>();
    private List<PersisterStateBatch> stored = List.of();
    private int epoch = 0;
    private Errors refusal = Errors.NONE;

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
        when(coordinator.readState(any())).then(call -> read(call.getArgument(0)));
        when(coordinator.writeState(any())).then(call -> write(call.getArgument(0)));
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
            acknowledge(next, "member-2", AcknowledgeType.ACCEPT);
        }

        locksEnd();
        assertEquals(leaderMoves ? List.of() : List.of(LETTER), letters);
    }

    /** The leader stays. Where it cannot store that it archives the record, the record is still to be delivered. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aLetterIsWrittenOnlyOfWhatIsStored(boolean isStored) {
        inItsLastDelivery();
        refusal = isStored ? Errors.NONE : Errors.UNKNOWN_SERVER_ERROR;

        locksEnd();
        assertEquals(isStored ? List.of(LETTER) : List.of(), letters);
    }

    /** The share partition of the first leader: member-1 has the record, released it once, and has it again. */
    private SharePartition inItsLastDelivery() {
        SharePartition partition = leader(0);
        assertEquals(1, delivered(partition, "member-1"));
        acknowledge(partition, "member-1", AcknowledgeType.RELEASE);
        assertEquals(LIMIT, delivered(partition, "member-1"));
        return partition;
    }

    private SharePartition leader(int leaderEpoch) {
        SharePartition partition = new SharePartition(GROUP, P0, leaderEpoch, 200, LIMIT, 100, timer, Time.SYSTEM,
            coordinator, mock(PartitionMetadataProvider.class), key -> { }, config,
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

    /** The answer is good, or join throws. */
    private void acknowledge(SharePartition partition, String member, AcknowledgeType type) {
        partition.acknowledge(member, List.of(new ShareAcknowledgementBatch(0, 0, List.of(type.id)))).join();
    }

    private void locksEnd() {
        for (TimerTask lock : List.copyOf(locks))
            if (!lock.isCancelled())
                lock.run();
    }

    /** A leader that reads makes its epoch known. */
    private CompletableFuture<ReadShareGroupStateResult> read(ReadShareGroupStateParameters asked) {
        epoch = asked.groupTopicPartitionData().topicsData().get(0).partitions().get(0).leaderEpoch();
        return CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder()
            .setTopicsData(List.of(new TopicData<>(P0.topicId(), List.of(PartitionFactory.newPartitionAllData(
                0, 0, 0, Errors.NONE.code(), null, stored))))).build());
    }

    private CompletableFuture<WriteShareGroupStateResult> write(WriteShareGroupStateParameters asked) {
        PartitionStateBatchData data = asked.groupTopicPartitionData().topicsData().get(0).partitions().get(0);
        Errors error = data.leaderEpoch() < epoch ? Errors.FENCED_LEADER_EPOCH : refusal;
        if (error == Errors.NONE)
            stored = data.stateBatches();
        return CompletableFuture.completedFuture(new WriteShareGroupStateResult.Builder()
            .setTopicsData(List.of(new TopicData<>(P0.topicId(), List.of(PartitionFactory.newPartitionErrorData(
                0, error.code(), error.message()))))).build());
    }
}
