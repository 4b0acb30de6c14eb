import com.fasterxml.jackson.databind.JsonNode;
import java.util.*;
import org.apache.kafka.common.serialization.*;

/** Settings of `open` by the names of Kafka's Java client. */
class Settings {
    static Map<String, Object> common(JsonNode command) {
        Map<String, Object> found = security(command.get("security"));
        found.put("bootstrap.servers", command.get("bootstrap").asText());
        found.putAll(Map.of("reconnect.backoff.max.ms", 500, "socket.connection.setup.timeout.ms", 1000));
        return found;
    }

    /** ms: how long a call may block. */
    static Map<String, Object> producer(Map<String, Object> common, JsonNode p, int ms) {
        int linger = p.get("linger_ms").asInt(), given = p.get("message_timeout_ms").asInt();
        int whole = given == 0 ? Integer.MAX_VALUE : given;
        int request = Math.min(p.get("socket_timeout_ms").asInt(), whole - linger);
        Map<String, Object> found = new HashMap<>(common);
        found.putAll(Map.of("acks", p.get("acks").asText(), "enable.idempotence", p.get("idempotent").asBoolean(),
            "retries", p.get("retries").asInt(), "max.in.flight.requests.per.connection", p.get("in_flight").asInt(),
            "linger.ms", linger, "delivery.timeout.ms", whole, "request.timeout.ms", Math.max(1, request),
            "max.block.ms", Math.max(500, ms - 1000)));
        found.putAll(Map.of("key.serializer", ByteArraySerializer.class, "value.serializer", ByteArraySerializer.class));
        if (p.get("batch_records").asInt() < 100) found.put("batch.size", 0); // Java counts bytes
        if (p.hasNonNull("transactional_id")) {
            found.put("transactional.id", p.get("transactional_id").asText());
            found.put("transaction.timeout.ms", p.get("transaction_timeout_ms").asInt());
        }
        return found;
    }

    static Map<String, Object> consumer(Map<String, Object> common, JsonNode c, int ms) {
        int session = c.get("session_timeout_ms").asInt(), request = c.get("socket_timeout_ms").asInt();
        Map<String, Object> found = new HashMap<>(common);
        found.putAll(Map.of("enable.auto.commit", false, "auto.offset.reset", c.get("auto_offset_reset").asText(),
            "isolation.level", c.get("isolation").asInt() == 1 ? "read_committed" : "read_uncommitted",
            "session.timeout.ms", session, "heartbeat.interval.ms", session / 6, "fetch.max.wait.ms", 100,
            "request.timeout.ms", request, "default.api.timeout.ms", Math.max(ms, request)));
        found.putAll(Map.of("key.deserializer", ByteArrayDeserializer.class, "value.deserializer", ByteArrayDeserializer.class));
        if (c.hasNonNull("group")) found.put("group.id", c.get("group").asText());
        return found;
    }

    private static Map<String, Object> security(JsonNode given) {
        Map<String, Object> found = new HashMap<>();
        for (var one : given.properties()) {
            String name = one.getKey(), value = one.getValue().asText();
            switch (name) {
                case "security.protocol", "sasl.mechanism", "ssl.endpoint.identification.algorithm" -> found.put(name, value);
                case "ssl.ca.pem" -> found.put("ssl.truststore.certificates", value);
                case "ssl.ca.location" -> found.put("ssl.truststore.location", value);
                case "sasl.username", "sasl.password" -> found.put("sasl.jaas.config", login(given));
                default -> throw new Lines.Failed(name + ": not a setting of this client");
            }
            if (name.startsWith("ssl.ca")) found.put("ssl.truststore.type", "PEM");
        }
        return found;
    }

    private static String login(JsonNode given) {
        boolean plain = given.path("sasl.mechanism").asText().equals("PLAIN");
        String module = plain ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        return String.format("org.apache.kafka.common.security.%s required username=\"%s\" password=\"%s\";",
            module, given.path("sasl.username").asText(), given.path("sasl.password").asText());
    }
}
