"""confluent-kafka (librdkafka) as a producer."""

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from kafka.partitioner.default import murmur2

from tests.compat.confluent_client import Record, consume, produce, read_partition, reader, send, values
from tests.compat.conftest import MakeTopic

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_level_stores_the_messages_in_order(bootstrap: str, topic: str, acks: str) -> None:
    produce(bootstrap, topic, values(20), acks=acks)
    assert [m.value() for m in read_partition(bootstrap, topic, 20)] == [r.value for r in values(20)]


def test_the_delivery_report_carries_the_offset(bootstrap: str, topic: str) -> None:
    assert [m.offset() for m in produce(bootstrap, topic, values(5))] == [0, 1, 2, 3, 4]
    assert [m.offset() for m in produce(bootstrap, topic, values(2))] == [5, 6]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_round_trips(bootstrap: str, topic: str, codec: str) -> None:
    records = [Record(f"{index} ".encode() * 200, key=str(index).encode()) for index in range(50)]
    produce(bootstrap, topic, records, compression_type=codec, linger_ms=50)
    messages = read_partition(bootstrap, topic, 50)
    assert [(m.key(), m.value(), m.offset()) for m in messages] == [(r.key, r.value, i) for i, r in enumerate(records)]


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_compress_to_almost_nothing(bootstrap: str, topic: str, codec: str) -> None:
    """Large batches of equal records have the most records per byte: the broker's bound must let them pass."""
    count = 20_000
    records = [Record(b"", timestamp=1_700_000_000_000)] * count
    sent = produce(bootstrap, topic, records, compression_type=codec, linger_ms=500, batch_num_messages=count)
    assert sorted(m.offset() for m in sent) == list(range(count))
    [last] = read_partition(bootstrap, topic, 1, offset=count - 1)
    assert last.offset() == count - 1


