"""The new leader in a reply with the error that this broker is not the leader (KIP-951).

The client can send its next request there without fetching metadata first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ottla.handlers.endpoints import endpoint
from ottla.wire.api import FETCH, PRODUCE

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange
    from ottla.model import TopicId

Endpoint: TypeAlias = "tuple[int, str, int, str | None]"
"""`NodeEndpoint` as a tuple: id, host, port and rack."""

NO_LEADER = (-1, -1)
_SINCE = {PRODUCE.key: 10, FETCH.key: 16}


class LeaderHints:
    """The leader hints in the reply to one request."""

    def __init__(self, broker: Broker, exchange: Exchange) -> None:
        self._broker = broker
        self._exchange = exchange
        self._endpoints: dict[int, Endpoint] = {}

    def leader(self, topic: str, topic_id: TopicId, partition: int) -> tuple[int, int]:
        """The id and epoch of the leader. Adds its address to `endpoints`."""
        if self._exchange.api_version < _SINCE[self._exchange.api.key]:
            return NO_LEADER
        image = self._broker.metadata.image
        found = image.topics.get(topic) or image.topics_by_id.get(topic_id)
        if found is None or not 0 <= partition < len(found.partitions):
            return NO_LEADER
        state = found.partitions[partition]
        node = endpoint(self._broker, self._exchange, state.leader)
        if node is not None:
            self._endpoints[node.id] = (node.id, node.host, node.port, node.rack)
        return state.leader, state.leader_epoch

    def endpoints(self) -> list[Endpoint]:
        return list(self._endpoints.values())
