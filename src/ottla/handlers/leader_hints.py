"""Who leads now, told together with the error that says that this broker does not (KIP-951).

A client need not ask for metadata first, which it would do only after a pause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.handlers.endpoints import Endpoint, endpoint
from ottla.wire.api import fetch, produce

if TYPE_CHECKING:
    from ottla.cluster.image import PartitionState, TopicState
    from ottla.handlers.context import Broker, Context

_PRODUCE_SINCE = 10
_FETCH_SINCE = 16
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def hint_producer(broker: Broker, context: Context, version: int, response: produce.ProduceResponse) -> None:
    """Complete a reply that refuses something because another broker leads."""
    image = broker.metadata.image
    nodes: dict[int, Endpoint] = {}
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and version >= _PRODUCE_SINCE:
                found = image.topics.get(topic.name) or image.topics_by_id.get(topic.topic_id)
                if (state := _state(found, answer.index)) is not None:
                    answer.current_leader.leader_id = state.leader
                    answer.current_leader.leader_epoch = state.leader_epoch
                    _add(nodes, broker, context, state.leader)
    response.node_endpoints += [
        produce.NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in nodes.values()
    ]


def hint_consumer(broker: Broker, context: Context, version: int, response: fetch.FetchResponse) -> None:
    """Likewise; a consumer may also have named an epoch that is over."""
    image = broker.metadata.image
    nodes: dict[int, Endpoint] = {}
    for topic in response.responses:
        for answer in topic.partitions:
            if answer.error_code in _MOVED and version >= _FETCH_SINCE:
                found = image.topics.get(topic.topic) or image.topics_by_id.get(topic.topic_id)
                if (state := _state(found, answer.partition_index)) is not None:
                    answer.current_leader.leader_id = state.leader
                    answer.current_leader.leader_epoch = state.leader_epoch
                    _add(nodes, broker, context, state.leader)
    response.node_endpoints += [
        fetch.NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in nodes.values()
    ]


def _state(topic: TopicState | None, partition: int) -> PartitionState | None:
    return topic.partitions[partition] if topic is not None and 0 <= partition < len(topic.partitions) else None


def _add(nodes: dict[int, Endpoint], broker: Broker, context: Context, broker_id: int) -> None:
    found = endpoint(broker, context, broker_id)
    if found is not None:
        nodes[broker_id] = found
