"""confluent-kafka's admin client: topics, partitions, configurations, groups, records, offsets, the cluster."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.compat.confluent_client import Record, consume, consumer, produce, read_partition, reader, values
from tests.compat.conftest import MakeTopic
from tests.compat.deadlines import eventually
from tests.compat.topics import wait_until_ready


def refusal(future: Any) -> Any:
    with pytest.raises(KafkaException) as refused:
        future.result(10)
    return refused.value.args[0].code()


def describe_topic(admin: Any, name: str) -> Any:
    return admin.describe_topics(TopicCollection([name]))[name].result(10)


def test_a_topic_is_created_described_and_deleted(admin: Any, unique: Callable[[], str]) -> None:
    name = unique()
    admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=1)])[name].result(10)
    wait_until_ready(admin, name, 3)
    description = describe_topic(admin, name)
    assert (description.name, description.is_internal) == (name, False)
    assert [p.id for p in description.partitions] == [0, 1, 2]
    for partition in description.partitions:
        assert partition.leader.id == partition.replicas[0].id == partition.isr[0].id
    admin.delete_topics([name])[name].result(10)
    eventually(lambda: name not in admin.list_topics(timeout=10).topics)


def test_topic_ids_are_unique_and_not_reused_with_the_name(admin: Any, unique: Callable[[], str]) -> None:
    name, ids = unique(), []
    for _ in range(2):
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(10)
        wait_until_ready(admin, name, 1)
        ids.append(str(describe_topic(admin, name).topic_id))
        admin.delete_topics([name])[name].result(10)
        eventually(lambda: name not in admin.list_topics(timeout=10).topics)
    assert len(set(ids)) == 2


def test_a_recreated_topic_is_empty(bootstrap: str, admin: Any, unique: Callable[[], str]) -> None:
    name = unique()
    for _ in range(2):
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(10)
        wait_until_ready(admin, name, 1)
        assert [m.offset() for m in produce(bootstrap, name, values(3))] == [0, 1, 2]
        admin.delete_topics([name])[name].result(10)
        eventually(lambda: name not in admin.list_topics(timeout=10).topics)


def test_creation_without_numbers_uses_the_brokers_defaults(admin: Any, unique: Callable[[], str]) -> None:
    name = unique()
    admin.create_topics([NewTopic(name, num_partitions=-1, replication_factor=-1)])[name].result(10)
    wait_until_ready(admin, name, 1)
    assert len(describe_topic(admin, name).partitions) == 1


def test_what_cannot_be_created_is_refused(admin: Any, topic: str, unique: Callable[[], str]) -> None:
    def create(new: Any) -> Any:
        return refusal(admin.create_topics([new])[new.topic])

    assert create(NewTopic(topic, 1, 1)) == KafkaError.TOPIC_ALREADY_EXISTS
    assert create(NewTopic(unique(), 1, 5)) == KafkaError.INVALID_REPLICATION_FACTOR
    assert create(NewTopic(unique(), 0, 1)) == KafkaError.INVALID_PARTITIONS
    assert create(NewTopic("no/slash", 1, 1)) == KafkaError.TOPIC_EXCEPTION
    assert create(NewTopic("..", 1, 1)) == KafkaError.TOPIC_EXCEPTION
    assert create(NewTopic("x" * 250, 1, 1)) == KafkaError.TOPIC_EXCEPTION
    assert create(NewTopic(unique(), 1, 1, config={"no.such.key": "1"})) == KafkaError.INVALID_CONFIG
    assert create(NewTopic(unique(), 1, 1, config={"retention.ms": "soon"})) == KafkaError.INVALID_CONFIG


def test_validate_only_creates_nothing(admin: Any, unique: Callable[[], str]) -> None:
    name = unique()
    admin.create_topics([NewTopic(name, 1, 1)], validate_only=True)[name].result(10)
    assert name not in admin.list_topics(timeout=10).topics


def test_a_topic_that_does_not_exist_cannot_be_deleted(admin: Any, unique: Callable[[], str]) -> None:
    name = unique()
    assert refusal(admin.delete_topics([name])[name]) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert refusal(admin.describe_topics(TopicCollection([name]))[name]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_partitions_can_be_added_but_not_taken_away(admin: Any, make_topic: MakeTopic) -> None:
    name = make_topic(partitions=2)
    admin.create_partitions([NewPartitions(name, 5)])[name].result(10)
    wait_until_ready(admin, name, 5)
    assert refusal(admin.create_partitions([NewPartitions(name, 5)])[name]) == KafkaError.INVALID_PARTITIONS
    assert refusal(admin.create_partitions([NewPartitions(name, 3)])[name]) == KafkaError.INVALID_PARTITIONS
    missing = name + "-missing"
    assert refusal(admin.create_partitions([NewPartitions(missing, 3)])[missing]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def describe_configs(admin: Any, kind: Any, name: str) -> dict[str, Any]:
    [future] = admin.describe_configs([ConfigResource(kind, name)]).values()
    entries: dict[str, Any] = future.result(10)
    return entries


def test_a_topics_configuration_is_complete_with_kafkas_defaults(admin: Any, topic: str) -> None:
    entries = describe_configs(admin, RESOURCE_TOPIC, topic)
    values = {name: entry.value for name, entry in entries.items()}
    assert KAFKA_TOPIC_DEFAULTS.items() <= values.items()
    assert ConfigSource.DYNAMIC_TOPIC_CONFIG.value not in {entry.source for entry in entries.values()}
    assert entries["retention.ms"].source == ConfigSource.DEFAULT_CONFIG.value
    assert entries["retention.ms"].is_default
    assert not any(entry.is_read_only or entry.is_sensitive for entry in entries.values())


KAFKA_TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "index.interval.bytes": "4096",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def test_configuration_given_at_creation_is_marked_as_the_topics(admin: Any, make_topic: MakeTopic) -> None:
    name = make_topic(config={"retention.ms": "1234567", "cleanup.policy": "compact"})
    entries = describe_configs(admin, RESOURCE_TOPIC, name)
    assert (entries["retention.ms"].value, entries["cleanup.policy"].value) == ("1234567", "compact")
    assert entries["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert not entries["retention.ms"].is_default
    assert entries["segment.ms"].is_default


def change(admin: Any, topic: str, name: str, value: str | None, operation: Any) -> Any:
    entry = ConfigEntry(name, value, incremental_operation=operation)
    resource = ConfigResource(RESOURCE_TOPIC, topic, incremental_configs=[entry])
    [future] = admin.incremental_alter_configs([resource]).values()
    return future


def config_value(admin: Any, topic: str, name: str) -> str:
    value: str = describe_configs(admin, RESOURCE_TOPIC, topic)[name].value
    return value


def test_incremental_changes_set_append_subtract_and_delete(admin: Any, topic: str) -> None:
    change(admin, topic, "retention.ms", "5000", AlterConfigOpType.SET).result(10)
    eventually(lambda: config_value(admin, topic, "retention.ms") == "5000")
    change(admin, topic, "cleanup.policy", "compact", AlterConfigOpType.APPEND).result(10)
    eventually(lambda: config_value(admin, topic, "cleanup.policy") == "delete,compact")
    change(admin, topic, "cleanup.policy", "delete", AlterConfigOpType.SUBTRACT).result(10)
    eventually(lambda: config_value(admin, topic, "cleanup.policy") == "compact")
    assert config_value(admin, topic, "retention.ms") == "5000"
    change(admin, topic, "retention.ms", None, AlterConfigOpType.DELETE).result(10)
    eventually(lambda: config_value(admin, topic, "retention.ms") == "604800000")


def test_changes_that_make_no_sense_are_refused(admin: Any, topic: str) -> None:
    assert refusal(change(admin, topic, "retention.ms", "soon", AlterConfigOpType.SET)) == KafkaError.INVALID_CONFIG
    assert refusal(change(admin, topic, "no.such.key", "1", AlterConfigOpType.SET)) == KafkaError.INVALID_CONFIG
    missing = change(admin, topic + "-missing", "retention.ms", "1", AlterConfigOpType.SET)
    assert refusal(missing) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_changed_limit_takes_effect_at_once(bootstrap: str, admin: Any, topic: str) -> None:
    produce(bootstrap, topic, [Record(b"x" * 5000)])
    change(admin, topic, "max.message.bytes", "1000", AlterConfigOpType.SET).result(10)

    def refused() -> bool:
        try:
            produce(bootstrap, topic, [Record(b"x" * 5000)])
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE)
        return False

    eventually(refused)


def test_alter_configs_replaces_the_whole_set(admin: Any, make_topic: MakeTopic) -> None:
    name = make_topic(config={"retention.ms": "1000", "segment.ms": "2000"})
    [future] = admin.alter_configs([ConfigResource(RESOURCE_TOPIC, name, set_config={"retention.ms": "3000"})]).values()
    future.result(10)
    eventually(lambda: config_value(admin, name, "retention.ms") == "3000")
    assert config_value(admin, name, "segment.ms") == "604800000"


def test_the_brokers_configuration_is_described(admin: Any) -> None:
    broker_id = str(admin.describe_cluster().result(10).controller.id)
    entries = describe_configs(admin, RESOURCE_BROKER, broker_id)
    expected = {
        "num.partitions": "1",
        "auto.create.topics.enable": "true",
        "message.max.bytes": "1048588",
        "log.retention.hours": "168",
        "offsets.retention.minutes": "10080",
        "group.min.session.timeout.ms": "6000",
        "group.max.session.timeout.ms": "1800000",
        "log.segment.bytes": "1073741824",
    }
    assert expected == {name: entries[name].value for name in expected}
    assert entries["listeners"].value
    assert entries["log.dirs"].is_read_only


def test_the_cluster_is_described(bootstrap: str, admin: Any) -> None:
    cluster = admin.describe_cluster(include_authorized_operations=False).result(10)
    [node] = cluster.nodes
    assert (node.id, f"{node.host}:{node.port}") == (cluster.controller.id, bootstrap)
    assert cluster.cluster_id
    assert cluster.cluster_id == admin.list_topics(timeout=10).cluster_id


def commit(bootstrap: str, group: str, *partitions: Any) -> None:
    with consumer(bootstrap, group) as client:
        client.commit(offsets=list(partitions), asynchronous=False)


def group_ids(admin: Any) -> dict[str, Any]:
    listing = admin.list_consumer_groups().result(10)
    assert not listing.errors
    return {each.group_id: each for each in listing.valid}


def test_groups_are_listed_with_their_state(bootstrap: str, admin: Any, topic: str, group: str) -> None:
    commit(bootstrap, group, TopicPartition(topic, 0, 1))
    listed = group_ids(admin)[group]
    assert listed.state == ConsumerGroupState.EMPTY
    assert listed.is_simple_consumer_group
    with consumer(bootstrap, group + "-live") as client:
        client.subscribe([topic])
        eventually(lambda: client.poll(0.05) or client.assignment())
        live = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(10).valid
        assert {group, group + "-live"} & {each.group_id for each in live} == {group + "-live"}


def test_a_group_can_be_deleted_only_when_it_is_empty(bootstrap: str, admin: Any, topic: str, group: str) -> None:
    with consumer(bootstrap, group) as client:
        client.subscribe([topic])
        eventually(lambda: client.poll(0.05) or client.assignment())
        assert refusal(admin.delete_consumer_groups([group])[group]) == KafkaError.NON_EMPTY_GROUP
    admin.delete_consumer_groups([group])[group].result(10)
    assert group not in group_ids(admin)
    assert refusal(admin.delete_consumer_groups([group])[group]) == KafkaError.GROUP_ID_NOT_FOUND


def stored_offsets(admin: Any, group: str) -> dict[tuple[str, int], tuple[int, str | None]]:
    [future] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    partitions = future.result(10).topic_partitions
    return {(p.topic, p.partition): (p.offset, p.metadata) for p in partitions}


def test_a_groups_offsets_are_listed_and_altered(bootstrap: str, admin: Any, make_topic: MakeTopic, group: str) -> None:
    topic = make_topic(partitions=2)
    commit(bootstrap, group, TopicPartition(topic, 0, 3, "note"), TopicPartition(topic, 1, 4))
    assert {place: offset for place, (offset, _) in stored_offsets(admin, group).items()} == {
        (topic, 0): 3,
        (topic, 1): 4,
    }
    request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 9)])
    [future] = admin.alter_consumer_group_offsets([request]).values()
    assert future.result(10).topic_partitions[0].error is None
    assert stored_offsets(admin, group)[topic, 0][0] == 9


def test_offsets_of_a_live_group_cannot_be_altered(bootstrap: str, admin: Any, topic: str, group: str) -> None:
    with consumer(bootstrap, group) as client:
        client.subscribe([topic])
        eventually(lambda: client.poll(0.05) or client.assignment())
        request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 9)])
        [future] = admin.alter_consumer_group_offsets([request]).values()
        [partition] = future.result(10).topic_partitions
        assert partition.error.code() == KafkaError.UNKNOWN_MEMBER_ID


def test_a_group_that_does_not_exist_is_described_as_dead(admin: Any, group: str) -> None:
    description = admin.describe_consumer_groups([group])[group].result(10)
    assert (description.state, description.members) == (ConsumerGroupState.DEAD, [])


def test_deleted_records_are_gone(bootstrap: str, admin: Any, topic: str) -> None:
    produce(bootstrap, topic, values(10))
    place = TopicPartition(topic, 0, 4)
    assert admin.delete_records([place])[place].result(10).low_watermark == 4
    messages = read_partition(bootstrap, topic, 6)
    assert [m.offset() for m in messages] == [4, 5, 6, 7, 8, 9]
    with reader(bootstrap) as client:
        assert client.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (4, 10)
    beyond = TopicPartition(topic, 0, 11)
    assert refusal(admin.delete_records([beyond])[beyond]) == KafkaError.OFFSET_OUT_OF_RANGE
    everything = TopicPartition(topic, 0, -1)
    assert admin.delete_records([everything])[everything].result(10).low_watermark == 10


def test_offsets_are_listed_by_every_kind_of_question(bootstrap: str, admin: Any, topic: str) -> None:
    base = 1_600_000_000_000
    stamps = [base, base + 5000, base + 1000, base + 2000]
    produce(bootstrap, topic, [Record(b"x", timestamp=stamp) for stamp in stamps], batch_num_messages=1)

    def answer(question: Any) -> tuple[int, int]:
        [future] = admin.list_offsets({TopicPartition(topic, 0): question}).values()
        result = future.result(10)
        return result.offset, result.timestamp

    assert answer(OffsetSpec.earliest()) == (0, -1)
    assert answer(OffsetSpec.latest()) == (4, -1)
    assert answer(OffsetSpec.max_timestamp()) == (1, base + 5000)
    assert answer(OffsetSpec.for_timestamp(base + 500)) == (1, base + 5000)
    assert answer(OffsetSpec.for_timestamp(base + 5001)) == (-1, -1)


def test_electing_the_only_replica_is_not_needed(admin: Any, topic: str) -> None:
    place = TopicPartition(topic, 0)
    results = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(10)
    assert results[place].code() == KafkaError.ELECTION_NOT_NEEDED


def test_a_deleted_topic_takes_its_offsets_along(bootstrap: str, admin: Any, make_topic: MakeTopic, group: str) -> None:
    kept, gone = make_topic(), make_topic()
    commit(bootstrap, group, TopicPartition(kept, 0, 1), TopicPartition(gone, 0, 2))
    admin.delete_topics([gone])[gone].result(10)
    eventually(lambda: stored_offsets(admin, group).keys() == {(kept, 0)})


def test_a_consumer_survives_the_deletion_of_one_of_its_topics(
    bootstrap: str, admin: Any, make_topic: MakeTopic
) -> None:
    kept, gone = make_topic(), make_topic()
    produce(bootstrap, gone, values(1))
    with reader(bootstrap) as client:
        client.assign([TopicPartition(kept, 0, 0), TopicPartition(gone, 0, 0)])
        assert consume(client, 1)[0].topic() == gone
        admin.delete_topics([gone])[gone].result(10)
        produce(bootstrap, kept, values(1))

        def from_kept() -> bool:
            message = client.poll(0.1)
            return message is not None and message.error() is None and message.topic() == kept

        eventually(from_kept)
