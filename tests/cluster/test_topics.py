from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster import znodes
from ottla.cluster.configs import replace_configs
from ottla.cluster.image import ClusterImage, Entity, EntityType
from ottla.cluster.topic_names import name_problem
from ottla.cluster.topics import create_partitions, create_topic, delete_topic
from ottla.errors import ErrorCode, KafkaError
from ottla.model import METADATA_TOPIC_ID, format_topic_id
from ottla.store.interface import Check, Put, Refusal, Set, StoreConflictError
from tests.cluster.clusters import Cluster


def create(cluster: Cluster, name: str, **asked: Any) -> None:
    ops, topic = create_topic(cluster.image, name, random_bytes=cluster.random.randbytes, **asked)
    cluster.do(ops)
    assert cluster.image.topics[name] == topic


def refusal(decide: Callable[..., object], *args: Any, **asked: Any) -> tuple[ErrorCode, str]:
    with pytest.raises(KafkaError) as caught:
        decide(*args, **asked)
    assert caught.value.message is not None
    return caught.value.code, caught.value.message


def not_created(cluster: Cluster, name: str, **asked: Any) -> tuple[ErrorCode, str]:
    return refusal(create_topic, cluster.image, name, random_bytes=cluster.random.randbytes, **asked)


def test_a_topic_as_kafka_would_write_it() -> None:
    cluster = Cluster(brokers=3)
    create(cluster, "clicks", assignment={0: [2, 3], 1: [3, 1]}, configs={"retention.ms": "5"})
    topic = cluster.image.topics["clicks"]
    assert cluster.tree.nodes["/brokers/topics/clicks"].data == (
        b'{"removing_replicas":{},"partitions":{"0":[2,3],"1":[3,1]},"topic_id":"%s","adding_replicas":{},"version":3}'
        % format_topic_id(topic.topic_id).encode()
    )
    assert cluster.tree.nodes["/brokers/topics/clicks/partitions/1/state"].data == (
        b'{"controller_epoch":1,"leader":3,"version":1,"leader_epoch":0,"isr":[3,1]}'
    )
    assert cluster.tree.nodes["/config/topics/clicks"].data == b'{"version":1,"config":{"retention.ms":"5"}}'


def test_defaults_replace_what_was_not_asked() -> None:
    cluster = Cluster(brokers=3)
    create(cluster, "one")
    create(cluster, "many", default_partitions=4, default_replication_factor=2)
    create(cluster, "asked", partitions=2, replication_factor=3, default_partitions=4, default_replication_factor=2)
    shapes = {name: (len(t.partitions), len(t.partitions[0].replicas)) for name, t in cluster.image.topics.items()}
    assert shapes == {"one": (1, 1), "many": (4, 2), "asked": (2, 3)}


def test_small_topics_do_not_all_start_on_one_broker() -> None:
    cluster = Cluster(brokers=3)
    for number in range(30):
        create(cluster, f"t{number}")
    assert {topic.partitions[0].leader for topic in cluster.image.topics.values()} == {1, 2, 3}


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a/b", "a b", "ä", "a\n", "a:b", "a\0", "a" * 10_000])
def test_bad_names(name: str) -> None:
    code, message = not_created(Cluster(brokers=1), name)
    assert code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert message.endswith(".")


@pytest.mark.parametrize("name", ["a", "...", "a" * 249, "_", "-", "A.b_c-9", "__consumer_offsets"])
def test_good_names(name: str) -> None:
    create(Cluster(brokers=1), name)


@given(st.text(max_size=260))
def test_name_rules_are_kafkas(name: str) -> None:
    allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
    legal = 0 < len(name) <= 249 and name not in (".", "..") and all(character in allowed for character in name)
    assert (name_problem(name) is None) == legal


