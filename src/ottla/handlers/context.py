"""What a handler is given besides the exchange: the broker's services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.handlers.exchange import Exchange, Reply

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.coordinator.groups import GroupCoordinator
    from ottla.coordinator.markers import Markers
    from ottla.coordinator.producer_ids import ProducerIds
    from ottla.coordinator.transactions import TransactionCoordinator
    from ottla.env.clock import Clock
    from ottla.handlers.client_notices import ClientNotices
    from ottla.handlers.registry import Served
    from ottla.metadata.cluster_metadata import ClusterMetadata
    from ottla.metadata.peers import Peers
    from ottla.replication.fetch_sessions import FetchSessions
    from ottla.replication.moving import LogMoves
    from ottla.replication.reads import Reads
    from ottla.replication.replicas import Replicas


@dataclass(slots=True)
class Broker:
    """The services of one broker, as far as a request may reach them."""

    id: int
    cluster_id: str
    advertised: frozenset[str]
    """Listeners with an address of their own in `advertised.listeners`."""
    handlers: Mapping[int, Served]
    """The APIs by their keys. A broker for tests has its own table, which can inject faults."""
    clock: Clock
    metadata: ClusterMetadata
    replicas: Replicas
    reads: Reads
    moves: LogMoves
    fetch_sessions: FetchSessions
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    markers: Markers
    peers: Peers
    producer_ids: ProducerIds
    notices: ClientNotices

    @property
    def config(self) -> BrokerConfig:
        return self.metadata.config


Handler: TypeAlias = Callable[[Broker, Exchange, Any], Reply]
