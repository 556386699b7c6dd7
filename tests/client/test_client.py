"""The client of a cluster: metadata, leaders that move, retries, and the calls of readers against a real broker."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as CommittedPartition

from ottla.client.client import Client, ClientSettings, parse_bootstrap
from ottla.client.failures import ConnectionFailed, GaveUp
from ottla.client.fetch import Fetched, Fetcher, FetchSettings, OffsetOutOfRange
from ottla.client.offsets import commit_offsets, committed_offsets, list_offsets
from ottla.env.network import Address
from ottla.errors import ErrorCode, KafkaError
from ottla.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ottla.records.header import iter_headers
from ottla.testing.topics import create_topic
from ottla.wire.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.schema import Request
from tests.client.scripted_broker import HANG_UP, Answer, ScriptedBroker, scripted

if TYPE_CHECKING:
    from ottla.testing.embedded import EmbeddedBroker

T = TypeVar("T")

QUICK = ClientSettings(retry_timeout=10.0, retry_backoff=0.001)


def with_client(bootstrap: str, work: Callable[[Client], Awaitable[T]]) -> T:
    async def scenario() -> T:
        async with Client(parse_bootstrap(bootstrap), QUICK) as client:
            return await work(client)

    return asyncio.run(scenario())


def produce(bootstrap: str, topic: str, values: list[bytes], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for index, value in enumerate(values):
        producer.produce(topic, value, partition=partition, timestamp=1000 * (index + 1))
    producer.flush(60)


def test_metadata_of_some_and_of_all_topics(ottla_broker: "EmbeddedBroker", ottla_topic: str) -> None:
    async def work(client: Client) -> None:
        some = await client.metadata([ottla_topic, "no-such-topic"])
        assert some.partitions() == [TopicPartition(ottla_topic, 0)]
        assert some.errors == {"no-such-topic": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert ottla_topic in (await client.metadata(None)).topics
        assert not (await client.metadata([])).topics

    with_client(ottla_broker.bootstrap_servers, work)


def test_offsets_by_end_and_by_time(ottla_broker: "EmbeddedBroker", ottla_topic: str) -> None:
    produce(ottla_broker.bootstrap_servers, ottla_topic, [b"a", b"b", b"c"])
    partition = TopicPartition(ottla_topic, 0)

    async def work(client: Client) -> list[tuple[int, int]]:
        times = (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, 1500, 99_999)
        return [(await list_offsets(client, {partition: time}))[partition] for time in times]

    assert with_client(ottla_broker.bootstrap_servers, work) == [(0, -1), (3, -1), (1, 2000), (-1, -1)]


def test_offsets_are_committed_for_other_tools_to_see(ottla_broker: "EmbeddedBroker", ottla_topic: str) -> None:
    bootstrap, partition = ottla_broker.bootstrap_servers, TopicPartition(ottla_topic, 0)

    async def work(client: Client) -> dict[TopicPartition, int]:
        assert await committed_offsets(client, "readers-" + ottla_topic) == {}
        await commit_offsets(client, "readers-" + ottla_topic, {partition: 42})
        return await committed_offsets(client, "readers-" + ottla_topic)

    assert with_client(bootstrap, work) == {partition: 42}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers-" + ottla_topic})
    [committed] = consumer.committed([CommittedPartition(ottla_topic, 0)], 10)
    consumer.close()
    assert committed.offset == 42


def test_fetches_follow_each_other_to_the_end(ottla_broker: "EmbeddedBroker", ottla_topic: str) -> None:
    produce(ottla_broker.bootstrap_servers, ottla_topic, [b"x" * 1000] * 500)

    async def work(client: Client) -> int:
        settings = FetchSettings(max_bytes=20_000, max_wait_ms=10)
        fetcher = Fetcher(client, TopicPartition(ottla_topic, 0), settings)
        offset = 0
        while offset < 500:
            fetched = await fetcher.fetch(offset)
            assert fetched.high_watermark == 500
            offset = max(header.next_offset for _, header in iter_headers(fetched.records))
            fetcher.begin(offset)
        assert len((await fetcher.fetch(offset)).records) == 0
        fetcher.begin(offset)
        fetcher.cancel()
        return offset

    assert with_client(ottla_broker.bootstrap_servers, work) == 500


def test_an_offset_that_the_log_does_not_have(ottla_broker: "EmbeddedBroker", ottla_topic: str) -> None:
    async def work(client: Client) -> Fetched:
        return await Fetcher(client, TopicPartition(ottla_topic, 0), FetchSettings()).fetch(5)

    with pytest.raises(OffsetOutOfRange, match="offset 5"):
        with_client(ottla_broker.bootstrap_servers, work)


def test_a_topic_that_appears_while_it_is_waited_for(ottla_broker: "EmbeddedBroker", ottla_topic: str) -> None:
    bootstrap, name = ottla_broker.bootstrap_servers, ottla_topic + "-later"

    async def work(client: Client) -> dict[TopicPartition, tuple[int, int]]:
        asked = asyncio.ensure_future(list_offsets(client, {TopicPartition(name, 0): LATEST_TIMESTAMP}))
        await asyncio.sleep(0)
        await asyncio.to_thread(create_topic, bootstrap, name, 1)
        return dict(await asked)

    assert with_client(bootstrap, work) == {TopicPartition(name, 0): (0, -1)}


class Cluster:
    """Two scripted brokers, of which one leads; the other sends who asks away."""

    def __init__(self) -> None:
        self.leader = 1
        self.told = 1
        """Whom metadata names, which may be behind."""
        self.addresses: dict[int, Address] = {}

    def answer(self, node_id: int, request: Request) -> Answer:
        if isinstance(request, MetadataRequest):
            partition = MetadataResponsePartition(partition_index=0, leader_id=self.told)
            brokers = [MetadataResponseBroker(node_id=n, host=a.host, port=a.port) for n, a in self.addresses.items()]
            self.told = self.leader
            return MetadataResponse(brokers=brokers, topics=[MetadataResponseTopic(name="t", partitions=[partition])])
        assert isinstance(request, ListOffsetsRequest)
        code = ErrorCode.NONE if node_id == self.leader else ErrorCode.NOT_LEADER_OR_FOLLOWER
        found = ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=100 + node_id)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])


async def latest(client: Client) -> int:
    partition = TopicPartition("t", 0)
    return (await list_offsets(client, {partition: LATEST_TIMESTAMP}))[partition].offset


def test_a_leader_that_moves_is_followed() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        async with (
            scripted(lambda request, version: cluster.answer(1, request)) as first,
            scripted(lambda request, version: cluster.answer(2, request)) as second,
            Client([first.address], QUICK) as client,
        ):
            cluster.addresses = {1: first.address, 2: second.address}
            assert await latest(client) == 101
            cluster.leader = 2
            assert await latest(client) == 102
            cluster.leader, cluster.told = 1, 2
            assert await latest(client) == 101

    asyncio.run(scenario())


def test_a_dead_bootstrap_broker_is_passed_over() -> None:
    async def scenario() -> None:
        async with scripted(lambda request, version: None) as gone:
            dead = gone.address
        cluster = Cluster()
        async with (
            scripted(lambda request, version: cluster.answer(1, request)) as living,
            Client([dead, living.address], QUICK) as client,
        ):
            cluster.addresses = {1: living.address}
            assert await latest(client) == 101

    asyncio.run(scenario())


def test_a_connection_that_broke_is_made_anew() -> None:
    async def scenario() -> None:
        cluster = Cluster()
        broken = [True]

        def answer(request: Request, version: int) -> Answer:
            if isinstance(request, ListOffsetsRequest) and broken:
                broken.clear()
                return HANG_UP
            return cluster.answer(1, request)

        async with scripted(answer) as broker, Client([broker.address], QUICK) as client:
            cluster.addresses = {1: broker.address}
            assert await latest(client) == 101
            assert broker.connections == 2

    asyncio.run(scenario())


def test_an_error_that_lasts_is_reported_with_its_cause() -> None:
    async def scenario(broker_of: Callable[[Request, int], Answer]) -> None:
        settings = ClientSettings(retry_timeout=0.05, retry_backoff=0.01)
        async with scripted(broker_of) as broker, Client([broker.address], settings) as client:
            await _follow(client, broker)

    async def _follow(client: Client, broker: ScriptedBroker) -> None:
        cluster.addresses = {1: broker.address}
        await latest(client)

    cluster = Cluster()
    cluster.leader = 7
    with pytest.raises(GaveUp, match=r"gave up after 0\.05 s: .*t-0"):
        asyncio.run(scenario(lambda request, version: cluster.answer(1, request)))


def test_an_error_that_never_passes_is_not_retried() -> None:
    async def scenario() -> None:
        calls = []

        async def attempt() -> None:
            calls.append(1)
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

        client = Client([Address("127.0.0.1", 1)], QUICK)
        with pytest.raises(KafkaError):
            await client.retry("something", attempt)
        assert len(calls) == 1

    asyncio.run(scenario())


def test_no_broker_at_all() -> None:
    async def scenario() -> None:
        async with scripted(lambda request, version: None) as gone:
            dead = gone.address
        async with Client([dead], ClientSettings(retry_timeout=0.0)) as client:
            with pytest.raises(GaveUp, match="no broker could be reached") as failure:
                await client.metadata(None)
            assert isinstance(failure.value.__cause__, ConnectionFailed)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", [("a", 1)]),
        (" a:1 , b:2,", [("a", 1), ("b", 2)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
        ("[::1]:9092", [("::1", 9092)]),
    ],
)
def test_bootstrap_servers(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize("text", ["", " , ", "localhost", "a:b", ":9092", "a:0", "a:70000"])
def test_bootstrap_servers_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"bootstrap\.servers"):
        parse_bootstrap(text)
