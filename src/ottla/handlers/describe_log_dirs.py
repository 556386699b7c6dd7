"""DescribeLogDirs (35), versions 1-5: the logs in each log directory of this broker, and the logs being moved there."""

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
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange, Reply
    from ottla.log.directory import LogDirectory
    from ottla.log.log import Log


def handle(broker: Broker, exchange: Exchange, request: DescribeLogDirsRequest) -> Reply:
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return DescribeLogDirsResponse(
        results=[_describe(broker, directory, wanted) for directory in broker.replicas.directories]
    )


def _lag(broker: Broker, copy: Log) -> int:
    """The offset lag of a future log behind the current log."""
    partition = broker.replicas.get(*copy.topic_partition)
    return -1 if partition is None else partition.log.end_offset - copy.end_offset


def _describe(broker: Broker, directory: LogDirectory, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for logs, is_future in ((directory.logs, False), (directory.future_logs, True)):
        for key, log in logs.items():
            if wanted is None or key in wanted:
                topic = topics.setdefault(key.topic, DescribeLogDirsTopic(name=key.topic))
                topic.partitions.append(
                    DescribeLogDirsPartition(
                        partition_index=key.partition,
                        partition_size=log.size(),
                        offset_lag=_lag(broker, log) if is_future else 0,
                        is_future_key=is_future,
                    )
                )
    total, usable = directory.usage()
    return DescribeLogDirsResult(
        log_dir=directory.absolute_path, topics=list(topics.values()), total_bytes=total, usable_bytes=usable
    )
