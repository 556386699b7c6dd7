"""One request and its reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ottla.model import printable
from ottla.wire.codec import UNFIT
from ottla.wire.framing import response_frame

if TYPE_CHECKING:
    from ottla.env.network import Address, Part
    from ottla.handlers.session import Session
    from ottla.wire.encoding import Encoder
    from ottla.wire.schema import Api, Response


class Call(NamedTuple):
    """What the requests of one client to one API have in common."""

    api: Api
    version: int
    client_id: str | None
    encode: Encoder
    response_tags: bytes
    """The tagged fields of the response header."""


class Exchange:
    """What a handler knows of the request besides its body, and how its reply is encoded."""

    __slots__ = ("api_version", "call", "correlation_id", "received_at", "request_size", "session")

    def __init__(
        self, session: Session, call: Call, correlation_id: int, request_size: int, received_at: float
    ) -> None:
        self.session = session
        self.call = call
        self.api_version = call.version
        self.correlation_id = correlation_id
        self.request_size = request_size
        self.received_at = received_at

    def __str__(self) -> str:
        client = "" if self.client_id is None else f" ({printable(self.client_id)})"
        return f"{self.api.name} v{self.api_version} of {self.peer}{client}"

    @property
    def api(self) -> Api:
        return self.call.api

    @property
    def client_id(self) -> str | None:
        return self.call.client_id

    @property
    def listener(self) -> str:
        return self.session.listener

    @property
    def local(self) -> Address:
        return self.session.local

    @property
    def peer(self) -> Address:
        return self.session.peer

    def encode(self, response: Response | tuple[Any, ...]) -> list[Part]:
        """The frame of the reply. An API whose requests are decoded into tuples encodes its responses from tuples."""
        call = self.call
        try:
            parts = call.encode(response)
        except UNFIT as error:
            raise UnfitReplyError(f"{call.api.name} v{call.version}: the reply cannot be encoded: {error}") from error
        return response_frame(call.response_tags, self.correlation_id, parts)  # type: ignore[return-value]


class Completion(Protocol):
    """What a reply waits for: a future, or an object that behaves like one in these three ways."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None: ...

    def cancel(self) -> object: ...

    def cancelled(self) -> bool: ...


class PendingReply(NamedTuple):
    """A reply that is encoded when something is complete."""

    completion: Completion
    encode: Callable[[Any], list[Part]]
    blocks_connection: bool = True
    """Whether the next request of the connection has to wait for this reply. Appends need not: they are in order."""


Reply: TypeAlias = "Response | list[Part] | PendingReply | Awaitable[Response | list[Part] | None] | None"
"""A reply to encode, an encoded one, one that comes later, or none (Produce with acks=0)."""


class CloseConnectionError(Exception):
    """The only answer the protocol leaves is to hang up, as after a failed Produce that asked for no reply."""


class UnfitReplyError(Exception):
    """A handler made a reply that cannot be encoded in the version of the request: a defect of the broker."""
