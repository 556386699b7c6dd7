"""Metadata: what exists, what is created on the way, and what is refused."""

import asyncio
import dataclasses
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.handlers import metadata, yielding
from ottla.model import TopicId
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.server.worlds import Running, asynchronous, running

BAD_NAMES = ["", ".", "..", "a/b", "x\0y", "n" * 250, "é"]


async def ask(world: Running, *names: str | None, version: int = 9, auto_create: bool = True) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=auto_create)
    return await world.call(request, version, MetadataResponse)


def codes(reply: MetadataResponse) -> list[tuple[str | None, ErrorCode]]:
    return [(topic.name, ErrorCode(topic.error_code)) for topic in reply.topics]


@asynchronous
async def test_a_topic_is_created_by_asking_for_it(tmp_path: Path) -> None:
    async with running(tmp_path, {"num.partitions": "3"}) as world:
        (topic,) = (await ask(world, "clicks")).topics
        assert topic.error_code == ErrorCode.NONE
        assert [partition.leader_id for partition in topic.partitions] == [world.broker.id] * 3


@asynchronous
async def test_a_long_reply_is_built_in_turns_from_one_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as world:
        for name in ("clicks", "views"):
            await world.broker.metadata.create_topic(name, partitions=20)
        request = MetadataRequest(topics=None)
        expected = await world.call(request, 9, MetadataResponse)
        monkeypatch.setattr(metadata, "_PARTITIONS_AT_ONCE", 39)
        monkeypatch.setattr(yielding, "_SLICE_SECONDS", -1.0)
        client = world.connect()
        client.request(request, 9)
        await asyncio.sleep(0)
        assert client.frames() == []
        world.broker.metadata.image = dataclasses.replace(world.broker.metadata.image, brokers={}, topics={})
        for _ in range(100):
            await asyncio.sleep(0)
        assert client.reply(0, MetadataResponse, 9) == expected
        assert [len(topic.partitions) for topic in expected.topics] == [20, 20]


@asynchronous
async def test_bad_names_are_not_created(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        reply = await ask(world, *BAD_NAMES, "good")
        assert codes(reply) == [
            *((name, ErrorCode.INVALID_TOPIC_EXCEPTION) for name in BAD_NAMES),
            ("good", ErrorCode.NONE),
        ]
        assert set(world.broker.metadata.image.topics) == {"good"}


@asynchronous
async def test_a_name_that_collides_is_not_created(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await ask(world, "a.b")
        assert codes(await ask(world, "a_b")) == [("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION)]


@pytest.mark.parametrize("by_client", [True, False])
@asynchronous
async def test_nothing_is_created_where_that_is_forbidden(by_client: bool, tmp_path: Path) -> None:
    settings = {} if by_client else {"auto.create.topics.enable": "false"}
    async with running(tmp_path, settings) as world:
        reply = await ask(world, "clicks", "..", auto_create=not by_client)
        assert codes(reply) == [
            ("clicks", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]
        assert world.broker.metadata.image.topics == {}


@asynchronous
async def test_all_topics_and_none(tmp_path: Path) -> None:
    """Version 0 knows no null, so that its empty list means all."""
    async with running(tmp_path) as world:
        await ask(world, "a", "b")
        assert len((await world.call(MetadataRequest(topics=[]), 0, MetadataResponse)).topics) == 2
        assert len((await world.call(MetadataRequest(topics=[]), 1, MetadataResponse)).topics) == 0
        assert len((await world.call(MetadataRequest(topics=None), 1, MetadataResponse)).topics) == 2


@asynchronous
async def test_by_id(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await ask(world, "clicks")
        topic_id = world.broker.metadata.image.topics["clicks"].topic_id
        wanted = [
            MetadataRequestTopic(topic_id=topic_id, name=None),
            MetadataRequestTopic(topic_id=TopicId(b"i" * 16), name=None),
        ]
        reply = await world.call(MetadataRequest(topics=wanted), 12, MetadataResponse)
        assert codes(reply) == [("clicks", ErrorCode.NONE), (None, ErrorCode.UNKNOWN_TOPIC_ID)]


@asynchronous
async def test_a_topic_is_described_once(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await ask(world, "clicks")
        topic_id = world.broker.metadata.image.topics["clicks"].topic_id
        assert len((await ask(world, *["clicks"] * 10, "new", "new")).topics) == 2
        by_id = [MetadataRequestTopic(topic_id=topic_id, name=str(number)) for number in range(10)]
        assert len((await world.call(MetadataRequest(topics=by_id), 12, MetadataResponse)).topics) == 1
