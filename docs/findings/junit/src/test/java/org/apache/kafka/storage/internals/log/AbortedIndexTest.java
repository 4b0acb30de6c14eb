package org.apache.kafka.storage.internals.log;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.StreamSupport;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

import static org.junit.jupiter.api.Assertions.assertEquals;

/**
 * A producer aborts eight transactions, then another one writes. A replica has these batches one by one, as a
 * leader and a follower that keeps up have them, or all in one append, as a follower has them that was away: then
 * the case fails, as the aborted index hides all but the first transaction from small fetches. The constructors
 * are those of 4.4.0.
 */
class AbortedIndexTest {
    private static final long ABORTS = 1, WRITES_LATER = 2;
    private static final int TRANSACTIONS = 8, VALUE_BYTES = 3000, FETCH_BYTES = 8000;

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aFetchNamesEachAbortedTransactionOfItsRecords(boolean oneAppend, @TempDir Path folder) throws IOException {
        List<MemoryRecords> batches = new ArrayList<>();
        for (int number = 0; number < TRANSACTIONS; number++) {
            batches.add(record(2L * number, ABORTS, number));
            batches.add(MemoryRecords.withEndTransactionMarker(2L * number + 1, 0, 0, ABORTS, (short) 0,
                new EndTransactionMarker(ControlRecordType.ABORT, 0)));
        }
        batches.add(record(2L * TRANSACTIONS, WRITES_LATER, 0));
        UnifiedLog log = log(folder);
        for (MemoryRecords records : oneAppend ? List.of(joined(batches)) : batches)
            log.appendAsFollower(records, 0);
        log.updateHighWatermark(log.logEndOffset());
        assertEquals(2L * TRANSACTIONS, log.lastStableOffset());

        FetchDataInfo fetched = log.read(0, FETCH_BYTES, FetchIsolation.TXN_COMMITTED, true);
        List<Long> aborted = StreamSupport.stream(fetched.records.batches().spliterator(), false)
            .filter(batch -> !batch.isControlBatch()).map(RecordBatch::baseOffset).toList();
        assertEquals(List.of(0L, 2L), aborted);
        List<Long> named = fetched.abortedTransactions.orElseThrow().stream()
            .map(AbortedTransaction::firstOffset).filter(aborted::contains).toList();
        assertEquals(aborted, named, "a consumer takes what is not named for committed");
    }

    private static UnifiedLog log(Path folder) throws IOException {
        return UnifiedLog.create(Files.createDirectory(folder.resolve("topic-0")).toFile(), new LogConfig(Map.of()),
            0, 0, new KafkaScheduler(1), new BrokerTopicStats(), Time.SYSTEM, 300_000,
            new ProducerStateManagerConfig(86_400_000, false), 600_000, new LogDirFailureChannel(1), true,
            Optional.empty());
    }

    private static MemoryRecords record(long offset, long producer, int sequence) {
        return MemoryRecords.withTransactionalRecords(offset, Compression.NONE, producer, (short) 0, sequence, 0,
            new SimpleRecord(Time.SYSTEM.milliseconds(), new byte[VALUE_BYTES]));
    }

    private static MemoryRecords joined(List<MemoryRecords> batches) {
        ByteBuffer all = ByteBuffer.allocate(batches.stream().mapToInt(MemoryRecords::sizeInBytes).sum());
        batches.forEach(batch -> all.put(batch.buffer().duplicate()));
        all.flip();
        return MemoryRecords.readableRecords(all);
    }
}
