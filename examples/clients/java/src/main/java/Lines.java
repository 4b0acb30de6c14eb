import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.*;
import java.util.*;

/** The lines of docs/client-protocol.md for a client in Java: what no library has to know. */
abstract class Lines {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final Map<Integer, List<Object>> reports = new LinkedHashMap<>();
    private List<Object> events = new ArrayList<>();
    private final Map<Integer, BitSet> unreported = new HashMap<>(); // records by send

    /** The command had no effect, and never will. */
    static class Failed extends RuntimeException {
        Failed(String why) { super(why); }
    }

    /** Perform a command, and put into the answer what it holds beside its outcome. */
    abstract void perform(String verb, JsonNode command, int ms, Map<String, Object> answer) throws Exception;

    /** What an answer says of an exception of the library, whose effect is unknown. */
    abstract Map<String, Object> failure(Exception error);

    /** Records of a send were handed over: each gets a report. */
    synchronized void sending(int send, int records) {
        unreported.computeIfAbsent(send, id -> new BitSet()).set(0, records);
    }

    /** What is known of a record of a send; the first report of each counts. */
    synchronized void report(int send, int record, String outcome, long offset, String code) {
        BitSet rest = unreported.get(send);
        if (rest == null || !rest.get(record)) return;
        rest.clear(record);
        if (rest.isEmpty()) unreported.remove(send);
        var found = Map.of("record", record, "outcome", outcome, "offset", offset, "code", code);
        reports.computeIfAbsent(send, id -> new ArrayList<>()).add(found);
        notifyAll();
    }

    /** Wait until each record has its report; whether it has in time. */
    synchronized boolean reported(int ms) throws InterruptedException {
        for (long end = System.nanoTime() + ms * 1_000_000L, left; !unreported.isEmpty(); wait(left))
            if ((left = (end - System.nanoTime()) / 1_000_000) <= 0) return false;
        return true;
    }

    /** An event for the next answer. */
    synchronized void happened(Map<String, Object> event) { events.add(event); }

    /** Answer commands until standard input ends; then end, whatever the library still waits for. */
    void serve() throws IOException {
        var out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)), false);
        var in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; out.flush()) {
            JsonNode command = JSON.readTree(line);
            var answer = answer(command);
            synchronized (this) {
                for (var some : reports.entrySet())
                    out.println(JSON.writeValueAsString(Map.of("id", some.getKey(), "reports", some.getValue())));
                reports.clear();
                if (command.get("verb").asText().equals("send")) continue;
                answer.put("events", events);
                out.println(JSON.writeValueAsString(answer));
                events = new ArrayList<>();
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private Map<String, Object> answer(JsonNode command) {
        Map<String, Object> made = new HashMap<>(Map.of("id", command.get("id").asInt(), "outcome", "ok"));
        try {
            perform(command.get("verb").asText(), command, command.get("timeout_ms").asInt(), made);
        } catch (Failed error) {
            made.putAll(Map.of("outcome", "failed", "code", "FAILED", "message", error.getMessage()));
        } catch (Exception error) {
            made.put("outcome", command.get("verb").asText().equals("open") ? "failed" : "unknown");
            made.putAll(failure(error));
        }
        return made;
    }
}
