"""Where clients reach each broker, seen from the listener they came through."""

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
    """Every live broker that has the client's listener, by id."""
    found = (endpoint(broker, exchange, broker_id) for broker_id in sorted(broker.metadata.image.brokers))
    return [node for node in found if node is not None]


def endpoint(broker: Broker, exchange: Exchange, broker_id: int) -> Endpoint | None:
    """Where the client reaches a broker; None if that is not known."""
    state = broker.metadata.image.brokers.get(broker_id)
    rack = None if state is None else state.rack
    if broker_id == broker.id and exchange.listener not in broker.advertised:
        # Nothing is advertised for this listener: the address that the client dialled works for the client.
        return Endpoint(broker_id, exchange.local.host, exchange.local.port, rack)
    advertised = None if state is None else state.endpoint(exchange.listener)
    if advertised is None:
        return None
    # A broker that names no interface is on this machine, where the client has found a way to.
    host = exchange.local.host if advertised.host in _EVERY_INTERFACE else advertised.host
    return Endpoint(broker_id, host, advertised.port, rack)
