"""ListConfigResources (74), versions 0-1: the resources that have settings. Version 0 lists client metrics only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cluster.image import EntityType
from ottla.errors import ErrorCode
from ottla.wire.api.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange, Reply

_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
_SUPPORTED = (_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP)


def handle(broker: Broker, exchange: Exchange, request: ListConfigResourcesRequest) -> Reply:
    types = [_CLIENT_METRICS] if exchange.api_version == 0 else request.resource_types or list(_SUPPORTED)
    if not set(types) <= set(_SUPPORTED):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=resource_type)
            for resource_type in dict.fromkeys(types)
            for name in _names(broker, resource_type)
        ]
    )


def _names(broker: Broker, resource_type: int) -> list[str]:
    image = broker.metadata.image
    if resource_type == _TOPIC:
        return list(image.topics)
    if resource_type in (_BROKER, _BROKER_LOGGER):
        return [str(broker_id) for broker_id in image.brokers]
    entity_type = EntityType.GROUP if resource_type == _GROUP else EntityType.CLIENT_METRICS
    return [entity.name for entity in image.configs if entity.type is entity_type]
