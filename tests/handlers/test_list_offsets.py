"""ListOffsets: negative timestamps are questions, and not every version may ask each of them."""

from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.model import LeaderEpoch
from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import MAX_TIMESTAMP_AT, Codec
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.records.samples import patched
from tests.server.test_inspection import ManualThreads
from tests.server.worlds import Running, asynchronous, running, settle, until

FIRST_VERSION = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}
"""As Apache Kafka 4.3.1 answers."""

VERSION = 11
TIME = 1_600_000_000_000


def asking(*partitions: tuple[str, int, int]) -> ListOffsetsRequest:
    """Topic, partition and timestamp of each; every one in a topic entry of its own."""
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=timestamp)])
            for topic, index, timestamp in partitions
        ],
    )


async def ask(world: Running, *partitions: tuple[str, int, int]) -> dict[str, list[ListOffsetsPartitionResponse]]:
    reply = await world.call(asking(*partitions), VERSION, ListOffsetsResponse)
    assert len({topic.name for topic in reply.topics}) == len(reply.topics)
    return {topic.name: topic.partitions for topic in reply.topics}


def append(world: Running, *timestamps: int, topic: str = "clicks", claim: int | None = None) -> None:
    """One batch; `claim` is the maximum timestamp that its header names."""
    records = [NewRecord(b"k", b"v", (), timestamp) for timestamp in timestamps]
    batch = build_batch(records, codec=Codec.ZSTD)
    if claim is not None:
        batch = patched(batch, MAX_TIMESTAMP_AT, ">q", claim)
    world.broker.replicas.leader_of(topic, 0).append(memoryview(batch))


