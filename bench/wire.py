"""A blocking connection for the tasks around a load: topics, readiness, the first message."""

import socket
import struct
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self, TypeVar

from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.wire import codec
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.api.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.framing import parse_response_header, request_header, response_header
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

PRODUCE_VERSION = 10
FETCH_VERSION = 12
"""The newest versions with topic names: librdkafka's Produce, and a Fetch that every broker in the benchmark serves."""

RAW_TOPIC = "raw"
SMALL_BATCH = 170
LARGE_BATCH = 1_000_000
"""Below message.max.bytes, which is 1,048,588 by default."""

_CLIENT_ID = "bench"
_TIMEOUT = 120.0
_LATEST = -1
_READY_TIMEOUT = 300.0


class TopicError(Exception):
    """A topic was not created or deleted."""


class Client:
    def __init__(self, bootstrap: str, timeout: float = _TIMEOUT) -> None:
        self.socket = socket.create_connection(address(bootstrap), timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def call(self, request: Request, version: int, response: type[R]) -> R:
        self.socket.sendall(encode_request(request, version))
        reply = memoryview(self._receive(struct.unpack(">i", self._receive(4))[0]))
        header = parse_response_header(response.api_key, version, reply)
        message, _ = codec.decode(response, reply, version, header.body_position)
        return message

    def hello(self) -> int:
        """Send ApiVersions. Returns the error code."""
        return self.call(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code

    def _receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            data += chunk
        return bytes(data)


def address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def encode_request(request: Request, version: int) -> bytes:
    """The correlation id is always 1: replies are matched by order."""
    body = request_header(request.api_key, version, 1, _CLIENT_ID) + codec.encode(request, version)
    return struct.pack(">i", len(body)) + body


def answers(bootstrap: str) -> bool:
    try:
        with Client(bootstrap, timeout=5) as client:
            return client.hello() == ErrorCode.NONE
    except OSError:
        return False


def create_topic(bootstrap: str, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
    """Create a topic and wait until this broker leads all of its partitions."""
    settings = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
    with Client(bootstrap) as client:
        reply = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 4, CreateTopicsResponse)
        [result] = reply.topics
        if result.error_code != ErrorCode.NONE:
            raise TopicError(f"topic {name} was not created: error {result.error_code}, {result.error_message}")
        deadline = time.monotonic() + _READY_TIMEOUT
        while not _leads_all(client, name, partitions):
            if time.monotonic() > deadline:
                raise TopicError(f"topic {name} has partitions without a leader")
            time.sleep(0.02)


def _leads_all(client: Client, name: str, partitions: int) -> bool:
    """Only the leader answers ListOffsets without an error, and only once its log is open."""
    answers = _list_offsets(client, name, partitions)
    return all(answer.error_code == ErrorCode.NONE for answer in answers)


def _list_offsets(client: Client, name: str, partitions: int) -> list[ListOffsetsPartitionResponse]:
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for index in range(partitions)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=wanted)])
    [topic] = client.call(request, 5, ListOffsetsResponse).topics
    return topic.partitions


def end_offsets(bootstrap: str, name: str, partitions: int = 1) -> list[int]:
    with Client(bootstrap) as client:
        answers = sorted(_list_offsets(client, name, partitions), key=lambda answer: answer.partition_index)
    return [answer.offset for answer in answers]


def delete_topic(bootstrap: str, name: str) -> None:
    with Client(bootstrap) as client:
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=60_000)
        [result] = client.call(request, 5, DeleteTopicsResponse).responses
    if result.error_code != ErrorCode.NONE:
        raise TopicError(f"topic {name} was not deleted: error {result.error_code}")


def batch_of(size: int) -> bytes:
    """A batch of exactly `size` bytes with one record. The size of the value fills the rest.

    The timestamp is the current time: the broker would delete records older than log.retention.hours during the run.
    """
    now = int(time.time() * 1000)
    empty = len(build_batch([NewRecord(None, b"", timestamp=now)]))
    for overhead in range(8):
        batch = build_batch([NewRecord(None, bytes(size - empty - overhead), timestamp=now)])
        if len(batch) == size:
            return bytes(batch)
    raise ValueError(f"no batch with one record is {size} bytes long")


def produce_request(topic: str, partition: int, records: bytes, acks: int) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)


def produce_frame(topic: str, partition: int, records: bytes, acks: int = 1) -> bytes:
    return encode_request(produce_request(topic, partition, records, acks), PRODUCE_VERSION)


def fetch_frame(topic: str, partition: int, offset: int, *, max_bytes: int, max_wait_ms: int) -> bytes:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, session_epoch=-1, topics=topics)
    return encode_request(request, FETCH_VERSION)


def error_position(topic: str, api_is_fetch: bool) -> int:
    """Position of the partition's error code in a reply for one partition, relative to the correlation id."""
    to_topics = 4 + 1 + (10 if api_is_fetch else 0)
    return to_topics + 1 + 1 + len(topic.encode()) + 1 + 4


def reply_of(message: Response, version: int) -> bytes:
    """Encode a reply for the null broker."""
    body = response_header(message.api_key, version, 1) + codec.encode(message, version)
    return struct.pack(">i", len(body)) + body


def null_topic(partitions: int) -> str:
    """The null broker has no topics: the name contains the number of partitions."""
    return RAW_TOPIC if partitions == 1 else f"{RAW_TOPIC}-{partitions}"


def partitions_of_null_topic(name: str) -> int:
    return int(name.removeprefix(f"{RAW_TOPIC}-")) if name != RAW_TOPIC else 1


def produce(client: Client, topic: str, partition: int, records: bytes, acks: int = 1) -> int:
    """Append one batch. Returns the error code."""
    reply = client.call(produce_request(topic, partition, records, acks), PRODUCE_VERSION, ProduceResponse)
    return reply.responses[0].partition_responses[0].error_code
