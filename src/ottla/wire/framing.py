"""What goes around a message body: the length of the frame, and the header of the request or response.

A request header is int16 API key, int16 version, int32 correlation id and a nullable client id; flexible versions
(header v2) add tagged fields. The client id keeps its old int16 length even then, so that a broker can read the header
of a version it has never heard of. A response header is the correlation id; flexible versions (header v1) add tagged
fields, except for ApiVersions: its reply must be readable before the two sides have agreed on anything (KIP-511).
"""

import struct
from collections.abc import Sized
from typing import NamedTuple

from ottla.wire.api import API_VERSIONS, APIS
from ottla.wire.primitives import (
    DecodeError,
    negative,
    read_fixed,
    read_text,
    skip_tagged_fields,
    write_fixed,
)
from ottla.wire.schema import Api

NO_TAGGED_FIELDS = b"\0"

_REQUEST_PREFIX = struct.Struct(">hhih")
"""API key, version, correlation id, and the length of the client id."""

_RESPONSE_START = struct.Struct(">ii")
"""The length of the frame and the correlation id."""
_pack_response_start = _RESPONSE_START.pack


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


class ResponseHeader(NamedTuple):
    correlation_id: int
    body_position: int


def parse_request_header(frame: memoryview) -> RequestHeader:
    """The header of a request to an API in the table; its version need not be one that the table knows."""
    try:
        api_key, api_version, correlation_id, length = _REQUEST_PREFIX.unpack_from(frame)
    except struct.error:
        raise DecodeError(f"a request of {len(frame)} bytes has no room for its header") from None
    api = _api(api_key)
    client_id, position = None, _REQUEST_PREFIX.size
    if length < -1:
        raise negative(length)
    if length >= 0:
        client_id, position = read_text(frame, position, length)
    if api.is_flexible(api_version):
        position = skip_tagged_fields(frame, position)
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    text = b"" if client_id is None else client_id.encode()
    header = _REQUEST_PREFIX.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(text)) + text
    return header + NO_TAGGED_FIELDS if _api(api_key).is_flexible(api_version) else header


def parse_response_header(api_key: int, api_version: int, frame: memoryview) -> ResponseHeader:
    correlation_id, position = read_fixed("i", frame, 0)
    if _has_tagged_response_header(api_key, api_version):
        position = skip_tagged_fields(frame, position)
    return ResponseHeader(correlation_id, position)


def response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    header = write_fixed("i", correlation_id)
    return header + NO_TAGGED_FIELDS if _has_tagged_response_header(api_key, api_version) else header


def response_tags(api: Api, api_version: int) -> bytes:
    """What follows the correlation id in a response header."""
    return NO_TAGGED_FIELDS if _has_tagged_response_header(api.key, api_version) else b""


def response_frame(tags: bytes, correlation_id: int, parts: list[Sized]) -> list[Sized]:
    """The whole reply to a request: the parts of its body, with length and header put before the first."""
    first = parts[0]
    size = 4 + len(tags) + (len(first) if len(parts) == 1 else sum(map(len, parts)))
    parts[0] = _pack_response_start(size, correlation_id) + tags + first  # type: ignore[operator]
    return parts


def _has_tagged_response_header(api_key: int, api_version: int) -> bool:
    return api_key != API_VERSIONS.key and _api(api_key).is_flexible(api_version)


def _api(api_key: int) -> Api:
    api = APIS.get(api_key)
    if api is None:
        raise DecodeError(f"no API has the key {api_key}")
    return api
