"""The cluster image of one broker: an immutable copy of the nodes in the store, with direct lookups."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from ottla.cluster import znodes
from ottla.cluster.topic_names import check_topic_name
from ottla.cluster.znodes import NO_LEADER, Endpoint, InvalidZnodeError, PartitionStateZnode, TopicZnode
from ottla.errors import KafkaError
from ottla.model import NO_LEADER_EPOCH, BrokerEpoch, ControllerEpoch, LeaderEpoch, TopicId
from ottla.store.interface import Changes, Node

K = TypeVar("K")
V = TypeVar("V")

NO_CONTROLLER = -1
NO_CONTROLLER_EPOCH = ControllerEpoch(0)
NO_VERSION = -1
UNKNOWN_VERSION = -2
"""The version of a damaged node that may have had values which this broker has not read. No broker may overwrite such a
node with a decision that is based on the last good value."""

IMAGE_PREFIXES = ("/brokers", "/config", "/controller", "/controller_epoch", "/cluster", "/admin")
"""The prefixes to read and to watch for an image."""


class Broker(NamedTuple):
    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    epoch: BrokerEpoch

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


class PartitionState(NamedTuple):
    partition: int
    leader: int
    leader_epoch: LeaderEpoch
    replicas: tuple[int, ...]
    """The first one is the preferred leader."""
    isr: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    controller_epoch: ControllerEpoch
    """The epoch of the controller that made the last change."""
    version: int
    """The version of the state node, for compare-and-set. Kafka calls it the partition epoch. NO_VERSION: there is no
    node yet. UNKNOWN_VERSION: the node is damaged, and no decision may be made about the partition."""


class TopicState(NamedTuple):
    name: str
    topic_id: TopicId
    partitions: tuple[PartitionState, ...]
    """By partition number, without gaps."""
    version: int
    """The version of the topic node, for compare-and-set."""


class EntityType(StrEnum):
    """The types of entities that have settings. The values are the folders under `/config`."""

    TOPIC = "topics"
    BROKER = "brokers"
    GROUP = "groups"
    CLIENT_METRICS = "client-metrics"


class Entity(NamedTuple):
    type: EntityType
    name: str


DEFAULT_BROKER = Entity(EntityType.BROKER, znodes.DEFAULT_ENTITY)
"""The entity with the dynamic settings of all brokers."""


class ConfigState(NamedTuple):
    values: Mapping[str, str]
    version: int


NO_CONFIG: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ClusterImage:
    revision: int = 0
    """The revision of the store that was read; 0 if nothing was read."""
    cluster_id: str | None = None
    controller_id: int = NO_CONTROLLER
    controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
    controller_epoch_version: int = NO_VERSION
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    topics_by_id: Mapping[TopicId, TopicState] = field(default_factory=dict)
    configs: Mapping[Entity, ConfigState] = field(default_factory=dict)
    topics_to_delete: frozenset[str] = frozenset()
    """Topics that a tool marked for the controller to delete."""
    strays: Mapping[str, Mapping[int, PartitionState]] = field(default_factory=dict)
    """States of partitions that the topic node does not list yet. Nodes may become visible in any order."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """The nodes that do not parse, by path, with the reason. The image has the last good value of each, if any."""

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
        """The image for a broker that has lost its session: it leads nothing."""
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
        """The image with the changes that `Store.read_changes(image.revision, *IMAGE_PREFIXES)` returned."""
        base = ClusterImage() if changes.complete else self
        return replace(_Update(base, last_good=self).applied(changes.nodes), revision=changes.revision)

    def updated(self, nodes: Mapping[str, Node | None]) -> "ClusterImage":
        """The image with these nodes changed (None: deleted). Both images share the topics that did not change."""
        return _Update(self, last_good=self).applied(nodes)


def image_from_tree(nodes: Mapping[str, Node], revision: int = 0) -> ClusterImage:
    return replace(ClusterImage().updated(nodes), revision=revision)


class _Update:
    """Sorts changed nodes by type, and copies only the parts of the image that change.

    Each node is parsed by itself. A node that does not parse keeps its value of `last_good` and is listed as damaged.
    """

    def __init__(self, image: ClusterImage, last_good: ClusterImage) -> None:
        self._image = image
        self._last_good = last_good
        self._brokers: dict[int, Node | None] = {}
        self._topics: dict[str, Node | None] = {}
        self._states: dict[str, dict[int, Node | None]] = {}
        self._configs: dict[Entity, Node | None] = {}
        self._marks: dict[str, bool] = {}
        self._damaged: dict[str, str] = {}

    def applied(self, nodes: Mapping[str, Node | None]) -> ClusterImage:
        for path, node in nodes.items():
            self._sort(path, node)
        image = self._with_singles(nodes)
        if self._brokers:
            image = replace(image, brokers=_merged(image.brokers, self._brokers, self._broker))
        if self._configs:
            image = replace(image, configs=_merged(image.configs, self._configs, self._config))
        if self._marks:
            gone = {topic for topic, marked in self._marks.items() if not marked}
            marked = image.topics_to_delete - gone | (self._marks.keys() - gone)
            image = replace(image, topics_to_delete=marked)
        if self._topics or self._states:
            image = self._with_topics(image)
        return self._with_damage(image, nodes)

    def _with_damage(self, image: ClusterImage, nodes: Mapping[str, Node | None]) -> ClusterImage:
        unchanged = {path: reason for path, reason in image.damaged.items() if path not in nodes}
        if not self._damaged and len(unchanged) == len(image.damaged):
            return image
        return replace(image, damaged=unchanged | self._damaged)

    def _sort(self, path: str, node: Node | None) -> None:
        match path.split("/"):
            case ["", "brokers", "topics", topic]:
                self._topics[topic] = node
            case ["", "brokers", "topics", topic, "partitions", partition, "state"] if _is_number(partition):
                self._states.setdefault(topic, {})[int(partition)] = node
            case ["", "brokers", "ids", broker_id] if _is_number(broker_id):
                self._brokers[int(broker_id)] = node
            case ["", "config", entity_type, name] if entity_type in _ENTITY_TYPES:
                self._sort_config(path, EntityType(entity_type), name, node)
            case ["", "admin", "delete_topics", topic]:
                self._marks[topic] = node is not None

    def _sort_config(self, path: str, entity_type: EntityType, name: str, node: Node | None) -> None:
        try:
            self._configs[Entity(entity_type, znodes.decode_name(name))] = node
        except InvalidZnodeError as error:
            if node is not None:
                self._damaged[path] = str(error)

    def _read(self, path: str, reader: Callable[[bytes], V], node: Node) -> V | None:
        """The value of the node; None if it does not parse."""
        try:
            return reader(node.data)
        except InvalidZnodeError as error:
            self._damaged[path] = str(error)
            return None

    def _with_singles(self, nodes: Mapping[str, Node | None]) -> ClusterImage:
        image, last_good = self._image, self._last_good
        if (path := znodes.CLUSTER_ID) in nodes:
            node = nodes[path]
            cluster_id = None if node is None else self._read(path, znodes.decode_cluster_id, node)
            image = replace(image, cluster_id=last_good.cluster_id if path in self._damaged else cluster_id)
        if (path := znodes.CONTROLLER) in nodes:
            node = nodes[path]
            controller_id = None if node is None else self._read(path, znodes.decode_controller, node)
            if controller_id is None:
                # A damaged node that no session owns belongs to no living controller.
                owned = node is not None and node.owner is not None
                controller_id = last_good.controller_id if owned else NO_CONTROLLER
            image = replace(image, controller_id=controller_id)
        if (path := znodes.CONTROLLER_EPOCH) in nodes:
            node = nodes[path]
            epoch = NO_CONTROLLER_EPOCH if node is None else self._read(path, znodes.decode_controller_epoch, node)
            version = NO_VERSION if node is None else node.version
            # The next election writes the epoch after the last good one, which repairs the node.
            epoch = last_good.controller_epoch if epoch is None else epoch
            image = replace(image, controller_epoch=epoch, controller_epoch_version=version)
        return image

    def _broker(self, broker_id: int, node: Node) -> Broker | None:
        broker = self._read(znodes.broker_path(broker_id), znodes.decode_broker, node)
        if broker is not None:
            return Broker(broker_id, broker.endpoints, broker.rack, BrokerEpoch(node.created))
        known = self._last_good.brokers.get(broker_id)
        return None if known is None else known._replace(epoch=BrokerEpoch(node.created))

    def _config(self, entity: Entity, node: Node) -> ConfigState:
        """A damaged node keeps its version, so that the next change of the settings overwrites and repairs it."""
        path = znodes.config_path(entity.type, entity.name)
        values = self._read(path, znodes.decode_config, node)
        if values is None:
            return ConfigState(self._last_good.config(entity), node.version)
        return ConfigState(MappingProxyType(values), node.version)

    def _with_topics(self, image: ClusterImage) -> ClusterImage:
        topics, by_id, strays = dict(image.topics), dict(image.topics_by_id), dict(image.strays)
        changed = {name: topics.pop(name, None) for name in dict.fromkeys([*self._topics, *self._states])}
        for old in changed.values():
            if old is not None:
                del by_id[old.topic_id]
        for name, old in changed.items():
            new, loose = self._topic(name, old, strays.pop(name, {}))
            if loose:
                strays[name] = loose
            if new is not None and new.topic_id in by_id:
                self._damaged[znodes.topic_path(name)] = f"it has the topic id of {by_id[new.topic_id].name}"
            elif new is not None:
                topics[name] = by_id[new.topic_id] = new
        return replace(image, topics=topics, topics_by_id=by_id, strays=strays)

    def _topic(
        self, name: str, old: TopicState | None, strays: Mapping[int, PartitionState]
    ) -> tuple[TopicState | None, dict[int, PartitionState]]:
        partitions = [] if old is None else list(old.partitions)
        loose = dict(strays)
        for partition, node in self._states.get(name, {}).items():
            if partition < len(partitions):
                partitions[partition] = self._with_state(name, partitions[partition], node)
            elif node is None:
                loose.pop(partition, None)
            else:
                loose[partition] = self._with_state(name, _new_partition(partition), node)
        if name not in self._topics:
            return (None if old is None else old._replace(partitions=tuple(partitions))), loose
        loose.update((state.partition, state) for state in partitions if state.version != NO_VERSION)
        node = self._topics[name]
        return self._assigned(name, None if node is None else self._listed(name, node), loose)

    def _listed(self, name: str, node: Node) -> tuple[TopicZnode, int] | None:
        """The topic's id and assignments, and the version of its node. None if the node never had a good value."""
        path = znodes.topic_path(name)
        listed = self._read(path, znodes.decode_topic, node)
        try:
            check_topic_name(name)
        except KafkaError as error:
            self._damaged[path] = str(error)
        if listed is not None and path not in self._damaged:
            return listed, node.version
        known = self._last_good.topics.get(name)
        return None if known is None else (topic_znode(known), _version_after(known.version, node))

    def _assigned(
        self, name: str, listed: tuple[TopicZnode, int] | None, states: dict[int, PartitionState]
    ) -> tuple[TopicState | None, dict[int, PartitionState]]:
        """The topic with the partitions that its node lists, and the states of partitions that it does not list."""
        topic = None
        if listed is not None:
            znode, version = listed
            partitions = tuple(
                states.pop(partition, _new_partition(partition))._replace(
                    replicas=znode.partitions[partition],
                    adding_replicas=znode.adding_replicas.get(partition, ()),
                    removing_replicas=znode.removing_replicas.get(partition, ()),
                )
                for partition in range(len(znode.partitions))
            )
            topic = TopicState(name, znode.topic_id, partitions, version)
        unlisted = {
            partition: state._replace(replicas=(), adding_replicas=(), removing_replicas=())
            for partition, state in states.items()
        }
        return topic, unlisted

    def _with_state(self, topic: str, partition: PartitionState, node: Node | None) -> PartitionState:
        if node is None:
            return partition._replace(
                leader=NO_LEADER,
                leader_epoch=NO_LEADER_EPOCH,
                isr=(),
                controller_epoch=NO_CONTROLLER_EPOCH,
                version=NO_VERSION,
            )
        number, version = partition.partition, node.version
        state = self._read(znodes.partition_state_path(topic, number), znodes.decode_partition_state, node)
        if state is None:
            known = self._last_good_state(topic, number)
            state = PartitionStateZnode(known.leader, known.leader_epoch, known.isr, known.controller_epoch)
            version = _version_after(known.version, node)
        leader, leader_epoch, isr, controller_epoch = state
        _, _, _, replicas, _, adding, removing, _, _ = partition
        return PartitionState(number, leader, leader_epoch, replicas, isr, adding, removing, controller_epoch, version)

    def _last_good_state(self, topic: str, partition: int) -> PartitionState:
        listed = self._last_good.partition(topic, partition)
        if listed is not None:
            return listed
        return self._last_good.strays.get(topic, {}).get(partition) or _new_partition(partition)


