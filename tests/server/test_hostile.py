"""Clients that send invalid data. After each test, the `target` fixture checks that other clients are not affected."""

import socket
import struct
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.registry import HANDLERS, MAX_REQUEST
from ottla.wire import codec
from ottla.wire.api import API_VERSIONS, METADATA
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.api.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.api.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.api.describe_groups import DescribeGroupsRequest
from ottla.wire.api.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.wire.api.describe_producers import DescribeProducersRequest
from ottla.wire.api.describe_producers import TopicRequest as DescribeProducersTopic
from ottla.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest
from ottla.wire.api.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.wire.framing import request_header
from ottla.wire.schema import Request
from tests.compat.deadlines import eventually
from tests.records.samples import patched
from tests.server.conftest import STORED, Target
from tests.server.wire_client import (
    FETCH_VERSION,
    batch,
    encode_request,
    fetch_request,
    frame,
    produce,
    response_of,
)

GOOD = batch(b"hello", b"world")

HTTP = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"
TLS_CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(range(200))
SSH = b"SSH-2.0-OpenSSH_9.6\r\n"

METADATA_HEADER = request_header(METADATA.key, 1, 0, "test")
FLEXIBLE_METADATA_HEADER = request_header(METADATA.key, 9, 0, "test")
NUMBER_TOO_LARGE = b"\xff\xff\xff\xff\x0f"


def not_kafka() -> dict[str, bytes]:
    """Bytes for which the protocol has no reply: the broker must close the connection."""
    return {
        "HTTP": HTTP,
        "TLS": TLS_CLIENT_HELLO,
        "SSH": SSH,
        "length of 2 GB": struct.pack(">i", 2**31 - 1) + b"x",
        "length -1": struct.pack(">i", -1),
        "smallest length": struct.pack(">i", -(2**31)),
        "length over socket.request.max.bytes": struct.pack(">i", 104857600 + 1),
        "empty frame": frame(b""),
        "one byte": frame(b"\0"),
        "garbage": frame(bytes(range(256))),
        "zeroes": frame(bytes(64)),
        "ones": frame(b"\xff" * 64),
        "unknown API": frame(struct.pack(">hhih", 999, 0, 0, -1)),
        "API -1": frame(struct.pack(">hhih", -1, 0, 0, -1)),
        "negative version": frame(struct.pack(">hhih", METADATA.key, -1, 0, -1) + bytes(4)),
        "client id longer than the frame": frame(struct.pack(">hhih", METADATA.key, 1, 0, 500) + b"short"),
        "client id of length -2": frame(struct.pack(">hhih", METADATA.key, 1, 0, -2)),
        "client id that is not UTF-8": frame(struct.pack(">hhih", METADATA.key, 1, 0, 2) + b"\xff\xfe" + bytes(4)),
        "no body": frame(METADATA_HEADER),
        "array of two billion": frame(METADATA_HEADER + struct.pack(">i", 2**31 - 1)),
        "array of length -2": frame(METADATA_HEADER + struct.pack(">i", -2)),
        "string longer than the frame": frame(METADATA_HEADER + struct.pack(">ih", 1, 32767) + b"short"),
        "string that is not UTF-8": frame(METADATA_HEADER + struct.pack(">ih", 1, 2) + b"\xc3\x28"),
        "null name": frame(METADATA_HEADER + struct.pack(">ih", 1, -1)),
        "endless varint": frame(FLEXIBLE_METADATA_HEADER + b"\xff" * 20),
        "compact array of four billion": frame(FLEXIBLE_METADATA_HEADER + NUMBER_TOO_LARGE),
        "four billion tagged fields": frame(FLEXIBLE_METADATA_HEADER[:-1] + NUMBER_TOO_LARGE),
        "a list that is too long": frame(METADATA_HEADER + bytes(MAX_REQUEST)),
    }


