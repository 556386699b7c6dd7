"""Replies that young brokers get wrong: version negotiation, lookups by time and by id, defaults, bad frames."""

import struct
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.compat import batches
from tests.compat.wire import Connection, connect
from tests.compat.wire_requests import produce_one, topic_id_of

API_VERSIONS = 18
EVERY_CLIENT_NEEDS = {
    0: (0, 13),
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 5),
    23: (2, 4),
    32: (1, 4),
    33: (0, 2),
    35: (1, 5),
    37: (0, 3),
    42: (0, 2),
    43: (0, 2),
    44: (0, 1),
    47: (0, 0),
    60: (0, 2),
    74: (0, 1),
    75: (0, 0),
}


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_api_versions(bootstrap: str, version: int) -> None:
    software = {"client_software_name": "wire", "client_software_version": "1.0"} if version >= 3 else {}
    with connect(bootstrap) as connection:
        reply = connection.call("api_versions", version, **software)
    assert reply.error_code is ErrorCode.none
    ranges = {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}
    assert {key: ranges.get(key) for key in EVERY_CLIENT_NEEDS} == EVERY_CLIENT_NEEDS


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(bootstrap: str) -> None:
    with connect(bootstrap) as connection:
        connection.send_frame(struct.pack(">hhih", API_VERSIONS, 99, 7, -1) + b"\x00")
        frame = connection.receive_frame()
        correlation_id, error, count = struct.unpack_from(">ihi", frame)
        assert (correlation_id, error) == (7, ErrorCode.unsupported_version.value)
        assert len(frame) == 10 + 6 * count
        ranges = [struct.unpack_from(">hhh", frame, 10 + 6 * index) for index in range(count)]
        assert (API_VERSIONS, 0, 4) in ranges
        assert connection.call("api_versions", 0).error_code is ErrorCode.none


def test_a_client_that_does_not_say_its_name_properly_is_refused(bootstrap: str) -> None:
    with connect(bootstrap) as connection:
        reply = connection.call("api_versions", 3, client_software_name="a b!", client_software_version="1")
        assert reply.error_code is ErrorCode.invalid_request


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">hhih", 999, 0, 1, -1),
        struct.pack(">hhih", 3, 99, 1, -1),
        struct.pack(">hhih", 1, 0, 1, -1),
        struct.pack(">hhihi", 3, 1, 1, -1, 2**31 - 1),
        b"\x00\x03",
        b"",
    ],
    ids=["unknown-api", "unknown-version", "retired-version", "absurd-count", "half-a-header", "empty"],
)
def test_a_request_that_cannot_be_read_closes_only_its_connection(bootstrap: str, frame: bytes) -> None:
    with connect(bootstrap) as healthy, connect(bootstrap) as broken:
        broken.send_frame(frame)
        with pytest.raises(ConnectionError):
            broken.receive_frame()
        assert healthy.call("metadata", 9, topics=[]).brokers


def test_a_frame_of_absurd_size_closes_the_connection(bootstrap: str) -> None:
    for size in (2**31 - 1, -1):
        with connect(bootstrap) as connection:
            connection.send_bytes(struct.pack(">i", size) + b"GET / HTTP/1.1")
            with pytest.raises(ConnectionError):
                connection.receive_frame()


