package kafka.coordinator.transaction;

import java.io.IOException;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;

import kafka.server.ReplicaManager;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.internals.Topic;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.transaction.ProducerIdManager;
import org.apache.kafka.coordinator.transaction.TransactionConfig;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.common.FinalizedFeatures;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import scala.Option;
import scala.runtime.BoxedUnit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyBoolean;
import static org.mockito.ArgumentMatchers.anyInt;
import static org.mockito.ArgumentMatchers.anyLong;
import static org.mockito.Mockito.atLeastOnce;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.never;
import static org.mockito.Mockito.verify;
import static org.mockito.Mockito.when;

/**
 * A coordinator that has just been elected has read two records of a transaction. Where the high watermark is 2,
 * both are committed, and it may act upon both. Where it is 1, another in-sync replica may still become leader
 * without the second record: then nothing that rests upon it may be answered, or sent to a data partition.
 */
class UncommittedTransactionStateTest {
    private static final String ID = "orders";
    private static final long PRODUCER_ID = 7;
    private static final short EPOCH = 0;
    private static final TopicPartition LOG = new TopicPartition(Topic.TRANSACTION_STATE_TOPIC_NAME, 0);
    private static final TopicPartition P0 = new TopicPartition("payments", 0);
    private static final TopicPartition P1 = new TopicPartition("payments", 1);

    private final Time time = Time.SYSTEM;
    private final ReplicaManager replicas = mock(ReplicaManager.class);
    private final TransactionMarkerChannelManager markers = mock(TransactionMarkerChannelManager.class);
    private TransactionCoordinator coordinator;

    @BeforeEach
    void coordinator() {
        MetadataCache metadata = mock(MetadataCache.class);
        FinalizedFeatures features = mock(FinalizedFeatures.class);
        when(features.finalizedFeatures()).thenReturn(Map.of());
        when(metadata.features()).thenReturn(features);
        TransactionConfig config = new TransactionConfig(
            604_800_000, 900_000, 1, (short) 3, 104_857_600, 5_242_880, 2, 10_000, 3_600_000, false, 30_000);
        Scheduler scheduler = mock(Scheduler.class);
        when(scheduler.scheduleOnce(any(), any())).thenAnswer(scheduled -> {
            scheduled.<Runnable>getArgument(1).run();
            return null;
        });
        TransactionStateManager state =
            new TransactionStateManager(2, scheduler, replicas, metadata, config, time, new Metrics());
        state.startup(() -> 1, false);
        coordinator = new TransactionCoordinator(config, scheduler, () -> mock(ProducerIdManager.class), state,
            markers, time, new LogContext());
    }

    /** The partition that a producer adds is in the second record only. */
    @ParameterizedTest(name = "high watermark {0} of log end 2")
    @ValueSource(longs = {1, 2})
    void answersForAPartitionOnlyByCommittedRecords(long highWatermark) throws IOException {
        elected(highWatermark, TransactionState.ONGOING, P0, P1);

        AtomicReference<Errors> answer = new AtomicReference<>();
        coordinator.handleAddPartitionsToTransaction(ID, PRODUCER_ID, EPOCH, Set.of(P1), error -> {
            answer.set(error);
            return BoxedUnit.UNIT;
        }, TransactionVersion.TV_1, RequestLocal.noCaching());

        if (highWatermark == 2)
            assertEquals(Errors.NONE, answer.get(), "the record is committed");
        else
            // No answer is right, too: the partition is appended once more, and waits for its in-sync replicas.
            assertNotEquals(Errors.NONE, answer.get(), "nothing was appended, and the record is not committed");
    }

    /** The second record is the decision to abort. */
    @ParameterizedTest(name = "high watermark {0} of log end 2")
    @ValueSource(longs = {1, 2})
    void sendsMarkersOnlyForACommittedDecision(long highWatermark) throws IOException {
        elected(highWatermark, TransactionState.PREPARE_ABORT, P0);

        verify(markers, highWatermark == 2 ? atLeastOnce() : never())
            .addTxnMarkersToSend(anyInt(), any(), any(), any());
    }

    /** Elect the coordinator; its log has Ongoing [P0], and then this record of the same transaction. */
    private void elected(long highWatermark, TransactionState second, TopicPartition... partitions)
            throws IOException {
        MemoryRecords records = MemoryRecords.withRecords(0L, Compression.NONE,
            record(TransactionState.ONGOING, P0), record(second, partitions));
        UnifiedLog log = mock(UnifiedLog.class);
        when(log.logStartOffset()).thenReturn(0L);
        when(log.logEndOffset()).thenReturn(2L);
        when(log.highWatermark()).thenReturn(highWatermark);
        when(log.read(anyLong(), anyInt(), any(FetchIsolation.class), anyBoolean()))
            .thenReturn(new FetchDataInfo(new LogOffsetMetadata(0), records));
        when(replicas.getLog(LOG)).thenReturn(Option.apply(log));
        when(replicas.getLogEndOffset(LOG)).thenReturn(Option.apply(2L));
        coordinator.onElection(0, 2);
    }

    private SimpleRecord record(TransactionState state, TopicPartition... partitions) {
        TxnTransitMetadata value = new TxnTransitMetadata(PRODUCER_ID, PRODUCER_ID, -1, EPOCH, (short) -1, 60_000,
            state, new HashSet<>(Arrays.asList(partitions)), time.milliseconds(), time.milliseconds(),
            TransactionVersion.TV_1);
        return new SimpleRecord(TransactionLog.keyToBytes(ID), TransactionLog.valueToBytes(value, TransactionVersion.TV_1));
    }
}
