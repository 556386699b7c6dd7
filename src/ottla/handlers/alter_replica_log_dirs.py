"""AlterReplicaLogDirs (34), versions 1-2: move partitions between the log directories of this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context, Reply


def handle(broker: Broker, context: Context, request: AlterReplicaLogDirsRequest) -> Reply:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            result.partitions += [
                AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=_move(broker, TopicPartition(topic.name, index), directory.path)
                )
                for index in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(broker: Broker, key: TopicPartition, path: str) -> ErrorCode:
    try:
        broker.moves.move(key, path)
    except KafkaError as error:
        if error.code is ErrorCode.REPLICA_NOT_AVAILABLE and broker.metadata.image.partition(*key) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return error.code
    return ErrorCode.NONE
