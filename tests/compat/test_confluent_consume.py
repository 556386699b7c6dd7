"""confluent-kafka (librdkafka) as a consumer: where it starts, where it goes, what it commits."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tests.compat import topics
from tests.compat.confluent_client import Record, consume, consumer, produce, read_partition, reader, values
from tests.compat.conftest import MakeTopic
from tests.compat.deadlines import eventually


def offsets(messages: list[Any]) -> list[int]:
    return [message.offset() for message in messages]


def test_a_new_group_starts_at_the_earliest_offset(bootstrap: str, topic: str, group: str) -> None:
    produce(bootstrap, topic, values(10))
    with consumer(bootstrap, group) as client:
        client.subscribe([topic])
        assert offsets(consume(client, 10)) == list(range(10))


def test_a_new_group_with_latest_sees_only_what_comes_later(bootstrap: str, topic: str, group: str) -> None:
    produce(bootstrap, topic, values(10))
    with consumer(bootstrap, group, auto_offset_reset="latest", enable_partition_eof=True) as client:
        client.subscribe([topic])
        end = eventually(lambda: client.poll(0.2))
        assert (end.error().code(), end.offset()) == (KafkaError._PARTITION_EOF, 10)
        produce(bootstrap, topic, values(3, "later"))
        assert [m.value() for m in consume(client, 3)] == [b"later-0", b"later-1", b"later-2"]


@pytest.mark.parametrize(("start", "first"), [(OFFSET_BEGINNING, 0), (0, 0), (7, 7), (19, 19)])
def test_reading_starts_at_the_offset_asked_for(bootstrap: str, topic: str, start: int, first: int) -> None:
    produce(bootstrap, topic, values(20), linger_ms=50)
    assert offsets(read_partition(bootstrap, topic, 20 - first, offset=start)) == list(range(first, 20))


def test_reading_from_the_end_waits_for_the_next_message(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, values(5))
    with reader(bootstrap, enable_partition_eof=True) as client:
        client.assign([TopicPartition(topic, 0, OFFSET_END)])
        eventually(lambda: client.poll(0.2))
        produce(bootstrap, topic, values(1))
        assert offsets(consume(client, 1)) == [5]


def test_seek_and_rewind(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, values(30), linger_ms=50)
    with reader(bootstrap) as client:
        client.assign([TopicPartition(topic, 0, 0)])
        assert offsets(consume(client, 30)) == list(range(30))
        client.seek(TopicPartition(topic, 0, 12))
        assert offsets(consume(client, 18)) == list(range(12, 30))
        client.seek(TopicPartition(topic, 0, 0))
        assert offsets(consume(client, 1)) == [0]


def test_a_paused_partition_is_silent_until_resumed(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap, topic, [Record(b"x", partition=index % 2) for index in range(20)])
    with reader(bootstrap) as client:
        client.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
        client.pause([TopicPartition(topic, 1)])
        assert {m.partition() for m in consume(client, 10)} == {0}
        assert client.poll(0.3) is None
        client.resume([TopicPartition(topic, 1)])
        assert {m.partition() for m in consume(client, 10)} == {1}


def test_an_offset_out_of_range_follows_the_reset_policy(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, values(5))
    assert offsets(read_partition(bootstrap, topic, 5, offset=1000)) == list(range(5))
    with reader(bootstrap, auto_offset_reset="error") as client:
        client.assign([TopicPartition(topic, 0, 1000)])
        with pytest.raises(KafkaException) as refused:
            consume(client, 1)
    assert refused.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET


def test_watermarks_are_the_first_and_the_next_offset(bootstrap: str, topic: str) -> None:
    with reader(bootstrap) as client:
        assert client.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 0)
        produce(bootstrap, topic, values(4))
        assert client.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 4)


def test_offsets_for_times(bootstrap: str, topic: str) -> None:
    base = 1_600_000_000_000
    produce(bootstrap, topic, [Record(b"x", timestamp=base + index * 1000) for index in range(10)])
    with reader(bootstrap) as client:

        def lookup(timestamp: int) -> int:
            [found] = client.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=10)
            offset: int = found.offset
            return offset

        assert lookup(0) == 0
        assert lookup(base + 3000) == 3
        assert lookup(base + 3001) == 4
        assert lookup(base + 9000) == 9
        assert lookup(base + 9001) == OFFSET_END


def test_a_message_larger_than_the_fetch_size_is_still_read(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [Record(b"z" * 300_000), Record(b"small")])
    limits = {"fetch_message_max_bytes": 1000, "max_partition_fetch_bytes": 1000}
    with reader(bootstrap, **limits) as client:
        client.assign([TopicPartition(topic, 0, 0)])
        assert [len(m.value()) for m in consume(client, 2)] == [300_000, 5]


def test_the_end_of_a_partition_is_reported(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, values(3))
    with reader(bootstrap, enable_partition_eof=True) as client:
        client.assign([TopicPartition(topic, 0, 0)])
        consume(client, 3)
        end = eventually(lambda: client.poll(0.2))
        assert (end.error().code(), end.offset()) == (KafkaError._PARTITION_EOF, 3)


def test_a_synchronous_commit_keeps_offset_and_metadata(bootstrap: str, topic: str, group: str) -> None:
    with consumer(bootstrap, group) as client:
        partition = TopicPartition(topic, 0)
        assert client.committed([partition], timeout=10)[0].offset == OFFSET_INVALID
        client.commit(offsets=[TopicPartition(topic, 0, 42, metadata="half way · 中")], asynchronous=False)
        [stored] = client.committed([partition], timeout=10)
        assert (stored.offset, stored.metadata) == (42, "half way · 中")
    with consumer(bootstrap, group) as later:
        assert later.committed([partition], timeout=10)[0].offset == 42


def test_an_asynchronous_commit_reports_to_its_callback(bootstrap: str, topic: str, group: str) -> None:
    reports: list[tuple[Any, Any]] = []

    def on_commit(error: Any, partitions: Any) -> None:
        reports.append((error, [(p.topic, p.partition, p.offset) for p in partitions]))

    with consumer(bootstrap, group, on_commit=on_commit, enable_auto_commit=False) as client:
        client.assign([TopicPartition(topic, 0, OFFSET_STORED)])
        client.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=True)
        eventually(lambda: client.poll(0.05) or reports)
    assert reports == [(None, [(topic, 0, 7)])]


def test_a_group_carries_on_after_its_committed_message(bootstrap: str, topic: str, group: str) -> None:
    produce(bootstrap, topic, values(10))
    with consumer(bootstrap, group, enable_auto_commit=False) as client:
        client.subscribe([topic])
        client.commit(message=consume(client, 4)[-1], asynchronous=False)
    with consumer(bootstrap, group) as client:
        client.subscribe([topic])
        assert offsets(consume(client, 6)) == [4, 5, 6, 7, 8, 9]


def test_automatic_commits_happen_at_close(bootstrap: str, topic: str, group: str) -> None:
    produce(bootstrap, topic, values(10))
    with consumer(bootstrap, group) as client:
        client.subscribe([topic])
        consume(client, 10)
    with consumer(bootstrap, group) as client:
        assert client.committed([TopicPartition(topic, 0)], timeout=10)[0].offset == 10


def test_without_permission_a_consumer_creates_no_topic(
    bootstrap: str, admin: Any, unique: Callable[[], str], group: str
) -> None:
    missing = unique()
    with consumer(bootstrap, group, allow_auto_create_topics=False) as client:
        client.subscribe([missing])
        with pytest.raises(KafkaException) as refused:
            consume(client, 1)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert missing not in admin.list_topics(timeout=10).topics


def test_with_permission_asking_about_a_topic_creates_it(bootstrap: str, unique: Callable[[], str], group: str) -> None:
    missing = unique()
    with consumer(bootstrap, group, allow_auto_create_topics=True) as client:
        eventually(lambda: client.list_topics(missing, timeout=10).topics[missing].partitions)
        assert missing in client.list_topics(timeout=10).topics
        client.subscribe([missing])
        produce(bootstrap, missing, values(1))
        assert [m.value() for m in consume(client, 1)] == [b"value-0"]


def test_a_pattern_subscription_finds_topics_made_later(
    bootstrap: str, admin: Any, unique: Callable[[], str], group: str
) -> None:
    prefix = unique()
    first, second = f"{prefix}-first", f"{prefix}-second"
    topics.create(admin, first)
    settings = {"topic_metadata_refresh_interval_ms": 200, "heartbeat_interval_ms": 200}
    with consumer(bootstrap, group, **settings) as client:
        client.subscribe([f"^{prefix}-.*"])
        produce(bootstrap, first, values(1))
        assert {m.topic() for m in consume(client, 1)} == {first}
        topics.create(admin, second)
        produce(bootstrap, second, values(1))
        assert {m.topic() for m in consume(client, 1)} == {second}
