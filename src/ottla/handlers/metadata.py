"""Metadata (3), versions 0-13: brokers, topics and the leaders of their partitions.

In version 0 an empty list of topics means all topics. From version 4 on, the client can forbid auto-creation. From
version 12 on, it can request topics by id. Versions 10 and 11 have the id, but their reply requires the name. Version 0
omits replicas that the client cannot reach. Later versions list all replicas, and from version 5 on the offline ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cluster.topic_names import check_topic_name
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.availability import availability
from ottla.handlers.endpoints import endpoints
from ottla.handlers.operations import NOT_ASKED, ON_CLUSTER, ON_TOPICS
from ottla.handlers.yielding import yielding
from ottla.model import INTERNAL_TOPICS, METADATA_TOPIC, ZERO_TOPIC_ID, TopicId
from ottla.wire.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ottla.cluster.image import PartitionState, TopicState
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange, Reply

    _Found = TopicState | MetadataResponseTopic
    """A topic, or the error for a topic that does not exist."""


_PARTITIONS_AT_ONCE = 1000
"""A reply with more partitions is built in turns."""

_TOPIC_IDS_SINCE = 12
_LISTENER_NOT_FOUND_SINCE = 6


def handle(broker: Broker, exchange: Exchange, request: MetadataRequest) -> Reply:
    if request.topics is None or (exchange.api_version == 0 and not request.topics):
        return _respond(broker, exchange, request, list(broker.metadata.image.topics.values()))
    if exchange.api_version < _TOPIC_IDS_SINCE and not all(map(_is_by_name, request.topics)):
        return _refusal(request.topics)
    wanted = _distinct(request.topics)
    missing = _to_create(broker, request, wanted)
    if missing:
        return _create_and_answer(broker, exchange, request, wanted, missing)
    return _respond(broker, exchange, request, [_find(broker, topic) for topic in wanted])


def _distinct(topics: list[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    """Each topic once, as in Kafka. This bounds the reply: a description is much longer than a name."""
    by_key = {topic.name if topic.topic_id == ZERO_TOPIC_ID else topic.topic_id: topic for topic in topics}
    return list(by_key.values())


def _is_by_name(topic: MetadataRequestTopic) -> bool:
    return topic.name is not None and topic.topic_id == ZERO_TOPIC_ID


def _refusal(topics: list[MetadataRequestTopic]) -> MetadataResponse:
    """INVALID_REQUEST for every topic. As in Apache Kafka, such a response names no broker."""
    return MetadataResponse(
        cluster_id=None,
        controller_id=-1,
        topics=[
            MetadataResponseTopic(name=topic.name or "", topic_id=topic.topic_id, error_code=ErrorCode.INVALID_REQUEST)
            for topic in topics
        ],
    )


def _to_create(broker: Broker, request: MetadataRequest, wanted: list[MetadataRequestTopic]) -> list[str]:
    if not request.allow_auto_topic_creation or not broker.config.boolean("auto.create.topics.enable"):
        return []
    present = {*broker.metadata.image.topics, METADATA_TOPIC}
    return [
        topic.name for topic in wanted if topic.name and topic.topic_id == ZERO_TOPIC_ID and topic.name not in present
    ]


async def _create_and_answer(
    broker: Broker,
    exchange: Exchange,
    request: MetadataRequest,
    wanted: list[MetadataRequestTopic],
    missing: list[str],
) -> MetadataResponse:
    refused: dict[str, KafkaError] = {}
    async for name in yielding(broker.clock, missing):
        try:
            await broker.metadata.create_topic_automatically(name)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                refused[name] = error
    found = [
        MetadataResponseTopic(name=topic.name, error_code=refused[topic.name].code)
        if topic.name in refused
        else _find(broker, topic)
        for topic in wanted
    ]
    return await _respond_in_turns(broker, exchange, request, found)


def _find(broker: Broker, wanted: MetadataRequestTopic) -> _Found:
    image = broker.metadata.image
    if wanted.topic_id != ZERO_TOPIC_ID:
        found = image.topic_by_id(TopicId(wanted.topic_id))
        if found is None:
            return MetadataResponseTopic(name=None, topic_id=wanted.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
        return found
    name = wanted.name or ""
    found = image.topics.get(name)
    if found is not None:
        return found
    try:
        check_topic_name(name)
    except KafkaError as error:
        return MetadataResponseTopic(name=name, error_code=error.code)
    return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _respond(broker: Broker, exchange: Exchange, request: MetadataRequest, found: Sequence[_Found]) -> Reply:
    if sum(len(topic.partitions) for topic in found) > _PARTITIONS_AT_ONCE:
        return _respond_in_turns(broker, exchange, request, found)
    response = _response(broker, exchange, request, found)
    for topic, partition in _partitions(broker, exchange, response, found):
        topic.partitions.append(partition)
    return response


async def _respond_in_turns(
    broker: Broker, exchange: Exchange, request: MetadataRequest, found: Sequence[_Found]
) -> MetadataResponse:
    """The image may change meanwhile. The whole response is of the image at the start."""
    response = _response(broker, exchange, request, found)
    async for topic, partition in yielding(broker.clock, _partitions(broker, exchange, response, found)):
        topic.partitions.append(partition)
    return response


def _partitions(
    broker: Broker, exchange: Exchange, response: MetadataResponse, found: Sequence[_Found]
) -> Iterator[tuple[MetadataResponseTopic, MetadataResponsePartition]]:
    """Each partition with its topic in the response. Brokers without the client's listener are not reachable."""
    alive = broker.metadata.image.brokers
    reachable = {node.node_id for node in response.brokers}
    version = exchange.api_version
    for answer, topic in zip(response.topics, found, strict=True):
        if not isinstance(topic, MetadataResponseTopic):
            for state in topic.partitions:
                yield answer, _partition(state, reachable, alive, version)


def _partition(
    state: PartitionState, reachable: Collection[int], alive: Collection[int], version: int
) -> MetadataResponsePartition:
    error_code, leader, offline = availability(state, reachable, alive)
    replicas, isr = list(state.replicas), list(state.isr)
    if error_code is ErrorCode.LISTENER_NOT_FOUND and version < _LISTENER_NOT_FOUND_SINCE:
        error_code = ErrorCode.LEADER_NOT_AVAILABLE
    if version == 0 and offline:
        replicas = [replica for replica in replicas if replica in reachable]
        isr = [replica for replica in isr if replica in reachable]
        error_code = error_code or ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error_code,
        partition_index=state.partition,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )


def _response(
    broker: Broker, exchange: Exchange, request: MetadataRequest, found: Sequence[_Found]
) -> MetadataResponse:
    """The response without partitions."""
    topics = [topic if isinstance(topic, MetadataResponseTopic) else _without_partitions(topic) for topic in found]
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_ID:  # Authorized operations need a topic name.
                topic.topic_authorized_operations = ON_TOPICS
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in endpoints(broker, exchange)
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.metadata.controller_for_clients,
        topics=topics,
        cluster_authorized_operations=ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED,
    )


def _without_partitions(topic: TopicState) -> MetadataResponseTopic:
    return MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id, is_internal=topic.name in INTERNAL_TOPICS)
