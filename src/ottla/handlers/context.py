"""What a handler is given: the broker's services, and who is asking."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ottla.handlers.shapes import Shapes

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.coordinator.groups import GroupCoordinator
    from ottla.coordinator.markers import Markers
    from ottla.coordinator.producer_ids import ProducerIds
    from ottla.coordinator.transactions import TransactionCoordinator
    from ottla.env.clock import Clock
    from ottla.env.network import Address, Part
    from ottla.handlers.fetch_again import FetchShape
    from ottla.handlers.produce_again import ProduceShape
    from ottla.metadata.cluster_metadata import ClusterMetadata
    from ottla.metadata.peers import Peers
    from ottla.replication.fetch_sessions import FetchSessions
    from ottla.replication.moving import LogMoves
    from ottla.replication.replicas import Replicas
    from ottla.replication.throttling import ReplicationThrottle
    from ottla.wire.schema import Response


@dataclass(slots=True)
class Broker:
    """The services of one broker, as far as a request may reach them."""

    id: int
    cluster_id: str
    advertised: frozenset[str]
    """Listeners with an address of their own in `advertised.listeners`."""
    clock: Clock
    metadata: ClusterMetadata
    replicas: Replicas
    throttle: ReplicationThrottle
    """Of what this broker sends to followers."""
    moves: LogMoves
    fetch_sessions: FetchSessions
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    markers: Markers
    peers: Peers
    producer_ids: ProducerIds
    produce_shapes: Shapes[ProduceShape] = field(default_factory=Shapes)
    fetch_shapes: Shapes[FetchShape] = field(default_factory=Shapes)

    @property
    def config(self) -> BrokerConfig:
        return self.metadata.config


class Context(NamedTuple):
    """Who asks, in which version, and through which address."""

    api_key: int
    api_version: int
    client_id: str | None
    listener: str
    local: Address
    peer: Address


Reply: TypeAlias = "Response | Awaitable[Response | None] | None"
"""A reply now, later, or never (Produce with acks=0)."""

Handler: TypeAlias = Callable[[Broker, Context, Any], Reply]


class Event(Protocol):
    """What has to happen before a reply: a future, or something that is as much of one as this."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None: ...

    def cancel(self) -> object: ...

    def cancelled(self) -> bool: ...


class Later(NamedTuple):
    """An encoded reply that is made when something is done."""

    event: Event
    make: Callable[[Any], list[Part]]
    blocks: bool = True
    """Whether the next request of the connection has to wait for it. Appends need not: they are in order already."""


class CloseConnectionError(Exception):
    """The only answer the protocol leaves is to hang up, as after a failed Produce that asked for no reply."""
