"""Creates topics for tests, with confluent-kafka."""

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing.faults import TOOLS_CLIENT_ID


def create_topic(
    bootstrap_servers: str,
    name: str,
    partitions: int,
    *,
    replication_factor: int = 1,
    config: Mapping[str, str] | None = None,
    timeout: float = 10.0,
) -> None:
    """Create a topic and wait until it can be used."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "client.id": TOOLS_CLIENT_ID, "log_level": 0})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replication_factor, config=dict(config or {}))
    admin.create_topics([topic])[name].result(timeout=timeout)
