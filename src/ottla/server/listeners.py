"""Accepts connections on all listeners, up to the limits, and closes connections that are idle for too long."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from ottla.config.connections import parse_overrides
from ottla.server.buffers import Buffers
from ottla.server.connection import Busy, ClientConnection

if TYPE_CHECKING:
    from ottla.env.clock import Timer
    from ottla.env.network import Address, Connection, Listener, Network
    from ottla.handlers.context import Broker
    from ottla.server.watchdog import Watchdog

logger = logging.getLogger("ottla.server")


class Listeners:
    """The listeners and all open client connections of the broker."""

    def __init__(self, broker: Broker, network: Network, watchdog: Watchdog) -> None:
        self._broker = broker
        self._watchdog = watchdog
        self._network = network
        self._listeners: list[Listener] = []
        self._connections: dict[ClientConnection, None] = {}
        self._per_host: Counter[str] = Counter()
        self._buffers = Buffers()
        self._busy = Busy()
        self._sweep_timer: Timer | None = None
        self._sweep()

    def __len__(self) -> int:
        return len(self._connections)

    async def bind(self, name: str, host: str, port: int) -> Address:
        """Bind to an address. The listener accepts connections after `start`."""
        listener = await self._network.listen(host, port, partial(self._accept, name))
        self._listeners.append(listener)
        return listener.address

    def start(self) -> None:
        for listener in self._listeners:
            listener.start()

    def _accept(self, name: str, connection: Connection) -> ClientConnection | None:
        config = self._broker.config
        host = connection.peer.host
        if len(self._connections) >= config.integer("max.connections"):
            logger.warning("rejecting %s: max.connections is reached", connection.peer)
            return None
        overrides = parse_overrides(config.string("max.connections.per.ip.overrides"))
        if self._per_host[host] >= overrides.get(host, config.integer("max.connections.per.ip")):
            logger.warning("rejecting %s: max.connections.per.ip is reached", connection.peer)
            return None
        client = ClientConnection(
            self._broker, connection, name, self._buffers, self._busy, self._watchdog, self._closed
        )
        self._connections[client] = None
        self._per_host[host] += 1
        return client

    def _closed(self, client: ClientConnection) -> None:
        self._connections.pop(client, None)
        self._per_host[client.peer_host] -= 1
        if not self._per_host[client.peer_host]:
            del self._per_host[client.peer_host]

    def _sweep(self) -> None:
        limit = self._broker.config.integer("connections.max.idle.ms") / 1000
        if limit >= 0:
            oldest = self._broker.clock.monotonic() - limit
            for client in [c for c in self._connections if c.idle and c.last_active < oldest]:
                client.close()
        self._sweep_timer = self._broker.clock.call_later(max(1.0, min(limit / 10, 30.0)), self._sweep)

    def close(self) -> None:
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for listener in self._listeners:
            listener.close()
        for client in list(self._connections):
            client.close()
