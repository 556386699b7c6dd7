import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Optional;
import java.util.Properties;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Has Apache Kafka's own cleaner compact logs. Each line of the input is a directory, the first dirty offset, the offset
 * at which cleaning ends, the time, and segment.bytes; the answer is what compaction_script.py writes of a log.
 */
public class KafkaCleaner {
    static final long NOW_MS = 1_700_000_000_000L;

    static void clean(File directory, long dirty, long end, long now, String segmentBytes) throws Exception {
        Properties settings = new Properties();
        settings.put("cleanup.policy", "compact");
        settings.put("delete.retention.ms", "1000");
        settings.put("internal.segment.bytes", segmentBytes);
        settings.put("index.interval.bytes", "300");
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        Time time = new StillTime();
        UnifiedLog log = UnifiedLog.create(directory, new LogConfig(settings), 0, 0, scheduler, new BrokerTopicStats(), time,
            60_000, new ProducerStateManagerConfig(86_400_000, true), 600_000, new LogDirFailureChannel(1), true,
            Optional.<Uuid>empty());
        log.updateHighWatermark(log.logEndOffset());
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(1 << 20), 1 << 16, 1 << 20, 0.9,
            new Throttler(Double.MAX_VALUE, 300, "cleaner", "bytes", time), time, partition -> { });
        if (end > dirty)
            cleaner.doClean(new LogToClean(log, dirty, end, true), now);
        for (LogSegment segment : log.logSegments())
            for (RecordBatch batch : segment.log().batches())
                System.out.println(describe(batch));
        for (LogSegment segment : log.logSegments())
            segment.txnIndex().allAbortedTxns().forEach(entry -> System.out.println(
                "aborted " + entry.producerId() + " " + entry.firstOffset() + " " + entry.lastOffset()));
        System.out.println("end " + log.logEndOffset());
        log.close();
        scheduler.shutdown();
    }

    static String describe(RecordBatch batch) {
        StringBuilder records = new StringBuilder();
        for (Record record : batch) {
            records.append(records.length() == 0 ? "" : " ").append(record.offset()).append(":")
                .append(record.timestamp() - NOW_MS).append(":").append(text(record.key())).append("=").append(text(record.value()));
            for (Header header : record.headers())
                records.append("/").append(header.key()).append(":").append(text(ByteBuffer.wrap(header.value())));
        }
        String flags = (batch.isTransactional() ? "t" : "") + (batch.isControlBatch() ? "c" : "");
        return batch.baseOffset() + "-" + batch.lastOffset() + " " + batch.compressionType().name + " epoch "
            + batch.partitionLeaderEpoch() + " producer " + batch.producerId() + ":" + batch.producerEpoch() + ":"
            + batch.baseSequence() + " " + (flags.isEmpty() ? "-" : flags) + " "
            + (batch.timestampType() == TimestampType.LOG_APPEND_TIME ? "append" : "create") + " "
            + (batch.maxTimestamp() - NOW_MS) + " horizon "
            + (batch.deleteHorizonMs().isPresent() ? "" + (batch.deleteHorizonMs().getAsLong() - NOW_MS) : "none")
            + " [" + records + "]";
    }

    static String text(ByteBuffer data) {
        if (data == null)
            return "null";
        byte[] bytes = new byte[data.remaining()];
        data.duplicate().get(bytes);
        for (byte each : bytes)
            if (each < 32 || each == 127)
                return HexFormat.of().formatHex(bytes);
        return new String(bytes, StandardCharsets.US_ASCII);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            clean(new File(words[0]), Long.parseLong(words[1]), Long.parseLong(words[2]), Long.parseLong(words[3]), words[4]);
        }
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
