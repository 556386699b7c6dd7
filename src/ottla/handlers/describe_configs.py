"""DescribeConfigs (32), versions 1-4: the settings of a topic, broker or group, and their sources."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.cluster.topic_names import check_topic_name
from ottla.config.alter import BROKER_TYPE, TOPIC_TYPE, Resource, resource_of
from ottla.config.describe import (
    ConfigEntry,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.config_entities import entity_of
from ottla.handlers.yielding import yielding
from ottla.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


_MAX_RESOURCES = 10_000
_MAX_UNSTORED = 1_000
"""Bounds the reply: a group or a client metrics subscription is described whether it exists or not, with 2.5 kB for a
name of a few bytes. Topics and brokers have to exist."""


async def handle(broker: Broker, exchange: Exchange, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    wanted = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    unstored = sum(resource_type not in (TOPIC_TYPE, BROKER_TYPE) for resource_type, _ in wanted)
    limit = _MAX_UNSTORED if unstored > _MAX_UNSTORED else _MAX_RESOURCES
    if len(wanted) > limit:
        return DescribeConfigsResponse(results=[_too_many(resource, limit) for resource in wanted.values()])
    resources = yielding(broker.clock, wanted.values())
    return DescribeConfigsResponse(results=[_describe(broker, resource, request) async for resource in resources])


def _too_many(resource: DescribeConfigsResource, limit: int) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"a request may have at most {limit} resources",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _describe(
    broker: Broker, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, error_message=None
    )
    try:
        entries = _entries(broker, resource, resource.configuration_keys or ())
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    result.configs = [_result(entry, request) for entry in entries]
    return result


def _entries(broker: Broker, resource: DescribeConfigsResource, names: Collection[str]) -> list[ConfigEntry]:
    if resource.resource_type == TOPIC_TYPE:
        check_topic_name(resource.resource_name)
    kind = resource_of(resource.resource_type, resource.resource_name, broker.id)
    image, config = broker.metadata.image, broker.config
    overrides = image.config(entity_of(kind, resource.resource_name))
    if kind is Resource.TOPIC:
        if resource.resource_name not in image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {resource.resource_name!r}")
        return describe_topic(config, overrides, names)
    if kind is Resource.GROUP:
        return describe_group(config, overrides, names)
    if kind is Resource.CLIENT_METRICS:
        return describe_client_metrics(overrides, names)
    return describe_broker(config, names) if kind is Resource.BROKER else describe_broker_default(config, names)


def _result(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in synonyms],
        config_type=entry.kind,
        documentation=entry.documentation if request.include_documentation else None,
    )
