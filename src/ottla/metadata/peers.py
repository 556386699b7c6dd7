"""Requests to the other brokers of the cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from ottla.client.connection import Connection, connect
from ottla.client.failures import ClientError, ConnectionFailed
from ottla.config.listeners import inter_broker_listener
from ottla.env.network import Address
from ottla.wire.schema import Request, Response

if TYPE_CHECKING:
    from ottla.metadata.cluster_metadata import ClusterMetadata

R = TypeVar("R", bound=Response)

_TIMEOUT_SECONDS = 10.0


class Peers:
    """Keeps one connection to each broker. The first request opens it."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata
        self._connections: dict[Address, asyncio.Task[Connection]] = {}

    def stop(self) -> None:
        for task in self._connections.values():
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().close()
            else:
                task.cancel()
        self._connections.clear()

    async def call(self, broker_id: int, request: Request, response: type[R]) -> R:
        """Raises ClientError if there is no reply. The other broker may have served the request or not."""
        connection = await self._connection(self._address(broker_id))
        return await connection.call(request, response, within=_TIMEOUT_SECONDS)

    def _address(self, broker_id: int) -> Address:
        broker = self._metadata.image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(inter_broker_listener(self._metadata.config))
        if endpoint is None:
            raise ConnectionFailed(f"broker {broker_id} is not registered")
        return Address(endpoint.host, endpoint.port)

    async def _connection(self, address: Address) -> Connection:
        task = self._connections.get(address)
        if task is None or (task.done() and (task.cancelled() or task.exception() or task.result().closed)):
            client_id = f"broker-{self._metadata.broker_id}"
            task = asyncio.ensure_future(connect(address, client_id=client_id, within=_TIMEOUT_SECONDS))
            self._connections[address] = task
        try:
            return await asyncio.shield(task)
        except ClientError:
            self._connections.pop(address, None)
            raise