@pytest.mark.parametrize("name", not_kafka())
def test_what_is_not_kafka_is_hung_up_on(name: str, target: Target) -> None:
    with target.connect() as client:
        client.socket.sendall(not_kafka()[name])
        assert client.is_hung_up_on()
    (line,) = target.complaints()
    assert line.startswith("closing the connection of 127.0.0.1:")
    assert "\n" not in line


@pytest.mark.parametrize("key", [4, 7, 17, 29, 36, 48, 69, 71, 78])
def test_an_api_of_kafka_that_is_not_served(key: int, target: Target) -> None:
    assert key not in HANDLERS
    with target.connect() as client:
        client.socket.sendall(frame(struct.pack(">hhih", key, 0, 0, -1) + bytes(20)))
        assert client.is_hung_up_on()
    assert len(target.complaints()) == 1


@pytest.mark.parametrize("key", sorted(HANDLERS.keys() - {API_VERSIONS.key}))
def test_a_version_out_of_range(key: int, target: Target) -> None:
    api = HANDLERS[key].api
    for version in (api.min_version - 1, api.max_version + 1, 32767):
        with target.connect() as client:
            client.socket.sendall(frame(struct.pack(">hhih", key, version, 0, -1) + bytes(20)))
            assert client.is_hung_up_on()
        assert target.complaints()[-1].endswith(f": {api.name} version {version} is not served")
    assert len(target.complaints()) == 3


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_api_versions_of_a_future_version(version: int, target: Target) -> None:
    """KIP-511: the reply has version 0, the error and the list, and the connection stays open."""
    with target.connect() as client:
        body = b"\x05ottla\x041.0\0 and what the future brings"
        client.socket.sendall(frame(struct.pack(">hhih", API_VERSIONS.key, version, 7, -1) + b"\0" + body))
        reply = client.receive_frame()
        assert int.from_bytes(reply[:4]) == 7
        answer, end = codec.decode(ApiVersionsResponse, reply, 0, 4)
        assert end == len(reply)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert {api.api_key for api in answer.api_keys} == set(HANDLERS)
        assert client.call(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == ErrorCode.NONE
    assert target.complaints() == []


REQUESTS: list[tuple[Request, int]] = [
    (MetadataRequest(topics=[MetadataRequestTopic(name="stored"), MetadataRequestTopic(name="b")]), 4),
    (MetadataRequest(topics=[MetadataRequestTopic(name="stored"), MetadataRequestTopic(name="b")]), 9),
    (fetch_request("stored"), 11),
    (fetch_request("stored"), 12),
    (CreateTopicsRequest(topics=[CreatableTopic(name="cut", num_partitions=1, replication_factor=1)]), 4),
    (CreateTopicsRequest(topics=[CreatableTopic(name="cut", num_partitions=1, replication_factor=1)]), 7),
]


@pytest.mark.parametrize("request_, version", REQUESTS, ids=lambda value: getattr(type(value), "__name__", ""))
def test_a_body_that_ends_too_early(request_: Request, version: int, target: Target) -> None:
    whole = encode_request(request_, version, 0)[4:]
    body = len(codec.encode(request_, version))
    for missing in range(1, body + 1):
        with target.connect() as client:
            client.socket.sendall(frame(whole[:-missing]))
            assert client.is_hung_up_on(), f"{missing} bytes are missing"
    assert len(target.complaints()) == body


BAD_RECORDS: dict[str, tuple[bytes | None, ErrorCode]] = {
    "null": (None, ErrorCode.INVALID_RECORD),
    "empty": (b"", ErrorCode.INVALID_RECORD),
    "garbage": (b"garbage" * 20, ErrorCode.CORRUPT_MESSAGE),
    "half a batch": (GOOD[:40], ErrorCode.INVALID_RECORD),
    "a flipped byte": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), ErrorCode.CORRUPT_MESSAGE),
    "another checksum": (GOOD[:17] + bytes(4) + GOOD[21:], ErrorCode.CORRUPT_MESSAGE),
    "no records": (bytes(patched(GOOD, 57, ">i", 0)), ErrorCode.INVALID_RECORD),
    "minus one records": (bytes(patched(GOOD, 57, ">i", -1)), ErrorCode.INVALID_RECORD),
    "more records than the last offset says": (bytes(patched(GOOD, 57, ">i", 9)), ErrorCode.INVALID_RECORD),
    "two billion records": (
        bytes(patched(patched(GOOD, 57, ">i", 2**31 - 1), 23, ">i", 2**31 - 2)),
        ErrorCode.INVALID_RECORD,
    ),
    "longer than it is": (bytes(patched(GOOD, 8, ">i", len(GOOD))), ErrorCode.INVALID_RECORD),
    "shorter than it is": (bytes(patched(GOOD, 8, ">i", len(GOOD) - 16)), ErrorCode.CORRUPT_MESSAGE),
    "of length 0": (bytes(patched(GOOD, 8, ">i", 0)), ErrorCode.CORRUPT_MESSAGE),
    "of length -1": (bytes(patched(GOOD, 8, ">i", -1)), ErrorCode.CORRUPT_MESSAGE),
    "of length 2 GB": (bytes(patched(GOOD, 8, ">i", 2**31 - 1)), ErrorCode.INVALID_RECORD),
    "two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    "magic 1": (bytes(patched(GOOD, 16, ">b", 1)), ErrorCode.INVALID_RECORD),
    "magic 3": (bytes(patched(GOOD, 16, ">b", 3)), ErrorCode.CORRUPT_MESSAGE),
    "unknown codec": (bytes(patched(GOOD, 21, ">h", 5)), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "control batch": (bytes(patched(GOOD, 21, ">h", 0x20)), ErrorCode.INVALID_RECORD),
    "base offset 7": (bytes(patched(GOOD, 0, ">q", 7)), ErrorCode.INVALID_RECORD),
    "from the year 2 million": (
        bytes(patched(patched(GOOD, 27, ">q", 2**56), 35, ">q", 2**56)),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "too large": (batch(bytes(1_100_000)), ErrorCode.MESSAGE_TOO_LARGE),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_bad_records_are_refused_and_nothing_is_stored(name: str, target: Target) -> None:
    records, code = BAD_RECORDS[name]
    with target.connect() as client:
        before = produce(client, target.topic, GOOD).base_offset
        answer = produce(client, target.topic, records)
        assert ErrorCode(answer.error_code) is code
        assert answer.base_offset == -1
        assert answer.error_message
        assert produce(client, target.topic, GOOD).base_offset == before + 2
    assert target.complaints() == []


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_that_do_not_exist(acks: int, target: Target) -> None:
    with target.connect() as client:
        assert produce(client, target.topic, GOOD, acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS


BAD_NAMES = ["", ".", "..", "../../etc", "a/b", "/tmp/a", "x\0y", "n" * 250, "n" * 300, "é", "a b", "\N{SNOWMAN}" * 100]


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: ascii(name[:12]))
def test_names_that_no_topic_can_have(name: str, target: Target) -> None:
    before = sorted(path.name for path in target.broker.data_dir.iterdir())
    with target.connect() as client:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        created = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 4, CreateTopicsResponse)
        assert created.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        described = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 4, MetadataResponse)
        assert [(t.error_code, t.name) for t in described.topics] == [(ErrorCode.INVALID_TOPIC_EXCEPTION, name)]
        assert produce(client, name, GOOD).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        fetched = client.call(fetch_request(name), FETCH_VERSION, FetchResponse)
        assert fetched.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert sorted(path.name for path in target.broker.data_dir.iterdir()) == before
    assert target.complaints() == []


