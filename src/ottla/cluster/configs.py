"""Decisions about dynamic configuration: the writes that change the settings of a topic, broker or group."""

from collections.abc import Mapping

from ottla.cluster import znodes
from ottla.cluster.image import ClusterImage, Entity, EntityType
from ottla.cluster.topics import find_topic
from ottla.store.interface import Check, Create, Delete, Op, Set


def replace_configs(image: ClusterImage, entity: Entity, values: Mapping[str, str]) -> list[Op]:
    """Replace all settings of the entity by these values, which the caller has validated.

    To change some of the values, the caller takes the others from the image. A conflict means that another broker has
    changed them. As in Kafka, a topic without settings keeps its node, and other entities without settings have none.
    """
    path = znodes.config_path(entity.type, entity.name)
    ops: list[Op] = []
    if entity.type is EntityType.TOPIC:
        find_topic(image, entity.name)
        ops.append(Check(znodes.topic_path(entity.name)))
    state = image.configs.get(entity)
    if state is None:
        return [*ops, Create(path, znodes.encode_config(values))] if values else ops
    if not values and entity.type is not EntityType.TOPIC:
        return [*ops, Delete(path, state.version)]
    return [*ops, Set(path, znodes.encode_config(values), state.version)]