def topic_znode(topic: TopicState) -> TopicZnode:
    return TopicZnode(
        topic.topic_id,
        {state.partition: state.replicas for state in topic.partitions},
        {state.partition: state.adding_replicas for state in topic.partitions if state.adding_replicas},
        {state.partition: state.removing_replicas for state in topic.partitions if state.removing_replicas},
    )


def _new_partition(partition: int) -> PartitionState:
    return PartitionState(partition, NO_LEADER, NO_LEADER_EPOCH, (), (), (), (), NO_CONTROLLER_EPOCH, NO_VERSION)


def _version_after(known: int, damaged: Node) -> int:
    """The version for overwriting a damaged node, if nothing was written between the known value and the damage."""
    follows = known >= 0 and damaged.version in (known, known + 1)
    return damaged.version if follows else UNKNOWN_VERSION


def _is_number(segment: str) -> bool:
    return len(segment) <= _MOST_DIGITS and segment.isdecimal() and segment == str(int(segment))


def _merged(old: Mapping[K, V], changed: Mapping[K, Node | None], read: Callable[[K, Node], V | None]) -> dict[K, V]:
    merged = dict(old)
    for key, node in changed.items():
        value = None if node is None else read(key, node)
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


_ENTITY_TYPES = {entity_type.value for entity_type in EntityType}
_MOST_DIGITS = 10
