"""The compiled codec against the reference codec: same bytes, same messages, same errors."""

import random
import tracemalloc
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.wire import DecodeError, EncodeError, codec, reference
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.api.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.api.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData, ReplicaState
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.decoding import Memo, new_memo
from ottla.wire.primitives import INTEGERS_PER_ELEMENT, MAX_ELEMENTS, MAX_REQUEST_ELEMENTS, write_varint
from ottla.wire.schema import Message, Struct
from tests.wire.messages import MESSAGE_VERSIONS, message_id, structs

FEW = settings(max_examples=6, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))

every_message_version = pytest.mark.parametrize("cls, version", MESSAGE_VERSIONS, ids=message_id)


@every_message_version
def test_compiled_and_reference_agree(cls: type[Message], version: int) -> None:
    @FEW
    @given(structs(cls, version))
    def check(message: Message) -> None:
        encoded = codec.encode(message, version)
        assert encoded == reference.encode(message, version)
        surrounded = b"\xee" + encoded + b"\xee"
        for decode in (codec.decode, reference.decode):
            decoded, position = decode(cls, surrounded, version, 1)
            assert decoded == message
            assert position == len(encoded) + 1

    check()


def decode_tuples(
    cls: type[Message], buffer: memoryview, version: int, position: int = 0, memo: Memo | None = None
) -> tuple[Any, int]:
    try:
        return codec.tuple_decoder_of(cls, version)(buffer, position, memo or new_memo())
    except codec.UNREADABLE as error:
        raise codec.unreadable(cls, version, error) from None


def as_tuples(value: Any) -> Any:
    """The message as the nested tuples of the tuple codecs."""
    if isinstance(value, Struct):
        return tuple(as_tuples(getattr(value, field.name)) for field in value.__fields__)
    return [as_tuples(item) for item in value] if isinstance(value, list) else value


@every_message_version
def test_tuples_have_the_same_bytes_as_objects(cls: type[Message], version: int) -> None:
    @FEW
    @given(structs(cls, version))
    def check(message: Message) -> None:
        encoded = reference.encode(message, version)
        assert b"".join(codec.tuple_encoder_of(cls, version)(as_tuples(message))) == encoded  # type: ignore[arg-type]
        decoded, position = decode_tuples(cls, memoryview(b"\xee" + encoded + b"\xee"), version, 1)
        assert decoded == as_tuples(message)
        assert position == len(encoded) + 1

    check()


def test_what_the_last_message_had_in_common_is_not_decoded_again() -> None:
    def request(topic: str, *indexes: int) -> memoryview:
        data = [PartitionProduceData(index=index, records=b"r" * (100 * index)) for index in indexes]
        topics = [TopicProduceData(name=topic, partition_data=data)] * len(indexes)
        return memoryview(codec.encode(ProduceRequest(acks=1, topic_data=topics), 9))

    memo = new_memo()
    requests = [request("a", 1), request("a", 2), request("a", 2, 3), request("a", 2, 1), request("b", 1), request("a")]
    for buffer in [it for request in requests for it in (request, request)]:
        expected = reference.decode(ProduceRequest, buffer, 9)[0]
        assert decode_tuples(ProduceRequest, buffer, 9, memo=memo)[0] == as_tuples(expected)
    known, size, values, end, _ = memo
    assert known == requests[-2][:size]
    assert values[3] == "b"
    assert end == b"\0\0"


def outcome(decode: Any, cls: type[Message], buffer: bytes | memoryview, version: int) -> Any:
    try:
        return decode(cls, buffer, version)
    except DecodeError:
        return DecodeError


def mutations(valid: bytes, seed: int) -> list[bytes]:
    """Prefixes, and copies with a few bytes overwritten, mostly by typical lengths and counts."""
    source = random.Random(seed)
    mutated = [valid[:length] for length in source.sample(range(len(valid)), min(len(valid), 8))]
    for _ in range(12):
        copy = bytearray(valid)
        for _ in range(source.randint(1, 3)):
            if copy:
                copy[source.randrange(len(copy))] = source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))
        mutated.append(bytes(copy))
    return mutated


