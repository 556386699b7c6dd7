"""From a frame to a handler, and from its reply to bytes."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.handlers.exchange import Call, CloseConnectionError, Exchange, PendingReply
from ottla.handlers.registry import UNSUPPORTED_API_VERSIONS, Served
from ottla.wire.api import API_VERSIONS
from ottla.wire.codec import UNREADABLE, unreadable
from ottla.wire.decoding import new_memo
from ottla.wire.framing import RequestHeader, parse_request_header, response_tags
from ottla.wire.primitives import DecodeError
from ottla.wire.schema import Response

if TYPE_CHECKING:
    from ottla.env.network import Part
    from ottla.handlers.context import Broker, Handler
    from ottla.handlers.session import Session
    from ottla.server.watchdog import Watchdog
    from ottla.wire.decoding import Decoder, Memo

_START = struct.Struct(">ii")
"""API key and version as one number, and the correlation id."""

_MAX_REMEMBERED = 64
"""Headers of a connection that are remembered, far more than a client uses."""


class _Header(NamedTuple):
    """A request header without its correlation id, which is all that differs from one request to the next."""

    constant: bytes
    """What follows the correlation id, up to the body."""
    body_position: int
    call: Call
    decode: Decoder
    memo: Memo
    handle: Handler
    max_request_bytes: int


class Dispatcher:
    """Serves the requests of one connection."""

    __slots__ = ("_broker", "_headers", "_session", "_watchdog")

    def __init__(self, broker: Broker, session: Session, watchdog: Watchdog) -> None:
        self._broker = broker
        self._watchdog = watchdog
        self._session = session
        self._headers: dict[int, _Header] = {}
        """The last header of each API and version. A client sends the same one with every request."""

    def serve(self, frame: memoryview, now: float) -> list[Part] | PendingReply:
        """The encoded reply, empty for none, or what it waits for.

        Raises DecodeError when the request cannot be read, and CloseConnectionError to hang up.
        """
        size = len(frame)
        if size < _START.size:
            raise DecodeError(f"a request of {size} bytes has no room for its header")
        api_and_version, correlation_id = _START.unpack_from(frame)
        header = self._headers.get(api_and_version)
        if header is None or frame[8 : header.body_position] != header.constant:
            header = self._remember(api_and_version, frame)
        _, body_position, call, decode, memo, handle, max_request_bytes = header
        if size > max_request_bytes:
            raise CloseConnectionError(f"a {call.api.name} request of {size} bytes")
        try:
            # Bytes behind the body are left alone, as in Kafka: librdkafka sends some with Metadata 11 and up.
            message, _ = decode(frame, body_position, memo)
        except UNREADABLE as error:
            raise unreadable(call.api.request, call.version, error) from None
        exchange = self._watchdog.serving = Exchange(self._session, call, correlation_id, size, now)
        reply = handle(self._broker, exchange, message)
        if isinstance(reply, list):
            return reply
        if isinstance(reply, PendingReply):
            return reply
        if reply is None or isinstance(reply, Response):
            return _encoded(exchange, reply)
        return PendingReply(asyncio.ensure_future(reply), lambda task: _encoded(exchange, task.result()))

    def _remember(self, api_and_version: int, frame: memoryview) -> _Header:
        parsed = parse_request_header(frame)
        served, version = _find(self._broker.handlers, parsed)
        header = _Header(
            bytes(frame[8 : parsed.body_position]),
            parsed.body_position,
            Call(
                served.api,
                version,
                parsed.client_id,
                served.codec.encoder_of(served.api.response, version),
                response_tags(served.api, version),
            ),
            served.codec.decoder_of(served.request, version),
            new_memo(),
            served.handle,
            served.max_request_bytes,
        )
        if len(self._headers) >= _MAX_REMEMBERED:
            self._headers.clear()
        self._headers[api_and_version] = header
        return header


def _find(handlers: Mapping[int, Served], header: RequestHeader) -> tuple[Served, int]:
    """The handler, and the version in which to answer."""
    served = handlers.get(header.api_key)
    if served is None:
        raise CloseConnectionError(f"API {header.api_key} is not served")
    version = header.api_version
    if served.api.min_version <= version <= served.api.max_version:
        return served, version
    if header.api_key == API_VERSIONS.key:
        return UNSUPPORTED_API_VERSIONS, 0
    raise CloseConnectionError(f"{served.api.name} version {version} is not served")


def _encoded(exchange: Exchange, reply: Response | list[Part] | None) -> list[Part]:
    if reply is None:
        return []
    return exchange.encode(reply) if isinstance(reply, Response) else reply
