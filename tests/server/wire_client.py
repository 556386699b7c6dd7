"""A client on a plain socket, so that a test controls exactly which bytes the broker gets and when."""

import socket
import struct
from types import TracebackType
from typing import Self, TypeVar, cast

from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.wire import codec
from ottla.wire.api import API_VERSIONS, APIS
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.api.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.framing import parse_response_header, request_header
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

TIMEOUT = 60.0

PRODUCE_VERSION = 8
FETCH_VERSION = 11


class WireClient:
    """A blocking connection. Requests get correlation ids 0, 1, 2, ..., and replies must have the same ids in order."""

    def __init__(self, bootstrap_servers: str, timeout: float = TIMEOUT) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self._sent = 0
        self._answered = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def frame(self, request: Request, version: int) -> bytes:
        """The bytes of the next request, for a test that sends them itself."""
        data = encode_request(request, version, self._sent)
        self._sent += 1
        return data

    def send(self, request: Request, version: int) -> None:
        self.socket.sendall(self.frame(request, version))

    def receive(self, response: type[R], version: int) -> R:
        """The next reply. It must belong to the oldest pending request."""
        reply = self.receive_frame()
        header = parse_response_header(response.api_key, version, reply)
        assert header.correlation_id == self._answered
        self._answered += 1
        message, end = codec.decode(response, reply, version, header.body_position)
        assert end == len(reply)
        return message

    def receive_frame(self) -> memoryview:
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return memoryview(self._receive_exactly(size))

    def _receive_exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise EOFError(f"the broker hung up after {len(data)} of {count} bytes")
            data += chunk
        return bytes(data)

    def call(self, request: Request, version: int, response: type[R]) -> R:
        self.send(request, version)
        return self.receive(response, version)

    def is_hung_up_on(self) -> bool:
        """Wait until the broker closes the connection; False if it sends data instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def encode_request(request: Request, version: int, correlation_id: int, client_id: str | None = "test") -> bytes:
    header = request_header(request.api_key, version, correlation_id, client_id)
    return frame(header + codec.encode(request, version))


def response_of(request: Request) -> type[Response]:
    return APIS[request.api_key].response


def is_served(bootstrap_servers: str) -> bool:
    """Whether a correct client gets its reply."""
    with WireClient(bootstrap_servers) as client:
        reply = client.call(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return reply.error_code == ErrorCode.NONE and any(api.api_key == API_VERSIONS.key for api in reply.api_keys)


def create_topic(bootstrap_servers: str, name: str, partitions: int = 1) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    with WireClient(bootstrap_servers) as client:
        reply = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 4, CreateTopicsResponse)
    assert [result.error_code for result in reply.topics] == [ErrorCode.NONE]


def batch(*values: bytes) -> bytes:
    return bytes(build_batch([NewRecord(None, value) for value in values]))


def produce_request(topic: str, records: bytes | None, acks: int = 1, partition: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def produce(client: WireClient, topic: str, records: bytes | None, acks: int = 1) -> PartitionProduceResponse:
    reply = client.call(produce_request(topic, records, acks), PRODUCE_VERSION, ProduceResponse)
    return reply.responses[0].partition_responses[0]


def fetch_request(topic: str, offset: int = 0, *, max_wait_ms: int = 0, min_bytes: int = 1) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 24,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )


def fetch(client: WireClient, topic: str, offset: int = 0) -> bytes:
    reply = client.call(fetch_request(topic, offset), FETCH_VERSION, FetchResponse)
    data = reply.responses[0].partitions[0]
    assert data.error_code == ErrorCode.NONE
    return bytes(cast("memoryview", data.records))