@every_message_version
def test_garbage_is_refused_alike(cls: type[Message], version: int) -> None:
    @settings(FEW, max_examples=3)
    @given(structs(cls, version), st.integers(0, 2**32), st.binary(max_size=64))
    def check(message: Message, seed: int, garbage: bytes) -> None:
        shared = new_memo()
        for buffer in [garbage, *mutations(codec.encode(message, version), seed)]:
            expected = outcome(reference.decode, cls, buffer, version)
            assert outcome(codec.decode, cls, buffer, version) == expected
            tuples = expected if expected is DecodeError else (as_tuples(expected[0]), expected[1])
            for memo in (new_memo(), shared):
                decode = partial(decode_tuples, memo=memo)
                assert outcome(decode, cls, memoryview(buffer), version) == tuples

    check()


def assert_refused(cls: type[Message], buffer: bytes, version: int, sentence: str = "") -> None:
    for decode in (codec.decode, reference.decode):
        with pytest.raises(DecodeError, match=sentence):
            decode(cls, buffer, version)


@pytest.mark.parametrize("version", [0, 9])
def test_a_huge_count_allocates_nothing(version: int) -> None:
    count = b"\x7f\xff\xff\xff" if version == 0 else b"\xff\xff\xff\xff\x0f"
    tracemalloc.start()
    assert_refused(MetadataRequest, count + bytes(100), version, "elements with 100 bytes left")
    assert_refused(DescribeLogDirsRequest, b"\0\0\0\1" + b"\0\0" + b"\x7f\xff\xff\xff", 1, "elements with 0 bytes left")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "cls, version, text, sentence",
    [
        (HeartbeatRequest, 0, "", "too early"),
        (HeartbeatRequest, 0, "ffff", "group_id is null"),
        (HeartbeatRequest, 0, "fffe", "-2 is invalid"),
        (HeartbeatRequest, 0, "0001 ff", "UTF-8"),
        (HeartbeatRequest, 0, "7fff 61", "too early"),
        (HeartbeatRequest, 4, "00", "group_id is null"),
        (HeartbeatRequest, 4, "ffffffffff01", "varint"),
        (HeartbeatRequest, 4, "818002" + "61" * 32_768, "longer than 32767"),
        (HeartbeatRequest, 3, "0000 00000000 0000 fffe", "-2 is invalid"),
        (MetadataRequest, 0, "ffffffff", "topics is null"),
        (MetadataRequest, 1, "fffffffe", "-2 is invalid"),
        (FetchRequest, 4, "", "too early"),
        (HeartbeatRequest, 9, "", "versions 0 to 4, not 9"),
    ],
)
def test_refusals_say_why(cls: type[Message], version: int, text: str, sentence: str) -> None:
    assert_refused(cls, bytes.fromhex(text), version, sentence)


@pytest.mark.parametrize("module", [codec, reference])
def test_unencodable_messages_are_refused(module: ModuleType) -> None:
    for message, version in (
        (MetadataRequest(topics=None), 0),
        (HeartbeatRequest(group_id=None), 0),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id=None), 4),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id="g" * 40_000), 0),
        (HeartbeatRequest(group_id="g" * 40_000), 4),
        (HeartbeatRequest(group_id="\ud800"), 4),
        (HeartbeatRequest(generation_id=2**31), 4),
        (HeartbeatRequest(), 5),
    ):
        with pytest.raises(EncodeError):
            module.encode(message, version)


@pytest.mark.parametrize("module", [codec, reference])
def test_fields_that_a_version_lacks_are_dropped(module: ModuleType) -> None:
    request = HeartbeatRequest(group_id="g", group_instance_id="static")
    decoded, _ = module.decode(HeartbeatRequest, module.encode(request, 0), 0)
    assert decoded == HeartbeatRequest(group_id="g")


