"""The addresses of brokers for a client, by the listener that the client is connected to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


_EVERY_INTERFACE = frozenset({"0.0.0.0", "::"})


class Endpoint(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None


def endpoints(broker: Broker, exchange: Exchange) -> list[Endpoint]:
    """The endpoints of all living brokers that have the client's listener, sorted by id."""
    found = (endpoint(broker, exchange, broker_id) for broker_id in sorted(broker.metadata.image.brokers))
    return [node for node in found if node is not None]


def endpoint(broker: Broker, exchange: Exchange, broker_id: int) -> Endpoint | None:
    """The endpoint of a broker for the client; None if it is unknown."""
    state = broker.metadata.image.brokers.get(broker_id)
    rack = None if state is None else state.rack
    if broker_id == broker.id and exchange.listener not in broker.advertised:
        # This listener has no advertised address, so use the address that the client is connected to.
        return Endpoint(broker_id, exchange.local.host, exchange.local.port, rack)
    advertised = None if state is None else state.endpoint(exchange.listener)
    if advertised is None:
        return None
    # A broker that advertises all interfaces is on this machine, so use the host that the client is connected to.
    host = exchange.local.host if advertised.host in _EVERY_INTERFACE else advertised.host
    return Endpoint(broker_id, host, advertised.port, rack)
