"""AlterReplicaLogDirs and DescribeLogDirs: partitions move between the directories of a running broker."""

import asyncio
from pathlib import Path

from ottla.cluster.image import DEFAULT_BROKER
from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.replication.partition import Partition
from ottla.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.api.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tests.handlers.brokers import TIMESTAMP, Brokers, brokers
from tests.server.worlds import asynchronous, until

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


async def started(cluster: Brokers, tmp_path: Path) -> tuple[Path, Path]:
    """Broker 1 with two directories; returns that of partition t-0, and the other one."""
    paths = [tmp_path / "first", tmp_path / "second"]
    await cluster.start(1, {"log.dirs": ",".join(map(str, paths))})
    if "t" not in cluster.image.topics:
        await cluster.create("t", [1])
    paths.sort(key=lambda path: not (path / "t-0").exists())
    return paths[0], paths[1]


async def move(cluster: Brokers, path: object, *, topic: str = "t", partition: int = 0) -> ErrorCode:
    directory = AlterReplicaLogDir(path=str(path), topics=[AlterReplicaLogDirTopic(name=topic, partitions=[partition])])
    reply = await cluster.call(AlterReplicaLogDirsRequest(dirs=[directory]), AlterReplicaLogDirsResponse)
    [result] = reply.results
    assert result.topic_name == topic
    return ErrorCode(result.partitions[0].error_code)


async def described(cluster: Brokers) -> dict[str, DescribeLogDirsPartition]:
    """By directory, where t-0 is."""
    request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="t", partitions=[0])])
    reply = await cluster.call(request, DescribeLogDirsResponse)
    return {result.log_dir: topic.partitions[0] for result in reply.results for topic in result.topics}


def replica(cluster: Brokers) -> Partition:
    return cluster.running[1].broker.replicas.leader_of("t", 0)


async def arrival(cluster: Brokers, path: Path) -> None:
    await until(lambda: replica(cluster).log.path == str(path / "t-0"))


async def limit(cluster: Brokers, rate: int | None) -> None:
    values = {} if rate is None else {RATE: str(rate)}
    await cluster.running[1].broker.metadata.set_overrides(DEFAULT_BROKER, lambda _: values)


@asynchronous
async def test_a_partition_moves_while_it_is_written(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0) as cluster:
        here, there = await started(cluster, tmp_path)
        await cluster.produce("t", 50)
        writing = asyncio.ensure_future(cluster.produce("t", 200))
        assert await move(cluster, there) is ErrorCode.NONE
        await arrival(cluster, there)
        await writing
        assert replica(cluster).log.end_offset == replica(cluster).high_watermark == 250
        assert not (here / "t-0").exists()
        assert set(await described(cluster)) == {str(there)}
        await cluster.stop(1)
        assert await started(cluster, tmp_path) == (there, here)
        assert replica(cluster).log.end_offset == 250


@asynchronous
async def test_a_move_is_seen_and_held_and_taken_back(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0) as cluster:
        here, there = await started(cluster, tmp_path)
        await cluster.produce("t", 5)
        await limit(cluster, 0)
        cluster.running[1].broker.moves._rate.record(1)
        assert await move(cluster, there) is ErrorCode.NONE
        assert await move(cluster, there) is ErrorCode.NONE, "which is no second move"
        await until(lambda: any(name.name.endswith("-future") for name in there.iterdir()))
        found = await described(cluster)
        assert (found[str(there)].is_future_key, found[str(there)].offset_lag) == (True, 5)
        assert (found[str(here)].is_future_key, found[str(here)].offset_lag) == (False, 0)
        assert await move(cluster, here) is ErrorCode.NONE
        assert set(await described(cluster)) == {str(here)}
        await limit(cluster, None)
        assert await move(cluster, there) is ErrorCode.NONE
        await arrival(cluster, there)


