package kafka.cluster;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.errors.IneligibleReplicaException;
import org.apache.kafka.metadata.LeaderAndIsr;

import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import static org.junit.jupiter.api.Assertions.assertAll;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.verify;
import static org.mockito.Mockito.when;

/**
 * The leader has asked the controller to add broker 3 to the in-sync set, and is refused: broker 3 is fenced. From
 * then on nothing that all in-sync replicas have has to wait. But the leader does not look.
 */
class RefusedExpansionTest {
    private static final Set<Integer> IN_SYNC = Set.of(1, 2);

    @TempDir
    Path folder;

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void whatAllInSyncReplicasHaveIsCommitted(boolean refusedAfterTheyHaveIt) throws IOException {
        LedPartition led = new LedPartition(folder);
        CompletableFuture<LeaderAndIsr> asked = new CompletableFuture<>();
        when(led.controller.submit(any(), any())).thenReturn(asked);
        led.lead(0, 1, 2);
        led.append();
        led.fetch(3, 0);
        verify(led.controller).submit(any(), any());
        led.alive(1, 2);

        if (refusedAfterTheyHaveIt)
            led.fetch(2, 1);
        asked.completeExceptionally(new IneligibleReplicaException("broker 3 is fenced"));
        led.fetch(2, 1);
        led.later(LedPartition.MAX_LAG_MS + 1);
        led.fetch(2, 1);
        assertAll("nothing is written any more",
            () -> assertEquals(IN_SYNC, led.mayBeInSync()),
            () -> assertEquals(1, led.highWatermark(), "brokers 1 and 2 have the record"));
    }
}
