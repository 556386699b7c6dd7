"""A broker that answers what a test tells it to, over a real socket."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from ottla.env.network import Address
from ottla.wire import codec
from ottla.wire.api import API_VERSIONS, APIS
from ottla.wire.api.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.framing import RequestHeader, parse_request_header, response_header
from ottla.wire.schema import Request, Response

Answer: TypeAlias = Response | bytes | None
"""A reply, raw bytes instead of a frame, or None to stay silent."""

HANG_UP = b""


class ScriptedBroker:
    """Answers ApiVersions by itself, everything else with what `answer` returns."""

    def __init__(self, answer: Callable[[Request, int], Answer]) -> None:
        self.address = Address("127.0.0.1", 0)
        self.requests: list[tuple[Request, int]] = []
        self.connections = 0
        self.versions = {api.key: (api.min_version, api.max_version) for api in APIS.values()}
        self.refuse_first_version = False
        self.asked = asyncio.Event()
        self.hold: asyncio.Event | None = None
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = memoryview(await reader.readexactly(size))
                reply = self._reply(frame)
                if self.hold is not None:
                    await self.hold.wait()
                if reply == HANG_UP:
                    break
                if reply is not None:
                    writer.write(reply)
        writer.close()

    def _reply(self, frame: memoryview) -> bytes | None:
        header = parse_request_header(frame)
        if header.api_key == API_VERSIONS.key:
            return self._versions(header)
        request, _ = codec.decode(APIS[header.api_key].request, frame, header.api_version, header.body_position)
        self.requests.append((request, header.api_version))
        self.asked.set()
        answer = self._answer(request, header.api_version)
        return answer if answer is None or isinstance(answer, bytes) else _frame(header, answer, header.api_version)

    def _versions(self, header: RequestHeader) -> bytes:
        keys = [
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()
        ]
        if self.refuse_first_version:
            return _frame(header, ApiVersionsResponse(error_code=35, api_keys=keys), 0)
        return _frame(header, ApiVersionsResponse(api_keys=keys), header.api_version)


def _frame(header: RequestHeader, response: Response, version: int) -> bytes:
    body = response_header(header.api_key, version, header.correlation_id) + codec.encode(response, version)
    return struct.pack(">i", len(body)) + body


@contextlib.asynccontextmanager
async def scripted(answer: Callable[[Request, int], Answer]) -> AsyncIterator[ScriptedBroker]:
    broker = ScriptedBroker(answer)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        yield broker
    finally:
        server.close()