@pytest.mark.parametrize(
    "record",
    [
        Record(b"value", key=b"key"),
        Record(b"value", key=None),
        Record(b"value", key=b""),
        Record(b"", key=b"key"),
        Record(None, key=b"tombstone"),
        Record(b"\x00\xff" * 10, key=b"\x80"),
        Record(b"v", headers=[("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None), ("bin", b"\xff\x00")]),
        Record(b"v", timestamp=1_500_000_000_123),
    ],
    ids=["key", "no-key", "empty-key", "empty-value", "null-value", "binary", "headers", "timestamp"],
)
def test_what_is_sent_is_what_is_read(bootstrap: str, topic: str, record: Record) -> None:
    produce(bootstrap, topic, [record])
    [message] = read_partition(bootstrap, topic, 1)
    assert (message.key(), message.value(), message.headers()) == (record.key, record.value, record.headers)
    if record.timestamp is not None:
        assert message.timestamp() == (TIMESTAMP_CREATE_TIME, record.timestamp)


def test_create_time_is_the_default(bootstrap: str, topic: str) -> None:
    before = int(time.time() * 1000)
    produce(bootstrap, topic, values(1))
    kind, timestamp = read_partition(bootstrap, topic, 1)[0].timestamp()
    assert kind == TIMESTAMP_CREATE_TIME
    assert before <= timestamp <= int(time.time() * 1000)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_log_append_time_replaces_the_producers_clock(bootstrap: str, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    produce(bootstrap, topic, [Record(b"old", timestamp=1000), Record(b"old", timestamp=2000)], compression_type=codec)
    for message in read_partition(bootstrap, topic, 2):
        kind, timestamp = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert before <= timestamp <= int(time.time() * 1000)


def test_a_message_close_to_the_default_limit_is_stored(bootstrap: str, topic: str) -> None:
    body = bytes(range(256)) * 3900
    produce(bootstrap, topic, [Record(body)], message_max_bytes=2_000_000)
    [message] = read_partition(bootstrap, topic, 1)
    assert message.value() == body


def test_a_message_over_the_default_limit_is_refused(bootstrap: str, topic: str) -> None:
    with pytest.raises(KafkaException) as refused:
        produce(bootstrap, topic, [Record(b"x" * 1_050_000)], message_max_bytes=2_000_000)
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_the_limit_of_the_topic_counts_not_the_brokers(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"max.message.bytes": "20000"})
    produce(bootstrap, topic, [Record(b"x" * 19_000)])
    with pytest.raises(KafkaException) as refused:
        produce(bootstrap, topic, [Record(b"x" * 21_000)])
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert [m.offset() for m in produce(bootstrap, topic, values(1))] == [1]


def test_a_topic_may_allow_more_than_the_broker(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"max.message.bytes": "3000000"})
    produce(bootstrap, topic, [Record(b"y" * 2_500_000)], message_max_bytes=3_000_000)
    assert len(read_partition(bootstrap, topic, 1)[0].value()) == 2_500_000


def test_an_idempotent_producer_leaves_no_gaps_and_no_duplicates(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    records = [Record(str(index).encode(), partition=index % 3) for index in range(600)]
    produce(bootstrap, topic, records, enable_idempotence=True, batch_num_messages=10)
    for partition in range(3):
        messages = read_partition(bootstrap, topic, 200, partition)
        assert [m.offset() for m in messages] == list(range(200))
        assert [int(m.value()) for m in messages] == list(range(partition, 600, 3))


def test_producing_creates_the_topic_with_one_partition(bootstrap: str, admin: Any, unique: Callable[[], str]) -> None:
    topic = unique()
    assert [m.offset() for m in produce(bootstrap, topic, values(3))] == [0, 1, 2]
    assert len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 1


@pytest.mark.parametrize("name", ["has space", "sla/sh", "x" * 250])
def test_a_topic_with_an_illegal_name_is_refused(bootstrap: str, name: str) -> None:
    with pytest.raises(KafkaException) as refused:
        produce(bootstrap, name, values(1))
    assert refused.value.args[0].code() == KafkaError.TOPIC_EXCEPTION


def test_a_partition_that_does_not_exist_is_refused(bootstrap: str, topic: str) -> None:
    with pytest.raises(KafkaException) as refused:
        produce(bootstrap, topic, [Record(b"x", partition=7)])
    assert refused.value.args[0].code() == KafkaError._UNKNOWN_PARTITION


def test_keys_land_where_javas_partitioner_puts_them(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=7)
    keys = [f"key-{index}".encode() for index in range(60)] + [uuid.UUID(int=index).bytes for index in range(20)]
    delivered = produce(bootstrap, topic, [Record(b"v", key=key) for key in keys], partitioner="murmur2_random")
    assert {m.key(): m.partition() for m in delivered} == {key: (murmur2(key) & 0x7FFFFFFF) % 7 for key in keys}


def test_one_producer_serves_many_topics_and_partitions(bootstrap: str, make_topic: MakeTopic) -> None:
    names = [make_topic(partitions=4) for _ in range(3)]
    producer = Producer({"bootstrap.servers": bootstrap})
    reports: list[tuple[Any, Any]] = []
    for index in range(240):
        send(producer, names[index % 3], Record(b"x", partition=index % 4), reports)
    assert producer.flush(20) == 0
    assert all(error is None for error, _ in reports)
    with reader(bootstrap) as client:
        client.assign([TopicPartition(name, partition, 0) for name in names for partition in range(4)])
        read = [(m.topic(), m.partition()) for m in consume(client, 240)]
    assert {place: read.count(place) for place in set(read)} == {(n, p): 20 for n in names for p in range(4)}


def test_only_the_messages_without_a_key_are_to_blame(bootstrap: str, make_topic: MakeTopic) -> None:
    """KIP-467, as librdkafka's own test 0011 asks for it."""
    topic = make_topic(config={"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 500})
    reports: list[tuple[Any, Any]] = []
    for number in range(10):
        send(producer, topic, Record(b"%d" % number, key=None if number in (1, 3) else b"k"), reports)
    assert producer.flush(20) == 0
    codes = {int(message.value()): error.code() for error, message in reports}
    different = KafkaError._INVALID_DIFFERENT_RECORD
    assert codes == {n: KafkaError.INVALID_RECORD if n in (1, 3) else different for n in range(10)}
