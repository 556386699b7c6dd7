"""The nodes of the store: Kafka's ZooKeeper paths and their JSON, with one writer and one reader for each kind.

The keys are in the order in which Kafka's brokers write them. Readers ignore keys that they do not need, so that they
can read newer and older versions of a node. docs/formats/store.md describes the format.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from ottla.model import ControllerEpoch, LeaderEpoch, TopicId, format_topic_id, parse_topic_id

T = TypeVar("T")

BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONFIG = "/config"
CONSUMERS = "/consumers"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
DELETE_TOPICS = "/admin/delete_topics"

BROKER_VERSION = 5
TOPIC_VERSION = 3
PARTITION_STATE_VERSION = 1
CONFIG_VERSION = 1
CONTROLLER_VERSION = 2
CLUSTER_ID_VERSION = "1"
PRODUCER_ID_BLOCK_VERSION = 1

DEFAULT_ENTITY = "<default>"
NO_LEADER = -1


class InvalidZnodeError(ValueError):
    """The data of a node does not parse."""


class Endpoint(NamedTuple):
    listener: str
    host: str
    port: int
    security_protocol: str


class BrokerZnode(NamedTuple):
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    timestamp_ms: int


class TopicZnode(NamedTuple):
    topic_id: TopicId
    partitions: dict[int, tuple[int, ...]]
    adding_replicas: dict[int, tuple[int, ...]]
    removing_replicas: dict[int, tuple[int, ...]]


class PartitionStateZnode(NamedTuple):
    leader: int
    leader_epoch: LeaderEpoch
    isr: tuple[int, ...]
    controller_epoch: ControllerEpoch


class ProducerIdBlock(NamedTuple):
    broker: int
    start: int
    end: int
    """The last id of the block, included."""


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def config_path(entity_type: str, name: str) -> str:
    return f"{CONFIG}/{entity_type}/{encode_name(name)}"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def offset_path(group: str, topic: str, partition: int) -> str:
    return f"{CONSUMERS}/{encode_name(group)}/offsets/{topic}/{partition}"


def encode_name(name: str) -> str:
    """An arbitrary name as one segment of a path. All characters except letters, digits, `-._~` and the angle brackets
    of `<default>` become `%XX`. The empty name and names of dots only, which no path may contain, are escaped too."""
    if not name.strip("."):
        return "%2E" * len(name) or "%"
    if _PLAIN.issuperset(name):
        return name
    return "".join(chr(byte) if chr(byte) in _PLAIN else f"%{byte:02X}" for byte in name.encode())


def decode_name(segment: str) -> str:
    if "%" not in segment:
        return segment
    if segment == "%":
        return ""
    head, *rest = segment.split("%")
    try:
        return (head.encode() + b"".join(_byte(part[:2]) + part[2:].encode() for part in rest)).decode()
    except ValueError as error:
        raise InvalidZnodeError(f"not an encoded name: {segment!r}") from error


def _byte(digits: str) -> bytes:
    if len(digits) != 2:
        raise ValueError("two digits follow a percent sign")
    return bytes.fromhex(digits)


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~<>")


def _reader(kind: str) -> Callable[[Callable[[bytes], T]], Callable[[bytes], T]]:
    """Makes a reader raise InvalidZnodeError, with the kind of the node, for all invalid data."""

    def wrap(read: Callable[[bytes], T]) -> Callable[[bytes], T]:
        @wraps(read)
        def wrapped(data: bytes) -> T:
            try:
                return read(data)
            except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
                raise InvalidZnodeError(f"not a {kind} node: {data[:200]!r} ({error!r})") from error

        return wrapped

    return wrap


def _encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _decode(data: bytes) -> Any:
    value = json.loads(str(data, "utf-8"))
    if b"\\u" in data:
        _encode(value)  # Raises for an unpaired surrogate, which could not be sent to any client.
    return value


def _int32(value: Any) -> int:
    """The protocol sends these numbers as four bytes."""
    number = int(value)
    if not -(2**31) <= number < 2**31:
        raise ValueError("the number does not fit in four bytes")
    return number


def encode_broker(broker: BrokerZnode) -> bytes:
    first = broker.endpoints[0]
    value: dict[str, Any] = {
        "features": {},
        "listener_security_protocol_map": {end.listener: end.security_protocol for end in broker.endpoints},
        "endpoints": [f"{end.listener}://{_bracketed(end.host)}:{end.port}" for end in broker.endpoints],
    }
    if broker.rack is not None:
        value["rack"] = broker.rack
    value.update(jmx_port=-1, port=first.port, host=first.host, version=BROKER_VERSION)
    value["timestamp"] = str(broker.timestamp_ms)
    return _encode(value)


@_reader("broker")
def decode_broker(data: bytes) -> BrokerZnode:
    value = _decode(data)
    protocols = value.get("listener_security_protocol_map", {})
    endpoints = tuple(_endpoint(text, protocols) for text in value["endpoints"])
    if not endpoints:
        raise ValueError("a broker has at least one endpoint")
    rack = value.get("rack")
    return BrokerZnode(endpoints, None if rack is None else str(rack), int(value["timestamp"]))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return Endpoint(listener, host.strip("[]"), _int32(port), str(protocols.get(listener, listener)))


def encode_topic(topic: TopicZnode) -> bytes:
    return _encode(
        {
            "removing_replicas": topic.removing_replicas,
            "partitions": topic.partitions,
            "topic_id": format_topic_id(topic.topic_id),
            "adding_replicas": topic.adding_replicas,
            "version": TOPIC_VERSION,
        }
    )


@_reader("topic")
def decode_topic(data: bytes) -> TopicZnode:
    value = _decode(data)
    partitions = _replicas_by_partition(value["partitions"])
    if not partitions:
        raise ValueError("a topic has at least one partition")
    if not all(partition in partitions for partition in range(len(partitions))):
        raise ValueError("partitions are numbered from 0 without gaps")
    if not all(partitions.values()):
        raise ValueError("a partition has at least one replica")
    return TopicZnode(
        parse_topic_id(value["topic_id"]),
        partitions,
        _replicas_by_partition(value.get("adding_replicas", {})),
        _replicas_by_partition(value.get("removing_replicas", {})),
    )


def _replicas_by_partition(value: Mapping[str, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    return {int(partition): _broker_ids(replicas) for partition, replicas in value.items()}


def _broker_ids(value: Sequence[int]) -> tuple[int, ...]:
    ids = tuple(value)
    if not all(type(broker_id) is int and 0 <= broker_id < 2**31 for broker_id in ids):
        raise ValueError("a broker id is a number of at most four bytes")
    if len(set(ids)) != len(ids):
        raise ValueError("a broker is named twice")
    return ids


def encode_partition_state(state: PartitionStateZnode) -> bytes:
    return _encode(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": PARTITION_STATE_VERSION,
            "leader_epoch": state.leader_epoch,
            "isr": state.isr,
        }
    )


@_reader("partition state")
def decode_partition_state(data: bytes) -> PartitionStateZnode:
    value = _decode(data)
    return PartitionStateZnode(
        _int32(value["leader"]),
        LeaderEpoch(_int32(value["leader_epoch"])),
        _broker_ids(value["isr"]),
        ControllerEpoch(_int32(value["controller_epoch"])),
    )


def encode_config(config: Mapping[str, str]) -> bytes:
    return _encode({"version": CONFIG_VERSION, "config": dict(config)})


@_reader("config")
def decode_config(data: bytes) -> dict[str, str]:
    config = _decode(data)["config"]
    return {str(key): str(value) for key, value in config.items()}


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    return _encode(
        {
            "version": CONTROLLER_VERSION,
            "brokerid": broker_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": -1,
        }
    )


@_reader("controller")
def decode_controller(data: bytes) -> int:
    [broker_id] = _broker_ids([_decode(data)["brokerid"]])
    return broker_id


def encode_controller_epoch(epoch: ControllerEpoch) -> bytes:
    return str(epoch).encode()


@_reader("controller epoch")
def decode_controller_epoch(data: bytes) -> ControllerEpoch:
    return ControllerEpoch(_int32(data))


def encode_cluster_id(cluster_id: str) -> bytes:
    return _encode({"version": CLUSTER_ID_VERSION, "id": cluster_id})


@_reader("cluster id")
def decode_cluster_id(data: bytes) -> str:
    return str(_decode(data)["id"])


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return _encode(
        {
            "version": PRODUCER_ID_BLOCK_VERSION,
            "broker": block.broker,
            "block_start": str(block.start),
            "block_end": str(block.end),
        }
    )


@_reader("producer id block")
def decode_producer_id_block(data: bytes) -> ProducerIdBlock:
    value = _decode(data)
    return ProducerIdBlock(int(value["broker"]), int(value["block_start"]), int(value["block_end"]))


def encode_offset(offset: int) -> bytes:
    return str(offset).encode()


@_reader("committed offset")
def decode_offset(data: bytes) -> int:
    return int(data)
