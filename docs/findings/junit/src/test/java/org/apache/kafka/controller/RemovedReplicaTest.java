package org.apache.kafka.controller;

import java.util.List;
import java.util.function.Consumer;

import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.Replicas;
import org.apache.kafka.server.common.MetadataVersion;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import static org.apache.kafka.metadata.LeaderConstants.NO_LEADER;
import static org.junit.jupiter.api.Assertions.assertEquals;

/**
 * A replica was taken off a partition and is added again. It begins with an empty log, and is not in sync when the
 * leader goes: it must not lead. minimum: the smallest in-sync set by the controller; with two the cases fail, as
 * the replica has stayed eligible. The constructor is that of 4.4.0.
 */
class RemovedReplicaTest {
    private static final Uuid TOPIC = Uuid.randomUuid();

    /** One replica instead of three, then two; the minimum is two where the topic's first partition keeps three. */
    @ParameterizedTest
    @ValueSource(ints = {2, 1})
    void aReplicaThatWasTakenOffDoesNotLead(int minimum) {
        PartitionRegistration partition = new PartitionRegistration.Builder()
            .setReplicas(new int[] {1, 2, 3}).setDirectories(DirectoryId.unassignedArray(3)).setIsr(new int[] {1, 2, 3})
            .setLeader(1).setLeaderRecoveryState(LeaderRecoveryState.RECOVERED).setLeaderEpoch(0).setPartitionEpoch(0)
            .build();
        partition = changed(partition, minimum, change -> change
            .setTargetReplicas(List.of(1, 2, 3)).setTargetRemoving(List.of(2, 3)));
        assertEquals(List.of(1), Replicas.toList(partition.replicas));
        partition = changed(partition, minimum, change -> change
            .setTargetReplicas(List.of(1, 2)).setTargetAdding(List.of(2)));
        assertEquals(List.of(1), Replicas.toList(partition.isr));

        partition = changed(partition, minimum, change -> change.setTargetIsr(List.of()));
        assertEquals(NO_LEADER, partition.leader, "only replica 1 has the records");
    }

    /**
     * Replicas 1, 2, 3 are to become 1, 4, 5; 1 and 4 are in sync when the reassignment is cancelled
     * (PartitionReassignmentRevert). The next one adds 4 again, whose broker has deleted its log.
     */
    @ParameterizedTest
    @ValueSource(ints = {2, 1})
    void aReplicaOfACancelledReassignmentDoesNotLead(int minimum) {
        PartitionRegistration partition = new PartitionRegistration.Builder()
            .setReplicas(new int[] {1, 4, 5, 2, 3}).setDirectories(DirectoryId.unassignedArray(5)).setIsr(new int[] {1, 4})
            .setAddingReplicas(new int[] {4, 5}).setRemovingReplicas(new int[] {2, 3})
            .setLeader(1).setLeaderRecoveryState(LeaderRecoveryState.RECOVERED).setLeaderEpoch(0).setPartitionEpoch(0)
            .build();
        partition = changed(partition, minimum, change -> change
            .setTargetReplicas(List.of(1, 2, 3)).setTargetIsr(List.of(1))
            .setTargetRemoving(List.of()).setTargetAdding(List.of()));
        assertEquals(List.of(1, 2, 3), Replicas.toList(partition.replicas));
        partition = changed(partition, minimum, change -> change
            .setTargetReplicas(List.of(1, 4, 5, 2, 3)).setTargetAdding(List.of(4, 5)).setTargetRemoving(List.of(2, 3)));
        assertEquals(List.of(1), Replicas.toList(partition.isr));

        partition = changed(partition, minimum, change -> change.setTargetIsr(List.of()));
        assertEquals(NO_LEADER, partition.leader, "only replica 1 has the records");
    }

    /** What the controller makes of a partition; its leader, 1, goes where it is taken out of the in-sync set. */
    private static PartitionRegistration changed(
            PartitionRegistration partition, int minimum, Consumer<PartitionChangeBuilder> what) {
        PartitionChangeBuilder[] made = new PartitionChangeBuilder[1];
        made[0] = new PartitionChangeBuilder(
            partition, TOPIC, 1, node -> made[0].targetIsr().contains(1) || node != 1,
            MetadataVersion.latestProduction(), minimum, true);
        made[0].setUseLastKnownLeaderInBalancedRecovery(true).setDefaultDirProvider(node -> DirectoryId.UNASSIGNED);
        what.accept(made[0]);
        return partition.merge((PartitionChangeRecord) made[0].build().orElseThrow().message());
    }
}