@pytest.mark.parametrize("partition", [-1, 1, 2**31 - 1, -(2**31)])
def test_partitions_that_do_not_exist(partition: int, target: Target) -> None:
    request = fetch_request(target.topic)
    request.topics[0].partitions[0].partition = partition
    with target.connect() as client:
        reply = client.call(request, FETCH_VERSION, FetchResponse)
    assert reply.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("offset", [-1, -(2**63), 10**9, 2**63 - 1])
def test_offsets_out_of_range(offset: int, target: Target) -> None:
    with target.connect() as client:
        reply = client.call(fetch_request(target.topic, offset), FETCH_VERSION, FetchResponse)
    assert reply.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def requests_with(name: str) -> list[tuple[Request, int]]:
    """Requests whose error message contains a name."""
    configs = [AlterableConfig(name="retention.ms", value=name)]
    return [
        (DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]), 6),
        (DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name=name)]), 4),
        (DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=4, resource_name=name)]), 4),
        (DescribeGroupsRequest(groups=[name]), 6),
        (DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)]), 0),
        (CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=3)]), 3),
        (CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)]), 7),
        (IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(resource_type=2, resource_name=name)]), 1),
        (
            IncrementalAlterConfigsRequest(
                resources=[AlterConfigsResource(resource_type=2, resource_name="stored", configs=configs)]
            ),
            1,
        ),
        (ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=name, partitions=[0])]), 2),
        (ListOffsetsRequest(topics=[ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition()])]), 7),
        (FindCoordinatorRequest(coordinator_keys=[name], key_type=1), 4),
    ]


