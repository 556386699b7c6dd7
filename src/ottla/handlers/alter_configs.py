"""AlterConfigs (33), versions 0-2: replace all settings of a resource. Newer clients use IncrementalAlterConfigs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.alter import apply_full
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.config_entities import DUPLICATE, alter, duplicates
from ottla.handlers.yielding import yielding
from ottla.wire.api.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(broker: Broker, exchange: Exchange, request: AlterConfigsRequest) -> AlterConfigsResponse:
    twice = duplicates((resource.resource_type, resource.resource_name) for resource in request.resources)
    return AlterConfigsResponse(
        responses=[
            _response(resource, DUPLICATE)
            if (resource.resource_type, resource.resource_name) in twice
            else await _alter(broker, resource, request.validate_only)
            async for resource in yielding(broker.clock, request.resources)
        ]
    )


async def _alter(broker: Broker, wanted: AlterConfigsResource, validate_only: bool) -> AlterConfigsResourceResponse:
    values = [(config.name, config.value) for config in wanted.configs]
    refusal = await alter(
        broker,
        wanted.resource_type,
        wanted.resource_name,
        lambda resource, _: apply_full(resource, broker.config, values),
        validate_only,
    )
    return _response(wanted, refusal)


def _response(wanted: AlterConfigsResource, refusal: KafkaError | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
        resource_type=wanted.resource_type,
        resource_name=wanted.resource_name,
    )