def test_replies_come_in_the_order_of_requests(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        for _ in range(50):
            connection.send("metadata", 9, topics=[{"name": topic}])
            connection.send("api_versions", 0)
        for _ in range(50):
            assert connection.receive("metadata", 9).topics[0].name == topic
            assert connection.receive("api_versions", 0).error_code is ErrorCode.none


@pytest.mark.parametrize("version", range(14))
def test_every_version_of_metadata(bootstrap: str, topic: str, version: int) -> None:
    with connect(bootstrap) as connection:
        reply = connection.call("metadata", version, topics=[{"name": topic}])
    [described] = reply.topics
    assert (described.name, described.error_code) == (topic, ErrorCode.none)
    assert [p.partition_index for p in described.partitions] == [0]
    [broker] = reply.brokers
    assert f"{broker.host}:{broker.port}" == bootstrap


def test_metadata_by_topic_id(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        topic_id = topic_id_of(connection, topic)
        asked = [{"topic_id": topic_id, "name": None}, {"topic_id": uuid.uuid4(), "name": None}]
        reply = connection.call("metadata", 12, topics=asked, allow_auto_topic_creation=False)
    answers = {answer.topic_id: answer for answer in reply.topics}
    assert answers[topic_id].name == topic
    [unknown] = [answer for answer in reply.topics if answer.topic_id != topic_id]
    assert unknown.error_code is ErrorCode.unknown_topic_id


def test_metadata_of_no_topics_and_of_all_topics(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        assert connection.call("metadata", 9, topics=[]).topics == ()
        assert topic in {each.name for each in connection.call("metadata", 9, topics=None).topics}
        assert topic in {each.name for each in connection.call("metadata", 0, topics=[]).topics}


def test_metadata_creates_topics_only_when_asked(bootstrap: str, unique: Callable[[], str]) -> None:
    name = unique()
    with connect(bootstrap) as connection:
        refused = connection.call("metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=False)
        assert refused.topics[0].error_code is ErrorCode.unknown_topic_or_partition
        illegal = connection.call("metadata", 9, topics=[{"name": "a/b"}], allow_auto_topic_creation=True)
        assert illegal.topics[0].error_code is ErrorCode.invalid_topic_exception
        for _ in range(200):
            created = connection.call("metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=True)
            if created.topics[0].error_code is ErrorCode.none:
                break
        assert len(created.topics[0].partitions) == 1


def list_offset(connection: Connection, topic: str, timestamp: int, version: int = 7) -> tuple[int, int | None]:
    question = {"name": topic, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}
    patience = {"timeout": timedelta(seconds=5)} if version >= 10 else {}
    reply = connection.call("list_offsets", version, replica_id=-1, topics=[question], **patience)
    [answer] = reply.topics[0].partitions
    assert answer.error_code is ErrorCode.none
    return answer.offset, answer.timestamp


def test_offsets_by_timestamp(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        produce_one(connection, topic, batches.pack([b"a", b"b", b"c"], timestamps=[1000, 3000, 2000]))
        produce_one(connection, topic, batches.pack([b"d", b"e"], timestamps=[2500, 5000]))
        assert list_offset(connection, topic, 0) == (0, 1000)
        assert list_offset(connection, topic, 1001) == (1, 3000)
        assert list_offset(connection, topic, 3001) == (4, 5000)
        assert list_offset(connection, topic, 5001) == (-1, -1)
        assert list_offset(connection, topic, -3) == (4, 5000)
        assert list_offset(connection, topic, -2) == (0, -1)
        assert list_offset(connection, topic, -1) == (5, -1)


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_of_list_offsets(bootstrap: str, topic: str, version: int) -> None:
    with connect(bootstrap) as connection:
        produce_one(connection, topic, batches.pack([b"a"] * 3))
        assert list_offset(connection, topic, -1, version)[0] == 3


def test_an_empty_log_has_no_timestamps(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        assert list_offset(connection, topic, 0) == (-1, -1)
        assert list_offset(connection, topic, -3) == (-1, -1)


def test_the_create_partitions_reply_names_every_topic(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        asked = [
            {"name": topic, "count": 3, "assignments": None},
            {"name": "missing-one", "count": 3, "assignments": None},
        ]
        reply = connection.call(
            "create_partitions", 2, topics=asked, timeout=timedelta(seconds=10), validate_only=False
        )
    answers = {result.name: (result.error_code, result.error_message) for result in reply.results}
    assert answers[topic] == (ErrorCode.none, None)
    assert answers["missing-one"][0] is ErrorCode.unknown_topic_or_partition


def describe_config(connection: Connection, topic: str, *keys: str) -> dict[str, Any]:
    question = {"resource_type": 2, "resource_name": topic, "configuration_keys": keys or None}
    reply = connection.call(
        "describe_configs", 4, resources=[question], include_synonyms=True, include_documentation=True
    )
    [result] = reply.results
    assert result.error_code is ErrorCode.none
    return {entry.name: entry for entry in result.configs}


def test_described_configurations_are_complete(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        entries = describe_config(connection, topic)
        [only] = describe_config(connection, topic, "retention.ms", "no.such.key").values()
    assert len(entries) >= 30
    assert all(entry.documentation for entry in entries.values())
    assert (only.name, only.value, only.config_source) == ("retention.ms", "604800000", 5)
    types = {name: entries[name].config_type for name in ("preallocate", "compression.type", "min.insync.replicas")}
    assert types == {"preallocate": 1, "compression.type": 2, "min.insync.replicas": 3}
    types = {
        name: entries[name].config_type for name in ("retention.ms", "min.cleanable.dirty.ratio", "cleanup.policy")
    }
    assert types == {"retention.ms": 5, "min.cleanable.dirty.ratio": 6, "cleanup.policy": 7}
    [synonym] = entries["compression.type"].synonyms
    assert (synonym.name, synonym.value, synonym.source) == ("compression.type", "producer", 5)


def test_describing_what_does_not_exist(bootstrap: str, unique: Callable[[], str]) -> None:
    with connect(bootstrap) as connection:
        question = {"resource_type": 2, "resource_name": unique(), "configuration_keys": None}
        [result] = connection.call("describe_configs", 4, resources=[question]).results
    assert result.error_code is ErrorCode.unknown_topic_or_partition
    assert result.configs == ()


def test_the_end_of_a_leader_epoch(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        produce_one(connection, topic, batches.pack([b"a"] * 4))
        metadata = connection.call("metadata", 9, topics=[{"name": topic}])
        epoch = metadata.topics[0].partitions[0].leader_epoch
        question = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
        reply = connection.call(
            "offset_for_leader_epoch", 3, replica_id=-1, topics=[{"topic": topic, "partitions": [question]}]
        )
        [answer] = reply.topics[0].partitions
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (ErrorCode.none, epoch, 4)


def test_two_new_topics_with_one_name_are_refused(bootstrap: str, unique: Callable[[], str]) -> None:
    name = unique()
    new = {"name": name, "num_partitions": 1, "replication_factor": 1}
    with connect(bootstrap) as connection:
        reply = connection.call(
            "create_topics", 7, topics=[new, new], timeout=timedelta(seconds=10), validate_only=False
        )
    assert {result.error_code for result in reply.topics} == {ErrorCode.invalid_request}


def test_a_topic_with_a_name_that_collides_is_refused(bootstrap: str, unique: Callable[[], str]) -> None:
    """Metric names turn dots into underscores, so `a.b` and `a_b` cannot live together."""
    stem = unique()
    with connect(bootstrap) as connection:

        def create(name: str) -> Any:
            new = {"name": name, "num_partitions": 1, "replication_factor": 1}
            reply = connection.call(
                "create_topics", 7, topics=[new], timeout=timedelta(seconds=10), validate_only=False
            )
            return reply.topics[0].error_code

        assert create(stem + "a.b") is ErrorCode.none
        assert create(stem + "a_b") is ErrorCode.invalid_topic_exception


def test_a_created_topics_reply_is_complete(bootstrap: str, unique: Callable[[], str]) -> None:
    new = {"name": unique(), "num_partitions": -1, "replication_factor": -1}
    with connect(bootstrap) as connection:
        reply = connection.call("create_topics", 7, topics=[new], timeout=timedelta(seconds=10), validate_only=False)
    [created] = reply.topics
    assert (created.error_code, created.num_partitions, created.replication_factor) == (ErrorCode.none, 1, 1)
    assert created.topic_id
    assert "retention.ms" in {entry.name for entry in created.configs}


def test_topics_are_deleted_by_id(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        topic_id = topic_id_of(connection, topic)
        asked = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": uuid.uuid4()}]
        reply = connection.call("delete_topics", 6, topics=asked, timeout=timedelta(seconds=10))
        answers = {answer.topic_id: answer for answer in reply.responses}
        assert (answers[topic_id].error_code, answers[topic_id].name) == (ErrorCode.none, topic)
        assert {a.error_code for i, a in answers.items() if i != topic_id} == {ErrorCode.unknown_topic_id}


def named_twice(topic: str, *partitions: dict[str, Any]) -> dict[str, Any]:
    return {"topics": [{"name": topic, "partitions": [partition]} for partition in partitions]}


def test_list_offsets_of_a_partition_named_twice(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        asked = named_twice(topic, *[{"partition_index": 0, "timestamp": stamp} for stamp in (-1, -2, 5)])
        reply = connection.call("list_offsets", 7, replica_id=-1, isolation_level=0, **asked)
        [[answer]] = [answered.partitions for answered in reply.topics]
        assert (answer.error_code, answer.offset, answer.timestamp) == (ErrorCode.invalid_request, -1, -1)


def test_delete_records_of_a_partition_named_twice(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        produce_one(connection, topic, batches.pack([b"v"] * 10))
        asked = named_twice(topic, {"partition_index": 0, "offset": 7}, {"partition_index": 0, "offset": 4})
        reply = connection.call("delete_records", 2, timeout=timedelta(seconds=10), **asked)
        [[answer]] = [answered.partitions for answered in reply.topics]
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.none, 4)


def test_offset_for_leader_epoch_of_a_partition_named_twice(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        produce_one(connection, topic, batches.pack([b"v"] * 10))
        partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        asked = [{"topic": topic, "partitions": [partition, partition]}, {"topic": topic, "partitions": [partition]}]
        reply = connection.call("offset_for_leader_epoch", 4, replica_id=-1, topics=asked)
        answers = [answer for answered in reply.topics for answer in answered.partitions]
        assert [(answer.error_code, answer.end_offset) for answer in answers] == [(ErrorCode.none, 10)] * 3
