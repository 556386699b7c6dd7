"""One client connection to a whole broker, on a network and a clock that the test controls."""

import asyncio
import itertools
import logging
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.context import Broker
from ottla.handlers.exchange import Exchange, Reply
from ottla.handlers.registry import HANDLERS
from ottla.server.connection import MAX_OUTSTANDING, MAX_READ_AHEAD, MAX_UNSENT
from ottla.wire.api import METADATA
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.schema import Request
from tests.server.wire_client import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch,
    encode_request,
    fetch_request,
    frame,
    produce_request,
)
from tests.server.worlds import MemoryConnection, Running, asynchronous, running, settle, until


async def create_topic(world: Running, name: str, **settings: str) -> None:
    configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=configs)
    reply = await world.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 4, CreateTopicsResponse)
    assert reply.topics[0].error_code == ErrorCode.NONE


def waiters(world: Running, topic: str) -> int:
    return len(world.broker.replicas.leader_of(topic, 0).waiters)


def push_all(connection: MemoryConnection, requests: list[tuple[Request, int]]) -> None:
    """All requests in one write, with correlation ids 0, 1, 2, ..."""
    frames = [encode_request(request, version, index) for index, (request, version) in enumerate(requests)]
    connection.push(b"".join(frames))


API_VERSIONS_REQUEST = (ApiVersionsRequest(), 0)
METADATA_REQUEST = (MetadataRequest(topics=None), 1)


def produce(topic: str, value: bytes = b"hello", acks: int = 1) -> tuple[ProduceRequest, int]:
    return produce_request(topic, batch(value), acks), PRODUCE_VERSION


def long_poll(topic: str, offset: int = 0) -> tuple[Request, int]:
    return fetch_request(topic, offset, max_wait_ms=60_000, min_bytes=1), FETCH_VERSION


@asynchronous
async def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create_topic(world, "clicks")
        client = world.connect()
        push_all(client, [API_VERSIONS_REQUEST, produce("clicks"), METADATA_REQUEST] * 50)
        await until(lambda: len(client.frames()) == 150)
        assert client.correlation_ids() == list(range(150))
        offsets = [client.reply(i, ProduceResponse, PRODUCE_VERSION) for i in range(1, 150, 3)]
        assert [r.responses[0].partition_responses[0].base_offset for r in offsets] == list(range(50))


