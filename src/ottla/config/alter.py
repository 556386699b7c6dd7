"""AlterConfigs and IncrementalAlterConfigs: compute the new values of a resource and validate them.

The caller stores the result. A KafkaError has the error code of Apache Kafka: INVALID_REQUEST for a malformed request
and for names and values of brokers, INVALID_CONFIG for names and values of topics and groups.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING

from ottla.config import consistency
from ottla.config.broker import BrokerConfig
from ottla.config.client_metrics import validate_client_metrics_overrides
from ottla.config.definition import ConfigError, Key, Kind, Update
from ottla.config.group import validate_group_overrides
from ottla.config.keys import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS
from ottla.config.listeners import broker_listeners
from ottla.config.synonyms import base_name
from ottla.config.topic import validate_topic_overrides
from ottla.config.values import parse
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Resource(Enum):
    """The kinds of resources that have settings."""

    TOPIC = "topic"
    BROKER = "broker"
    BROKER_DEFAULT = "broker default"
    """All brokers of the cluster. In the protocol this is a broker with an empty name."""
    GROUP = "group"
    CLIENT_METRICS = "client metrics"


class Operation(IntEnum):
    """The operations of IncrementalAlterConfigs, with Kafka's ids."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_TABLES: dict[Resource, Mapping[str, Key]] = {
    Resource.TOPIC: TOPIC_KEYS,
    Resource.BROKER: BROKER_KEYS,
    Resource.BROKER_DEFAULT: BROKER_KEYS,
    Resource.GROUP: GROUP_KEYS,
    Resource.CLIENT_METRICS: CLIENT_METRICS_KEYS,
}

TOPIC_TYPE = 2
BROKER_TYPE = 4
"""The resource type ids of topics and brokers."""

_BY_TYPE_ID = {
    TOPIC_TYPE: Resource.TOPIC,
    BROKER_TYPE: Resource.BROKER,
    16: Resource.CLIENT_METRICS,
    32: Resource.GROUP,
}

_PER_LISTENER_ONLY = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Keys that can change at run time only with a listener prefix: listener.name.<listener>.<key>."""


def resource_of(type_id: int, name: str, node_id: int) -> Resource:
    """The kind of the resource with this type id and name. Raises KafkaError if this broker has no such resource."""
    resource = _BY_TYPE_ID.get(type_id)
    if resource is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {type_id}")
    if resource is Resource.BROKER:
        if not name:
            return Resource.BROKER_DEFAULT
        if name != str(node_id):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"This is broker {node_id}, the request is for broker {name}")
    elif not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The name of a {resource.value} resource must not be empty")
    return resource


def apply_incremental(
    resource: Resource,
    broker: BrokerConfig,
    current: Mapping[str, str],
    operations: Iterable[tuple[str, int, str | None]],
) -> dict[str, str]:
    """Apply operations, each a key, an operation id and a value, to the current values of a resource."""
    operations = list(operations)
    _refuse_repeated(name for name, _, _ in operations)
    _refuse_null(name for name, operation, value in operations if value is None and operation != Operation.DELETE)
    altered = dict(current)
    for name, operation, value in operations:
        if operation == Operation.DELETE:
            altered.pop(name, None)
        elif operation == Operation.SET:
            altered[name] = value or ""
        elif operation in {Operation.APPEND, Operation.SUBTRACT}:
            altered[name] = _alter_list(_TABLES[resource], altered.get(name), name, Operation(operation), value or "")
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} for {name}")
    validate(resource, broker, altered)
    return altered


def apply_full(resource: Resource, broker: BrokerConfig, values: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Replace all values of the resource by the values of the request."""
    values = list(values)
    _refuse_repeated(name for name, _ in values)
    _refuse_null(name for name, value in values if value is None)
    altered = {name: value or "" for name, value in values}
    validate(resource, broker, altered)
    return altered


def validate(resource: Resource, broker: BrokerConfig, overrides: Mapping[str, str]) -> None:
    """Raise KafkaError unless the resource may have exactly these values."""
    try:
        if resource is Resource.TOPIC:
            validate_topic_overrides(overrides, broker)
        elif resource is Resource.GROUP:
            validate_group_overrides(overrides, broker)
        elif resource is Resource.CLIENT_METRICS:
            validate_client_metrics_overrides(overrides)
        else:
            _validate_broker(broker, overrides, per_broker=resource is Resource.BROKER)
    except ConfigError as error:
        raise KafkaError(_code(resource, error), str(error)) from None


def _code(resource: Resource, error: ConfigError) -> ErrorCode:
    if resource in {Resource.TOPIC, Resource.GROUP}:
        return ErrorCode.INVALID_CONFIG
    if resource is Resource.CLIENT_METRICS and error.name == "match":
        return ErrorCode.INVALID_CONFIG
    return ErrorCode.INVALID_REQUEST


def _validate_broker(broker: BrokerConfig, overrides: Mapping[str, str], *, per_broker: bool) -> None:
    """Validate broker values. As in Kafka, names that are not in the table are accepted: a plug-in may use them."""
    for name, text in overrides.items():
        key = BROKER_KEYS.get(base_name(name))
        if key is None:
            continue
        shown = "[hidden]" if key.sensitive else text
        if name == key.name and key.update is Update.READ_ONLY:
            raise ConfigError(name, shown, "it cannot change while the broker runs")
        if name in _PER_LISTENER_ONLY:
            raise ConfigError(name, shown, f"set it for one listener, as listener.name.<listener>.{name}")
        if not per_broker and key.update is Update.PER_BROKER:
            raise ConfigError(name, shown, "it can only be set for one broker, not for all of them")
        _check_value(key, name, text)
    own, cluster_wide = (overrides, broker.cluster) if per_broker else (broker.per_broker, overrides)
    altered = BrokerConfig(broker.static, own, cluster_wide)
    broker_listeners(altered)
    consistency.check_change(broker, altered)


def _check_value(key: Key, name: str, text: str) -> None:
    """Check one value. `name` is the key's name, or the key's name with a listener prefix."""
    try:
        value = parse(key, text)
    except ConfigError as error:
        raise ConfigError(name, error.value, error.reason) from None
    if key.name in consistency.CONNECTION_LIMITS and value == 0:
        raise ConfigError(name, text, "the value must be at least 1, or no client can connect")


def _alter_list(table: Mapping[str, Key], current: str | None, name: str, operation: Operation, value: str) -> str:
    key = table.get(name)
    if key is None or key.kind is not Kind.LIST:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{operation.name} needs a key of type list, which {name} is not")
    members = _members(current if current is not None else key.default or "")
    if operation is Operation.APPEND:
        return ",".join(dict.fromkeys(members + _members(value)))
    removed = _members(value)
    return ",".join(member for member in members if member not in removed)


def _members(text: str) -> list[str]:
    return [member for member in map(str.strip, text.split(",")) if member]


def _refuse_repeated(names: Iterable[str]) -> None:
    names = list(names)
    if len(set(names)) < len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A key may occur only once in a request")


def _refuse_null(names: Iterable[str]) -> None:
    nulls = ", ".join(names)
    if nulls:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The value of {nulls} must not be null")
