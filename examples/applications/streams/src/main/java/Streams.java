import java.io.File;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.*;

/**
 * A Kafka Streams application for inquest run --app "java -jar examples/applications/streams/target/streams.jar
 * TOPOLOGY [GUARANTEE]". copy: each record as it is. filter: every second one (--set 'app={"shape":"filter"}').
 * count: of each key, how many records it has and which ones (--set 'app={"shape":"aggregate"}'). GUARANTEE:
 * exactly_once_v2, or at_least_once.
 */
class Streams {
    static final int NUMBER_AT = 24; // docs/applications.md: where a record has its number
    static final Consumed<byte[], byte[]> READ = Consumed.with(Serdes.ByteArray(), Serdes.ByteArray());
    static final Produced<byte[], byte[]> WRITTEN = Produced.with(Serdes.ByteArray(), Serdes.ByteArray());

    public static void main(String[] words) throws InterruptedException {
        var streams = new KafkaStreams(topology(words.length > 0 ? words[0] : "copy"),
            settings(words.length > 1 ? words[1] : StreamsConfig.EXACTLY_ONCE_V2));
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println(error);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(8))));
        streams.start();
        Thread.currentThread().join();
    }

    static Topology topology(String name) {
        var builder = new StreamsBuilder();
        var input = builder.stream(env("IN"), READ);
        switch (name) {
            case "copy" -> input.to(env("OUT"), WRITTEN);
            case "filter" -> input.filter((key, value) -> number(value) % 2 == 0).to(env("OUT"), WRITTEN);
            case "count" -> input.groupByKey(Grouped.with(Serdes.ByteArray(), Serdes.ByteArray()))
                .aggregate(() -> "", (key, value, numbers) -> numbers.isEmpty() ? "" + number(value) : numbers + "," + number(value),
                    Materialized.with(Serdes.ByteArray(), Serdes.String()))
                .toStream()
                .mapValues(numbers -> "{\"count\":%d,\"inputs\":[%s]}".formatted(numbers.split(",").length, numbers))
                .to(env("OUT"), Produced.with(Serdes.ByteArray(), Serdes.String()));
            default -> throw new IllegalArgumentException(name);
        }
        return builder.build();
    }

    static Properties settings(String guarantee) {
        var found = new Properties();
        found.put(StreamsConfig.APPLICATION_ID_CONFIG, env("GROUP"));
        found.put(StreamsConfig.CLIENT_ID_CONFIG, "instance-" + env("INSTANCE"));
        found.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, env("BOOTSTRAP"));
        found.put(StreamsConfig.STATE_DIR_CONFIG, new File(env("FOLDER"), "state-" + env("INSTANCE")).getPath());
        found.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        found.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
        found.put(StreamsConfig.consumerPrefix(ConsumerConfig.ISOLATION_LEVEL_CONFIG), "read_committed");
        found.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6000);
        found.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 2000);
        return found;
    }

    /** What tells an input record from all others of the run. */
    static long number(byte[] record) {
        return ByteBuffer.wrap(record).order(ByteOrder.LITTLE_ENDIAN).getLong(NUMBER_AT);
    }

    static String env(String name) { return System.getenv("INQUEST_" + name); }
}