def test_names_that_collide_in_metrics() -> None:
    cluster = Cluster(brokers=1)
    create(cluster, "a.b_c")
    assert not_created(cluster, "a_b.c")[0] is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not_created(cluster, "a.b_c")[0] is ErrorCode.TOPIC_ALREADY_EXISTS
    create(cluster, "a-b.c")


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS, "0 partitions"),
        ({"partitions": -2}, ErrorCode.INVALID_PARTITIONS, "-2 partitions"),
        ({"partitions": 2**31 - 1}, ErrorCode.POLICY_VIOLATION, "10000"),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR, "0 replicas"),
        ({"replication_factor": -2}, ErrorCode.INVALID_REPLICATION_FACTOR, "-2 replicas"),
        ({"replication_factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR, "only 3 broker(s)"),
        ({"default_replication_factor": 4}, ErrorCode.INVALID_REPLICATION_FACTOR, "only 3 broker(s)"),
        ({"assignment": {0: [1]}, "partitions": 1}, ErrorCode.INVALID_REQUEST, "number of partitions"),
        ({"assignment": {0: [1]}, "replication_factor": 1}, ErrorCode.INVALID_REQUEST, "replication factor"),
        ({"assignment": {1: [1]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "without gaps"),
        ({"assignment": {0: [1], 2: [1]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "without gaps"),
        ({"assignment": {0: []}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no replicas"),
        ({"assignment": {0: [1, 1]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "twice"),
        ({"assignment": {0: [4]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 4"),
        ({"assignment": {0: [1], 1: [1, 2]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "2 replicas while"),
    ],
)
def test_bad_shapes(asked: Mapping[str, Any], code: ErrorCode, words: str) -> None:
    actual, message = not_created(Cluster(brokers=3), "t", **asked)
    assert actual is code
    assert words in message


def test_reserved_and_used_ids_are_not_given() -> None:
    cluster = Cluster(brokers=1)
    create(cluster, "first")
    used = cluster.image.topics["first"].topic_id
    dashed = b"\xf8" + bytes(15)
    assert format_topic_id(dashed).startswith("-")
    draws = iter([b"\0" * 8, b"\0" * 8, used, dashed, b"\x07" * 16])
    _, topic = create_topic(cluster.image, "second", random_bytes=lambda _: next(draws))
    assert topic.topic_id not in (used, METADATA_TOPIC_ID)
    assert topic.topic_id[0] == 7


def test_no_controller_no_decisions() -> None:
    code, _ = refusal(create_topic, Cluster(brokers=1).image.updated({"/controller_epoch": None}), "t",
                      random_bytes=lambda size: b"\x07" * size)  # fmt: skip
    assert code is ErrorCode.NOT_CONTROLLER


def test_a_replaced_controller_cannot_write() -> None:
    cluster = Cluster(brokers=1)
    ops, _ = create_topic(cluster.image, "late", random_bytes=cluster.random.randbytes)
    epoch = cluster.image.controller_epoch_version
    assert ops[0] == Check(znodes.CONTROLLER_EPOCH, epoch)
    cluster.do([Set(znodes.CONTROLLER_EPOCH, b"2", epoch)])
    with pytest.raises(StoreConflictError) as caught:
        cluster.do(ops)
    assert (caught.value.index, caught.value.refusal) == (0, Refusal.VERSION)


def test_two_who_create_the_same_topic() -> None:
    cluster = Cluster(brokers=1)
    ops, _ = create_topic(cluster.image, "t", random_bytes=cluster.random.randbytes)
    create(cluster, "t")
    with pytest.raises(StoreConflictError) as caught:
        cluster.do(ops)
    assert caught.value.refusal is Refusal.EXISTS


def test_settings_left_from_an_earlier_topic_do_not_matter() -> None:
    cluster = Cluster(brokers=1)
    cluster.do([Put("/config/topics/t", znodes.encode_config({"old": "1"}))])
    create(cluster, "t", configs={"new": "2"})
    assert cluster.image.topic_config("t") == {"new": "2"}


def test_a_deleted_topic_leaves_nothing() -> None:
    cluster = Cluster(brokers=1)
    before = set(cluster.tree.nodes)
    create(cluster, "other")
    other = set(cluster.tree.nodes)
    create(cluster, "t", partitions=3)
    cluster.do(delete_topic(cluster.image, "t"))
    assert set(cluster.tree.nodes) == other > before
    create(cluster, "t", partitions=1)
    assert refusal(delete_topic, cluster.image, "nope")[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deleting_what_has_grown_meanwhile_conflicts() -> None:
    cluster = Cluster(brokers=1)
    create(cluster, "t")
    ops = delete_topic(cluster.image, "t")
    cluster.do(create_partitions(cluster.image, "t", 2)[0])
    with pytest.raises(StoreConflictError):
        cluster.do(ops)
    cluster.do(delete_topic(cluster.image, "t"))
    assert cluster.image.topics == {}


def test_more_partitions() -> None:
    cluster = Cluster(brokers=3)
    create(cluster, "t", assignment={0: [2, 3]})
    ops, topic = create_partitions(cluster.image, "t", 4)
    cluster.do(ops)
    assert cluster.image.topics["t"] == topic
    assert [state.replicas[0] for state in topic.partitions] == [2, 3, 1, 2]
    assert all(len(state.replicas) == 2 for state in topic.partitions)
    ops, topic = create_partitions(cluster.image, "t", 6, [[1, 2], [3, 1]])
    cluster.do(ops)
    assert [state.replicas for state in cluster.image.topics["t"].partitions[4:]] == [(1, 2), (3, 1)]


@pytest.mark.parametrize(
    ("count", "assignment", "code", "words"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS, "has 2 partition(s)"),
        (1, None, ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
        (-1, None, ErrorCode.INVALID_PARTITIONS, "would not be an increase"),
        (2**31 - 1, None, ErrorCode.POLICY_VIOLATION, "10000"),
        (4, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "2 partition(s) are to be added"),
        (3, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partition 2 is assigned 1 replicas"),
        (3, [[1, 9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9"),
        (3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no replicas"),
    ],
)
def test_partitions_that_cannot_be_added(
    count: int, assignment: Sequence[Sequence[int]] | None, code: ErrorCode, words: str
) -> None:
    cluster = Cluster(brokers=3)
    create(cluster, "t", partitions=2, replication_factor=2)
    actual, message = refusal(create_partitions, cluster.image, "t", count, assignment)
    assert actual is code
    assert words in message


def test_partitions_need_a_topic_and_brokers() -> None:
    cluster = Cluster(brokers=2)
    create(cluster, "t", replication_factor=2)
    assert refusal(create_partitions, cluster.image, "x", 2)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.leave(2)
    assert refusal(create_partitions, cluster.image, "t", 2)[0] is ErrorCode.INVALID_REPLICATION_FACTOR


TOPIC = Entity(EntityType.TOPIC, "t")


def test_configs_are_replaced_as_a_whole() -> None:
    cluster = Cluster(brokers=1)
    create(cluster, "t", configs={"a": "1"})
    cluster.do(replace_configs(cluster.image, TOPIC, {"b": "2"}))
    assert cluster.image.topic_config("t") == {"b": "2"}
    cluster.do(replace_configs(cluster.image, TOPIC, {}))
    assert cluster.image.topic_config("t") == {}
    assert cluster.tree.nodes["/config/topics/t"].data == b'{"version":1,"config":{}}'


def test_configs_of_a_missing_topic() -> None:
    cluster = Cluster(brokers=1)
    assert refusal(replace_configs, cluster.image, TOPIC, {})[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create(cluster, "t")
    ops = replace_configs(cluster.image, TOPIC, {"a": "1"})
    cluster.do(delete_topic(cluster.image, "t"))
    with pytest.raises(StoreConflictError):
        cluster.do(ops)


def test_two_who_change_the_same_configs() -> None:
    cluster = Cluster(brokers=1)
    for entity in (Entity(EntityType.BROKER, "1"), Entity(EntityType.CLIENT_METRICS, "m")):
        for values in ({"a": "1"}, {"a": "2"}, {}):
            first = replace_configs(cluster.image, entity, values)
            second = replace_configs(cluster.image, entity, values | {"b": "1"})
            cluster.do(first)
            assert cluster.image.config(entity) == values
            with pytest.raises(StoreConflictError):
                cluster.do(second)
    assert replace_configs(ClusterImage(), Entity(EntityType.BROKER, "1"), {}) == []
