"""Map the config resources of the protocol to the entities of the cluster image, and change their settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.cluster.image import DEFAULT_BROKER, Entity, EntityType
from ottla.cluster.topic_names import check_topic_name
from ottla.config.alter import Resource, resource_of
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.handlers.context import Broker

_TYPES = {
    Resource.TOPIC: EntityType.TOPIC,
    Resource.BROKER: EntityType.BROKER,
    Resource.GROUP: EntityType.GROUP,
    Resource.CLIENT_METRICS: EntityType.CLIENT_METRICS,
}


def entity_of(resource: Resource, name: str) -> Entity:
    return DEFAULT_BROKER if resource is Resource.BROKER_DEFAULT else Entity(_TYPES[resource], name)


def duplicates(resources: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """The resources (type and name) that a request has more than once. The handler rejects them."""
    return {resource for resource, count in Counter(resources).items() if count > 1}


DUPLICATE = KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


async def alter(
    broker: Broker,
    type_id: int,
    name: str,
    change: Callable[[Resource, Mapping[str, str]], Mapping[str, str]],
    validate_only: bool,
) -> KafkaError | None:
    """Change the settings of one resource. Returns the error, or None on success."""
    try:
        resource = resource_of(type_id, name, broker.id)
        if resource is Resource.CLIENT_METRICS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "this broker collects no metrics from clients")
        if resource is Resource.TOPIC:
            check_topic_name(name)
        await broker.metadata.set_overrides(
            entity_of(resource, name), lambda current: change(resource, current), validate_only=validate_only
        )
    except KafkaError as error:
        return error
    return None
