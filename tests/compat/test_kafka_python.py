"""kafka-python with its default settings: producer, consumer, groups."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition, codec
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import MessageSizeTooLargeError, NoOffsetForPartitionError
from kafka.partitioner.default import murmur2

from tests.compat.conftest import MakeTopic
from tests.compat.deadlines import eventually

CODECS = [
    pytest.param(name, marks=pytest.mark.skipif(not installed, reason=f"kafka-python has no {name} library here"))
    for name, installed in {
        "gzip": codec.has_gzip(),
        "snappy": codec.has_snappy(),
        "lz4": codec.has_lz4(),
        "zstd": codec.has_zstd(),
    }.items()
]


@contextmanager
def producer(bootstrap: str, **config: Any) -> Iterator[Any]:
    client = KafkaProducer(bootstrap_servers=bootstrap, **config)
    try:
        yield client
    finally:
        client.close(timeout=10)


@contextmanager
def consumer(bootstrap: str, *topics: str, **config: Any) -> Iterator[Any]:
    """kafka-python may join before it has metadata and then assigns nothing, so it is made to ask first."""
    client = KafkaConsumer(*topics, bootstrap_servers=bootstrap, **config)
    for topic in topics:
        client.partitions_for_topic(topic)
    try:
        yield client
    finally:
        client.close()


def send_values(bootstrap: str, topic: str, count: int, **config: Any) -> list[Any]:
    with producer(bootstrap, **config) as client:
        futures = [client.send(topic, f"value-{index}".encode()) for index in range(count)]
        return [future.get(timeout=10) for future in futures]


def poll_records(client: Any, count: int) -> list[Any]:
    records: list[Any] = []

    def enough() -> bool:
        for batch in client.poll(timeout_ms=200).values():
            records.extend(batch)
        return len(records) >= count

    eventually(enough)
    return records


def test_default_producer_and_consumer(bootstrap: str, topic: str) -> None:
    metadata = send_values(bootstrap, topic, 10)
    assert [m.offset for m in metadata] == list(range(10))
    with consumer(bootstrap, topic, auto_offset_reset="earliest", consumer_timeout_ms=10_000) as client:
        read = [next(client) for _ in range(10)]
    assert [(r.offset, r.value) for r in read] == [(i, f"value-{i}".encode()) for i in range(10)]


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_level(bootstrap: str, topic: str, acks: int | str) -> None:
    send_values(bootstrap, topic, 5, acks=acks, enable_idempotence=acks == "all")
    with consumer(bootstrap, topic, auto_offset_reset="earliest") as client:
        assert [r.offset for r in poll_records(client, 5)] == list(range(5))


@pytest.mark.parametrize("compression", CODECS)
def test_every_codec_round_trips(bootstrap: str, topic: str, compression: str) -> None:
    send_values(bootstrap, topic, 50, compression_type=compression, linger_ms=20)
    with consumer(bootstrap, topic, auto_offset_reset="earliest") as client:
        assert [r.value for r in poll_records(client, 50)] == [f"value-{i}".encode() for i in range(50)]


def test_keys_headers_timestamps_and_nulls(bootstrap: str, topic: str) -> None:
    headers = [("a", b"1"), ("a", b""), ("b", b"\x00\xff")]
    with producer(bootstrap) as client:
        client.send(topic, b"value", key=b"key", headers=headers, timestamp_ms=1_500_000_000_123).get(10)
        client.send(topic, None, key=b"tombstone").get(10)
        client.send(topic, b"", key=b"").get(10)
    with consumer(bootstrap, topic, auto_offset_reset="earliest") as client:
        full, tombstone, empty = poll_records(client, 3)
    assert (full.key, full.value, full.headers) == (b"key", b"value", headers)
    assert (full.timestamp, full.timestamp_type) == (1_500_000_000_123, 0)
    assert (tombstone.key, tombstone.value) == (b"tombstone", None)
    assert (empty.key, empty.value) == (b"", b"")


def test_a_message_over_the_topics_limit_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"max.message.bytes": "5000"})
    with producer(bootstrap) as client, pytest.raises(MessageSizeTooLargeError):
        client.send(topic, b"x" * 6000).get(10)
    with producer(bootstrap) as client:
        assert client.send(topic, b"x" * 4000).get(10).offset == 0


def test_producing_creates_the_topic(bootstrap: str, unique: Callable[[], str]) -> None:
    assert [m.offset for m in send_values(bootstrap, unique(), 2)] == [0, 1]


def test_keys_land_where_javas_partitioner_puts_them(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=5)
    keys = [f"user-{index}".encode() for index in range(40)]
    with producer(bootstrap) as client:
        futures = [client.send(topic, b"v", key=key) for key in keys]
        partitions = [future.get(10).partition for future in futures]
    assert partitions == [(murmur2(key) & 0x7FFFFFFF) % 5 for key in keys]


def test_beginning_end_and_time_lookups(bootstrap: str, topic: str) -> None:
    place, base = TopicPartition(topic, 0), 1_600_000_000_000
    with producer(bootstrap) as client:
        for index in range(5):
            client.send(topic, b"x", timestamp_ms=base + index * 100).get(10)
    with consumer(bootstrap) as client:
        assert client.beginning_offsets([place]) == {place: 0}
        assert client.end_offsets([place]) == {place: 5}
        found = client.offsets_for_times({place: base + 150})[place]
        assert (found.offset, found.timestamp) == (2, base + 200)
        assert client.offsets_for_times({place: base + 401})[place] is None


def test_seek_position_and_pause(bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    send_values(bootstrap, topic, 10)
    with consumer(bootstrap) as client:
        client.assign([place])
        client.seek_to_beginning(place)
        assert len(poll_records(client, 10)) == 10
        assert client.position(place) == 10
        client.seek(place, 6)
        assert [r.offset for r in poll_records(client, 4)] == [6, 7, 8, 9]
        client.pause(place)
        client.seek(place, 0)
        assert client.poll(timeout_ms=200) == {}
        client.resume(place)
        assert poll_records(client, 10)[0].offset == 0
        assert client.highwater(place) == 10


def test_latest_is_the_default_start(bootstrap: str, topic: str) -> None:
    place = TopicPartition(topic, 0)
    send_values(bootstrap, topic, 5)
    with consumer(bootstrap, topic) as client:
        eventually(lambda: client.poll(timeout_ms=50) or client.assignment())
        assert client.position(place) == 5
        send_values(bootstrap, topic, 1)
        assert [r.offset for r in poll_records(client, 1)] == [5]


def test_without_a_reset_policy_a_new_group_fails(bootstrap: str, topic: str, group: str) -> None:
    settings = {"group_id": group, "auto_offset_reset": "none"}
    with consumer(bootstrap, topic, **settings) as client, pytest.raises(NoOffsetForPartitionError):
        poll_records(client, 1)


def test_commits_keep_offset_and_metadata(bootstrap: str, topic: str, group: str) -> None:
    place = TopicPartition(topic, 0)
    with consumer(bootstrap, group_id=group, enable_auto_commit=False) as client:
        client.assign([place])
        assert client.committed(place) is None
        client.commit({place: OffsetAndMetadata(3, "why · 因", -1)})
        stored = client.committed(place, metadata=True)
        assert (stored.offset, stored.metadata) == (3, "why · 因")
        done: list[Any] = []
        client.commit_async({place: OffsetAndMetadata(4, "", -1)}, callback=lambda *result: done.append(result))
        eventually(lambda: client.poll(timeout_ms=50) or done)
        assert client.committed(place) == 4


def test_a_group_carries_on_where_it_stopped(bootstrap: str, topic: str, group: str) -> None:
    send_values(bootstrap, topic, 10)
    settings = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with consumer(bootstrap, topic, **settings, max_poll_records=4) as client:
        first = poll_records(client, 1)
        client.commit()
    with consumer(bootstrap, topic, **settings) as client:
        rest = poll_records(client, 10 - len(first))
    assert [r.offset for r in first + rest] == list(range(10))


@contextmanager
def member(bootstrap: str, topic: str, **config: Any) -> Iterator[Any]:
    """A consumer polled by a thread of its own, as an application would, until the context ends."""
    leaving = threading.Event()

    def poll_until_leaving(client: Any) -> None:
        while not leaving.is_set():
            client.poll(timeout_ms=500)

    with consumer(bootstrap, topic, **config) as client:
        thread = threading.Thread(target=poll_until_leaving, args=(client,))
        thread.start()
        try:
            yield client
        finally:
            leaving.set()
            thread.join()


@pytest.mark.rebalance
@pytest.mark.parametrize("assignors", [None, (StickyPartitionAssignor,)], ids=["default", "sticky"])
def test_partitions_move_when_a_member_joins_and_leaves(
    bootstrap: str, make_topic: MakeTopic, group: str, assignors: Any
) -> None:
    topic = make_topic(partitions=4)
    settings: dict[str, Any] = {"group_id": group, "heartbeat_interval_ms": 100, "session_timeout_ms": 6000}
    if assignors:
        settings["partition_assignment_strategy"] = assignors
    with member(bootstrap, topic, **settings) as first:
        eventually(lambda: len(first.assignment()) == 4)
        with member(bootstrap, topic, **settings) as second:
            eventually(lambda: len(first.assignment()) == len(second.assignment()) == 2)
            assert not first.assignment() & second.assignment()
        eventually(lambda: len(first.assignment()) == 4)


def test_a_long_poll_ends_when_a_message_arrives(bootstrap: str, topic: str) -> None:
    """The fetch waits for longer than this test does."""
    patient = {"fetch_max_wait_ms": 200_000, "request_timeout_ms": 300_000}
    with consumer(bootstrap, **patient) as client, producer(bootstrap) as sender:
        client.assign([TopicPartition(topic, 0)])
        client.seek_to_end()
        client.poll(timeout_ms=200)
        sender.send(topic, b"wake up").get(60)
        assert [r.value for r in poll_records(client, 1)] == [b"wake up"]


def test_pattern_subscription(bootstrap: str, topic: str, group: str) -> None:
    send_values(bootstrap, topic, 3)
    with consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as client:
        client.subscribe(pattern=f"^{topic}.*")
        assert [r.offset for r in poll_records(client, 3)] == [0, 1, 2]
