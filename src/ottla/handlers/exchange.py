"""One request and its reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ottla.wire.codec import encode_parts, encode_tuple_parts
from ottla.wire.framing import response_frame
from ottla.wire.primitives import WireError

if TYPE_CHECKING:
    from ottla.env.network import Address, Part
    from ottla.handlers.session import Session
    from ottla.wire.schema import Api, Response


class Exchange:
    """What a handler knows of the request besides its body, and how its reply is encoded."""

    __slots__ = ("api", "api_version", "client_id", "correlation_id", "received_at", "request_size", "session")

    def __init__(
        self,
        session: Session,
        api: Api,
        api_version: int,
        client_id: str | None,
        correlation_id: int,
        request_size: int,
        received_at: float,
    ) -> None:
        self.session = session
        self.api = api
        self.api_version = api_version
        self.client_id = client_id
        self.correlation_id = correlation_id
        self.request_size = request_size
        self.received_at = received_at

    @property
    def listener(self) -> str:
        return self.session.listener

    @property
    def local(self) -> Address:
        return self.session.local

    @property
    def peer(self) -> Address:
        return self.session.peer

    def encode(self, response: Response) -> list[Part]:
        """The frame of the reply."""
        try:
            parts = encode_parts(response, self.api_version)
        except WireError as error:
            raise UnfitReplyError(self, type(response), error) from error
        return response_frame(self.api, self.api_version, self.correlation_id, parts)  # type: ignore[return-value]

    def encode_tuples(self, cls: type[Response], response: tuple[Any, ...]) -> list[Part]:
        """Like `encode`, from nested tuples."""
        try:
            parts = encode_tuple_parts(cls, response, self.api_version)
        except WireError as error:
            raise UnfitReplyError(self, cls, error) from error
        return response_frame(self.api, self.api_version, self.correlation_id, parts)  # type: ignore[return-value]


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

    def __init__(self, exchange: Exchange, cls: type[Response], error: WireError) -> None:
        super().__init__(f"{cls.__name__} does not fit version {exchange.api_version}: {error}")
