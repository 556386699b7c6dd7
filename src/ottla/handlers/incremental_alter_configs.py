"""IncrementalAlterConfigs (44), versions 0-1: set, delete, append to or subtract from single settings (KIP-339)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.config.alter import apply_incremental
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.config_entities import DUPLICATE, alter, duplicates
from ottla.handlers.yielding import yielding
from ottla.wire.api.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(
    broker: Broker, exchange: Exchange, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    twice = duplicates((resource.resource_type, resource.resource_name) for resource in request.resources)
    return IncrementalAlterConfigsResponse(
        responses=[
            _response(resource, DUPLICATE)
            if (resource.resource_type, resource.resource_name) in twice
            else await _alter(broker, resource, request.validate_only)
            async for resource in yielding(broker.clock, request.resources)
        ]
    )


async def _alter(broker: Broker, wanted: AlterConfigsResource, validate_only: bool) -> AlterConfigsResourceResponse:
    operations = [(config.name, config.config_operation, config.value) for config in wanted.configs]
    refusal = await alter(
        broker,
        wanted.resource_type,
        wanted.resource_name,
        lambda resource, current: apply_incremental(resource, broker.config, current, operations),
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
