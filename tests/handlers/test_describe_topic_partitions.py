"""DescribeTopicPartitions: pages that together are the whole, as Apache Kafka 4.3.1 cuts them."""

from pathlib import Path

from ottla.errors import ErrorCode
from ottla.wire.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.server.worlds import Running, asynchronous, running

TOPICS = {"bees": 1, "clicks": 5, "dogs": 2}


async def describe(
    world: Running, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return await world.call(request, 0, DescribeTopicPartitionsResponse)


async def create_all(world: Running) -> None:
    for name, partitions in TOPICS.items():
        await world.broker.metadata.create_topic(name, partitions=partitions)


def found(reply: DescribeTopicPartitionsResponse) -> list[tuple[str | None, ErrorCode, list[int]]]:
    return [
        (topic.name, ErrorCode(topic.error_code), [partition.partition_index for partition in topic.partitions])
        for topic in reply.topics
    ]


def next_of(reply: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    return None if reply.next_cursor is None else (reply.next_cursor.topic_name, reply.next_cursor.partition_index)


PAGES: list[tuple[int, dict[str, int], tuple[str, int] | None]] = [
    (8, {"bees": 1, "clicks": 5, "dogs": 2}, None),
    (6, {"bees": 1, "clicks": 5}, ("dogs", 0)),
    (5, {"bees": 1, "clicks": 4}, ("clicks", 4)),
    (1, {"bees": 1}, ("clicks", 0)),
    (0, {"bees": 1}, ("clicks", 0)),
    (-5, {"bees": 1}, ("clicks", 0)),
]
"""How many partitions are asked for, what comes, and where the next page begins."""


@asynchronous
async def test_the_first_page(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create_all(world)
        for limit, partitions, cursor in PAGES:
            for names in (list(TOPICS), []):
                reply = await describe(world, *names, limit=limit)
                assert {topic.name: len(topic.partitions) for topic in reply.topics} == partitions
                assert next_of(reply) == cursor


@asynchronous
async def test_pages_together_are_the_whole(tmp_path: Path) -> None:
    whole = [(name, index) for name, count in TOPICS.items() for index in range(count)]
    async with running(tmp_path) as world:
        await create_all(world)
        for limit in range(1, 10):
            seen: list[tuple[str | None, int]] = []
            cursor: tuple[str, int] | None = ("bees", 0)
            while cursor is not None:
                reply = await describe(world, "dogs", "bees", "clicks", limit=limit, cursor=cursor)
                page = [(topic.name, p.partition_index) for topic in reply.topics for p in topic.partitions]
                assert 0 < len(page) <= limit
                seen += page
                cursor = next_of(reply)
            assert seen == whole


@asynchronous
async def test_the_broker_has_a_limit_of_its_own(tmp_path: Path) -> None:
    async with running(tmp_path, {"max.request.partition.size.limit": "3"}) as world:
        await create_all(world)
        assert next_of(await describe(world, limit=2000)) == ("clicks", 2)


@asynchronous
async def test_cursors_that_lead_nowhere(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await create_all(world)
        refused: list[tuple[str | None, ErrorCode, list[int]]] = [
            ("bees", ErrorCode.INVALID_REQUEST, []),
            ("clicks", ErrorCode.INVALID_REQUEST, []),
        ]
        for cursor in (("clicks", -1), ("cats", 0), ("zebras", 0)):
            assert found(await describe(world, "bees", "clicks", cursor=cursor)) == refused
        past_the_end = await describe(world, "clicks", "dogs", cursor=("clicks", 99))
        assert found(past_the_end) == [("clicks", ErrorCode.NONE, []), ("dogs", ErrorCode.NONE, [0, 1])]
        assert found(await describe(world, cursor=("cats", 7)))[0][0] == "clicks"


@asynchronous
async def test_names_that_are_no_topics(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        assert found(await describe(world, "..", "nothing", "a/b", "nothing")) == [
            ("..", ErrorCode.INVALID_TOPIC_EXCEPTION, []),
            ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION, []),
            ("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []),
        ]
