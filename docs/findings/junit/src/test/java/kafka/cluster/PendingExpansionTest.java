package kafka.cluster;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.LeaderRecoveryState;

import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import static org.junit.jupiter.api.Assertions.assertAll;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.mockito.ArgumentMatchers.any;
import static org.mockito.Mockito.times;
import static org.mockito.Mockito.verify;
import static org.mockito.Mockito.when;

/**
 * The leader has asked the controller to add broker 3 to the in-sync set, and has no answer: from now on the
 * controller may elect broker 3. Then the metadata log brings the change before, which the leader knows by the
 * response to its request. After that the high watermark waits no more for broker 3.
 */
class PendingExpansionTest {
    private static final Set<Integer> MAY_BE_IN_SYNC = Set.of(1, 2, 3);

    @TempDir
    Path folder;

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void theHighWatermarkWaitsForAReplicaThatMayBeInSync(boolean changeBeforeComesByMetadata) throws IOException {
        LedPartition led = new LedPartition(folder);
        CompletableFuture<LeaderAndIsr> first = new CompletableFuture<>(), second = new CompletableFuture<>();
        when(led.controller.submit(any(), any())).thenReturn(first, second);
        led.lead(0, 1);
        led.fetch(2, 0);
        first.complete(new LeaderAndIsr(1, 0, List.of(1, 2), LeaderRecoveryState.RECOVERED, 1));
        led.fetch(3, 0);
        verify(led.controller, times(2)).submit(any(), any());
        assertEquals(MAY_BE_IN_SYNC, led.mayBeInSync());

        if (changeBeforeComesByMetadata)
            led.lead(1, 1, 2);
        led.append();
        led.later(LedPartition.MAX_LAG_MS + 1);
        led.fetch(2, 1);
        assertAll("the request for broker 3 has no answer",
            () -> assertEquals(MAY_BE_IN_SYNC, led.mayBeInSync()),
            () -> assertEquals(0, led.highWatermark(), "broker 3 may be elected, and lacks the record"));
    }
}
