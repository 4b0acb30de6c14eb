import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.AppInfoParser;

/** Kafka's Java client as a client of Inquest (--client "java -jar examples/clients/java/target/client.jar"). */
class Client extends Lines implements ConsumerRebalanceListener {
    static final Set<Class<?>> FATAL = Set.of(ProducerFencedException.class, InvalidProducerEpochException.class,
        OutOfOrderSequenceException.class, UnsupportedVersionException.class);
    KafkaProducer<byte[], byte[]> producer;
    KafkaConsumer<byte[], byte[]> consumer;
    boolean transactional, open;
    final ExecutorService sender = Executors.newSingleThreadExecutor(); // KafkaProducer.send waits for metadata
    final ArrayDeque<ConsumerRecord<byte[], byte[]>> fetched = new ArrayDeque<>(); // and not returned yet

    public static void main(String[] words) throws Exception { new Client().serve(); }

    @Override void perform(String verb, JsonNode command, int ms, Map<String, Object> answer) throws Exception {
        var time = Duration.ofMillis(ms);
        switch (verb) {
            case "open" -> open(command, ms, answer);
            case "init" -> producer.initTransactions();
            case "send" -> send(command.get("id").asInt(), command.get("records"));
            case "flush" -> { if (!reported(ms)) throw new TimeoutException("records without a report"); }
            case "begin" -> { producer.beginTransaction(); open = true; }
            case "commit" -> { producer.commitTransaction(); open = false; }
            case "abort" -> { producer.abortTransaction(); open = false; }
            case "offsets_to_transaction" ->
                producer.sendOffsetsToTransaction(offsets(command.get("positions")), consumer.groupMetadata());
            case "subscribe" -> consumer.subscribe(command.get("topics").valueStream().map(JsonNode::asText).toList(), this);
            case "assign" -> {
                consumer.unsubscribe();
                consumer.assign(at(command.get("positions")).keySet());
                seek(at(command.get("positions")));
            }
            case "seek" -> seek(at(command.get("positions")));
            case "poll" -> answer.put("records", poll(command.get("max_records").asInt(), time));
            case "position" -> answer.put("positions", consumer.assignment().stream().map(tp -> at(tp, next(tp))).toList());
            case "committed" -> {
                var found = consumer.committed(at(command.get("partitions")).keySet(), time);
                found.values().removeIf(Objects::isNull);
                answer.put("positions", found.keySet().stream().map(tp -> at(tp, found.get(tp).offset())).toList());
            }
            case "commit_offsets" -> consumer.commitSync(offsets(command.get("positions")), time);
            case "close" -> {
                if (producer != null) producer.close(Duration.ZERO);
                if (consumer != null) consumer.close(CloseOptions.timeout(time.dividedBy(2)));
            }
            default -> throw new Failed("no verb " + verb);
        }
        if (verb.contains("offsets")) answer.put("generation", consumer.groupMetadata().generationId());
    }

    void open(JsonNode command, int ms, Map<String, Object> answer) {
        JsonNode p = command.at("/client/producer"), c = command.at("/client/consumer");
        Map<String, Object> common = Settings.common(command);
        transactional = p.hasNonNull("transactional_id");
        if (p.isObject()) producer = new KafkaProducer<>(Settings.producer(common, p, ms));
        if (c.isObject()) consumer = new KafkaConsumer<>(Settings.consumer(common, c, ms));
        answer.put("name", "kafka-clients " + AppInfoParser.getVersion());
    }

    void send(int id, JsonNode records) {
        sending(id, records.size());
        boolean refused = transactional && !open; // Java would keep such a record for the next transaction
        for (int n = 0; n < records.size(); n++) {
            int record = n;
            if (refused) report(id, record, "failed", -1, "INVALID_TXN_STATE");
            else sender.execute(() -> {
                try {
                    producer.send(record(records.get(record)), (done, error) -> {
                        if (error == null) report(id, record, "ok", done.offset(), "");
                        else report(id, record, "unknown", -1, code(error)); // of the last attempt
                    });
                } catch (Exception error) { // Java may hold the record all the same
                    report(id, record, "unknown", -1, code(error));
                }
            });
        }
    }

    static ProducerRecord<byte[], byte[]> record(JsonNode its) throws java.io.IOException {
        int partition = its.get("partition").asInt();
        return new ProducerRecord<>(its.get("topic").asText(), partition, null, its.get("value").binaryValue());
    }

    List<Object> poll(int most, Duration time) {
        if (fetched.isEmpty()) consumer.poll(time).forEach(fetched::add);
        List<Object> found = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> one; found.size() < most && (one = fetched.poll()) != null;)
            found.add(Map.of("topic", one.topic(), "partition", one.partition(), "offset", one.offset(), "value", one.value(),
                "leader_epoch", one.leaderEpoch().orElse(-1)));
        return found;
    }

    long next(TopicPartition tp) {
        for (var one : fetched) if (tp.equals(new TopicPartition(one.topic(), one.partition()))) return one.offset();
        try { return consumer.position(tp, Duration.ofMillis(100)); } catch (TimeoutException error) { return -1; }
    }

    void seek(Map<TopicPartition, Long> positions) {
        fetched.removeIf(one -> positions.containsKey(new TopicPartition(one.topic(), one.partition())));
        positions.forEach((tp, at) -> { if (at >= 0) consumer.seek(tp, at); else consumer.seekToBeginning(List.of(tp)); });
    }

    public void onPartitionsAssigned(Collection<TopicPartition> those) { rebalanced("assigned", those); }
    public void onPartitionsRevoked(Collection<TopicPartition> those) { rebalanced("revoked", those); }
    @Override public void onPartitionsLost(Collection<TopicPartition> those) { rebalanced("lost", those); }

    void rebalanced(String event, Collection<TopicPartition> those) {
        happened(Map.of("event", event, "generation", consumer.groupMetadata().generationId(),
            "partitions", those.stream().map(tp -> Map.of("topic", tp.topic(), "partition", tp.partition())).toList()));
    }

    @Override Map<String, Object> failure(Exception error) {
        boolean fatal = fatal(error) || fatal(error.getCause()), late = error instanceof TimeoutException;
        return Map.of("code", code(error), "message", String.valueOf(error), "fatal", fatal,
            "wants_abort", open && !fatal && !late && error instanceof KafkaException);
    }

    static boolean fatal(Throwable error) { return error != null && FATAL.contains(error.getClass()); }

    static String code(Exception error) {
        Errors known = Errors.forException(error);
        return known == Errors.UNKNOWN_SERVER_ERROR ? error.getClass().getSimpleName() : known.name();
    }

    static Map<String, Object> at(TopicPartition tp, long offset) {
        return Map.of("topic", tp.topic(), "partition", tp.partition(), "offset", offset);
    }

    static Map<TopicPartition, Long> at(JsonNode given) {
        return given.valueStream().collect(Collectors.toMap(one -> new TopicPartition(one.get("topic").asText(),
            one.get("partition").asInt()), one -> one.path("offset").asLong(-1)));
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode given) {
        return at(given).entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey,
            one -> new OffsetAndMetadata(one.getValue())));
    }
}
