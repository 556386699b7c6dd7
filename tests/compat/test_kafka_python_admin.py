"""kafka-python's admin client."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, MemberToRemove, OffsetSpec
from kafka.errors import (
    GroupSubscribedToTopicError,
    InvalidPartitionsError,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.compat.conftest import MakeTopic
from tests.compat.deadlines import eventually


@pytest.fixture
def client(bootstrap: str) -> Iterator[Any]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield admin
    admin.close()


def send(bootstrap: str, topic: str, count: int, **options: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for future in [producer.send(topic, b"x", **options) for _ in range(count)]:
        future.get(timeout=10)
    producer.close()


def test_topics_are_created_listed_described_and_deleted(client: Any, unique: Callable[[], str]) -> None:
    name = unique()
    options = {name: {"num_partitions": 2, "configs": {"retention.ms": "5000"}}}
    [created] = client.create_topics(options, wait_for_metadata=True)["topics"]
    assert (created["num_partitions"], created["replication_factor"]) == (2, 1)
    assert created["configs"]["retention.ms"]["value"] == "5000"
    assert created["configs"]["segment.bytes"]["value"] == "1073741824"
    assert name in client.list_topics()
    [described] = client.describe_topics([name])
    assert (described["topic_id"], described["is_internal"]) == (created["topic_id"], False)
    assert [p["partition_index"] for p in described["partitions"]] == [0, 1]
    with pytest.raises(TopicAlreadyExistsError):
        client.create_topics([name])
    client.delete_topics([name])
    eventually(lambda: name not in client.list_topics())
    with pytest.raises(UnknownTopicOrPartitionError):
        client.delete_topics([name])


def test_without_an_authorizer_everything_is_permitted(client: Any, topic: str) -> None:
    [described] = client.describe_topics([topic])
    expected = {"READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"}
    assert set(described["authorized_operations"]) == expected
    cluster = {"CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE"}
    assert set(client.describe_cluster()["authorized_operations"]) == cluster


def test_topics_are_described_page_by_page(client: Any, make_topic: MakeTopic) -> None:
    name = make_topic(partitions=5)
    first = client.describe_topic_partitions([name], response_partition_limit=3)
    assert [p["partition_index"] for p in first["topics"][0]["partitions"]] == [0, 1, 2]
    assert first["next_cursor"]["partition_index"] == 3
    cursor = {"topic_name": name, "partition_index": 3}
    rest = client.describe_topic_partitions([name], response_partition_limit=3, cursor=cursor)
    assert [p["partition_index"] for p in rest["topics"][0]["partitions"]] == [3, 4]
    assert rest["next_cursor"] is None


def test_the_cluster_is_described(client: Any, bootstrap: str) -> None:
    cluster = client.describe_cluster()
    [broker] = cluster["brokers"]
    assert f"{broker['host']}:{broker['port']}" == bootstrap
    assert broker["broker_id"] == cluster["controller_id"]
    assert cluster["cluster_id"]


def test_partitions_are_added(client: Any, topic: str) -> None:
    response = client.create_partitions({topic: 3})
    assert [(r.name, r.error_code, r.error_message) for r in response.results] == [(topic, 0, None)]
    eventually(lambda: len(client.describe_topics([topic])[0]["partitions"]) == 3)
    with pytest.raises(InvalidPartitionsError):
        client.create_partitions({topic: 3})


def test_configurations_are_described_changed_and_reset(client: Any, topic: str) -> None:
    def modified() -> dict[str, Any]:
        found: dict[str, Any] = client.describe_configs([ConfigResource("TOPIC", topic)])["topic"][topic]
        return {name: entry["value"] for name, entry in found.items()}

    assert modified() == {}
    client.alter_configs([ConfigResource("TOPIC", topic, {"retention.ms": "777"})])
    eventually(lambda: modified() == {"retention.ms": "777"})
    client.reset_configs([ConfigResource("TOPIC", topic, {"retention.ms": None})])
    eventually(lambda: modified() == {})


def test_configurations_come_with_types_documentation_and_synonyms(client: Any, topic: str) -> None:
    question = [ConfigResource("TOPIC", topic, {"retention.ms": None, "cleanup.policy": None})]
    entries = client.describe_configs(question, include_synonyms=True, config_filter="all")["topic"][topic]
    assert set(entries) == {"retention.ms", "cleanup.policy"}
    retention = entries["retention.ms"]
    assert (retention["value"], retention["config_type"]) == ("604800000", "LONG")
    assert entries["cleanup.policy"]["config_type"] == "LIST"
    assert [(s["name"], s["value"]) for s in entries["cleanup.policy"]["synonyms"]] == [
        ("log.cleanup.policy", "delete")
    ]


def test_the_brokers_configuration_is_described(client: Any) -> None:
    broker = str(client.describe_cluster()["controller_id"])
    entries = client.describe_configs([ConfigResource("BROKER", broker)], config_filter="all")["broker"][broker]
    assert entries["num.partitions"]["value"] == "1"
    assert entries["log.dirs"]["read_only"]
    assert len(entries) > 100


def test_config_resources_are_listed(client: Any, topic: str) -> None:
    resources = client.list_config_resources()
    assert topic in resources["topic"]
    assert str(client.describe_cluster()["controller_id"]) in resources["broker"]


def test_log_directories_are_described(client: Any, bootstrap: str, make_topic: MakeTopic) -> None:
    name = make_topic(partitions=2)
    send(bootstrap, name, 10, partition=0)
    [broker] = client.describe_log_dirs([name])
    [directory] = broker["log_dirs"]
    sizes = {p["partition_index"]: p["partition_size"] for t in directory["topics"] for p in t["partitions"]}
    assert directory["error_code"] == 0
    assert sizes.keys() == {0, 1}
    assert sizes[0] > 0
    assert sizes[1] == 0
    assert directory["total_bytes"] > directory["usable_bytes"] > 0


def test_records_are_deleted(client: Any, bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    send(bootstrap, topic, 10)
    assert client.delete_records({place: 6})[place]["low_watermark"] == 6
    assert client.list_partition_offsets({place: OffsetSpec.EARLIEST})[place].offset == 6
    assert client.list_partition_offsets({place: OffsetSpec.LATEST})[place].offset == 10


def test_leaders_are_elected_only_when_needed(client: Any, topic: str) -> None:
    response = client.elect_leaders(0, {topic: [0]})
    [result] = response.replica_election_results
    assert [(p.partition_id, p.error_code) for p in result.partition_result] == [(0, 84)]


def join(bootstrap: str, group: str, topic: str, **config: Any) -> Any:
    """A member with its partitions; kafka-python assigns nothing when it joins before it has metadata."""
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, **config)
    consumer.partitions_for_topic(topic)
    eventually(lambda: consumer.poll(timeout_ms=50) or consumer.assignment())
    return consumer


def test_groups_are_listed_and_described(client: Any, bootstrap: str, topic: str, group: str) -> None:
    consumer = join(bootstrap, group, topic, client_id="reader")
    listed = {g["group_id"]: g for g in client.list_groups()}[group]
    assert (listed["protocol_type"], listed["group_state"], listed["group_type"]) == ("consumer", "Stable", "classic")
    described = client.describe_groups([group])[group]
    assert (described["group_state"], described["protocol_data"]) == ("Stable", "range")
    [member] = described["members"]
    assert (member["client_id"], member["client_host"]) == ("reader", "/127.0.0.1")
    assert member["member_metadata"]["topics"] == [topic]
    assert member["member_assignment"]["assigned_partitions"] == [{"topic": topic, "partitions": [0]}]
    consumer.close()
    eventually(lambda: client.describe_groups([group])[group]["group_state"] == "Empty")
    assert client.delete_groups([group]) == {group: "OK"}
    assert client.delete_groups([group])[group] != "OK"
    assert group not in {g["group_id"] for g in client.list_groups()}


def test_a_groups_offsets_are_altered_reset_and_deleted(client: Any, bootstrap: str, topic: str, group: str) -> None:
    place = TopicPartition(topic, 0)
    send(bootstrap, topic, 5)
    assert client.alter_group_offsets(group, {place: OffsetAndMetadata(2, "note", -1)}) == {place: NoError}
    stored = client.list_group_offsets({group: None})[group][place]
    assert (stored.offset, stored.metadata) == (2, "note")
    assert client.reset_group_offsets(group, {place: OffsetSpec.LATEST})[place]["offset"] == 5
    assert client.delete_group_offsets(group, [place]) == {place: NoError}
    assert place not in client.list_group_offsets({group: None}).get(group, {})


def test_offsets_of_a_subscribed_topic_cannot_be_deleted(client: Any, bootstrap: str, topic: str, group: str) -> None:
    place = TopicPartition(topic, 0)
    consumer = join(bootstrap, group, topic)
    consumer.commit({place: OffsetAndMetadata(0, "", -1)})
    assert client.delete_group_offsets(group, [place]) == {place: GroupSubscribedToTopicError}
    consumer.close()


def test_a_static_member_can_be_removed(client: Any, bootstrap: str, topic: str, group: str) -> None:
    consumer = join(bootstrap, group, topic, group_instance_id="static-1")
    consumer.close()
    [member] = client.describe_groups([group])[group]["members"]
    assert member["group_instance_id"] == "static-1"
    client.remove_group_members(group, [MemberToRemove(group_instance_id="static-1")])
    eventually(lambda: client.describe_groups([group])[group]["group_state"] == "Empty")