@asynchronous
async def test_which_questions_a_version_may_ask(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.broker.metadata.create_topic("clicks", partitions=1)
        for version in range(1, 12):
            for timestamp in [*FIRST_VERSION, -7, -100, -(2**63)]:
                reply = await world.call(asking(("clicks", 0, timestamp)), version, ListOffsetsResponse)
                allowed = version >= FIRST_VERSION.get(timestamp, 99)
                expected = ErrorCode.NONE if allowed else ErrorCode.UNSUPPORTED_VERSION
                assert reply.topics[0].partitions[0].error_code == expected


@asynchronous
async def test_a_partition_that_is_named_twice_is_refused_once(tmp_path: Path) -> None:
    """As Apache Kafka 4.3.1 does. Each one would cost a search: a request of a megabyte, hours of computing."""
    async with running(tmp_path) as world:
        await world.broker.metadata.create_topic("clicks", partitions=2)
        append(world, TIME)
        answers = await ask(world, *[("clicks", 0, TIME)] * 500, ("clicks", 1, -1), ("absent", 0, -1))
        found = [(answer.partition_index, answer.error_code, answer.offset) for answer in answers["clicks"]]
        assert found == [(0, ErrorCode.INVALID_REQUEST, -1), (1, ErrorCode.NONE, 0)]
        assert [answer.error_code for answer in answers["absent"]] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize(("timestamp", "offset", "found"), [(TIME + 1, 1, TIME + 5), (-3, 2, TIME + 9)])
@asynchronous
async def test_others_are_served_while_a_batch_is_searched(
    tmp_path: Path, timestamp: int, offset: int, found: int
) -> None:
    threads = ManualThreads(held=True)
    async with running(tmp_path, lookups=threads) as world:
        await world.broker.metadata.create_topic("clicks", partitions=1)
        append(world, TIME, TIME + 5, TIME + 9)
        client = world.connect()
        client.request(asking(("clicks", 0, timestamp)), VERSION)
        await settle()
        assert threads.waiting == 1
        answers = await ask(world, ("clicks", 0, -1))
        assert answers["clicks"][0].offset == 3
        assert client.frames() == []
        await threads.finish_all()
        [answer] = client.reply(0, ListOffsetsResponse, VERSION).topics[0].partitions
        assert (answer.error_code, answer.offset, answer.timestamp) == (ErrorCode.NONE, offset, found)


@asynchronous
async def test_appends_that_must_be_opened_do_not_wait_for_lookups(tmp_path: Path) -> None:
    threads = ManualThreads(held=True)
    async with running(tmp_path, lookups=threads) as world:
        await world.broker.metadata.create_topic("clicks", partitions=1)
        append(world, TIME)
        client = world.connect()
        client.request(asking(("clicks", 0, TIME)), VERSION)
        await settle()
        assert threads.waiting == 1
        batch = build_batch([NewRecord(b"k", b"v", (), TIME)], codec=Codec.ZSTD)
        assert await world.broker.replicas.leader_of("clicks", 0).inspect(batch)
        assert threads.waiting == 1, "the lookup still holds its thread"
        await threads.finish_all()


@asynchronous
async def test_a_timestamp_after_every_record_needs_no_search(tmp_path: Path) -> None:
    threads = ManualThreads(held=True)
    async with running(tmp_path, lookups=threads) as world:
        await world.broker.metadata.create_topic("clicks", partitions=1)
        append(world, TIME)
        [answer] = (await ask(world, ("clicks", 0, TIME + 1)))["clicks"]
        assert (answer.error_code, answer.offset) == (ErrorCode.NONE, -1)


@asynchronous
async def test_headers_that_name_a_timestamp_which_no_record_has(tmp_path: Path) -> None:
    """Every such batch has to be opened, one at a time, so that the searches of others come in between."""
    threads = ManualThreads(held=True)
    async with running(tmp_path, lookups=threads) as world:
        await world.broker.metadata.create_topic("clicks", partitions=1)
        for _ in range(5):
            append(world, TIME, claim=TIME + 100)
        append(world, TIME + 50)
        client = world.connect()
        client.request(asking(("clicks", 0, TIME + 50)), VERSION)
        await settle()
        for _ in range(6):
            assert client.frames() == []
            assert threads.waiting == 1
            await threads.finish_one()
        [answer] = client.reply(0, ListOffsetsResponse, VERSION).topics[0].partitions
        assert (answer.error_code, answer.offset) == (ErrorCode.NONE, 5)


@asynchronous
async def test_the_leader_changes_while_a_batch_is_searched(tmp_path: Path) -> None:
    threads = ManualThreads(held=True)
    async with running(tmp_path, lookups=threads) as world:
        await world.broker.metadata.create_topic("clicks", partitions=1)
        append(world, TIME)
        client = world.connect()
        client.request(asking(("clicks", 0, TIME)), VERSION)
        await settle()
        partition = world.broker.replicas.leader_of("clicks", 0)
        partition.follow(LeaderEpoch(1))
        partition.truncate_to(0)
        await threads.finish_all()
        [answer] = client.reply(0, ListOffsetsResponse, VERSION).topics[0].partitions
        assert (answer.error_code, answer.offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


@asynchronous
async def test_the_log_goes_on_while_a_batch_is_searched(tmp_path: Path) -> None:
    """The segment that is searched is sealed, and then deleted."""
    threads = ManualThreads(held=True)
    async with running(tmp_path, lookups=threads) as world:
        await world.broker.metadata.create_topic("clicks", partitions=1)
        append(world, TIME, claim=TIME + 100)
        append(world, TIME + 50)
        client = world.connect()
        client.request(asking(("clicks", 0, TIME + 50)), VERSION)
        await settle()
        partition = world.broker.replicas.leader_of("clicks", 0)
        partition.log.roll()
        append(world, TIME + 60)
        partition.delete_records_before(2)
        await threads.finish_all()
        await until(lambda: bool(client.frames()))
        [answer] = client.reply(0, ListOffsetsResponse, VERSION).topics[0].partitions
        assert (answer.error_code, answer.offset) == (ErrorCode.NONE, 1)
