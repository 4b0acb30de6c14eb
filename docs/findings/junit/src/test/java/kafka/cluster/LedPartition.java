package kafka.cluster;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

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

import scala.Option;

import static org.mockito.ArgumentMatchers.any;
import static org.mockito.ArgumentMatchers.anyBoolean;
import static org.mockito.ArgumentMatchers.eq;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

/** A partition with replicas on brokers 1, 2 and 3, as broker 1 has it, which leads it in leader epoch 0. */
final class LedPartition {
    static final TopicPartition P0 = new TopicPartition("payments", 0);
    private static final Uuid TOPIC = Uuid.randomUuid();
    static final long MAX_LAG_MS = 30_000;

    final AlterPartitionManager controller = mock(AlterPartitionManager.class);
    private final Path folder;
    private final List<Uuid> directories;
    private final Time time = mock(Time.class);
    private final KRaftMetadataCache metadata = new KRaftMetadataCache(1, () -> KRaftVersion.KRAFT_VERSION_1);
    private long now = 1_000_000;
    final Partition partition;

    /** Each broker has one directory. */
    LedPartition(Path folder) throws IOException {
        this(folder, Collections.nCopies(3, Uuid.randomUuid()));
    }

    /** directories: of the replicas. Each broker has all of them. */
    LedPartition(Path folder, List<Uuid> directories) throws IOException {
        this.folder = folder;
        this.directories = directories;
        when(time.milliseconds()).thenAnswer(asked -> now);
        alive(1, 2, 3);
        partition = partition();
    }

    /** What broker 1 has of the metadata log: these brokers are not fenced, and have all directories. */
    void alive(Integer... brokers) {
        alive(Set.of(), brokers);
    }

    /** What broker 1 has of the metadata log. failed: directories that no broker has any more. */
    void alive(Set<Uuid> failed, Integer... brokers) {
        List<Uuid> left = directories.stream().distinct().filter(one -> !failed.contains(one)).toList();
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int broker : new int[] {1, 2, 3})
            delta.replay(new RegisterBrokerRecord().setBrokerId(broker).setBrokerEpoch(100 + broker)
                .setIncarnationId(Uuid.randomUuid()).setFenced(!List.of(brokers).contains(broker))
                .setLogDirs(left));
        delta.replay(new TopicRecord().setName(P0.topic()).setTopicId(TOPIC));
        delta.replay(new PartitionRecord().setTopicId(TOPIC).setPartitionId(0).setReplicas(List.of(1, 2, 3))
            .setDirectories(directories).setIsr(List.of(1)).setLeader(1).setLeaderEpoch(0));
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
        return new Partition(P0, MAX_LAG_MS, 1, () -> 101L, time, mock(AlterPartitionListener.class),
            mock(DelayedOperations.class), metadata, logs, controller, Option.apply(TOPIC));
    }

    /** What the metadata log says of the partition: broker 1 leads in leader epoch 0. */
    void lead(int partitionEpoch, int... inSync) {
        PartitionRegistration registration = new PartitionRegistration.Builder().setReplicas(new int[] {1, 2, 3})
            .setDirectories(directories.toArray(new Uuid[0])).setIsr(inSync).setLeader(1)
            .setLeaderEpoch(0).setLeaderRecoveryState(LeaderRecoveryState.RECOVERED)
            .setPartitionEpoch(partitionEpoch).build();
        partition.makeLeader(registration, partitionEpoch == 0, mock(OffsetCheckpoints.class), Option.apply(TOPIC),
            Option.apply(DirectoryId.UNASSIGNED));
    }

    void append() {
        MemoryRecords records = MemoryRecords.withRecords(Compression.NONE, new SimpleRecord("paid".getBytes()));
        partition.appendRecordsToLeader(records, AppendOrigin.CLIENT, -1, RequestLocal.noCaching(),
            VerificationGuard.SENTINEL, (short) -1);
    }

    /** A fetch of this follower from this offset, which tells the leader that it has all before. */
    void fetch(int follower, long offset) {
        partition.updateFollowerFetchState(partition.getReplica(follower).get(), new LogOffsetMetadata(offset), 0,
            now, partition.localLogOrException().logEndOffset(), 100 + follower);
    }

    long highWatermark() {
        return partition.localLogOrException().highWatermark();
    }

    Set<Integer> mayBeInSync() {
        return partition.partitionState().maximalIsr();
    }

    void later(long ms) {
        now += ms;
    }
}
