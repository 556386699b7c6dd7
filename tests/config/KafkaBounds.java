import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import kafka.server.KafkaConfig;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Says of every line "resource key value", separated by tabs, whether Apache Kafka takes that value. */
class KafkaBounds {
    private static final String[][] NODE = {
        {"process.roles", "broker,controller"},
        {"node.id", "1"},
        {"controller.quorum.voters", "1@127.0.0.1:9093"},
        {"controller.listener.names", "CONTROLLER"},
        {"listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"},
        {"log.dirs", "/tmp/kafka-bounds"},
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] parts = line.split("\t", -1);
            System.out.println(problem(parts[0], parts[1], parts[2]));
        }
    }

    private static String problem(String resource, String key, String value) {
        try {
            if (resource.equals("broker")) {
                new KafkaConfig(node(key, value), false);
            } else if (resource.equals("topic")) {
                LogConfig.validate(Map.of(), Map.of(key, value), kafka().extractLogConfigMap(), false);
            } else {
                GroupConfig.validate(Map.of(key, value), kafka().groupCoordinatorConfig(), kafka().shareGroupConfig());
            }
            return "taken";
        } catch (Throwable problem) {
            return "refused " + String.valueOf(problem.getMessage()).replace('\n', ' ');
        }
    }

    private static KafkaConfig config;

    private static KafkaConfig kafka() {
        if (config == null) {
            config = new KafkaConfig(node("node.id", "1"), false);
        }
        return config;
    }

    private static Properties node(String key, String value) {
        Properties properties = new Properties();
        for (String[] pair : NODE) {
            properties.setProperty(pair[0], pair[1]);
        }
        properties.setProperty(key, value);
        return properties;
    }
}
