import java.io.PrintWriter;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Prints every committed record of a topic, as Kafka's own client reads it: the service and its other tests all read by
 * librdkafka, which could be wrong the same way in both.
 *
 * <p>Arguments: bootstrap servers, topic. A line a record: partition, offset, key and value, both in base64.
 */
public class ReadCommitted {
    public static void main(String[] arguments) {
        Map<String, Object> settings =
                Map.of("bootstrap.servers", arguments[0], "isolation.level", "read_committed", "enable.auto.commit", false);
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = consumer.partitionsFor(arguments[1]).stream()
                    .map(partition -> new TopicPartition(partition.topic(), partition.partition()))
                    .toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            var lines = new PrintWriter(System.out);
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> lines.print(line(record)));
            }
            lines.flush();
        }
    }

    private static String line(ConsumerRecord<byte[], byte[]> record) {
        var base64 = Base64.getEncoder();
        byte[] key = record.key() == null ? new byte[0] : record.key();
        byte[] value = record.value() == null ? new byte[0] : record.value();
        return "%d %d %s %s%n"
                .formatted(record.partition(), record.offset(), base64.encodeToString(key), base64.encodeToString(value));
    }
}