@asynchronous
async def test_requests_behind_a_long_poll_wait_for_it(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create_topic(world, "clicks")
        client = world.connect()
        push_all(client, [API_VERSIONS_REQUEST, long_poll("clicks"), METADATA_REQUEST, API_VERSIONS_REQUEST])
        await settle()
        assert client.correlation_ids() == [0]
        await world.clock.advance(59.9)
        assert client.correlation_ids() == [0]
        await world.clock.advance(0.2)
        assert client.correlation_ids() == [0, 1, 2, 3]
        fetched = client.reply(1, FetchResponse, FETCH_VERSION)
        assert fetched.responses[0].partitions[0].error_code == ErrorCode.NONE
        assert client.reply(2, MetadataResponse, 1).topics[0].name == "clicks"


@asynchronous
async def test_a_long_poll_ends_when_somebody_produces(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create_topic(world, "clicks")
        consumer, producer = world.connect(), world.connect()
        push_all(consumer, [long_poll("clicks"), METADATA_REQUEST])
        assert waiters(world, "clicks") == 1
        push_all(producer, [produce("clicks")])
        await until(lambda: len(consumer.frames()) == 2)
        assert consumer.correlation_ids() == [0, 1]
        assert batch(b"hello")[61:] in bytes(consumer.frames()[0])
        assert waiters(world, "clicks") == 0


@asynchronous
async def test_appends_that_wait_for_the_disk_are_answered_in_order(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create_topic(world, "clicks", flush_messages="1")
        client = world.connect()
        push_all(client, [produce("clicks"), produce("clicks"), METADATA_REQUEST, produce("clicks")])
        assert client.frames() == []
        await until(lambda: len(client.frames()) == 4)
        assert client.correlation_ids() == [0, 1, 2, 3]


@asynchronous
async def test_a_producer_may_have_only_so_many_appends_on_the_way(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create_topic(world, "clicks", flush_messages="1")
        client = world.connect()
        count = 2 * MAX_OUTSTANDING + 10
        push_all(client, [produce("clicks")] * count)
        assert world.broker.replicas.leader_of("clicks", 0).log.end_offset == MAX_OUTSTANDING
        assert not client.is_read
        await until(lambda: len(client.frames()) == count)
        assert client.correlation_ids() == list(range(count))
        assert client.is_read


@asynchronous
async def test_acks_0_gets_no_reply(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create_topic(world, "clicks")
        client = world.connect()
        push_all(client, [produce("clicks", acks=0), produce("clicks", acks=0), API_VERSIONS_REQUEST])
        await until(lambda: bool(client.frames()))
        assert client.correlation_ids() == [2]
        assert world.broker.replicas.leader_of("clicks", 0).high_watermark == 2


@asynchronous
async def test_acks_0_that_fails_hangs_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path) as world:
        await create_topic(world, "clicks")
        client = world.connect()
        push_all(client, [API_VERSIONS_REQUEST, produce("clicks", acks=0), produce("nowhere", acks=0)])
        await until(lambda: not client.is_open)
        assert client.correlation_ids() == [0]
        assert world.broker.replicas.leader_of("clicks", 0).high_watermark == 1
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "acks=0 failed for nowhere-0: UNKNOWN_TOPIC_OR_PARTITION" in line


@asynchronous
async def test_a_client_that_goes_away_leaves_no_waiter(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create_topic(world, "clicks")
        client = world.connect()
        push_all(client, [long_poll("clicks")])
        assert waiters(world, "clicks") == 1
        assert client.is_read, "a client that only waits must be read, or its end is not noticed"
        client.close()
        await settle()
        assert waiters(world, "clicks") == 0


@asynchronous
async def test_a_client_that_goes_away_with_another_request_pending_leaves_no_waiter(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create_topic(world, "clicks")
        client = world.connect()
        push_all(client, [long_poll("clicks"), API_VERSIONS_REQUEST])
        assert waiters(world, "clicks") == 1
        assert client.is_read, "the broker must read on, or it does not notice that the client hangs up"
        client.close()
        await settle()
        assert waiters(world, "clicks") == 0
        assert client.frames() == []


@asynchronous
async def test_a_client_that_sends_much_during_a_long_poll_is_closed_when_idle(tmp_path: Path) -> None:
    """The broker stops reading from it, so it would not notice the client's end. The long-poll may last 24 days."""
    async with running(tmp_path, {"connections.max.idle.ms": "5000"}) as world:
        await create_topic(world, "clicks")
        client, patient = world.connect(), world.connect()
        forever = (fetch_request("clicks", max_wait_ms=2**31 - 1), FETCH_VERSION)
        push_all(client, [forever, produce("clicks", bytes(MAX_READ_AHEAD)), produce("clicks", bytes(MAX_READ_AHEAD))])
        push_all(patient, [forever, API_VERSIONS_REQUEST])
        assert not client.is_read
        await world.clock.advance(7)
        assert not client.is_open
        assert patient.is_open
        assert waiters(world, "clicks") == 1


@asynchronous
async def test_connections_with_much_to_serve_share_a_round_of_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as world:
        ticks = itertools.count()
        # Every look at the clock takes a millisecond, so that one connection alone would be served 20 requests.
        monkeypatch.setattr(world.clock, "monotonic", lambda: next(ticks) / 1000)
        clients = [world.connect() for _ in range(40)]
        for client in clients:
            push_all(client, [API_VERSIONS_REQUEST] * 50)

        def served() -> int:
            return sum(len(client.frames()) for client in clients)

        rounds = [served()]
        while rounds[-1] < 40 * 50:
            await asyncio.sleep(0)
            rounds.append(served())
        largest = max(after - before for before, after in itertools.pairwise(rounds))
        assert largest <= 3 * len(clients)


@asynchronous
async def test_work_that_has_begun_is_finished_without_its_client(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        client = world.connect()
        topic = CreatableTopic(name="orphan", num_partitions=1, replication_factor=1)
        push_all(client, [(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 4)])
        client.close()
        await until(lambda: "orphan" in world.broker.metadata.image.topics)


@asynchronous
async def test_a_client_that_never_reads_is_served_no_further(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create_topic(world, "clicks")
        world.connect().push(encode_request(*produce("clicks", bytes(400_000)), 0))
        greedy, count = world.connect(), 100
        greedy.is_slow = True
        push_all(greedy, [(fetch_request("clicks"), FETCH_VERSION)] * count)
        await settle()
        assert MAX_UNSENT < greedy.unsent < MAX_UNSENT + 500_000
        assert not greedy.is_read
        greedy.is_slow = False
        greedy.take_all()
        await until(lambda: len(greedy.frames()) == count)
        assert greedy.correlation_ids() == list(range(count))


@asynchronous
async def test_many_small_requests_with_large_replies_do_not_pile_up(tmp_path: Path) -> None:
    """Replies count against the client before the network has them, not only afterwards."""
    async with running(tmp_path) as world:
        topic = CreatableTopic(name="wide", num_partitions=500, replication_factor=1)
        await world.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 4, CreateTopicsResponse)
        greedy, count = world.connect(), 120
        greedy.is_slow = True
        push_all(greedy, [METADATA_REQUEST] * count)
        await settle()
        assert MAX_UNSENT < greedy.unsent < MAX_UNSENT + 100_000
        greedy.is_slow = False
        greedy.take_all()
        await until(lambda: len(greedy.frames()) == count)
        assert greedy.correlation_ids() == list(range(count))


@asynchronous
async def test_large_replies_behind_an_append_do_not_pile_up(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create_topic(world, "clicks", flush_messages="1")
        topic = CreatableTopic(name="wide", num_partitions=900, replication_factor=1)
        await world.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 4, CreateTopicsResponse)
        client = world.connect()
        push_all(client, [produce("clicks"), *[METADATA_REQUEST] * 60])
        assert not client.is_read
        assert client.frames() == []
        await until(lambda: len(client.frames()) == 61)
        assert client.correlation_ids() == list(range(61))


class SlowMetadata:
    """A handler that takes longer than one slice for each request, and records the clients."""

    def __init__(self, world: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked_by: list[str | None] = []
        self._clock = world.clock
        self._original = HANDLERS[METADATA.key]
        monkeypatch.setitem(HANDLERS, METADATA.key, self._original._replace(handle=self._handle))

    def _handle(self, broker: Broker, exchange: Exchange, request: MetadataRequest) -> Reply:
        self.asked_by.append(exchange.client_id)
        self._clock.pass_by(0.1)
        return self._original.handle(broker, exchange, request)


@asynchronous
async def test_one_busy_client_leaves_turns_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as world:
        slow = SlowMetadata(world, monkeypatch)
        busy, other = world.connect(), world.connect()
        busy.push(b"".join(encode_request(*METADATA_REQUEST, i, client_id="busy") for i in range(5)))
        other.push(encode_request(*METADATA_REQUEST, 0, client_id="other"))
        assert slow.asked_by == ["busy", "other"]
        assert not busy.is_read
        await until(lambda: len(busy.frames()) == 5)
        assert busy.correlation_ids() == [0, 1, 2, 3, 4]
        assert busy.is_read


@asynchronous
async def test_a_client_that_goes_away_between_its_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as world:
        await create_topic(world, "clicks")
        slow = SlowMetadata(world, monkeypatch)
        client = world.connect()
        push_all(client, [METADATA_REQUEST, METADATA_REQUEST, long_poll("clicks")])
        client.close()
        await settle()
        assert len(slow.asked_by) == 1
        assert waiters(world, "clicks") == 0


@asynchronous
async def test_a_request_is_served_when_the_one_before_is_answered(tmp_path: Path) -> None:
    """A request after CreateTopics on the same connection finds the topic."""
    async with running(tmp_path, {"auto.create.topics.enable": "false"}) as world:
        client = world.connect()
        topic = CreatableTopic(name="clicks", num_partitions=1, replication_factor=1)
        create = (CreateTopicsRequest(topics=[topic], timeout_ms=1000), 4)
        push_all(
            client, [create, produce("clicks"), (MetadataRequest(topics=[MetadataRequestTopic(name="clicks")]), 1)]
        )
        await until(lambda: len(client.frames()) == 3)
        appended = client.reply(1, ProduceResponse, PRODUCE_VERSION).responses[0].partition_responses[0]
        assert appended.error_code == ErrorCode.NONE
        assert client.reply(2, MetadataResponse, 1).topics[0].error_code == ErrorCode.NONE


@asynchronous
async def test_half_a_frame_then_silence(tmp_path: Path) -> None:
    async with running(tmp_path, {"connections.max.idle.ms": "5000"}) as world:
        client = world.connect()
        client.push(encode_request(*METADATA_REQUEST, 0)[:-3])
        await world.clock.advance(4)
        assert client.is_open
        await world.clock.advance(3)
        assert not client.is_open
        assert client.taken == b""


@asynchronous
async def test_idle_connections_are_closed(tmp_path: Path) -> None:
    async with running(tmp_path, {"connections.max.idle.ms": "5000"}) as world:
        silent, busy = world.connect(), world.connect()
        for _ in range(7):
            busy.request(*API_VERSIONS_REQUEST)
            await world.clock.advance(1)
        assert not silent.is_open
        assert busy.is_open
        assert len(busy.frames()) == 7


@asynchronous
async def test_idle_connections_are_kept_when_asked(tmp_path: Path) -> None:
    async with running(tmp_path, {"connections.max.idle.ms": "-1"}) as world:
        silent = world.connect()
        await world.clock.advance(60)
        assert silent.is_open


@asynchronous
async def test_max_connections(tmp_path: Path) -> None:
    async with running(tmp_path, {"max.connections": "2"}) as world:
        first, second = world.connect("192.0.2.1"), world.connect("192.0.2.2")
        assert world.network.connect("192.0.2.3") is None
        first.close()
        third = world.connect("192.0.2.3")
        for client in (second, third):
            client.request(*API_VERSIONS_REQUEST)
            assert client.reply(0, ApiVersionsResponse, 0).error_code == ErrorCode.NONE


@asynchronous
async def test_max_connections_per_ip(tmp_path: Path) -> None:
    async with running(tmp_path, {"max.connections.per.ip": "2"}) as world:
        first, _ = world.connect("192.0.2.1"), world.connect("192.0.2.1")
        assert world.network.connect("192.0.2.1") is None
        assert world.network.connect("192.0.2.2") is not None
        first.close()
        assert world.network.connect("192.0.2.1") is not None
        assert world.network.connect("192.0.2.1") is None


@asynchronous
async def test_an_address_may_have_a_limit_of_its_own(tmp_path: Path) -> None:
    limits = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "192.0.2.1:2"}
    async with running(tmp_path, limits) as world:
        assert world.network.connect("192.0.2.2") is None
        assert world.network.connect("192.0.2.1") is not None
        assert world.network.connect("192.0.2.1") is not None
        assert world.network.connect("192.0.2.1") is None


@asynchronous
async def test_a_refused_connection_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path, {"max.connections": "1"}) as world:
        world.connect("192.0.2.1")
        assert world.network.connect("192.0.2.7") is None
    assert [r.getMessage().partition(":")[0] for r in caplog.records if r.levelno >= logging.WARNING] == [
        "rejecting 192.0.2.7"
    ]


@asynchronous
async def test_a_client_of_another_protocol_that_tries_again_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as world:
        for first in (b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n") * 3:
            client = world.connect("192.0.2.7")
            client.push(first)
            assert not client.is_open
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [line.partition(": ")[2] for line in lines] == [
        "a TLS handshake on a listener without TLS",
        "an HTTP request on a Kafka listener",
    ]
    assert all("192.0.2.7" in line for line in lines)


class TestMistakesOfTheBroker:
    """A failing handler closes its client's connection, with one log line. Other clients are not affected."""

    @staticmethod
    def failing(broker: Broker, exchange: Exchange, request: MetadataRequest) -> Reply:
        raise KeyError("a mistake")

    @staticmethod
    async def failing_later(broker: Broker, exchange: Exchange, request: MetadataRequest) -> MetadataResponse:
        await settle()
        raise KeyError("a mistake")

    @staticmethod
    def unfit(broker: Broker, exchange: Exchange, request: MetadataRequest) -> Reply:
        return MetadataResponse(controller_id=2**40)

    @staticmethod
    async def unfit_later(broker: Broker, exchange: Exchange, request: MetadataRequest) -> MetadataResponse:
        await settle()
        return MetadataResponse(controller_id=2**40)

    @pytest.mark.parametrize("name", ["failing", "failing_later", "unfit", "unfit_later"])
    def test_only_its_client_is_hung_up_on(
        self, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        served = HANDLERS[METADATA.key]._replace(handle=getattr(self, name))
        monkeypatch.setitem(HANDLERS, METADATA.key, served)

        @asynchronous
        async def scenario() -> None:
            async with running(tmp_path) as world:
                victim, other = world.connect(), world.connect()
                push_all(victim, [API_VERSIONS_REQUEST, METADATA_REQUEST, API_VERSIONS_REQUEST])
                await until(lambda: not victim.is_open)
                assert victim.correlation_ids() == [0]
                other.request(*API_VERSIONS_REQUEST)
                assert other.reply(0, ApiVersionsResponse, 0).error_code == ErrorCode.NONE

        scenario()
        (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert record.levelno == logging.ERROR
        assert "failed; closing its connection" in record.getMessage()
        assert record.exc_info is not None


@asynchronous
async def test_a_bad_frame_behind_good_ones_costs_only_itself(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create_topic(world, "clicks")
        client = world.connect()
        good = encode_request(*produce("clicks"), 0) + encode_request(*API_VERSIONS_REQUEST, 1)
        client.push(good + frame(b"garbage") + encode_request(*produce("clicks"), 3))
        await until(lambda: not client.is_open)
        assert client.correlation_ids() == [0, 1]
        assert world.broker.replicas.leader_of("clicks", 0).high_watermark == 1


@asynchronous
async def test_the_first_search_for_a_coordinator_blocks_nobody_else(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        searching, other = world.connect(), world.connect()
        push_all(searching, [(FindCoordinatorRequest(key="g"), 0), API_VERSIONS_REQUEST])
        other.request(*API_VERSIONS_REQUEST)
        assert other.correlation_ids() == [0]
        assert searching.correlation_ids() == []
        await until(lambda: len(searching.frames()) == 2)
        assert searching.correlation_ids() == [0, 1]
