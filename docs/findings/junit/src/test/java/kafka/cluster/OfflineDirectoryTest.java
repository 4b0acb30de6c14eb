package kafka.cluster;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.partition.AlterPartitionListener;
import org.apache.kafka.server.partition.AlterPartitionManager;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpoints;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogManager;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import scala.Option;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyBoolean;
import static org.mockito.ArgumentMatchers.eq;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

/**
 * The controller has taken a follower out of the in-sync set, since it cannot fetch any more: its log directory
 * has failed, or its whole broker, which is fenced. The others have the next record: the high watermark covers it.
 */
class OfflineDirectoryTest {
    private static final TopicPartition P0 = new TopicPartition("payments", 0);
    private static final Uuid TOPIC = Uuid.randomUuid();
    private static final Uuid GOOD = Uuid.randomUuid();
    private static final Uuid FAILED = Uuid.randomUuid();

    @TempDir
    Path folder;

    private final Time time = Time.SYSTEM;
    private final KRaftMetadataCache metadata = new KRaftMetadataCache(1, () -> KRaftVersion.KRAFT_VERSION_1);

    @ParameterizedTest
    @ValueSource(strings = {"directory failed", "broker fenced"})
    void theHighWatermarkWaitsForNoReplicaThatCannotFetch(String what) throws IOException {
        boolean fenced = what.equals("broker fenced");
        image(false, List.of(GOOD, FAILED), List.of(1, 2, 3));
        Partition partition = partition();
        lead(partition, 0, 1, 2, 3);
        append(partition);
        fetch(partition, 2, 1);
        fetch(partition, 3, 1);
        assertEquals(1, highWatermark(partition), "all in sync have the first record");

        image(fenced, fenced ? List.of(GOOD, FAILED) : List.of(GOOD), List.of(1, 3));
        lead(partition, 1, 1, 3);
        append(partition);
        fetch(partition, 3, 2);
        assertEquals(2, highWatermark(partition), "all in sync have the second record");
    }

    /** What broker 1 has of the metadata log. Broker 2 has its replica in the directory FAILED. */
    private void image(boolean fenced, List<Uuid> directories, List<Integer> inSync) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int broker : new int[] {1, 2, 3})
            delta.replay(new RegisterBrokerRecord().setBrokerId(broker).setBrokerEpoch(100 + broker)
                .setIncarnationId(Uuid.randomUuid()).setFenced(fenced && broker == 2)
                .setLogDirs(broker == 2 ? directories : List.of(GOOD)));
        delta.replay(new TopicRecord().setName(P0.topic()).setTopicId(TOPIC));
        delta.replay(new PartitionRecord().setTopicId(TOPIC).setPartitionId(0).setReplicas(List.of(1, 2, 3))
            .setDirectories(List.of(GOOD, FAILED, GOOD)).setIsr(inSync).setLeader(1).setLeaderEpoch(0));
        metadata.setImage(delta.apply(MetadataProvenance.EMPTY));
    }

    private Partition partition() throws IOException {
        LogConfig config = new LogConfig(Map.of("min.insync.replicas", "2"));
        UnifiedLog log = UnifiedLog.create(folder.resolve(P0.toString()).toFile(), config, 0, 0,
            mock(Scheduler.class), new BrokerTopicStats(), time, 3_600_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true,
            Optional.of(TOPIC));
        LogManager logs = mock(LogManager.class);
        when(logs.getOrCreateLog(eq(P0), anyBoolean(), anyBoolean(), any(), any())).thenReturn(log);
        return new Partition(P0, 30_000, 1, () -> 101L, time, mock(AlterPartitionListener.class),
            mock(DelayedOperations.class), metadata, logs, mock(AlterPartitionManager.class), Option.apply(TOPIC));
    }

    private void lead(Partition partition, int partitionEpoch, int... inSync) {
        PartitionRegistration registration = new PartitionRegistration.Builder().setReplicas(new int[] {1, 2, 3})
            .setDirectories(new Uuid[] {GOOD, FAILED, GOOD}).setIsr(inSync).setLeader(1).setLeaderEpoch(0)
            .setLeaderRecoveryState(LeaderRecoveryState.RECOVERED).setPartitionEpoch(partitionEpoch).build();
        partition.makeLeader(registration, partitionEpoch == 0, mock(OffsetCheckpoints.class), Option.apply(TOPIC),
            Option.apply(DirectoryId.UNASSIGNED));
    }

    private void append(Partition partition) {
        MemoryRecords records = MemoryRecords.withRecords(Compression.NONE, new SimpleRecord("paid".getBytes()));
        partition.appendRecordsToLeader(records, AppendOrigin.CLIENT, -1, RequestLocal.noCaching(),
            VerificationGuard.SENTINEL, (short) -1);
    }

    /** A fetch of this follower from this offset, which tells the leader that it has all before. */
    private void fetch(Partition partition, int follower, long offset) {
        partition.updateFollowerFetchState(partition.getReplica(follower).get(), new LogOffsetMetadata(offset), 0,
            time.milliseconds(), partition.localLogOrException().logEndOffset(), 100 + follower);
    }

    private long highWatermark(Partition partition) {
        return partition.localLogOrException().highWatermark();
    }
}
