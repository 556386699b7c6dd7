"""Creates topics for tests, with confluent-kafka."""

from confluent_kafka.admin import AdminClient, NewTopic


def create_topic(bootstrap_servers: str, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(name, num_partitions=partitions, replication_factor=1)])[name].result(timeout=10)
