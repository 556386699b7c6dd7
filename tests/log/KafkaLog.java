import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Performs the commands of transaction_script.py on a log of Apache Kafka's own, in the directory that is given. */
public class KafkaLog {
    static final long NOW_MS = 1_700_000_000_000L;
    static final short UNKNOWN_VERSION = -1;

    final File directory;
    final KafkaScheduler scheduler = new KafkaScheduler(1);
    final BrokerTopicStats stats = new BrokerTopicStats();
    final Map<Long, VerificationGuard> guards = new HashMap<>();
    UnifiedLog log;
    long timestamp = NOW_MS;

    KafkaLog(File directory) throws Exception {
        this.directory = directory;
        scheduler.startup();
        open(true, 0);
    }

    void open(boolean clean, long start) throws Exception {
        log = UnifiedLog.create(directory, new LogConfig(new Properties()), start, 0, scheduler, stats, new StillTime(),
            60_000, new ProducerStateManagerConfig(86_400_000, true), 600_000, new LogDirFailureChannel(1), clean,
            Optional.<Uuid>empty());
        log.updateHighWatermark(log.logEndOffset());
    }

    String perform(String[] words) throws Exception {
        switch (words[0]) {
            case "data":
                return append(words, AppendOrigin.CLIENT, VerificationGuard.SENTINEL);
            case "verified":
                return append(words, AppendOrigin.CLIENT, verify(words));
            case "offsets":
                return append(words, AppendOrigin.COORDINATOR, verify(words));
            case "verify":
                guards.put(Long.parseLong(words[1]), verify(words));
                return "ok";
            case "late":
                return append(words, AppendOrigin.CLIENT, guards.getOrDefault(Long.parseLong(words[1]), VerificationGuard.SENTINEL));
            case "marker":
                return "" + marker(words);
            case "commit":
                return "" + log.updateHighWatermark(Long.parseLong(words[1]));
            case "roll":
                return "" + log.roll().baseOffset();
            case "start":
                log.maybeIncrementLogStartOffset(
                    Long.parseLong(words[1]), LogStartOffsetIncrementReason.ClientRecordDeletion);
                log.deleteOldSegments();
                return "" + log.logStartOffset();
            case "truncate":
                log.truncateTo(Long.parseLong(words[1]));
                log.updateHighWatermark(log.highWatermark());
                return "" + log.logEndOffset();
            case "reopen":
                log.close();
                open(true, log.logStartOffset());
                return "ok";
            case "crash":
                log.closeHandlers();
                open(false, log.logStartOffset());
                return "ok";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    VerificationGuard verify(String[] words) {
        return log.maybeStartTransactionVerification(Long.parseLong(words[1]), Integer.parseInt(words[3]),
            Short.parseShort(words[2]), words[6].equals("2"));
    }

    String append(String[] words, AppendOrigin origin, VerificationGuard guard) throws Exception {
        SimpleRecord[] records = new SimpleRecord[Integer.parseInt(words[4])];
        for (int i = 0; i < records.length; i++)
            records[i] = new SimpleRecord(timestamp, null, "vvvvvvvvvv".getBytes());
        long producer = Long.parseLong(words[1]);
        short epoch = Short.parseShort(words[2]);
        int sequence = Integer.parseInt(words[3]);
        MemoryRecords batch = words[5].equals("t")
            ? MemoryRecords.withTransactionalRecords(Compression.NONE, producer, epoch, sequence, records)
            : MemoryRecords.withIdempotentRecords(Compression.NONE, producer, epoch, sequence, records);
        return "" + log.appendAsLeader(batch, 0, origin, RequestLocal.noCaching(), guard, UNKNOWN_VERSION).firstOffset();
    }

    long marker(String[] words) throws Exception {
        ControlRecordType type = words[4].equals("c") ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
        MemoryRecords batch = MemoryRecords.withEndTransactionMarker(timestamp, Long.parseLong(words[1]),
            Short.parseShort(words[2]), new EndTransactionMarker(type, Integer.parseInt(words[3])));
        return log.appendAsLeader(batch, 0, AppendOrigin.COORDINATOR, RequestLocal.noCaching(),
            VerificationGuard.SENTINEL, Short.parseShort(words[5])).firstOffset();
    }

    String state() {
        String aborted = log.collectAbortedTransactions(log.logStartOffset(), log.lastStableOffset()).stream()
            .map(entry -> entry.producerId() + ":" + entry.firstOffset() + "-" + entry.lastOffset() + "/"
                + entry.lastStableOffset())
            .collect(Collectors.joining(","));
        String producers = log.activeProducers().stream()
            .sorted(Comparator.comparingLong(producer -> producer.producerId()))
            .map(producer -> producer.producerId() + ":" + producer.producerEpoch() + ":" + producer.lastSequence()
                + ":" + (producer.lastTimestamp() - NOW_MS) + ":" + producer.coordinatorEpoch() + ":"
                + producer.currentTxnStartOffset())
            .collect(Collectors.joining(","));
        return "log " + log.logStartOffset() + "-" + log.logEndOffset() + " unstable "
            + log.firstUnstableOffset().map(String::valueOf).orElse("none") + " stable " + log.lastStableOffset()
            + " aborted [" + aborted + "] producers [" + producers + "]";
    }

    public static void main(String[] arguments) throws Exception {
        KafkaLog kafka = new KafkaLog(new File(arguments[0]));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            kafka.timestamp++;
            String result;
            try {
                result = kafka.perform(line.split(" "));
            } catch (Exception error) {
                result = Errors.forException(error).name();
            }
            System.out.println(line + " -> " + result + " | " + kafka.state());
        }
        kafka.log.close();
        kafka.scheduler.shutdown();
    }

    static class StillTime implements Time {
        public long milliseconds() {
            return NOW_MS;
        }

        public long nanoseconds() {
            return System.nanoTime();
        }

        public void sleep(long ms) {
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        }
    }
}
