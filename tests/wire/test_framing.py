import io
import struct
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from ottla.wire import DecodeError
from ottla.wire.api import API_VERSIONS, APIS, FETCH, HEARTBEAT, METADATA
from ottla.wire.api.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.api.heartbeat import HeartbeatResponse
from ottla.wire.codec import encode_parts
from ottla.wire.framing import (
    RequestHeader,
    ResponseHeader,
    parse_request_header,
    parse_response_header,
    request_header,
    response_frame,
    response_header,
    response_tags,
)

API_AND_VERSION = [(api.key, version) for api in APIS.values() for version in range(api.max_version + 1)]

quick = settings(deadline=None, derandomize=True, database=None)


def test_old_request_header() -> None:
    header = bytes.fromhex("0003 0005 00000007 0003") + b"cli"
    assert request_header(METADATA.key, 5, 7, "cli") == header
    assert parse_request_header(memoryview(header + b"body")) == RequestHeader(3, 5, 7, "cli", 13)


def test_flexible_request_header_keeps_the_old_client_id() -> None:
    header = bytes.fromhex("0003 0009 00000007 ffff 00")
    assert request_header(METADATA.key, 9, 7, None) == header
    assert parse_request_header(memoryview(header + b"body")) == RequestHeader(3, 9, 7, None, 11)


def test_header_tags_are_skipped() -> None:
    header = bytes.fromhex("0003 0009 00000007 ffff 02 00 01 aa 85 01 02 bbcc")
    assert parse_request_header(memoryview(header)).body_position == len(header)
    assert parse_response_header(METADATA.key, 9, memoryview(bytes.fromhex("00000007 01 03 02 bbcc"))) == (7, 9)


def test_versions_of_tomorrow_still_have_a_header() -> None:
    header = memoryview(request_header(API_VERSIONS.key, 99, 1, "future"))
    assert parse_request_header(header) == RequestHeader(18, 99, 1, "future", len(header))


def test_response_headers() -> None:
    assert response_header(METADATA.key, 8, 7) == bytes.fromhex("00000007")
    assert response_header(METADATA.key, 9, 7) == bytes.fromhex("00000007 00")


def test_the_reply_to_api_versions_is_never_flexible() -> None:
    for version in range(5):
        assert response_header(API_VERSIONS.key, version, 7) == bytes.fromhex("00000007")
        assert parse_response_header(API_VERSIONS.key, version, memoryview(bytes.fromhex("00000007 00"))) == (7, 4)


@quick
@given(st.sampled_from(API_AND_VERSION), st.integers(-(2**31), 2**31 - 1), st.none() | st.text(max_size=9))
def test_headers_are_kios(api_and_version: tuple[int, int], correlation_id: int, client_id: str | None) -> None:
    key, version = api_and_version
    flexible = APIS[key].is_flexible(version)
    schema = import_module(f"kio.schema.request_header.v{2 if flexible else 1}.header").RequestHeader
    header = request_header(key, version, correlation_id, client_id)
    theirs, size = entity_reader(schema)(header, 0)
    assert size == len(header)
    expected = (key, version, correlation_id, client_id)
    assert (theirs.request_api_key, theirs.request_api_version, theirs.correlation_id, theirs.client_id) == expected
    out = io.BytesIO()
    entity_writer(schema)(out, theirs)
    assert parse_request_header(memoryview(out.getvalue())) == RequestHeader(*expected, len(header))
    reply = response_header(key, version, correlation_id)
    assert parse_response_header(key, version, memoryview(reply)) == ResponseHeader(correlation_id, len(reply))


@quick
@given(st.binary(max_size=24))
def test_garbage_is_refused(garbage: bytes) -> None:
    for parse in (parse_request_header, lambda buffer: parse_response_header(FETCH.key, 12, buffer)):
        try:
            header = parse(memoryview(garbage))
        except DecodeError:
            continue
        assert header[-1] <= len(garbage)


@pytest.mark.parametrize(
    "header",
    ["", "0003 0005 000000", "0003 0005 00000007 fffe", "0003 0005 00000007 0004 616263", "0003 0005 00000007 0001 ff"],
)
def test_broken_headers(header: str) -> None:
    with pytest.raises(DecodeError):
        parse_request_header(memoryview(bytes.fromhex(header)))


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(DecodeError, match="no API has the key 9999"):
        parse_request_header(memoryview(struct.pack(">hhih", 9999, 0, 1, -1)))


def test_a_reply_begins_with_its_length() -> None:
    reply = HeartbeatResponse(error_code=27)
    assert response_frame(response_tags(HEARTBEAT, 0), 7, encode_parts(reply, 0)) == [
        bytes.fromhex("00000006 00000007 001b")
    ]
    flexible = bytes.fromhex("0000000c 00000007 00 00000000 001b 00")
    assert response_frame(response_tags(HEARTBEAT, 4), 7, encode_parts(reply, 4)) == [flexible]


def test_a_reply_keeps_file_slices_apart() -> None:
    slice_ = range(1000)
    data = PartitionData(records=slice_)
    reply = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])
    before, kept = response_frame(response_tags(FETCH, 4), 7, encode_parts(reply, 4))
    assert kept is slice_
    assert isinstance(before, bytes)
    assert struct.unpack_from(">ii", before) == (len(before) - 4 + 1000, 7)
    assert before.endswith(struct.pack(">i", 1000))
