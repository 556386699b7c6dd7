"""Decisions about dynamic configuration: what to write when the settings of a topic, broker or group change."""

from collections.abc import Mapping

from ottla.cluster import znodes
from ottla.cluster.image import ClusterImage, Entity, EntityType
from ottla.cluster.topics import find_topic
from ottla.store.interface import Check, Create, Delete, Op, Set


def replace_configs(image: ClusterImage, entity: Entity, values: Mapping[str, str]) -> list[Op]:
    """Make these values all that is set for the entity.

    They must have been validated, and follow from the image when only some of them change: a conflict then tells that
    somebody else changed the others. A topic keeps its node, as Kafka's do; others without settings have none.
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
