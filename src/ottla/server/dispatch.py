"""From a frame to a handler, and from its reply to bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ottla.handlers.api_versions import unsupported_version
from ottla.handlers.context import Broker, CloseConnectionError, Context, Reply
from ottla.handlers.registry import HANDLERS
from ottla.wire import WireError
from ottla.wire.api import API_VERSIONS, JOIN_GROUP, PRODUCE, SYNC_GROUP
from ottla.wire.codec import decode
from ottla.wire.framing import RequestHeader, parse_request_header, response_frame

if TYPE_CHECKING:
    from ottla.env.network import Address, Part
    from ottla.wire.schema import Response

MAX_REQUEST = 1 << 20
"""Two bytes on the wire can become a thousand in memory and in the reply, so most requests are held to this size."""

MAX_REQUEST_WITH_ASSIGNMENTS = 8 << 20
"""What members of a group tell each other is opaque to the broker and can be long."""

_LARGE = {JOIN_GROUP.key: MAX_REQUEST_WITH_ASSIGNMENTS, SYNC_GROUP.key: MAX_REQUEST_WITH_ASSIGNMENTS}


class UnfitReplyError(Exception):
    """A handler made a reply that cannot be written in the version the client asked in: a mistake of the broker's."""


def handle(
    broker: Broker, request: memoryview, listener: str, local: Address, peer: Address
) -> tuple[RequestHeader, Reply]:
    """Run the handler a request asks for. Raises WireError or CloseConnectionError when there is no way to answer."""
    header = parse_request_header(request)
    served = HANDLERS.get(header.api_key)
    if served is None:
        raise CloseConnectionError(f"API {header.api_key} is not served")
    version = header.api_version
    if not served.api.min_version <= version <= served.api.max_version:
        if header.api_key == API_VERSIONS.key:
            return header._replace(api_version=0), unsupported_version()
        raise CloseConnectionError(f"{served.api.name} version {version} is not served")
    if header.api_key != PRODUCE.key and len(request) > _LARGE.get(header.api_key, MAX_REQUEST):
        raise CloseConnectionError(f"a {served.api.name} request of {len(request)} bytes")
    # Bytes behind the body are left alone, as in Kafka: librdkafka sends some with Metadata 11 and up.
    message, _ = decode(served.request, request, version, header.body_position)
    context = Context(header.api_key, version, header.client_id, listener, local, peer)
    return header, served.handle(broker, context, message)


def encode_reply(header: RequestHeader, reply: Response) -> list[Part]:
    try:
        return cast("list[Part]", response_frame(header, reply))
    except WireError as error:
        raise UnfitReplyError(f"{type(reply).__name__} does not fit version {header.api_version}: {error}") from error
