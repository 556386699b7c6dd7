"""DescribeLogDirs (35), versions 1-5: what lies in each data directory of this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.api.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context, Reply
    from ottla.log.directory import LogDirectory


def handle(broker: Broker, context: Context, request: DescribeLogDirsRequest) -> Reply:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(results=[_describe(directory, wanted) for directory in broker.replicas.directories])


def _describe(directory: LogDirectory, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for key, log in directory.logs.items():
        if wanted is None or key in wanted:
            topic = topics.setdefault(key.topic, DescribeLogDirsTopic(name=key.topic))
            topic.partitions.append(
                DescribeLogDirsPartition(partition_index=key.partition, partition_size=log.size(), offset_lag=0)
            )
    total, usable = directory.usage()
    return DescribeLogDirsResult(
        log_dir=directory.path, topics=list(topics.values()), total_bytes=total, usable_bytes=usable
    )
