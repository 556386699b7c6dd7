"""aiokafka with its default settings. It speaks no flexible protocol version, so it exercises the old encodings."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError
from kafka.partitioner.default import murmur2

from tests.compat.conftest import MakeTopic

DEADLINE = 60.0


def run(scenario: Awaitable[None]) -> None:
    async def within_deadline() -> None:
        await asyncio.wait_for(scenario, DEADLINE)

    asyncio.run(within_deadline())


@asynccontextmanager
async def producer(bootstrap: str, **config: Any) -> AsyncIterator[Any]:
    client = AIOKafkaProducer(bootstrap_servers=bootstrap, **config)
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


@asynccontextmanager
async def consumer(bootstrap: str, *topics: str, **config: Any) -> AsyncIterator[Any]:
    client = AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, **config)
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


@asynccontextmanager
async def admin_client(bootstrap: str) -> AsyncIterator[Any]:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


async def send_values(bootstrap: str, topic: str, count: int, **config: Any) -> list[int]:
    """The offsets as reported; with acks=0 there is nothing to report."""
    async with producer(bootstrap, **config) as client:
        sent = [await client.send(topic, f"value-{index}".encode()) for index in range(count)]
        reports = [await report for report in sent]
        return [report.offset for report in reports if report is not None]


async def read(client: Any, count: int) -> list[Any]:
    return [await client.getone() for _ in range(count)]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait inside the test's own deadline; the state is the broker's, so there is no event to wait for."""
    while not await condition():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def until_shared(partitions: int, *members: Any) -> None:
    """Every member has so many partitions."""

    async def settled() -> bool:
        return all(len(member.assignment()) == partitions for member in members)

    await until(settled)


async def has_partitions(admin: Any, topic: str, count: int) -> bool:
    [description] = await admin.describe_topics([topic])
    return len(description["partitions"]) == count


async def is_gone(admin: Any, topic: str) -> bool:
    return topic not in await admin.list_topics()


def test_default_producer_and_consumer(bootstrap: str, topic: str) -> None:
    async def scenario() -> None:
        assert await send_values(bootstrap, topic, 10) == list(range(10))
        async with consumer(bootstrap, topic, auto_offset_reset="earliest") as client:
            records = await read(client, 10)
        assert [(r.offset, r.value) for r in records] == [(i, f"value-{i}".encode()) for i in range(10)]

    run(scenario())


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acks_level(bootstrap: str, topic: str, acks: int | str) -> None:
    async def scenario() -> None:
        await send_values(bootstrap, topic, 5, acks=acks)
        async with consumer(bootstrap, topic, auto_offset_reset="earliest") as client:
            assert [r.offset for r in await read(client, 5)] == list(range(5))

    run(scenario())


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_round_trips(bootstrap: str, topic: str, codec: str | None) -> None:
    async def scenario() -> None:
        await send_values(bootstrap, topic, 50, compression_type=codec, linger_ms=10)
        async with consumer(bootstrap, topic, auto_offset_reset="earliest") as client:
            assert [r.value for r in await read(client, 50)] == [f"value-{i}".encode() for i in range(50)]

    run(scenario())


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_that_compress_to_almost_nothing(bootstrap: str, topic: str, codec: str) -> None:
    async def scenario() -> None:
        async with producer(bootstrap, compression_type=codec, max_batch_size=1 << 20) as client:
            batch = client.create_batch()
            for _ in range(20_000):
                assert batch.append(key=b"", value=b"", timestamp=1_700_000_000_000) is not None
            sent = await client.send_batch(batch, topic, partition=0)
            assert (await sent).offset == 0
        async with consumer(bootstrap, topic, auto_offset_reset="earliest") as client:
            assert [r.offset for r in await read(client, 20_000)] == list(range(20_000))

    run(scenario())