@pytest.mark.parametrize("name", ["x" * 32767, "\0" * 32767, "é" * 16383], ids=["letters", "zeroes", "accents"])
def test_refusals_that_quote_the_longest_names(name: str, target: Target) -> None:
    """An error message with a name is no longer than a string of the protocol may be."""
    for request, version in requests_with(name):
        with target.connect() as client:
            client.call(request, version, response_of(request))
    with target.connect() as client:
        produce(client, name, GOOD)
    assert target.complaints() == []


def test_a_member_whose_id_would_be_too_long(target: Target) -> None:
    member = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    with target.connect() as client:
        client.socket.sendall(encode_request(FindCoordinatorRequest(key="g"), 0, 0))
        client.receive_frame()
        client.socket.sendall(encode_request(member, 5, 0, client_id="c" * 32_700))
        refused, _ = codec.decode(JoinGroupResponse, client.receive_frame(), 5, 4)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        member.group_instance_id = "i" * 32_700
        client.socket.sendall(encode_request(member, 5, 0))
        refused, _ = codec.decode(JoinGroupResponse, client.receive_frame(), 5, 4)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert target.complaints() == []


def test_assignments_may_be_long(target: Target) -> None:
    """The leader of a large group sends every member's assignment in one request."""
    assignments = [SyncGroupRequestAssignment(member_id=str(number), assignment=bytes(2000)) for number in range(1000)]
    with target.connect() as client:
        client.call(FindCoordinatorRequest(key="g"), 0, FindCoordinatorResponse)
        reply = client.call(SyncGroupRequest(group_id="g", assignments=assignments), 3, SyncGroupResponse)
    assert reply.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert target.complaints() == []


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(a{0,30}){30}b"])
def test_a_pattern_of_transactional_ids_that_takes_python_years(pattern: str, target: Target) -> None:
    with target.connect() as client:
        client.call(FindCoordinatorRequest(key="t", key_type=1), 2, FindCoordinatorResponse)
        begin = InitProducerIdRequest(transactional_id="a" * 40 + "!", transaction_timeout_ms=60_000)
        eventually(lambda: client.call(begin, 4, InitProducerIdResponse).error_code == ErrorCode.NONE)
        listed = client.call(ListTransactionsRequest(transactional_id_pattern=pattern), 2, ListTransactionsResponse)
    assert listed.transaction_states == []
    assert target.complaints() == []


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999}", "(((){1000}){1000}){1000}", "(" * 5000])
def test_what_is_not_a_pattern_of_transactional_ids(pattern: str, target: Target) -> None:
    with target.connect() as client:
        listed = client.call(ListTransactionsRequest(transactional_id_pattern=pattern), 2, ListTransactionsResponse)
    assert listed.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert target.complaints() == []


def test_more_partitions_than_a_request_may_create(target: Target) -> None:
    topics = [CreatableTopic(name=f"wide-{i}", num_partitions=4000, replication_factor=1) for i in range(3)]
    with target.connect() as client:
        reply = client.call(CreateTopicsRequest(topics=topics, timeout_ms=1000), 4, CreateTopicsResponse)
        assert {result.error_code for result in reply.topics} == {ErrorCode.POLICY_VIOLATION}
        described = client.call(MetadataRequest(topics=None), 4, MetadataResponse)
        assert not any((topic.name or "").startswith("wide-") for topic in described.topics)


MANY = 12_000

REPEATED: list[tuple[Request, int]] = [
    (MetadataRequest(topics=[MetadataRequestTopic(name="stored")] * MANY), 9),
    (
        DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=2, resource_name="stored", configuration_keys=None)] * MANY
        ),
        4,
    ),
    (FindCoordinatorRequest(coordinator_keys=["g"] * MANY), 4),
    (DescribeTopicPartitionsRequest(topics=[TopicRequest(name="stored")] * MANY, response_partition_limit=2000), 0),
    (DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="stored", partitions=[0])] * MANY), 4),
    (DescribeProducersRequest(topics=[DescribeProducersTopic(name="stored", partition_indexes=[0] * MANY)]), 0),
    (DescribeTransactionsRequest(transactional_ids=["t"] * MANY), 0),
    (ListOffsetsRequest(topics=[ListOffsetsTopic(name="stored", partitions=[ListOffsetsPartition()] * MANY)]), 7),
    (DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="stored", partitions=[DeleteRecordsPartition()] * MANY)]), 2),
]


