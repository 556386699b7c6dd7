"""AlterReplicaLogDirs (34), versions 1-2: move partitions between the log directories of this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.yielding import yielding
from ottla.model import TopicPartition
from ottla.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange

_MAX_PREFERRED_DIRECTORIES = 10_000
"""The broker stores the preferred directory of a partition that does not exist yet. This bounds their number."""


async def handle(
    broker: Broker, exchange: Exchange, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    moves = (
        (TopicPartition(topic.name, index), directory.path)
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    )
    async for key, path in yielding(broker.clock, moves):
        result = results.setdefault(key.topic, AlterReplicaLogDirTopicResult(topic_name=key.topic))
        code = _move(broker, key, path)
        result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=key.partition, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(broker: Broker, key: TopicPartition, path: str) -> ErrorCode:
    try:
        broker.moves.move(key, path)
    except KafkaError as error:
        if error.code is not ErrorCode.REPLICA_NOT_AVAILABLE or broker.metadata.image.partition(*key) is not None:
            return error.code
        preferred = broker.replicas.preferred_directories
        if len(preferred) > _MAX_PREFERRED_DIRECTORIES:
            del preferred[key]
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