def test_keys_headers_timestamps_and_nulls(bootstrap: str, topic: str) -> None:
    headers = [("a", b"1"), ("a", b""), ("b", b"\x00\xff")]

    async def scenario() -> None:
        async with producer(bootstrap) as client:
            await client.send_and_wait(topic, b"value", b"key", timestamp_ms=1_500_000_000_123, headers=headers)
            await client.send_and_wait(topic, None, b"tombstone")
            await client.send_and_wait(topic, b"", b"")
        async with consumer(bootstrap, topic, auto_offset_reset="earliest") as client:
            full, tombstone, empty = await read(client, 3)
        assert (full.key, full.value, list(full.headers)) == (b"key", b"value", headers)
        assert (full.timestamp, full.timestamp_type) == (1_500_000_000_123, 0)
        assert (tombstone.key, tombstone.value) == (b"tombstone", None)
        assert (empty.key, empty.value) == (b"", b"")

    run(scenario())


def test_an_idempotent_producer(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)

    async def scenario() -> None:
        async with producer(bootstrap, enable_idempotence=True) as client:
            reports = [await client.send(topic, str(i).encode(), partition=i % 2) for i in range(100)]
            offsets = [(await report).offset for report in reports]
        assert offsets == [index // 2 for index in range(100)]

    run(scenario())


def test_a_message_over_the_topics_limit_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"max.message.bytes": "5000"})

    async def scenario() -> None:
        async with producer(bootstrap) as client:
            with pytest.raises(MessageSizeTooLargeError):
                await client.send_and_wait(topic, b"x" * 6000)
            assert (await client.send_and_wait(topic, b"x" * 4000)).offset == 0

    run(scenario())


def test_producing_creates_the_topic(bootstrap: str, unique: Callable[[], str]) -> None:
    async def scenario() -> None:
        assert await send_values(bootstrap, unique(), 2) == [0, 1]

    run(scenario())


def test_keys_land_where_javas_partitioner_puts_them(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=5)
    keys = [f"user-{index}".encode() for index in range(30)]

    async def scenario() -> None:
        async with producer(bootstrap) as client:
            reports = [await client.send(topic, b"v", key) for key in keys]
            assert [(await r).partition for r in reports] == [(murmur2(key) & 0x7FFFFFFF) % 5 for key in keys]

    run(scenario())


def test_getmany_returns_batches_by_partition(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)

    async def scenario() -> None:
        async with producer(bootstrap) as client:
            for index in range(30):
                await client.send(topic, str(index).encode(), partition=index % 3)
        seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
        async with consumer(bootstrap, topic, auto_offset_reset="earliest") as client:
            while sum(map(len, seen.values())) < 30:
                for place, records in (await client.getmany(timeout_ms=500, max_records=7)).items():
                    assert len(records) <= 7
                    seen[place.partition] += [r.offset for r in records]
        assert seen == {0: list(range(10)), 1: list(range(10)), 2: list(range(10))}

    run(scenario())


def test_seek_position_and_time_lookups(bootstrap: str, topic: str) -> None:
    place, base = TopicPartition(topic, 0), 1_600_000_000_000

    async def scenario() -> None:
        async with producer(bootstrap) as client:
            for index in range(10):
                await client.send_and_wait(topic, b"x", timestamp_ms=base + index * 100)
        async with consumer(bootstrap) as client:
            client.assign([place])
            assert await client.beginning_offsets([place]) == {place: 0}
            assert await client.end_offsets([place]) == {place: 10}
            found = (await client.offsets_for_times({place: base + 250}))[place]
            assert (found.offset, found.timestamp) == (3, base + 300)
            assert (await client.offsets_for_times({place: base + 901}))[place] is None
            client.seek(place, 7)
            assert [r.offset for r in await read(client, 3)] == [7, 8, 9]
            assert await client.position(place) == 10
            await client.seek_to_beginning(place)
            assert (await client.getone()).offset == 0
            assert client.highwater(place) == 10

    run(scenario())


