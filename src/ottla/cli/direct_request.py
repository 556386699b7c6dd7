"""Requests that confluent-kafka does not offer, sent to one broker over a plaintext socket."""

import socket
from collections.abc import Mapping, Sequence
from typing import TypeVar

from ottla.cli.client import CONNECT_TIMEOUT, REQUEST_TIMEOUT
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.api.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.codec import decode, encode
from ottla.wire.framing import parse_response_header, request_header
from ottla.wire.primitives import read_fixed, write_fixed
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

CORRELATION_ID = 1


def partition_sizes(host: str, port: int, topics: Mapping[str, Sequence[int]]) -> dict[TopicPartition, int]:
    """Bytes of each partition on the disk of this broker."""
    wanted = [DescribableLogDirTopic(topic=name, partitions=list(numbers)) for name, numbers in topics.items()]
    answer = send(host, port, DescribeLogDirsRequest(topics=wanted), DescribeLogDirsResponse, version=1)
    return {
        TopicPartition(topic.name, partition.partition_index): partition.partition_size
        for directory in answer.results
        for topic in directory.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }


def answers(host: str, port: int) -> bool:
    """Whether this broker answers the first request that every client sends."""
    try:
        reply = send(host, port, ApiVersionsRequest(), ApiVersionsResponse, version=0)
    except (OSError, ValueError):
        return False
    return reply.error_code == ErrorCode.NONE


def damaged_nodes(host: str, port: int) -> list[str]:
    """The nodes of the store that this broker cannot read, each with the reason."""
    answer = send(host, port, DescribeClusterRequest(), DescribeClusterResponse, version=0)
    return answer.error_message.splitlines() if answer.error_message and not answer.error_code else []


def delete_offsets(
    host: str, port: int, group: str, partitions: Sequence[TopicPartition]
) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
    """Ask the coordinator of a group. Returns the error of the request, and the errors of single partitions."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for name, number in partitions:
        topics.setdefault(name, []).append(OffsetDeleteRequestPartition(partition_index=number))
    wanted = [OffsetDeleteRequestTopic(name=name, partitions=numbers) for name, numbers in topics.items()]
    request = OffsetDeleteRequest(group_id=group, topics=wanted)
    answer = send(host, port, request, OffsetDeleteResponse, version=0)
    refused = {
        TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
        if partition.error_code != ErrorCode.NONE
    }
    return ErrorCode(answer.error_code), refused


def send(host: str, port: int, request: Request, response: type[R], version: int) -> R:
    """Send a request in a version that every broker has, and wait for the response.

    Raises OSError if the broker cannot be reached, closes the connection (as for an unknown request), or times out.
    """
    api_key = request.api_key
    header = request_header(api_key, version, CORRELATION_ID, "ottla-cli")
    with socket.create_connection((host, port), CONNECT_TIMEOUT) as connection:
        connection.settimeout(REQUEST_TIMEOUT)
        body = header + encode(request, version)
        connection.sendall(write_fixed("i", len(body)) + body)
        size, _ = read_fixed("i", _receive(connection, 4), 0)
        answer = _receive(connection, size)
    position = parse_response_header(api_key, version, answer).body_position
    message, _ = decode(response, answer, version, position)
    return message


def _receive(connection: socket.socket, size: int) -> memoryview:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        data += chunk
    return memoryview(data)