@pytest.mark.parametrize("request_, version", REPEATED, ids=lambda value: getattr(type(value), "__name__", ""))
def test_what_is_asked_many_times_is_answered_once(request_: Request, version: int, target: Target) -> None:
    """A description is much longer than its name, so a small request must not get gigabytes."""
    with target.connect() as client:
        client.send(request_, version)
        assert len(client.receive_frame()) < 10_000


@pytest.mark.parametrize(
    "request_, version",
    [
        (DescribeGroupsRequest(groups=["g"] * MANY), 5),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)] * MANY), 9),
    ],
    ids=lambda value: getattr(type(value), "__name__", ""),
)
def test_a_group_that_is_named_many_times_is_answered_within_a_bound(
    request_: Request, version: int, target: Target
) -> None:
    """As in Kafka, the reply repeats a name, but with an error if the repetitions become large."""
    with target.connect() as client:
        client.send(request_, version)
        assert len(client.receive_frame()) < 16 << 20


def test_more_resources_than_a_request_may_describe(target: Target) -> None:
    """A group need not exist to have settings, so only the number of names can be limited."""
    groups = [DescribeConfigsResource(resource_type=32, resource_name=str(i)) for i in range(10_001)]
    with target.connect() as client:
        reply = client.call(DescribeConfigsRequest(resources=groups), 4, DescribeConfigsResponse)
    assert {result.error_code for result in reply.results} == {ErrorCode.INVALID_REQUEST}
    assert not any(result.configs for result in reply.results)


def test_a_connection_that_is_reset(target: Target) -> None:
    """A client that dies with data in transit: RST instead of FIN."""
    for _ in range(20):
        client = target.connect()
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.send(fetch_request(target.topic, max_wait_ms=60_000, min_bytes=1 << 20), FETCH_VERSION)
        client.close()
    assert target.complaints() == []


def test_the_stored_record_is_what_was_sent(target: Target) -> None:
    (log,) = Path(target.broker.data_dir / f"{target.topic}-0").glob("00000000000000000000.log")
    assert STORED[16:] in log.read_bytes()
