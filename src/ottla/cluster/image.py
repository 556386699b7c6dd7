"""The cluster as one broker sees it: an immutable picture of the nodes in the store, with direct lookups."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from ottla.cluster import znodes
from ottla.cluster.znodes import NO_LEADER, Endpoint, InvalidZnodeError
from ottla.model import NO_LEADER_EPOCH, TopicId
from ottla.store.interface import Changes, Node

K = TypeVar("K")
V = TypeVar("V")

NO_CONTROLLER = -1
NO_VERSION = -1

IMAGE_PREFIXES = ("/brokers", "/config", "/controller", "/controller_epoch", "/cluster", "/admin")
"""What an image is made of: the prefixes to read and to watch."""


class Broker(NamedTuple):
    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    epoch: int
    """Grows with every registration, so a restarted broker can be told from its former self."""

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


class PartitionState(NamedTuple):
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    """The first one is the preferred leader."""
    isr: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    controller_epoch: int
    """Of the controller that made the last change."""
    version: int
    """Of the state node, for compare-and-set; Kafka calls it the partition epoch. NO_VERSION: there is no node yet."""


class TopicState(NamedTuple):
    name: str
    topic_id: TopicId
    partitions: tuple[PartitionState, ...]
    """By partition number, without gaps."""
    version: int
    """Of the topic node, for compare-and-set."""


class EntityType(StrEnum):
    """What a configuration belongs to, by the name of its folder under `/config`."""

    TOPIC = "topics"
    BROKER = "brokers"
    GROUP = "groups"
    CLIENT_METRICS = "client-metrics"


class Entity(NamedTuple):
    type: EntityType
    name: str


DEFAULT_BROKER = Entity(EntityType.BROKER, znodes.DEFAULT_ENTITY)
"""Holds the dynamic settings of all brokers."""


class ConfigState(NamedTuple):
    values: Mapping[str, str]
    version: int


NO_CONFIG: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ClusterImage:
    revision: int = 0
    """Of the store, as of which this is the cluster; 0 means that nothing was read."""
    cluster_id: str | None = None
    controller_id: int = NO_CONTROLLER
    controller_epoch: int = 0
    controller_epoch_version: int = NO_VERSION
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    topics_by_id: Mapping[TopicId, TopicState] = field(default_factory=dict)
    configs: Mapping[Entity, ConfigState] = field(default_factory=dict)
    topics_to_delete: frozenset[str] = frozenset()
    """Topics that a tool marked for the controller to delete."""
    strays: Mapping[str, Mapping[int, PartitionState]] = field(default_factory=dict)
    """States of partitions that their topic does not list yet: nodes may become visible in any order."""

    def topic_by_id(self, topic_id: TopicId) -> TopicState | None:
        return self.topics_by_id.get(topic_id)

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        state = self.topics.get(topic)
        if state is None or not 0 <= partition < len(state.partitions):
            return None
        return state.partitions[partition]

    def config(self, entity: Entity) -> Mapping[str, str]:
        state = self.configs.get(entity)
        return NO_CONFIG if state is None else state.values

    def topic_config(self, topic: str) -> Mapping[str, str]:
        return self.config(Entity(EntityType.TOPIC, topic))

    def broker_config(self, broker_id: int) -> Mapping[str, str]:
        return self.config(Entity(EntityType.BROKER, str(broker_id)))

    def default_broker_config(self) -> Mapping[str, str]:
        return self.config(DEFAULT_BROKER)

    def without_leader(self, broker_id: int) -> "ClusterImage":
        """The image as a broker must act on it that may have been given up: it leads nothing."""
        led = [topic for topic in self.topics.values() if any(it.leader == broker_id for it in topic.partitions)]
        topics, by_id = dict(self.topics), dict(self.topics_by_id)
        for topic in led:
            topics[topic.name] = by_id[topic.topic_id] = topic._replace(
                partitions=tuple(
                    state._replace(leader=NO_LEADER) if state.leader == broker_id else state
                    for state in topic.partitions
                )
            )
        return replace(self, topics=topics, topics_by_id=by_id)

    def advanced(self, changes: Changes) -> "ClusterImage":
        """The image after what `Store.read_changes(image.revision, *IMAGE_PREFIXES)` returned."""
        base = ClusterImage() if changes.complete else self
        return replace(base.updated(changes.nodes), revision=changes.revision)

    def updated(self, nodes: Mapping[str, Node | None]) -> "ClusterImage":
        """The image after these nodes changed (None: is gone). Untouched topics are shared, not rebuilt."""
        return _Update(self).applied(nodes)


def image_from_tree(nodes: Mapping[str, Node], revision: int = 0) -> ClusterImage:
    return replace(ClusterImage().updated(nodes), revision=revision)


class _Update:
    """Sorts changed nodes by what they describe; only the parts of the image that change are copied."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._brokers: dict[int, Node | None] = {}
        self._topics: dict[str, Node | None] = {}
        self._states: dict[str, dict[int, Node | None]] = {}
        self._configs: dict[Entity, Node | None] = {}
        self._marks: dict[str, bool] = {}

    def applied(self, nodes: Mapping[str, Node | None]) -> ClusterImage:
        for path, node in nodes.items():
            self._sort(path, node)
        image = self._with_singles(nodes)
        if self._brokers:
            image = replace(image, brokers=_merged(image.brokers, self._brokers, _broker))
        if self._configs:
            image = replace(image, configs=_merged(image.configs, self._configs, _config))
        if self._marks:
            gone = {topic for topic, marked in self._marks.items() if not marked}
            marked = image.topics_to_delete - gone | (self._marks.keys() - gone)
            image = replace(image, topics_to_delete=marked)
        return self._with_topics(image) if self._topics or self._states else image

    def _sort(self, path: str, node: Node | None) -> None:
        match path.split("/"):
            case ["", "brokers", "topics", topic]:
                self._topics[topic] = node
            case ["", "brokers", "topics", topic, "partitions", partition, "state"] if partition.isdecimal():
                self._states.setdefault(topic, {})[int(partition)] = node
            case ["", "brokers", "ids", broker_id] if broker_id.isdecimal():
                self._brokers[int(broker_id)] = node
            case ["", "config", entity_type, name] if entity_type in _ENTITY_TYPES:
                self._configs[Entity(_ENTITY_TYPES[entity_type], znodes.decode_name(name))] = node
            case ["", "admin", "delete_topics", topic]:
                self._marks[topic] = node is not None

    def _with_singles(self, nodes: Mapping[str, Node | None]) -> ClusterImage:
        image = self._image
        if (path := znodes.CLUSTER_ID) in nodes:
            node = nodes[path]
            cluster_id = None if node is None else _read(path, znodes.decode_cluster_id, node)
            image = replace(image, cluster_id=cluster_id)
        if (path := znodes.CONTROLLER) in nodes:
            node = nodes[path]
            controller_id = NO_CONTROLLER if node is None else _read(path, znodes.decode_controller, node)
            image = replace(image, controller_id=controller_id)
        if (path := znodes.CONTROLLER_EPOCH) in nodes:
            node = nodes[path]
            epoch = 0 if node is None else _read(path, znodes.decode_controller_epoch, node)
            version = NO_VERSION if node is None else node.version
            image = replace(image, controller_epoch=epoch, controller_epoch_version=version)
        return image

    def _with_topics(self, image: ClusterImage) -> ClusterImage:
        topics, by_id, strays = dict(image.topics), dict(image.topics_by_id), dict(image.strays)
        for name in dict.fromkeys([*self._topics, *self._states]):
            old = topics.pop(name, None)
            if old is not None:
                del by_id[old.topic_id]
            new, loose = self._topic(name, old, strays.pop(name, {}))
            if loose:
                strays[name] = loose
            if new is not None:
                topics[name] = by_id[new.topic_id] = new
        return replace(image, topics=topics, topics_by_id=by_id, strays=strays)

    def _topic(
        self, name: str, old: TopicState | None, strays: Mapping[int, PartitionState]
    ) -> tuple[TopicState | None, dict[int, PartitionState]]:
        partitions = [] if old is None else list(old.partitions)
        loose = dict(strays)
        for partition, node in self._states.get(name, {}).items():
            path = znodes.partition_state_path(name, partition)
            if partition < len(partitions):
                partitions[partition] = _with_state(partitions[partition], path, node)
            elif node is None:
                loose.pop(partition, None)
            else:
                loose[partition] = _with_state(_new_partition(partition), path, node)
        if name not in self._topics:
            return (None if old is None else old._replace(partitions=tuple(partitions))), loose
        loose.update((state.partition, state) for state in partitions if state.version != NO_VERSION)
        return _assigned(name, self._topics[name], loose)


