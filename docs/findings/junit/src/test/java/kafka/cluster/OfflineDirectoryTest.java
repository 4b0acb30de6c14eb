package kafka.cluster;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;

import org.apache.kafka.common.Uuid;

import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import static org.junit.jupiter.api.Assertions.assertEquals;

/**
 * The controller has taken a follower out of the in-sync set, since it cannot fetch any more: its log directory
 * has failed, or its whole broker, which is fenced. The others have the next record: the high watermark covers it.
 */
class OfflineDirectoryTest {
    private static final Uuid GOOD = Uuid.randomUuid();
    private static final Uuid FAILED = Uuid.randomUuid();

    @TempDir
    Path folder;

    @ParameterizedTest
    @ValueSource(strings = {"directory failed", "broker fenced"})
    void theHighWatermarkWaitsForNoReplicaThatCannotFetch(String what) throws IOException {
        LedPartition led = new LedPartition(folder, List.of(GOOD, FAILED, GOOD));
        led.lead(0, 1, 2, 3);
        led.append();
        led.fetch(2, 1);
        led.fetch(3, 1);
        assertEquals(1, led.highWatermark(), "all in sync have the first record");

        if (what.equals("broker fenced"))
            led.alive(1, 3);
        else
            led.alive(Set.of(FAILED), 1, 2, 3);
        led.lead(1, 1, 3);
        led.append();
        led.fetch(3, 2);
        assertEquals(2, led.highWatermark(), "all in sync have the second record");
    }
}
