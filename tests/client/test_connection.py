"""One connection: correlation, versions, and what happens when the other side misbehaves."""

import asyncio
import struct

import pytest

from ottla.client.connection import MAX_FRAME, Connection, connect
from ottla.client.failures import ConnectionFailed, UnsupportedRequest
from ottla.env.network import Address
from ottla.wire.api import FETCH, METADATA
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.schema import Request
from tests.client.scripted_broker import HANG_UP, Answer, ScriptedBroker, scripted

WITHIN = 60.0


def echo_topics(request: Request, version: int) -> Answer:
    """A reply that shows which request it belongs to."""
    assert isinstance(request, MetadataRequest)
    return MetadataResponse(controller_id=len(request.topics or ()), cluster_id="scripted")


async def to(broker: ScriptedBroker) -> Connection:
    return await connect(broker.address, client_id="test", within=WITHIN)


async def ask(connection: Connection, within: float = WITHIN) -> MetadataResponse:
    return await connection.call(MetadataRequest(topics=[]), MetadataResponse, within=within)


def test_requests_in_flight_get_their_own_replies() -> None:
    async def scenario() -> None:
        from ottla.wire.api.metadata import MetadataRequestTopic

        async with scripted(echo_topics) as broker:
            connection = await to(broker)
            requests = [
                MetadataRequest(topics=[MetadataRequestTopic(name=f"t{i}") for i in range(count)])
                for count in range(20)
            ]
            calls = [connection.call(request, MetadataResponse, within=WITHIN) for request in requests]
            replies = await asyncio.gather(*calls)
            assert [reply.controller_id for reply in replies] == list(range(20))
            assert broker.connections == 1
            connection.close()

    asyncio.run(scenario())


def test_the_newest_common_version_is_used_unless_held_down() -> None:
    async def scenario() -> None:
        async with scripted(echo_topics) as broker:
            broker.versions[METADATA.key] = (0, 7)
            connection = await to(broker)
            await ask(connection)
            await connection.call(MetadataRequest(topics=[]), MetadataResponse, within=WITHIN, highest=4)
            assert [version for _, version in broker.requests] == [7, 4]
            broker.versions[METADATA.key] = (0, 99)
            assert (await to(broker)).version_of(MetadataRequest) == METADATA.max_version
            connection.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("versions", [None, (90, 99), (0, 2)])
def test_an_api_without_a_common_version_is_named(versions: tuple[int, int] | None) -> None:
    async def scenario() -> None:
        async with scripted(echo_topics) as broker:
            del broker.versions[FETCH.key]
            if versions is not None:
                broker.versions[FETCH.key] = versions
            connection = await to(broker)
            with pytest.raises(UnsupportedRequest, match="Fetch"):
                connection.version_of(FetchRequest)
            connection.close()

    asyncio.run(scenario())


def test_a_broker_too_old_for_our_first_question_answers_in_version_0() -> None:
    async def scenario() -> None:
        async with scripted(echo_topics) as broker:
            broker.refuse_first_version = True
            connection = await to(broker)
            assert (await ask(connection)).cluster_id == "scripted"
            connection.close()

    asyncio.run(scenario())


def test_a_broker_that_hangs_up_fails_all_who_wait_and_all_who_come_later() -> None:
    async def scenario() -> None:
        async with scripted(lambda request, version: HANG_UP) as broker:
            connection = await to(broker)
            outcomes = await asyncio.gather(*(ask(connection) for _ in range(3)), return_exceptions=True)
            assert all(isinstance(outcome, ConnectionFailed) for outcome in outcomes)
            assert connection.closed
            with pytest.raises(ConnectionFailed):
                await ask(connection)

    asyncio.run(scenario())


def test_a_silent_broker_is_given_up() -> None:
    async def scenario() -> None:
        async with scripted(lambda request, version: None) as broker:
            connection = await to(broker)
            with pytest.raises(ConnectionFailed, match=r"did not answer Metadata within 0\.05 s"):
                await ask(connection, within=0.05)
            assert connection.closed

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (struct.pack(">ii", 4, 12345), "unknown correlation id"),
        (struct.pack(">i", MAX_FRAME + 1), "frame of"),
        (struct.pack(">i", -1), "frame of"),
        (struct.pack(">i", 2), "frame of"),
        (struct.pack(">iiB", 7, 1, 0) + b"\xff\xff", "malformed reply"),
    ],
)
def test_garbage_closes_the_connection(reply: bytes, complaint: str) -> None:
    async def scenario() -> None:
        async with scripted(lambda request, version: reply) as broker:
            connection = await to(broker)
            with pytest.raises(ConnectionFailed, match=complaint):
                await ask(connection)
            assert connection.closed

    asyncio.run(scenario())


def test_a_cancelled_call_does_not_disturb_the_next() -> None:
    async def scenario() -> None:
        async with scripted(echo_topics) as broker:
            connection = await to(broker)
            broker.hold = asyncio.Event()
            waiting = asyncio.ensure_future(ask(connection))
            await broker.asked.wait()
            waiting.cancel()
            broker.hold.set()
            assert (await ask(connection)).cluster_id == "scripted"
            connection.close()

    asyncio.run(scenario())


def test_nobody_listening() -> None:
    async def scenario() -> None:
        async with scripted(echo_topics) as broker:
            address = broker.address
        with pytest.raises(ConnectionFailed, match="could not connect"):
            await connect(Address(*address), client_id="test", within=WITHIN)

    asyncio.run(scenario())