def _assigned(
    name: str, node: Node | None, states: dict[int, PartitionState]
) -> tuple[TopicState | None, dict[int, PartitionState]]:
    """The topic as its node lists the partitions, and the states that this leaves without a place."""
    topic = None
    if node is not None:
        listed = _read(znodes.topic_path(name), znodes.decode_topic, node)
        partitions = tuple(
            states.pop(partition, _new_partition(partition))._replace(
                replicas=listed.partitions[partition],
                adding_replicas=listed.adding_replicas.get(partition, ()),
                removing_replicas=listed.removing_replicas.get(partition, ()),
            )
            for partition in range(len(listed.partitions))
        )
        topic = TopicState(name, listed.topic_id, partitions, node.version)
    unlisted = {
        partition: state._replace(replicas=(), adding_replicas=(), removing_replicas=())
        for partition, state in states.items()
    }
    return topic, unlisted


def _new_partition(partition: int) -> PartitionState:
    return PartitionState(partition, NO_LEADER, NO_LEADER_EPOCH, (), (), (), (), 0, NO_VERSION)


def _with_state(partition: PartitionState, path: str, node: Node | None) -> PartitionState:
    if node is None:
        return partition._replace(
            leader=NO_LEADER, leader_epoch=NO_LEADER_EPOCH, isr=(), controller_epoch=0, version=NO_VERSION
        )
    leader, leader_epoch, isr, controller_epoch = _read(path, znodes.decode_partition_state, node)
    _, _, _, replicas, _, adding, removing, _, _ = partition
    return PartitionState(
        partition.partition, leader, leader_epoch, replicas, isr, adding, removing, controller_epoch, node.version
    )


def _broker(broker_id: int, node: Node) -> Broker:
    broker = _read(znodes.broker_path(broker_id), znodes.decode_broker, node)
    return Broker(broker_id, broker.endpoints, broker.rack, node.created)


def _config(entity: Entity, node: Node) -> ConfigState:
    values = _read(znodes.config_path(entity.type, entity.name), znodes.decode_config, node)
    return ConfigState(MappingProxyType(values), node.version)


def _merged(old: Mapping[K, V], changed: Mapping[K, Node | None], read: Callable[[K, Node], V]) -> dict[K, V]:
    merged = dict(old)
    for key, node in changed.items():
        if node is None:
            merged.pop(key, None)
        else:
            merged[key] = read(key, node)
    return merged


def _read(path: str, reader: Callable[[bytes], V], node: Node) -> V:
    try:
        return reader(node.data)
    except InvalidZnodeError as error:
        raise InvalidZnodeError(f"{path} is {error}") from error


_ENTITY_TYPES = {entity_type.value: entity_type for entity_type in EntityType}
