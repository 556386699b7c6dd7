"""Requests that move replicas between brokers and directories. confluent-kafka does not offer them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from ottla.cli.admin import Broker, Cluster, Replicas
from ottla.cli.direct_request import send
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.api.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse

PARTITIONS_PER_REQUEST = 1000
"""Brokers limit the size of a request, and ZooKeeper the size of a change."""


class Ongoing(NamedTuple):
    """A partition that is being moved."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]

    @property
    def target(self) -> list[int]:
        return [broker for broker in self.replicas if broker not in self.removing]

    @property
    def origin(self) -> list[int]:
        return [broker for broker in self.replicas if broker not in self.adding]


class LogDirectory(NamedTuple):
    """A log directory of one broker. Sizes of the volume are None if the broker does not report them."""

    path: str
    error: ErrorCode
    sizes: dict[TopicPartition, int]
    moving_in: dict[TopicPartition, int]
    """Copies that will replace a log in another directory of the broker, with their sizes."""
    total: int | None
    usable: int | None


class ReassignmentError(Exception):
    """The broker refused the whole request. The message is the reason."""


def describe_cluster(host: str, port: int) -> tuple[Cluster, dict[int, str | None]]:
    """The cluster as this broker knows it, and the rack of each broker."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = send(host, port, request, MetadataResponse, version=7)
    partitions = {
        TopicPartition(topic.name or "", it.partition_index): Replicas(
            None if it.leader_id < 0 else it.leader_id, it.replica_nodes, it.isr_nodes
        )
        for topic in answer.topics
        for it in topic.partitions
    }
    brokers = sorted((Broker(it.node_id, it.host, it.port) for it in answer.brokers), key=lambda broker: broker.id)
    topics = sorted(topic.name or "" for topic in answer.topics)
    controller = None if answer.controller_id < 0 else answer.controller_id
    cluster = Cluster(answer.cluster_id or "", brokers, topics, dict(sorted(partitions.items())), controller)
    return cluster, {broker.node_id: broker.rack for broker in answer.brokers}


def list_reassignments(host: str, port: int) -> dict[TopicPartition, Ongoing]:
    answer = send(
        host, port, ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse, version=0
    )
    _check(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, partition.partition_index): Ongoing(
            partition.replicas, partition.adding_replicas, partition.removing_replicas
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


def alter_reassignments(
    host: str, port: int, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, str]:
    """Start moves, or cancel them where the target is None. Returns the reason for each refused partition."""
    refused: dict[TopicPartition, str] = {}
    for some in _chunks(sorted(targets)):
        topics: dict[str, list[ReassignablePartition]] = {}
        for key in some:
            target = targets[key]
            replicas = None if target is None else list(target)
            topics.setdefault(key.topic, []).append(
                ReassignablePartition(partition_index=key.partition, replicas=replicas)
            )
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
        )
        answer = send(host, port, request, AlterPartitionReassignmentsResponse, version=0)
        _check(answer.error_code, answer.error_message)
        for topic in answer.responses:
            for result in topic.partitions:
                if result.error_code != ErrorCode.NONE:
                    reason = result.error_message or _name(result.error_code)
                    refused[TopicPartition(topic.name, result.partition_index)] = reason
    return refused


def log_directories(host: str, port: int) -> list[LogDirectory]:
    """The directories of one broker. Version 4 adds the size of the volume (KIP-827, Kafka 3.3)."""
    answer = send(host, port, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, version=4)
    directories = []
    for result in answer.results:
        sizes: dict[TopicPartition, int] = {}
        moving_in: dict[TopicPartition, int] = {}
        for topic in result.topics:
            for partition in topic.partitions:
                logs = moving_in if partition.is_future_key else sizes
                logs[TopicPartition(topic.name, partition.partition_index)] = partition.partition_size
        total, usable = (None if size < 0 else size for size in (result.total_bytes, result.usable_bytes))
        directories.append(LogDirectory(result.log_dir, ErrorCode(result.error_code), sizes, moving_in, total, usable))
    return directories


def move_to_directories(host: str, port: int, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, str]:
    """Move replicas of one broker to these directories. Returns the reason for each refused partition."""
    by_path: dict[str, dict[str, list[int]]] = {}
    for key, path in sorted(wanted.items()):
        by_path.setdefault(path, {}).setdefault(key.topic, []).append(key.partition)
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[AlterReplicaLogDirTopic(name=name, partitions=numbers) for name, numbers in topics.items()],
            )
            for path, topics in by_path.items()
        ]
    )
    answer = send(host, port, request, AlterReplicaLogDirsResponse, version=1)
    return {
        TopicPartition(topic.topic_name, result.partition_index): _name(result.error_code)
        for topic in answer.results
        for result in topic.partitions
        if result.error_code != ErrorCode.NONE
    }


def _check(error_code: int, message: str | None) -> None:
    if error_code != ErrorCode.NONE:
        raise ReassignmentError(message or _name(error_code))


def _name(error_code: int) -> str:
    return ErrorCode(error_code).name


def _chunks(partitions: Sequence[TopicPartition]) -> Iterator[list[TopicPartition]]:
    rest = iter(partitions)
    while some := list(islice(rest, PARTITIONS_PER_REQUEST)):
        yield some
