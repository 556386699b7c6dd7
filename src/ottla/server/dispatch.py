"""From a frame to a handler, and from its reply to bytes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from ottla.handlers.api_versions import unsupported_version
from ottla.handlers.context import Broker, CloseConnectionError, Context, Later
from ottla.handlers.fetch_again import FetchAgain
from ottla.handlers.produce import InspectingReply
from ottla.handlers.produce_again import ProduceAgain
from ottla.handlers.registry import HANDLERS, Served
from ottla.wire import WireError
from ottla.wire.api import API_VERSIONS, FETCH, JOIN_GROUP, PRODUCE, SYNC_GROUP
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.codec import decode
from ottla.wire.framing import RequestHeader, parse_request_header, response_frame
from ottla.wire.schema import Response

if TYPE_CHECKING:
    from ottla.env.network import Address, Part

MAX_REQUEST = 1 << 20
"""Two bytes on the wire can become a thousand in memory and in the reply, so most requests are held to this size."""

MAX_REQUEST_WITH_ASSIGNMENTS = 8 << 20
"""What members of a group tell each other is opaque to the broker and can be long."""

_LARGE = {JOIN_GROUP.key: MAX_REQUEST_WITH_ASSIGNMENTS, SYNC_GROUP.key: MAX_REQUEST_WITH_ASSIGNMENTS}


class UnfitReplyError(Exception):
    """A handler made a reply that cannot be written in the version the client asked in: a mistake of the broker's."""


class Dispatcher:
    """Finds the handlers for the requests of one connection. Both ways raise CloseConnectionError to hang up."""

    __slots__ = ("_broker", "_fetch_again", "_listener", "_local", "_peer", "_produce_again")

    def __init__(self, broker: Broker, listener: str, local: Address, peer: Address) -> None:
        self._broker = broker
        self._listener = listener
        self._local = local
        self._peer = peer
        connection = Context(-1, -1, None, listener, local, peer)
        self._produce_again = ProduceAgain(broker, connection)
        self._fetch_again = FetchAgain(broker, connection)

    def handle_fast(self, request: memoryview) -> list[Part] | Later | None:
        """Fast path, to be tried before `handle`: an encoded reply, now or later, or None."""
        key = request[1] if len(request) > 1 else -1
        if key == PRODUCE.key:
            return self._produce_again.serve(request)
        return self._fetch_again.serve(request) if key == FETCH.key else None

    def handle(self, request: memoryview) -> list[Part] | Later:
        """Run the handler a request asks for. Raises WireError when it cannot be read."""
        header = parse_request_header(request)
        served = _find_handler(header, request)
        if served is None:
            return encode_reply(header._replace(api_version=0), unsupported_version())
        # Bytes behind the body are left alone, as in Kafka: librdkafka sends some with Metadata 11 and up.
        message, _ = decode(served.request, request, header.api_version, header.body_position)
        if isinstance(message, ProduceRequest):
            self._produce_again.learn(request, header, message)
        elif isinstance(message, FetchRequest):
            self._fetch_again.learn(request, header, message)
        context = Context(header.api_key, header.api_version, header.client_id, self._listener, self._local, self._peer)
        reply = served.handle(self._broker, context, message)
        if reply is None or isinstance(reply, Response):
            return encode_reply(header, reply)
        # A batch may have to be verified or opened before it is appended; those behind it must not overtake it.
        blocks = (
            not isinstance(message, ProduceRequest)
            or message.transactional_id is not None
            or isinstance(reply, InspectingReply)
        )
        return Later(asyncio.ensure_future(reply), lambda event: encode_reply(header, event.result()), blocks)


def _find_handler(header: RequestHeader, request: memoryview) -> Served | None:
    """None when the client asks, in a version that is not served, which versions are."""
    served = HANDLERS.get(header.api_key)
    if served is None:
        raise CloseConnectionError(f"API {header.api_key} is not served")
    version = header.api_version
    if not served.api.min_version <= version <= served.api.max_version:
        if header.api_key == API_VERSIONS.key:
            return None
        raise CloseConnectionError(f"{served.api.name} version {version} is not served")
    if header.api_key != PRODUCE.key and len(request) > _LARGE.get(header.api_key, MAX_REQUEST):
        raise CloseConnectionError(f"a {served.api.name} request of {len(request)} bytes")
    return served


def encode_reply(header: RequestHeader, reply: Response | None) -> list[Part]:
    if reply is None:
        return []
    try:
        return cast("list[Part]", response_frame(header, reply))
    except WireError as error:
        raise UnfitReplyError(f"{type(reply).__name__} does not fit version {header.api_version}: {error}") from error