@asynchronous
async def test_a_stop_only_interrupts(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0) as cluster:
        here, there = await started(cluster, tmp_path)
        await cluster.produce("t", 5)
        await limit(cluster, 0)
        cluster.running[1].broker.moves._rate.record(1)
        await move(cluster, there)
        await until(lambda: any(name.name.endswith("-future") for name in there.iterdir()))
        await limit(cluster, None)
        cluster.running[1].broker.moves.stop()
        await cluster.stop(1)
        await started(cluster, tmp_path)
        await arrival(cluster, there)
        assert replica(cluster).log.end_offset == 5
        await until(lambda: not any(name.name.endswith("-future") for name in there.iterdir()))
        assert not (here / "t-0").exists()


@asynchronous
async def test_a_log_that_begins_within_a_batch(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0) as cluster:
        _, there = await started(cluster, tmp_path)
        batch = build_batch([NewRecord(None, b"x", timestamp=TIMESTAMP)] * 10)
        replica(cluster).append(memoryview(batch))
        replica(cluster).delete_records_before(7)
        await move(cluster, there)
        await arrival(cluster, there)
        log = replica(cluster).log
        assert (log.log_start_offset, log.end_offset) == (7, 10)
        assert log.epochs.entries, "who leads an epoch knows where it began"
        await cluster.produce("t", 1)


@asynchronous
async def test_a_log_that_is_cut_is_copied_again(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0) as cluster:
        _, there = await started(cluster, tmp_path)
        await cluster.produce("t", 5)
        await limit(cluster, 0)
        cluster.running[1].broker.moves._rate.record(1)
        await move(cluster, there)
        await until(lambda: any(name.name.endswith("-future") for name in there.iterdir()))
        partition = replica(cluster)
        partition.follow(partition.leader_epoch)
        partition.truncate_to(3)
        partition.lead(partition.leader_epoch)
        await cluster.produce("t", 4)
        await limit(cluster, None)
        await arrival(cluster, there)
        assert replica(cluster).log.end_offset == 7


@asynchronous
async def test_a_copy_that_a_crash_left_behind_is_removed(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0) as cluster:
        here, there = await started(cluster, tmp_path)
        await cluster.produce("t", 5)
        await cluster.stop(1)
        (there / "t-0").mkdir()
        for file in (here / "t-0").iterdir():
            (there / "t-0" / file.name).write_bytes(file.read_bytes() if file.name == "partition.metadata" else b"")
        await started(cluster, tmp_path)
        assert replica(cluster).log.path == str(here / "t-0")
        assert replica(cluster).log.end_offset == 5
        assert not (there / "t-0").exists()


@asynchronous
async def test_where_it_cannot_move(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0) as cluster:
        here, there = await started(cluster, tmp_path)
        assert await move(cluster, here) is ErrorCode.NONE, "where it is already"
        assert await move(cluster, tmp_path / "elsewhere") is ErrorCode.LOG_DIR_NOT_FOUND
        assert await move(cluster, there, topic="later") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await move(cluster, there, topic="n" * 240) is ErrorCode.INVALID_TOPIC_EXCEPTION
        await cluster.create("before", [1])
        await cluster.create("later", [1])
        assert (there / "later-0").exists(), "what is asked for before a partition is there counts when it comes"


@asynchronous
async def test_the_directories_of_partitions_that_do_not_exist_are_bounded(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0) as cluster:
        _, there = await started(cluster, tmp_path)
        for first in (0, 10_000):
            topic = AlterReplicaLogDirTopic(name="later", partitions=list(range(first, first + 10_000)))
            request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(there), topics=[topic])])
            reply = await cluster.call(request, AlterReplicaLogDirsResponse, 1)
            codes = {partition.error_code for partition in reply.results[0].partitions}
            assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert len(cluster.running[1].broker.replicas.preferred_directories) == 10_000


@asynchronous
async def test_a_topic_that_is_deleted_moves_no_further(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0) as cluster:
        _, there = await started(cluster, tmp_path)
        await cluster.produce("t", 5)
        await limit(cluster, 0)
        cluster.running[1].broker.moves._rate.record(1)
        await move(cluster, there)
        await until(lambda: any(name.name.endswith("-future") for name in there.iterdir()))
        await cluster.running[1].broker.metadata.delete_topic("t")
        await until(lambda: not any(name.name.endswith("-future") for name in there.iterdir()))
        assert not cluster.running[1].broker.moves._moves
