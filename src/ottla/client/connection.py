"""One connection to one broker. Several requests may be in flight; the correlation id matches a reply to its request.

Each frame is received into a buffer of exactly its size, and the record batches of a reply are views of that buffer. So
the client never copies them.
"""

import asyncio
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar, cast

from ottla.client.failures import ConnectionFailed, UnsupportedRequest, check
from ottla.env.network import Address
from ottla.errors import ErrorCode
from ottla.wire import WireError, codec
from ottla.wire.api import API_VERSIONS, APIS
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.framing import parse_response_header, request_header
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

MAX_FRAME = 1 << 30
"""The connection is closed if a reply announces more bytes. Kafka's fetch limits keep replies far below this."""

_LENGTH = struct.Struct(">i")
_FIRST_VERSION = 3
"""The version of ApiVersions to send. Every broker since Kafka 2.4 serves it; an older one replies in version 0
(KIP-511)."""


class _Waiting(NamedTuple):
    response: type[Response]
    version: int
    future: "asyncio.Future[Response]"


class Connection(asyncio.BufferedProtocol):
    """Created by `connect`, which also fetches the API versions of the broker."""

    def __init__(self, address: Address, client_id: str) -> None:
        self.address = address
        self._client_id = client_id
        self._versions: Mapping[int, tuple[int, int]] = {}
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._next_correlation_id = 0
        self._failure: ConnectionFailed | None = None
        self._length = bytearray(_LENGTH.size)
        self._frame: bytearray | None = None
        self._view = memoryview(self._length)

    @property
    def closed(self) -> bool:
        return self._failure is not None

    def version_of(self, request: type[Request], highest: int | None = None) -> int:
        """The newest version that both sides support and that is not above `highest`."""
        api = APIS[request.api_key]
        lowest_there, highest_there = self._versions.get(api.key, (0, -1))
        version = min(api.max_version if highest is None else highest, highest_there)
        if version < max(api.min_version, lowest_there):
            raise UnsupportedRequest(f"{self.address} supports no version of {api.name} that Ottla supports")
        return version

    async def call(self, request: Request, response: type[R], *, within: float, highest: int | None = None) -> R:
        """Send a request and wait for its reply. Further requests may be sent meanwhile.

        Replies come in the order of the requests. So if one reply is not there after `within` seconds, the connection
        is closed and all requests in flight fail.
        """
        version = self.version_of(type(request), highest)
        return cast("R", await self._send(request, response, version, within))

    async def _send(self, request: Request, response: type[Response], version: int, within: float) -> Response:
        if self._failure is not None or self._transport is None:
            raise self._failure or ConnectionFailed(f"{self.address} is not connected")
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFF_FFFF
        head = request_header(request.api_key, version, correlation_id, self._client_id)
        body = codec.encode(request, version)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Response] = loop.create_future()
        self._waiting[correlation_id] = _Waiting(response, version, future)
        self._transport.writelines([_LENGTH.pack(len(head) + len(body)), head, body])
        # `asyncio.wait_for` would cost as much as the rest of the call, and followers fetch very often.
        timeout = loop.call_later(within, self._time_out, APIS[request.api_key].name, within)
        try:
            return await future
        finally:
            timeout.cancel()

    def _time_out(self, name: str, within: float) -> None:
        self.close(f"{self.address} did not answer {name} within {within:g} s")

    async def negotiate(self, within: float) -> None:
        """Fetch the API versions of the broker. A broker that does not support our ApiVersions replies in version 0."""
        reply = cast(
            "ApiVersionsResponse",
            await self._send(
                ApiVersionsRequest(client_software_name="ottla", client_software_version="0"),
                ApiVersionsResponse,
                _FIRST_VERSION,
                within,
            ),
        )
        if reply.error_code != ErrorCode.UNSUPPORTED_VERSION:
            check(reply.error_code, f"ApiVersions from {self.address}")
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in reply.api_keys}

    def close(self, reason: str = "the connection was closed") -> None:
        """Close the connection. All requests in flight fail with the reason."""
        if self._failure is None:
            self._failure = ConnectionFailed(reason)
            waiting, self._waiting = self._waiting, {}
            for entry in waiting.values():
                if not entry.future.done():
                    entry.future.set_exception(self._failure)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(f"{self.address} closed the connection" + (f": {exc}" if exc else ""))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        self._view = self._view[nbytes:]
        while not self._view and not self.closed:
            if self._frame is None:
                self._begin_frame(_LENGTH.unpack(self._length)[0])
            else:
                frame, self._frame = self._frame, None
                self._view = memoryview(self._length)
                self._receive(memoryview(frame))

    def _begin_frame(self, size: int) -> None:
        if not _LENGTH.size <= size <= MAX_FRAME:
            self._view = memoryview(self._length)
            self.close(f"{self.address} sent a frame of {size} bytes")
            return
        self._frame = bytearray(size)
        self._view = memoryview(self._frame)

    def _receive(self, frame: memoryview) -> None:
        waiting = self._waiting.pop(_LENGTH.unpack_from(frame)[0], None)
        if waiting is None:
            self.close(f"{self.address} sent a reply with an unknown correlation id")
            return
        if waiting.future.done():
            return
        try:
            waiting.future.set_result(_decode(waiting, frame))
        except WireError as error:
            waiting.future.set_exception(ConnectionFailed(f"{self.address} sent a malformed reply: {error}"))
            self.close(f"{self.address} sent a malformed reply: {error}")


def _decode(waiting: _Waiting, frame: memoryview) -> Response:
    response, version = waiting.response, waiting.version
    position = parse_response_header(response.api_key, version, frame).body_position
    if response.api_key == API_VERSIONS.key:
        (code,) = struct.unpack_from(">h", frame, position)
        version = 0 if code == ErrorCode.UNSUPPORTED_VERSION else version
    return codec.decode(response, frame, version, position)[0]


async def connect(address: Address, *, client_id: str, within: float, **transport: Any) -> Connection:
    """Connect to a broker and fetch its API versions. `transport` is passed to `create_connection`, such as `ssl`."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(within):
            _, connection = await loop.create_connection(
                lambda: Connection(address, client_id), address.host, address.port, **transport
            )
    except TimeoutError:
        raise ConnectionFailed(f"could not connect to {address} within {within:g} s") from None
    except OSError as error:
        raise ConnectionFailed(f"could not connect to {address}: {error.strerror or error}") from None
    try:
        await connection.negotiate(within)
    except BaseException:
        connection.close()
        raise
    return connection