def test_pause_and_resume(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    quiet = TopicPartition(topic, 1)

    async def scenario() -> None:
        async with producer(bootstrap) as client:
            for index in range(10):
                await client.send_and_wait(topic, b"x", partition=index % 2)
        async with consumer(bootstrap) as client:
            client.assign([TopicPartition(topic, 0), quiet])
            client.pause(quiet)
            await client.seek_to_beginning()
            assert {r.partition for r in await read(client, 5)} == {0}
            assert await client.getmany(timeout_ms=200) == {}
            client.resume(quiet)
            assert {r.partition for r in await read(client, 5)} == {1}

    run(scenario())


def test_commits_keep_offset_and_metadata(bootstrap: str, topic: str, group: str) -> None:
    place = TopicPartition(topic, 0)

    async def scenario() -> None:
        await send_values(bootstrap, topic, 10)
        settings = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        async with consumer(bootstrap, topic, **settings) as client:
            assert await client.committed(place) is None
            await read(client, 4)
            await client.commit({place: (4, "why · 因")})
            assert await client.committed(place) == 4
        async with consumer(bootstrap, topic, **settings) as client:
            assert [r.offset for r in await read(client, 6)] == [4, 5, 6, 7, 8, 9]

    run(scenario())


@pytest.mark.rebalance
def test_partitions_move_when_a_member_joins_and_leaves(bootstrap: str, make_topic: MakeTopic, group: str) -> None:
    topic = make_topic(partitions=4)
    settings = {"group_id": group, "heartbeat_interval_ms": 100, "session_timeout_ms": 6000}

    async def scenario() -> None:
        async with consumer(bootstrap, topic, **settings) as first:
            await until_shared(4, first)
            async with consumer(bootstrap, topic, **settings) as second:
                await until_shared(2, first, second)
                assert not first.assignment() & second.assignment()
            await until_shared(4, first)

    run(scenario())


def test_a_long_poll_ends_when_a_message_arrives(bootstrap: str, topic: str) -> None:
    """The fetch waits for longer than this test does."""
    patient = {"fetch_max_wait_ms": 200_000, "request_timeout_ms": 300_000}

    async def scenario() -> None:
        async with consumer(bootstrap, topic, **patient) as client, producer(bootstrap) as sender:
            assert await client.getmany(timeout_ms=300) == {}
            waiting = asyncio.create_task(client.getone())
            await sender.send_and_wait(topic, b"wake up")
            assert (await waiting).value == b"wake up"

    run(scenario())


def test_topics_are_administered(bootstrap: str, unique: Callable[[], str]) -> None:
    name = unique()

    async def scenario() -> None:
        async with admin_client(bootstrap) as client:
            new = NewTopic(name, num_partitions=2, replication_factor=1, topic_configs={"retention.ms": "5000"})
            created = await client.create_topics([new])
            assert [(topic[0], topic[1]) for topic in created.topic_errors] == [(name, 0)]
            with_same_name = await client.create_topics([new])
            assert with_same_name.topic_errors[0][1] == TopicAlreadyExistsError.errno
            await client.create_partitions({name: NewPartitions(3)})
            await until(lambda: has_partitions(client, name, 3))
            assert name in await client.list_topics()
            [configs] = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
            values = {entry[0]: entry[1] for entry in configs.resources[0][4]}
            assert (values["retention.ms"], values["segment.bytes"]) == ("5000", "1073741824")
            await client.delete_topics([name])
            await until(lambda: is_gone(client, name))

    run(scenario())


def test_groups_offsets_and_records_are_administered(bootstrap: str, topic: str, group: str) -> None:
    place = TopicPartition(topic, 0)
    settings = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}

    async def scenario() -> None:
        await send_values(bootstrap, topic, 10)
        async with admin_client(bootstrap) as client:
            async with consumer(bootstrap, topic, **settings) as member:
                await read(member, 10)
                await member.commit({place: (10, "note")})
                [described] = await client.describe_consumer_groups([group])
                error, group_id, state, protocol_type, protocol, members = described.groups[0][:6]
                assert (error, group_id, state, protocol_type) == (0, group, "Stable", "consumer")
                assert (protocol, len(members)) == ("roundrobin", 1)
            assert (group, "consumer") in [tuple(each[:2]) for each in await client.list_consumer_groups()]
            stored = await client.list_consumer_group_offsets(group)
            assert (stored[place].offset, stored[place].metadata) == (10, "note")
            assert await client.delete_records({place: RecordsToDelete(before_offset=6)}) == {place: 6}
            cluster = await client.describe_cluster()
            assert [f"{b['host']}:{b['port']}" for b in cluster["brokers"]] == [bootstrap]

    run(scenario())
