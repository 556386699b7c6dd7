"""The replies of the null broker that let a producer send: metadata and successful responses."""

import struct

from bench import wire
from ottla.wire.api import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE
from ottla.wire.api.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.api.init_producer_id import InitProducerIdResponse
from ottla.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.api.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ottla.wire.codec import decode, encode
from ottla.wire.framing import parse_request_header, response_header
from ottla.wire.primitives import read_varint
from ottla.wire.schema import Response

PRODUCE_VERSION = 9
"""Different from the raw generator's version, to tell the clients apart. Both versions use topic names."""
_VERSIONS = {
    API_VERSIONS.key: (0, 4),
    METADATA.key: (12, 12),
    INIT_PRODUCER_ID.key: (4, 4),
    PRODUCE.key: (PRODUCE_VERSION, PRODUCE_VERSION),
}
_INDEX = struct.Struct(">i")
_MARKS = (b"\x01\x02\x03\x04", b"\x05\x06\x07\x08")
_BEFORE_TOPICS = 1 + 2 + 4
"""Size of the null transactional id, acks and timeout."""


class Replies:
    """Builds the replies for one connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._partitions_at = 0
        self._before = self._answer = self._after = b""

    def reply_to(self, frame: memoryview) -> bytes:
        """The reply to a request. The frame has no length prefix."""
        api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
        if api_key == PRODUCE.key:
            body = self._produced(frame)
        else:
            body = response_header(api_key, version, 0)[4:] + encode(self._response(frame), version)
        return struct.pack(">ii", 4 + len(body), correlation_id) + body

    def _response(self, frame: memoryview) -> Response:
        header = parse_request_header(frame)
        if header.api_key == API_VERSIONS.key:
            keys = [
                ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in _VERSIONS.items()
            ]
            return ApiVersionsResponse(api_keys=keys)
        if header.api_key == INIT_PRODUCER_ID.key:
            return InitProducerIdResponse(producer_id=1)
        request, _ = decode(MetadataRequest, frame, header.api_version, header.body_position)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self._port)],
            cluster_id="null",
            controller_id=1,
            topics=[_topic(topic.name or "") for topic in request.topics or ()],
        )

    def _produced(self, frame: memoryview) -> bytes:
        """The reply to a Produce request with one topic. The partitions differ from request to request."""
        if not self._partitions_at:
            self._learn(frame)
        count, position = read_varint(frame, self._partitions_at)
        answers: list[bytes | memoryview] = [self._before, bytes([count])]
        for _ in range(count - 1):
            answers += frame[position : position + _INDEX.size], self._answer
            size, position = read_varint(frame, position + _INDEX.size)
            position += (
                size  # The size is one more than the records; the extra byte is the empty list of tagged fields.
            )
        answers.append(self._after)
        return b"".join(answers)

    def _learn(self, frame: memoryview) -> None:
        """Find the position of the partitions in this producer's requests, and prepare the reply around them."""
        length, position = read_varint(frame, parse_request_header(frame).body_position + _BEFORE_TOPICS + 1)
        self._partitions_at = position + length - 1
        name = bytes(frame[position : self._partitions_at]).decode()
        partitions = [PartitionProduceResponse(index=_INDEX.unpack(mark)[0]) for mark in _MARKS]
        topic = TopicProduceResponse(name=name, partition_responses=partitions)
        reply = wire.reply_of(ProduceResponse(responses=[topic]), PRODUCE_VERSION)[8:]
        before, _, rest = reply.partition(_MARKS[0])
        self._answer, _, last = rest.partition(_MARKS[1])
        self._before, self._after = before[:-1], last[len(self._answer) :]


def _topic(name: str) -> MetadataResponseTopic:
    """The name of the topic contains the number of its partitions."""
    count = wire.partitions_of_null_topic(name)
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1])
        for index in range(count)
    ]
    return MetadataResponseTopic(name=name, partitions=partitions)