@pytest.mark.parametrize("module", [codec, reference])
def test_unknown_tagged_fields_are_skipped(module: ModuleType) -> None:
    unknown = bytes.fromhex("01 9001 03 aabbcc")
    assert module.encode(HeartbeatRequest(), 4)[-1:] == b"\0"
    heartbeat = module.encode(HeartbeatRequest(), 4)[:-1] + unknown
    assert module.decode(HeartbeatRequest, heartbeat, 4) == (HeartbeatRequest(), len(heartbeat))
    fetch = module.encode(FetchRequest(), 18)[:-1] + unknown
    assert module.decode(FetchRequest, fetch, 18) == (FetchRequest(), len(fetch))


def test_a_tagged_field_that_lies_about_its_size_is_refused() -> None:
    fetch = codec.encode(FetchRequest(replica_state=ReplicaState(replica_id=2)), 18)
    assert fetch[-14] == 13
    assert_refused(FetchRequest, fetch[:-14] + b"\x0e" + fetch[-13:] + b"\0", 18, "tagged field 1")


def produce(records: Any) -> ProduceRequest:
    partition = PartitionProduceData(index=1, records=records)
    return ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])])


@pytest.mark.parametrize("version", [3, 9])
def test_records_are_views_of_the_buffer(version: int) -> None:
    buffer = bytearray(codec.encode(produce(bytearray(b"batches")), version))
    decoded, _ = codec.decode(ProduceRequest, memoryview(buffer), version)
    records = decoded.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert bytes(records) == b"batches"
    buffer[buffer.index(b"batches")] = ord("B")
    assert bytes(records) == b"Batches"


@pytest.mark.parametrize("version", [4, 12])
def test_file_slices_stay_what_they_are(version: int) -> None:
    def response(*records: Any) -> FetchResponse:
        partitions = [PartitionData(partition_index=i, records=value) for i, value in enumerate(records)]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])

    first, second = range(1000), range(3)
    parts = codec.encode_parts(response(first, b"bytes", None, second), version)
    assert parts[1] is first
    assert parts[3] is second
    assert [type(part) for part in parts[:4]] == [bytes, range, bytes, range]
    whole = b"".join(bytes(len(part)) if isinstance(part, range) else part for part in parts)  # type: ignore[misc]
    assert whole == codec.encode(response(bytes(1000), b"bytes", None, bytes(3)), version)
    assert codec.encode_parts(response(b"bytes"), version) == [codec.encode(response(b"bytes"), version)]


@pytest.mark.parametrize("decoder", [codec.decode, reference.decode])
def test_a_message_of_countless_small_parts_is_refused(decoder: Any) -> None:
    """Three bytes for an empty topic would take hundreds in memory, in a frame of up to 100 MB."""
    topics = MAX_REQUEST_ELEMENTS + 1
    body = b"\0" + b"\0\1" + bytes(4) + write_varint(topics + 1) + b"\1\1\0" * topics + b"\0"
    with pytest.raises(DecodeError, match="elements"):
        decoder(ProduceRequest, body, 9)


@pytest.mark.parametrize("decoder", [codec.decode, reference.decode])
def test_integers_count_as_elements_of_a_request(decoder: Any) -> None:
    """Each element may need its own part of the reply: four bytes may become a list of producers."""

    def request(partitions: int) -> bytes:
        topics = [TopicRequest(name=name, partition_indexes=[0] * partitions) for name in "ab"]
        return codec.encode(DescribeProducersRequest(topics=topics), 0)

    most = MAX_REQUEST_ELEMENTS // 2 - 1
    decoder(DescribeProducersRequest, request(most), 0)
    with pytest.raises(DecodeError, match="elements"):
        decoder(DescribeProducersRequest, request(most + 1), 0)


@pytest.mark.parametrize("decoder", [codec.decode, reference.decode])
def test_integers_count_less_in_a_response(decoder: Any) -> None:
    """The metadata of a large cluster has ten integers per partition."""

    def response(replicas: int) -> bytes:
        partition = MetadataResponsePartition(replica_nodes=[0] * replicas)
        return codec.encode(MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition])]), 9)

    most = (MAX_ELEMENTS - 2) * INTEGERS_PER_ELEMENT
    decoder(MetadataResponse, response(most), 9)
    with pytest.raises(DecodeError, match="elements"):
        decoder(MetadataResponse, response(most + INTEGERS_PER_ELEMENT), 9)
